"""A kernel that never ends is found within its own limit and blamed, whatever runs beside it, on the real device."""
import threading
import time

import numpy as np
import pytest
from conftest import CALL_LIMIT, EXAMPLES, PRESET, ROOT, assert_error, folder_files
from test_faults import KEYS, two_tenants

pytestmark = pytest.mark.skipif(PRESET != "dev", reason="hostile kernels need a device that compiles them")

HANG = ROOT / "tests" / "functions" / "hang"
ONES = {"input": np.ones(16384, np.float32)}
LONG = {"groups": 64, "iterations": 2000}


class Loops:
    """Callers of spin, each of whom calls again as soon as it has its answer. Every call must succeed."""

    def __init__(self, server, count, key, parameters=None):
        self.server, self.key, self.parameters = server, key, parameters or LONG
        self.stopping, self.problems, self.calls = threading.Event(), [], [0] * count
        self.began = threading.Barrier(count + 1)
        self.threads = [threading.Thread(target=self._call, args=(i,), daemon=True) for i in range(count)]

    def _call(self, index):
        connection = self.server.connect()
        while not self.stopping.is_set():
            answer = self.server.infer("spin", ONES, self.parameters, key=self.key, connection=connection)
            if answer.status != 200:
                self.problems.append((answer.status, answer.body))
            elif not (answer.outputs["output"] == 1).all():
                self.problems.append("a wrong result")
            self.calls[index] += 1
            if self.calls[index] == 1:
                self.began.wait(60)
        connection.close()

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        self.began.wait(60)
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join(60)
        assert not self.problems, self.problems[:3]


def deploy_both(server, spin_key, hang_key):
    spin = folder_files(EXAMPLES / "spin")
    spin["function.yaml"] += b"settings: {limits: {timeout: 10s}}\n"
    assert server.deploy("spin", spin, key=spin_key).status == 201
    assert server.deploy("hang", folder_files(HANG), key=hang_key).status == 201


def row_of(server, function, key):
    rows = server.request("GET", "/v1/accounts?by=function", key=key).json["accounts"]
    [row] = [row for row in rows if row["function"] == function]
    return row


# Three in a row: the first finds a warm executor, the others one of the function's own.
@pytest.mark.drivers
@pytest.mark.parametrize("same_tenant", [True, False], ids=["one tenant", "two tenants"])
def test_a_hang_beside_busy_callers_is_found_and_blamed(make_server, same_tenant):
    server = make_server(config=two_tenants())
    good, bad = KEYS["good"], KEYS["good" if same_tenant else "bad"]
    deploy_both(server, good, bad)
    assert server.infer("spin", ONES, LONG, key=good).status == 200
    with Loops(server, 3, good) as loops:
        for _ in range(3):
            before = time.monotonic()
            answer = server.infer("hang", {}, key=bad)
            assert_error(answer, 504, "deadline", "function hang", "'hang'", "limit of 1s on the device")
            # The device is shared meanwhile: the limit of 1 s is of its own time there.
            assert time.monotonic() - before < 7, "it was not found before its timeout"
    killed = [line for line in server.lines if "does not end; it is killed" in line]
    assert len(killed) == 3 and all("function hang" in line for line in killed), killed
    # What others leave of two cores depends on them; calls of both functions had to make do with that. A call of spin
    # takes some milliseconds, one of hang its whole limit: whoever was behind a hang is not charged for it.
    hang, spin = row_of(server, "hang", bad), row_of(server, "spin", good)
    assert spin["failed"] == 0
    assert hang["device_time_ns"] / 3 > 10 * spin["device_time_ns"] / sum(loops.calls), (hang, spin, loops.calls)


def test_a_hang_beside_a_less_urgent_executor_is_found_and_blamed(make_server):
    """Two tenants have an executor each, and both are on the device: the gate of the less urgent one is closed."""
    server = make_server(config=two_tenants())
    good, bad = KEYS["good"], KEYS["bad"]
    deploy_both(server, good, bad)
    assert server.request("PATCH", "/v1/functions/spin", b'{"priority": 9}', key=good).status == 200
    assert server.request("PATCH", "/v1/functions/hang", b'{"priority": 0}', key=bad).status == 200
    with Loops(server, 2, good) as loops:
        for _ in range(2):
            before = time.monotonic()
            answer = server.infer("hang", {}, key=bad)
            assert_error(answer, 504, "deadline", "function hang", "'hang'", "limit of 1s on the device")
            assert time.monotonic() - before < 7, "it was not found before its timeout"
    assert row_of(server, "spin", good)["failed"] == 0
    killed = [line for line in server.lines if "does not end; it is killed" in line]
    assert len(killed) == 2 and all("function hang" in line for line in killed), killed


def test_hangs_count_towards_quarantine(make_server):
    server = make_server()
    files = folder_files(HANG)
    files["function.yaml"] = files["function.yaml"].replace(b"device_time: 1s, timeout: 8s",
                                                            b"device_time: 300ms, timeout: 50s")
    assert server.deploy("hang", files).status == 201
    hung, deadline = 0, time.monotonic() + 4 * CALL_LIMIT
    while (answer := server.infer("hang", {})).status == 504:
        # One that did not get to the device in time only waited: that counts for nothing.
        hung += b"had not ended" in answer.body
        assert time.monotonic() < deadline, f"not quarantined after {hung} hangs"
    assert_error(answer, 503, "unavailable", "function hang", "quarantined")
    assert hung == 20


def test_a_loop_of_short_launches_is_told_of_its_timeout(make_server):
    server = make_server()
    files = folder_files(EXAMPLES / "spin")
    text = files["function.yaml"].decode()
    begin = text.index("  - entry: spin")
    step = text[begin:].replace("\n", "\n    ")
    files["function.yaml"] = (text[:begin] + "  - repeat: {times: 100000}\n    kernels:\n    " + step
                              + "\nsettings: {limits: {timeout: 300ms}}\n").encode()
    answer = server.deploy("spin", files)
    assert answer.status == 201, answer.body
    answer = server.infer("spin", ONES, {"iterations": 20000})
    assert_error(answer, 504, "deadline", "function spin", "timeout of 300ms", "raise the timeout")
    assert "split" not in answer.json["error"]
