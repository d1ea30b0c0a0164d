"""Minutes of everything at once: good calls, hostile kernels, killed executors, deploys. Nothing is lost or grows."""
import itertools
import os
import random
import signal
import threading
import time

import numpy as np
import pytest
from conftest import EXAMPLES, PRESET, folder_files, saxpy_inputs
from test_faults import FAR, KEYS, X, deploy, two_tenants

pytestmark = [pytest.mark.long, pytest.mark.skipif(PRESET != "dev", reason="hostile kernels need a real compiler")]
SECONDS = 240


class Callers:
    """Threads that each do one thing over and over until `end`; the first thing that goes wrong is kept."""

    def __init__(self, end):
        self.end, self.threads, self.problems, self.done = end, [], [], {}

    def add(self, name, work):
        self.done[name] = 0
        self.threads.append(threading.Thread(target=self._repeat, args=(name, work), daemon=True))

    def _repeat(self, name, work):
        for turn in itertools.count():
            if time.monotonic() > self.end or self.problems:
                return
            try:
                work(turn)
            except Exception as problem:  # of any kind: it is what the test is about
                self.problems.append(f"{name}, turn {turn}: {problem!r}")
            self.done[name] += 1

    def run(self):
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join(SECONDS + 120)
        assert not self.problems, self.problems
        assert all(self.done.values()), self.done


def held(server):
    """What a leak would make grow."""
    status = open(f"/proc/{server.process.pid}/status", encoding="utf-8").read()
    return {"descriptors": len(os.listdir(f"/proc/{server.process.pid}/fd")),
            "threads": int(status.split("Threads:")[1].split()[0]),
            "MiB": int(status.split("VmRSS:")[1].split()[0]) // 1024}


def test_hours_in_minutes(make_server):
    server = make_server(config=two_tenants())
    good, bad = KEYS["good"], KEYS["bad"]
    for name in ("wild", "forever"):
        deploy(server, name, bad)
    for name in ("saxpy", "spin", "copy"):
        assert server.deploy(name, key=good).status == 201
    numbers = random.Random(7)
    callers = Callers(time.monotonic() + SECONDS)

    def saxpy(turn):
        inputs = saxpy_inputs(1 + turn * 37 % 5000, turn)
        answer = server.infer("saxpy", inputs, {"alpha": 2.0}, key=good)
        assert answer.status == 200, answer.body
        np.testing.assert_allclose(answer.outputs["z"], 2 * inputs["x"] + inputs["y"], rtol=1e-5)

    def spin(turn):
        data = np.full(16384, turn, np.float32)
        answer = server.infer("spin", {"input": data}, key=good)
        assert answer.status == 200, answer.body
        np.testing.assert_array_equal(answer.outputs["output"], data)

    def wild(turn):
        hostile = turn % 3 == 2
        answer = server.infer("wild", X, {"where": FAR} if hostile else {}, key=bad)
        assert answer.status == (422 if hostile else 200), answer.body

    def forever(turn):
        stay = turn % 2
        answer = server.infer("forever", X, {"stay": stay, "timeout": 300_000} if stay else {}, key=bad)
        assert answer.status == (504 if stay else 200), answer.body

    def leave(_):
        connection = server.connect()
        head = b'{"inputs":[{"name":"input","datatype":"FP32","shape":[16384],' \
               b'"parameters":{"binary_data_size":65536}}]}'
        connection.request("POST", "/v2/models/spin/infer", head + b"\0" * 65536,
                           {"Inference-Header-Content-Length": str(len(head)), "Authorization": "Bearer " + good})
        connection.close()
        saxpy(1)

    def redeploy(turn):
        files = folder_files(EXAMPLES / "copy")
        files["function.yaml"] = files["function.yaml"].replace(b"67108864", str(67108864 - turn % 50).encode())
        answer = server.deploy("copy", files, key=good)
        assert answer.status in (200, 201), answer.body
        data = np.arange(turn % 200 + 1, dtype=np.uint8)
        answer = server.infer("copy", {"input": data}, key=good)
        assert answer.status == 200, answer.body
        np.testing.assert_array_equal(answer.outputs["output"], data)

    def kill(_):
        saxpy(2)
        if executors := server.executors():
            try:
                os.kill(numbers.choice(executors), signal.SIGKILL)
            except ProcessLookupError:
                pass
        for turn in range(200):  # at most twice within the life of one call
            saxpy(turn)

    for work in (saxpy, spin, wild, forever, leave, redeploy, kill):
        callers.add(work.__name__, work)
    first = {}
    callers.add("look", lambda turn: (first.update(held(server)) if turn == 500 else None,
                                      server.request("GET", "/v1/devices", key=good)))
    callers.run()
    last = held(server)
    assert last["descriptors"] <= first["descriptors"] + 64, (first, last)
    assert last["threads"] <= first["threads"] + 4, (first, last)
    assert last["MiB"] <= first["MiB"] + 64, (first, last)
    assert sum(device["running"] for device in server.request("GET", "/v1/devices", key=good).json["devices"]) == 0
