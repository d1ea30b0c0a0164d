"""A recorded session gives the same decisions again."""
import concurrent.futures
import os
import re
import signal

import numpy as np
import pytest
from conftest import PRESET, ROOT, folder_files, run_cli, saxpy_inputs

pytestmark = [pytest.mark.events,
              pytest.mark.skipif(PRESET != "dev", reason="hostile kernels need a device that compiles them")]

FUNCTIONS = ROOT / "tests" / "functions"
X = {"x": np.arange(64, dtype=np.float32)}


def busy_session(server):
    """Submits, constants, faults, a hang, a cancel, a lost executor and a removed function."""
    for name in ("wild", "forever", "affine"):
        files = folder_files(FUNCTIONS / name)
        files["function.yaml"] = files["function.yaml"].replace(b"timeout: 1s", b"timeout: 60s")
        assert server.deploy(name, files).status in (200, 201)
    assert server.deploy("saxpy").status in (200, 201)
    inputs, rows = saxpy_inputs(), {"x": np.ones((4, 64), np.float32)}
    assert server.infer("forever", X).status == 200
    since = server.mark()
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        hang = pool.submit(server.infer, "forever", X, {"stay": 1, "timeout": 60_000_000})
        calls = [pool.submit(server.infer, "saxpy", inputs) for _ in range(40)]
        calls += [pool.submit(server.infer, "affine", rows) for _ in range(20)]
        [waiting] = server.wait_requests("forever", "queued", since=since, watched=[hang])
        assert server.request("DELETE", "/v1/requests/" + waiting).status == 202
        assert hang.result().status == 499
        for _ in range(3):
            assert server.infer("wild", X, {"where": 1 << 40}).status == 422
        assert [call.result().status for call in calls] == [200] * 60
    os.kill(server.executors()[0], signal.SIGKILL)
    server.wait_line(r"executor .* ended by signal 9")
    assert server.infer("saxpy", inputs).status == 200
    assert server.request("DELETE", "/v1/functions/saxpy").status == 200


def test_a_recorded_session_replays(make_server, tmp_path):
    record = tmp_path / "record.txt"
    server = make_server(arguments=["--record", str(record)])
    busy_session(server)
    server.stop()
    lines = record.read_text().splitlines()
    assert lines[0].startswith("config lanes=") and "fairness=" in lines[0]
    assert all(re.match(r"(  > [a-z-]+ |\d+(ns|us|ms|s) [a-z-]+)", line) for line in lines[1:])
    events = {line.split()[1] for line in lines[1:] if not line.startswith(" ")}
    assert events >= {"device-up", "tenant", "submit", "cancel", "executor-lost", "executor-up", "loaded", "started",
                      "finished", "function-gone"}, events
    replayed = run_cli("simulate", "--replay", record, check=0)
    assert "agree" in replayed.stdout, replayed.stdout


def test_a_changed_record_does_not(make_server, tmp_path):
    record = tmp_path / "record.txt"
    server = make_server(arguments=["--record", str(record)])
    server.deploy("saxpy")
    assert server.infer("saxpy", saxpy_inputs()).status == 200
    server.stop()
    text = record.read_text()
    record.write_text(re.sub(r"(> answer r\d+) done", r"\1 failed", text))
    assert run_cli("simulate", "--replay", record).returncode == 1


def test_a_record_ends_at_its_limit(make_server, tmp_path):
    record = tmp_path / "record.txt"
    server = make_server(arguments=["--record", str(record), "--record-limit", "4KiB"])
    server.deploy("saxpy")
    for _ in range(50):
        assert server.infer("saxpy", saxpy_inputs()).status == 200
    server.wait_line(r"record .* ends here")
    assert record.stat().st_size <= 4096 and record.read_text().endswith("\n# limit reached\n")
    assert server.infer("saxpy", saxpy_inputs()).status == 200
    server.stop()
    assert run_cli("simulate", "--replay", record, check=0)


def test_mistakes(tmp_path):
    for flags, text in ((("--record", tmp_path / "none" / "record.txt"), "none/record.txt"),
                        (("--record-limit", "many"), "--record-limit")):
        ran = run_cli("serve", "--listen", "127.0.0.1:0", "--state", tmp_path / "state", *flags, check=1)
        assert text in ran.stderr, ran.stderr
