"""When things go wrong, on the real device: only the culprit is told so, everyone else's calls succeed."""
import concurrent.futures
import hashlib
import itertools
import os
import re
import signal
import threading

import numpy as np
import pytest
from conftest import CALL_LIMIT, PRESET, ROOT, assert_error, command_of, children_of, folder_files, saxpy_inputs

pytestmark = pytest.mark.skipif(PRESET != "dev", reason="hostile kernels need a device that compiles them")
events = pytest.mark.events

FUNCTIONS = ROOT / "tests" / "functions"
X = {"x": np.arange(64, dtype=np.float32)}
FAR = 1 << 40
STAY = {"stay": 1, "timeout": 60_000_000}  # of `forever`, until it is cancelled
KEYS = {"good": "key-of-good", "bad": "key-of-bad"}


def two_tenants():
    hashes = {name: hashlib.sha256(key.encode()).hexdigest() for name, key in KEYS.items()}
    return "tenants:\n" + "".join(f"  - {{name: {name}, key_sha256: {one}}}\n" for name, one in hashes.items())


def deploy(server, name, key=None):
    answer = server.deploy(name, folder_files(FUNCTIONS / name), key=key)
    assert answer.status in (200, 201), answer.body


def deploy_patient(server, key):
    """Deploys `forever` with a timeout that no test waits for, and calls it once."""
    files = folder_files(FUNCTIONS / "forever")
    files["function.yaml"] = files["function.yaml"].replace(b"timeout: 1s", b"timeout: 60s")
    assert server.deploy("forever", files, key=key).status == 201
    assert server.infer("forever", X, key=key).status == 200


def cancel_all(server, key):
    """Cancels every request of the tenant that has not ended."""
    for one in server.request("GET", "/v1/requests", key=key).json["requests"]:
        if one["state"] != "ended":
            assert server.request("DELETE", "/v1/requests/" + one["id"], key=key).status == 202


class Bystander:
    """Calls saxpy over and over until the test is through; every answer must be right."""

    def __init__(self, server, key=None):
        self.server, self.key = server, key
        self.stopping, self.calls, self.problems = threading.Event(), 0, []
        self.first = threading.Event()
        assert server.deploy("saxpy", key=key).status in (200, 201)
        self.thread = threading.Thread(target=self._call, daemon=True)

    def _call(self):
        inputs = saxpy_inputs(1000)
        want = 3 * inputs["x"] + inputs["y"]
        connection = self.server.connect()
        while not self.stopping.is_set():
            answer = self.server.infer("saxpy", inputs, {"alpha": 3.0}, key=self.key, connection=connection)
            if answer.status != 200:
                self.problems.append((answer.status, answer.body))
            elif not np.allclose(answer.outputs["z"], want):
                self.problems.append("a wrong result")
            self.calls += 1
            self.first.set()
        connection.close()

    def __enter__(self):
        self.thread.start()
        assert self.first.wait(60)
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join(60)
        assert not self.problems, self.problems[:3]
        assert self.calls > 1


def test_a_program_that_does_not_compile(make_server):
    server = make_server(binary_cache=False)
    answer = server.deploy("broken", folder_files(FUNCTIONS / "broken"))
    assert_error(answer, 400, "invalid", "no_such_thing", "broken.cl:3")
    assert server.request("GET", "/v1/functions").json["functions"] == []
    assert_error(server.infer("broken", X), 404, "not_found")
    failed = server.cli("deploy", FUNCTIONS / "broken", check=1)
    assert "no_such_thing" in failed.stderr, failed.stderr


@pytest.mark.drivers
@pytest.mark.parametrize("same_tenant", [True, False])
def test_a_kernel_that_writes_far_out_of_bounds_ten_times(make_server, same_tenant):
    server = make_server(config=two_tenants())
    bad = KEYS["bad"]
    deploy(server, "wild", bad)
    with Bystander(server, KEYS["bad" if same_tenant else "good"]):
        for _ in range(10):
            answer = server.infer("wild", X, {"where": FAR}, key=bad)
            assert_error(answer, 422, "faulted", "function wild", "'wild_store'")
        answer = server.infer("wild", X, key=bad)
        assert answer.status == 200, answer.body
        np.testing.assert_array_equal(answer.outputs["z"], 2 * X["x"])


