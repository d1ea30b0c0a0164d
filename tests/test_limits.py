"""What the operator lets a tenant use."""
import concurrent.futures
import hashlib
import os
import signal

import numpy as np
import pytest
from conftest import PRESET, ROOT, assert_error, folder_files, run_cli, saxpy_inputs

pytestmark = [pytest.mark.events,
              pytest.mark.skipif(PRESET != "dev", reason="calls that take their time need a device that compiles")]

FOREVER = ROOT / "tests" / "functions" / "forever"
X = {"x": np.arange(64, dtype=np.float32)}
KEY = "key-of-a"


def forever_files():
    """With a timeout that no test waits for."""
    files = folder_files(FOREVER)
    return dict(files, **{"function.yaml": files["function.yaml"].replace(b"timeout: 1s", b"timeout: 60s")})


def config(limits, rest=""):
    return (f"devices: [{{name: cpu0, cores: [0]}}]\ntenants: [{{name: a, weight: 3, "
            f"key_sha256: {hashlib.sha256(KEY.encode()).hexdigest()}, limits: {{{limits}}}}}]\n{rest}")


def start(make_server, limits, rest=""):
    server = make_server(config=config(limits, rest), key=KEY)
    assert server.deploy("forever", forever_files()).status in (200, 201)
    assert server.infer("forever", X).status == 200
    return server


def live(server):
    return [one for one in server.request("GET", "/v1/requests").json["requests"] if one["state"] != "ended"]


def test_in_flight(make_server):
    server = start(make_server, "in_flight: 1")
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(server.infer, "forever", X, {"stay": 1, "timeout": 60_000_000}) for _ in range(3)]
        server.wait_until(lambda: sorted(one["state"] for one in live(server)) == ["queued", "queued", "running"],
                          "one runs and two wait", watched=calls)
        for one in live(server):
            assert server.request("DELETE", "/v1/requests/" + one["id"]).status == 202
        assert [call.result().status for call in calls] == [499] * 3


def test_memory(make_server):
    server = start(make_server, "memory: 1MiB")
    assert server.deploy("saxpy").status == 201
    assert server.infer("saxpy", saxpy_inputs(1000)).status == 200
    refused = server.infer("saxpy", saxpy_inputs(100_000))
    assert_error(refused, 400, "invalid", "function saxpy", "is larger than its tenant may use", "1MiB")
    ends = [one["end"] for one in server.request("GET", "/v1/requests").json["requests"]]
    assert ends[:2] == ["over-limit", "done"]


def test_a_deadline_that_cannot_be_made_is_refused_at_once(make_server):
    server = make_server(config="devices: [{name: cpu0, cores: [0]}]")
    assert server.deploy("spin").status == 201
    data = {"input": np.arange(16384, dtype=np.float32)}
    for _ in range(3):  # how long it takes becomes known
        assert server.infer("spin", data, {"iterations": 2_000_000}).status == 200
    since = server.mark()
    executors = server.executors()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        # An executor that is stopped ends none of them before the late one comes.
        for executor in executors:
            os.kill(executor, signal.SIGSTOP)
        try:
            calls = [pool.submit(server.infer, "spin", data, {"iterations": 2_000_000}) for _ in range(4)]
            server.wait_requests("spin", "queued", 4, since, watched=calls)
            late = server.infer("spin", data, {"iterations": 2_000_000, "timeout": 50_000})
        finally:
            for executor in executors:
                os.kill(executor, signal.SIGCONT)
        assert_error(late, 429, "exhausted", "function spin", "could not make its deadline")
        assert int(late.headers["Retry-After"]) >= 1
        assert [call.result().status for call in calls] == [200] * 4


@pytest.mark.parametrize("policy", ["quern", "exclusive", "kaas", "{fairness: fifo}"])
def test_policies_serve(make_server, policy):
    server = start(make_server, "priority: 4", f"policy: {policy}\n")
    assert server.deploy("saxpy").status == 201
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for answer in pool.map(lambda _: server.infer("saxpy", saxpy_inputs()), range(40)):
            assert answer.status == 200, answer.body


def test_mistakes_are_told(tmp_path):
    (tmp_path / "quern.yaml").write_text(config("queud: 1", "policy: exclusiv\n"))
    ran = run_cli("serve", "--state", "state", "--config", "quern.yaml", check=1, cwd=tmp_path)
    assert "did you mean 'queued'?" in ran.stderr and "did you mean 'exclusive'?" in ran.stderr
