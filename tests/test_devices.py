"""Devices as the operator names them: where their workers run, and what happens to a bad list."""
import pathlib

import numpy as np
import pytest
from conftest import PRESET, assert_error, saxpy_inputs

pytestmark = pytest.mark.skipif(PRESET != "dev", reason="about the real device")


def cores_of_threads(pid):
    """{thread name: cores it may run on}"""
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
        found.setdefault(status["Name"], set()).add(status["Cpus_allowed_list"])
    return found


@pytest.mark.parametrize("core", [0, 1])
def test_workers_run_on_the_cores_of_their_device(make_server, core):
    server = make_server(config=f"devices: [{{name: cpu0, driver: opencl, cores: [{core}], memory: 1GiB}}]\npool: 0")
    server.deploy("saxpy")
    assert server.infer("saxpy", saxpy_inputs()).status == 200
    [executor] = server.executors()
    threads = cores_of_threads(executor)
    assert {cores for allowed in threads.values() for cores in allowed} == {str(core)}, threads
    assert "lane0" in threads and "lane1" in threads, threads


def test_memory_is_what_the_operator_says(make_server):
    server = make_server(config="devices: [{name: small, cores: [0], memory: 1MiB}]")
    [device] = server.request("GET", "/v1/devices").json["devices"]
    assert (device["name"], device["memory_bytes"]) == ("small", 1 << 20)
    server.deploy("copy")
    assert server.infer("copy", {"input": np.zeros(1000, np.uint8)}).status == 200
    assert_error(server.infer("copy", {"input": np.zeros(1 << 20, np.uint8)}), 400, "invalid", "2MiB", "1MiB")


def test_a_device_that_is_not_there(make_server):
    server = make_server(start=False, config="devices: [{name: no, driver: opencl, index: 77, cores: [0]}]")
    with pytest.raises(AssertionError, match="the server ended"):
        server.start()
    assert "device no: cannot be opened" in server.log()
    server.process.wait()
    server.process = None


def test_found_without_a_list(server):
    devices = server.request("GET", "/v1/devices").json["devices"]
    assert len(devices) == 1 and devices[0]["up"], devices