@pytest.mark.drivers
def test_a_kernel_that_never_ends(make_server):
    server = make_server(config=two_tenants())
    bad = KEYS["bad"]
    deploy(server, "forever", bad)
    with Bystander(server, KEYS["good"]):
        answer = server.infer("forever", X, {"stay": 1}, key=bad)
        assert_error(answer, 504, "deadline", "function forever", "'stay_forever'")
        answer = server.infer("forever", X, key=bad)
        assert answer.status == 200, answer.body
        np.testing.assert_array_equal(answer.outputs["z"], X["x"])


def test_a_function_that_keeps_killing_is_quarantined(server):
    deploy(server, "wild")
    server.deploy("saxpy")
    for _ in range(20):
        assert_error(server.infer("wild", X, {"where": FAR}), 422, "faulted", "'wild_store'")
    refused = server.infer("wild", X)
    assert_error(refused, 503, "unavailable", "function wild", "quarantined", "deploy a mended version")
    assert "crashed or hung 20 times in a row" in refused.json["error"]
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    told = server.cli("why", refused.headers["Quern-Request"], check=0).stdout
    assert "(quarantined)" in told and "crashed or hung 20 times in a row" in told, told
    assert re.search(r"Until the quarantine ends, in [\d.]+s, every call of this version is refused\.", told), told
    assert "Deploy a mended version" in told and "waited for its turn" not in told, told
    assert server.infer("saxpy", saxpy_inputs()).status == 200, "only the function is shut out, not its tenant"
    mended = folder_files(FUNCTIONS / "wild")
    mended["wild.cl"] = mended["wild.cl"].replace(b"get_global_id(0) + where", b"get_global_id(0)")
    assert server.deploy("wild", mended).status in (200, 201)
    answer = server.infer("wild", X, {"where": FAR})
    assert answer.status == 200, answer.body
    np.testing.assert_array_equal(answer.outputs["z"], 2 * X["x"])


def test_more_work_than_a_tenant_may_have_waiting(make_server):
    server = make_server(config=two_tenants().replace("name: bad,", "name: bad, limits: {queued: 2},"))
    bad = KEYS["bad"]
    deploy_patient(server, bad)
    assert server.deploy("saxpy", key=KEYS["good"]).status == 201
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        # Two run, two wait, the others are refused at once.
        calls = [pool.submit(server.infer, "forever", X, STAY, key=bad) for _ in range(12)]
        refused = [call.result() for call in itertools.islice(concurrent.futures.as_completed(calls, CALL_LIMIT), 8)]
        for answer in refused:
            assert_error(answer, 429, "exhausted", "tenant bad", "retry later")
            assert int(answer.headers["Retry-After"]) >= 1
        cancel_all(server, bad)
        good = server.infer("saxpy", saxpy_inputs(), key=KEYS["good"])
    assert sorted(call.result().status for call in calls) == [429] * 8 + [499] * 4
    assert good.status == 200, good.body


@events
def test_a_refusal_that_is_known_comes_before_the_body(make_server):
    server = make_server(config=two_tenants().replace("name: bad,", "name: bad, limits: {queued: 1},"))
    bad = KEYS["bad"]
    deploy_patient(server, bad)
    since = server.mark()
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(server.infer, "forever", X, STAY, key=bad) for _ in range(3)]
        server.wait_requests("forever", "queued", 3, since, watched=calls)  # two of them go on to the device
        connection = server.connect()
        connection.putrequest("POST", "/v2/models/forever/infer")
        for name, value in (("Expect", "100-continue"), ("Content-Length", "1000000"),
                            ("Authorization", "Bearer " + bad)):
            connection.putheader(name, value)
        connection.endheaders()
        status = int(connection.sock.recv(64).split()[1])
        connection.close()
        cancel_all(server, bad)
        assert status == 429, "none of the megabyte was sent"
        assert [call.result().status for call in calls] == [499] * 3


