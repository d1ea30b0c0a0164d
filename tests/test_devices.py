"""Devices as OpenCL shows them and as the operator names them: which are used and why, where their workers run, what
reaches the processes that open them, and what happens to a bad list."""
import json
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest
from conftest import PRESET, ROOT, assert_error, run_cli, saxpy_inputs

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


POCL, INTEL = "Portable Computing Language", "Intel(R) OpenCL"
COLUMNS = ["PLATFORM", "VERSION", "DEVICE", "KIND", "INDEX", "UNITS", "MEMORY", "SLICES", "CLASSES", "PARTITIONS",
           "CLOCK", "IN PLACE", "USED", "WHY"]
KEYS = {"platform", "version", "name", "kind", "index", "units", "memory_bytes", "slices", "unsliceable", "classes",
        "partitions", "undivided", "clock", "in_place", "error", "used", "used_as", "why"}


def all_devices(*arguments):
    return json.loads(run_cli("devices", "--all", "--json", *arguments, check=0).stdout)["devices"]


@pytest.fixture
def pocl_folder(tmp_path, monkeypatch):
    """A folder that names PoCL, in place of the system's, for every process that the test starts."""
    folder = tmp_path / "vendors"
    folder.mkdir()
    for icd in pathlib.Path("/etc/OpenCL/vendors").glob("*.icd"):
        if "pocl" in icd.read_text():
            shutil.copy(icd, folder)
    assert any(folder.iterdir()), "pocl-opencl-icd is not installed"
    monkeypatch.setenv("OCL_ICD_VENDORS", str(folder))
    return folder


@pytest.fixture
def both_platforms(tmp_path, monkeypatch):
    """Intel's runtime and the drivers of the system, for every process that the test starts."""
    folder = tmp_path / "vendors"
    ran = subprocess.run([ROOT / "tools" / "intel_opencl.sh", "--beside", "sh", "-c",
                          'cp -r "$OCL_ICD_VENDORS" "$1" && printenv LD_LIBRARY_PATH', "sh", folder],
                         capture_output=True, text=True, check=False)
    if ran.returncode == 77:
        pytest.skip(ran.stderr.strip())
    assert ran.returncode == 0, ran.stderr
    monkeypatch.setenv("OCL_ICD_VENDORS", str(folder))
    monkeypatch.setenv("LD_LIBRARY_PATH", ran.stdout.strip())


def test_all_shows_every_device_with_what_holds_on_it(pocl_folder):
    head, row = run_cli("devices", "--all", check=0).stdout.splitlines()
    assert re.split(r"  +", head) == COLUMNS
    cells = dict(zip(COLUMNS, re.split(r"  +", row)))
    [one] = all_devices()
    assert set(one) == KEYS
    assert (one["platform"], one["kind"], one["index"], one["error"]) == (POCL, "cpu", 0, "")
    assert one["units"] >= 1 and one["memory_bytes"] > 0 and one["version"] and one["name"]
    assert (one["used"], one["used_as"], one["why"]) == (True, "cpu0", "the only CPU device")
    assert one["slices"] and one["classes"] and one["in_place"] and one["partitions"] == (one["units"] > 1)
    assert one["clock"] == "the host's monotonic clock"
    for column, key in {"PLATFORM": "platform", "VERSION": "version", "DEVICE": "name", "KIND": "kind",
                        "CLOCK": "clock", "USED": "used_as", "WHY": "why"}.items():
        assert cells[column] == one[key], column
    assert [cells[name] for name in ("INDEX", "UNITS", "SLICES", "CLASSES", "IN PLACE")] == [
        "0", str(one["units"]), "yes", "yes", "yes"]


def test_all_tells_what_a_configuration_chooses(pocl_folder, tmp_path):
    config = tmp_path / "quern.yaml"
    config.write_text(f"devices: [{{name: mine, platform: {POCL}}}]")
    [one] = all_devices("--config", config)
    assert (one["used"], one["used_as"], one["why"]) == (True, "mine", "named in quern.yaml")
    config.write_text("devices: [{name: fake0, driver: fake}]")
    [one] = all_devices("--config", config)
    assert (one["used"], one["used_as"], one["why"]) == (False, "", "not named in quern.yaml")
    config.write_text("devices: [{name: mine, platform: Nobody}]")
    ran = run_cli("devices", "--all", "--config", config, check=1)
    assert POCL in ran.stdout and "device mine: nothing that is listed has index 0 of platform 'Nobody'" in ran.stderr
    config.write_text("devices: [{nam: mine}]")
    assert "'nam' is no key" in run_cli("devices", "--all", "--config", config, check=1).stderr


def test_all_without_a_platform_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path))
    assert "no platform" in run_cli("devices", "--all", check=1).stderr


def test_a_configuration_is_shown_with_all_only(tmp_path):
    assert run_cli("devices", "--config", tmp_path / "quern.yaml").returncode != 0
    assert "--all" in run_cli("devices", "--config", tmp_path / "quern.yaml").stderr