def test_a_caller_that_leaves_frees_the_device(server):
    deploy(server, "forever")
    server.deploy("copy")
    connection = server.connect()
    head = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[64],"parameters":{"binary_data_size":256}}],' \
           b'"parameters":{"stay":1,"timeout":60000000}}'
    connection.request("POST", "/v2/models/forever/infer", head + b"\0" * 256,
                       {"Inference-Header-Content-Length": str(len(head))})
    connection.close()
    data = np.arange(100, dtype=np.uint8)
    answer = server.infer("copy", {"input": data})
    assert answer.status == 200, answer.body
    np.testing.assert_array_equal(answer.outputs["output"], data)


def test_an_executor_killed_while_idle(make_server):
    server = make_server(config="pool: 0")
    server.deploy("saxpy")
    inputs = saxpy_inputs()
    assert server.infer("saxpy", inputs).status == 200
    [executor] = server.executors()
    os.kill(executor, signal.SIGKILL)
    server.wait_line(r"executor .* ended by signal 9")
    answer = server.infer("saxpy", inputs)
    assert answer.status == 200, answer.body
    np.testing.assert_allclose(answer.outputs["z"], inputs["x"] + inputs["y"], rtol=1e-6)


@pytest.mark.drivers
@events
def test_an_executor_killed_while_running(server):
    server.deploy("spin")
    data = {"input": np.arange(16384, dtype=np.float32)}
    assert server.infer("spin", data).status == 200
    since = server.mark()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        # Together they take two seconds at least: they have not ended when the executor is killed.
        calls = [pool.submit(server.infer, "spin", data, {"iterations": 6_000_000}) for _ in range(2)]
        server.wait_requests("spin", "is on device", 2, since, watched=calls)
        os.kill(server.executors()[0], signal.SIGKILL)
        for call in calls:
            answer = call.result()
            assert answer.status == 200, answer.body
            np.testing.assert_array_equal(answer.outputs["output"], data["input"])
    assert "to blame" not in server.wait_line("ended by signal 9")
    assert not [line for line in server.lines if "to blame" in line]


def test_an_executor_killed_while_loading(server):
    server.deploy("saxpy")
    inputs = saxpy_inputs()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(server.infer, "saxpy", inputs) for _ in range(4)]
        # The first call makes the executor load; whenever this comes, before, within or after, all calls succeed.
        os.kill(server.executors()[0], signal.SIGKILL)
        for call in calls:
            answer = call.result()
            assert answer.status == 200, answer.body
            np.testing.assert_allclose(answer.outputs["z"], inputs["x"] + inputs["y"], rtol=1e-6)


def test_a_gate_closes_in_the_middle_of_a_graph(server):
    deploy(server, "chain")
    assert server.infer("chain", X).status == 200
    # Each kernel takes 20 ms of CPU time, which a busy machine does not change: a closed gate leaves it ten times that.
    # The timeout of 80 ms is a quarter of what all sixteen take.
    calibrated = server.infer("chain", X, {"iterations": 20_000})
    assert calibrated.status == 200, calibrated.body
    used_ns = server.request("GET", "/v1/requests/" + calibrated.headers["Quern-Request"]).json["device_time_ns"]
    iterations = int(20_000 * 16 * 20e6 / used_ns)
    before = server.executors()
    answer = server.infer("chain", X, {"iterations": iterations, "timeout": 80_000})
    assert_error(answer, 504, "deadline", "function chain", "'link'")
    # Blank ones may have come meanwhile.
    assert set(before) <= set(server.executors()), "the executor was killed where its gate would have done"
    assert server.infer("chain", X).status == 200


def test_no_compile_in_an_executor(make_server):
    server = make_server(config="devices: [{name: cpu0, driver: opencl, cores: [0], memory: 1GiB}]\npool: 0")
    for name in ("saxpy", "copy", "sgemm"):
        server.deploy(name)
    deploy(server, "affine")
    assert server.infer("saxpy", saxpy_inputs(5)).status == 200
    before = set(children_of(server.process.pid))
    for n in (1, 63, 64, 1000, 70_000):
        inputs = saxpy_inputs(n)
        assert server.infer("saxpy", inputs).status == 200
        assert server.infer("copy", {"input": np.zeros(n, np.uint8)}).status == 200
    a, b = np.ones((33, 17), np.float32), np.ones((17, 65), np.float32)
    np.testing.assert_allclose(server.infer("sgemm", {"a": a, "b": b}).outputs["c"], a @ b)
    [executor] = server.executors()
    # A compile would leave the program's bitcode, or a second variant, in the executor's cache folder.
    environment = dict(item.split("=", 1) for item in
                       open(f"/proc/{executor}/environ", encoding="utf-8").read().split("\0") if "=" in item)
    files = [os.path.join(folder, name) for folder, _, names in os.walk(environment["HOME"]) for name in names]
    assert files and not [name for name in files if name.endswith((".bc", ".ll", ".o"))], files
    assert set(children_of(server.process.pid)) == before


def affine_result(x, scale=1.0):
    w = np.load(FUNCTIONS / "affine" / "w.npy")
    b = np.fromfile(FUNCTIONS / "affine" / "b.bin", np.float32)
    return scale * (x @ w.T + b)


@pytest.mark.parametrize("in_place", ["true", "false"])
def test_constants_scratch_and_zero(make_server, in_place):
    server = make_server(config=f"devices: [{{name: cpu0, cores: [0], memory: 1GiB, in_place: {in_place}}}]")
    deploy(server, "affine")
    numbers = np.random.default_rng(3)
    for batch in (1, 4, 64, 4, 1):
        x = numbers.random((batch, 64), np.float32)
        answer = server.infer("affine", {"x": x}, {"scale": 0.5})
        assert answer.status == 200, answer.body
        np.testing.assert_allclose(answer.outputs["y"], affine_result(x, 0.5), rtol=1e-4, atol=1e-5)
        assert answer.outputs["count"][0] == 64 * batch, "zero: true did not zero"


def test_two_devices_at_once(make_server):
    server = make_server(config="devices:\n" + "".join(f"  - {{name: cpu{i}, cores: [{i}]}}\n" for i in (0, 1)))
    server.deploy("spin")
    data = {"input": np.arange(16384, dtype=np.float32)}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for answer in pool.map(lambda _: server.infer("spin", data), range(32)):
            assert answer.status == 200, answer.body
            np.testing.assert_array_equal(answer.outputs["output"], data["input"])
    devices = server.request("GET", "/v1/devices").json["devices"]
    assert all(device["runs_ended"] > 0 for device in devices), devices


def test_bad_requests_change_nothing(server):
    server.deploy("saxpy")
    inputs = saxpy_inputs()
    good = inputs["x"]
    cases = [
        ({"x": good.astype(np.float64), "y": good}, {}, "FP64"),
        ({"x": good[:10], "y": good}, {}, ""),
        ({"x": good}, {}, "'y'"),
        ({"x": good, "y": good, "yy": good}, {}, "'yy'"),
        ({"x": good, "y": good}, {"alfa": 1.0}, "did you mean 'alpha'"),
    ]
    for tensors, parameters, text in cases:
        assert_error(server.infer("saxpy", tensors, parameters), 400, "invalid", text)
    assert_error(server.infer("saxpi", inputs), 404, "not_found", "did you mean 'saxpy'")
    answer = server.infer("saxpy", inputs)
    np.testing.assert_allclose(answer.outputs["z"], inputs["x"] + inputs["y"], rtol=1e-6)


def test_a_builder_that_crashes_is_a_failed_deploy(make_server):
    server = make_server(binary_cache=False)
    files = folder_files(FUNCTIONS / "broken")
    files["broken.cl"] = b"""
      float again(float x); float again(float x) { return x > 1 ? again(x - 1) + 1 : x; }
      __kernel void broken(__global const float* x, __global float* z) { z[0] = again(x[0]); }
    """
    answer = server.deploy("broken", files)
    assert_error(answer, 400, "invalid", "function broken")
    assert not [pid for pid in children_of(server.process.pid) if "builder" in command_of(pid)]
    assert server.deploy("saxpy").status == 201
    assert server.infer("saxpy", saxpy_inputs()).status == 200


def test_a_builder_that_takes_too_long_is_killed(make_server):
    server = make_server(binary_cache=False, config="build_limit: 100ms")  # any compile takes longer
    answer = server.deploy("saxpy")
    assert_error(answer, 504, "deadline", "function saxpy", "100ms")
    assert not [pid for pid in children_of(server.process.pid) if "builder" in command_of(pid)]
    assert server.request("GET", "/v1/functions").json["functions"] == []