def test_only_variables_of_vendors_reach_an_executor(make_server, pocl_folder, monkeypatch):
    monkeypatch.setenv("QUERN_SECRET", "hush")
    server = make_server(config="devices: [{name: cpu0, cores: [0]}]\npool: 0")
    server.deploy("saxpy")
    assert server.infer("saxpy", saxpy_inputs()).status == 200
    [executor] = server.executors()
    environment = pathlib.Path(f"/proc/{executor}/environ").read_text().split("\0")
    assert f"OCL_ICD_VENDORS={pocl_folder}" in environment
    assert not [line for line in environment if "QUERN_SECRET" in line or "hush" in line]
    assert b"QUERN_SECRET=hush" in pathlib.Path(f"/proc/{server.process.pid}/environ").read_bytes()


def test_a_builder_sees_the_platforms_of_the_servers_folder_and_no_others(make_server, pocl_folder):
    server = make_server(config="devices: [{name: cpu0, cores: [0]}]\npool: 0", binary_cache=False)
    answer = server.deploy("saxpy")
    assert answer.status == 201, answer.body
    assert server.infer("saxpy", saxpy_inputs()).status == 200
    # A builder that did not get the variable would find PoCL in the system's folder.
    for icd in pocl_folder.iterdir():
        icd.unlink()
    answer = server.deploy("sgemm")
    assert answer.status >= 400 and "no platform" in answer.json["error"], answer.body


def test_a_platform_that_is_not_there_is_answered_with_those_that_are(make_server, pocl_folder):
    server = make_server(start=False, config="devices: [{name: no, platform: Nobody, cores: [0]}]")
    with pytest.raises(AssertionError, match="the server ended"):
        server.start()
    assert f"opencl platform 'Nobody': no platform has this in its name; there are '{POCL}'" in server.log()
    server.process.wait()
    server.process = None


def test_the_log_tells_which_device_is_used_and_why(make_server, pocl_folder):
    server = make_server()
    [one] = all_devices()
    assert (f"devices: device '{one['name']}' of platform '{POCL}' is used as cpu0: the only CPU device"
            in "\n".join(server.lines))


def test_of_two_platforms_over_the_same_cores_one_is_used(make_server, both_platforms):
    devices = [one for one in all_devices() if one["platform"] in (POCL, INTEL)]
    if any(one["kind"] == "gpu" for one in all_devices()):
        pytest.skip("there is a GPU, and so no CPU device is used")
    first, second = devices
    assert {first["platform"], second["platform"]} == {POCL, INTEL}
    assert (first["used"], first["used_as"], first["why"]) == (True, "cpu0", "the first CPU device")
    assert (second["used"], second["why"]) == (False, f"same cores as cpu0 of platform '{first['platform']}'")
    server = make_server()
    assert len(server.request("GET", "/v1/devices").json["devices"]) == 1
    log = "\n".join(server.lines)
    assert f"of platform '{first['platform']}' is used as cpu0: the first CPU device" in log
    assert f"of platform '{second['platform']}' is not used: {second['why']}" in log


def test_two_configured_platforms_on_one_core_are_used_with_a_warning(make_server, both_platforms):
    server = make_server(config=f"devices: [{{name: a, platform: {POCL}, cores: [0]}},"
                                f" {{name: b, platform: {INTEL}, cores: [0]}}]\npool: 0")
    models = {one["name"]: one["up"] for one in server.request("GET", "/v1/devices").json["devices"]}
    assert models == {"a": True, "b": True}
    warning = "device b: shares cores 0 with device a of another platform"
    assert [line for line in server.lines if " warning " in line and warning in line], server.log()
    ran = run_cli("devices", "--all", "--config", server.config, check=0)
    assert warning in ran.stderr


def guide_rows():
    """{(platform, kind): cells} of the table in the guide that `--markdown` makes, and its two lines of head."""
    page = (ROOT / "docs" / "guide" / "devices.md").read_text()
    lines = page.split("<!-- table of drivers -->\n")[1].split("\n<!-- end of the table -->")[0].splitlines()
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines[2:]]
    return lines[:2], {row[:2]: row for row in rows}


def check_guide():
    """Compares the rows of the installed drivers with those of the guide; returns the platforms that it compared."""
    head, rows = guide_rows()
    lines = run_cli("devices", "--all", "--markdown", check=0).stdout.splitlines()
    assert lines[:2] == head
    single = {one["platform"] for one in all_devices() if one["units"] == 1}
    compared = set()
    for line in lines[2:]:
        cells = tuple(cell.strip() for cell in line.strip("|").split("|"))
        if cells[:2] not in rows:
            continue  # a driver that nobody tried
        wanted = rows[cells[:2]]
        if cells[0] in single:  # a machine of one core has nothing to divide
            cells, wanted = cells[:4] + cells[5:], wanted[:4] + wanted[5:]
        assert cells == wanted
        compared.add(cells[0])
    return compared


def test_the_guide_has_what_holds_on_pocl(pocl_folder):
    assert check_guide() == {POCL}


def test_the_guide_has_what_holds_on_intels_runtime(both_platforms):
    assert check_guide() >= {POCL, INTEL}
