"""Priorities, gates and slices on the real device: who is urgent does not wait for a long kernel of someone else."""
import json
import os
import statistics
import threading
import time

import numpy as np
import pytest
from conftest import PRESET, ROOT, folder_files, saxpy_inputs
from test_accounts import KEYS, tenants

pytestmark = [pytest.mark.events,
              pytest.mark.skipif(PRESET != "dev", reason="kernels need a device that compiles them")]
GRIND = ROOT / "bench" / "functions" / "grind"
LONG = {"groups": 16384, "iterations": 40000}  # about a second in one kernel
SHORT = {"groups": 4, "iterations": 1000}


def config(policy="quern", classes="false", least_share="0.01"):
    # One core for all kernels; classes are a trick of this kind of device, and gates must do without.
    return f"""\
devices: [{{name: cpu0, cores: [0], memory: 1GiB}}]
policy: {policy}
classes: {classes}
least_share: {least_share}
"""


def deploy(server, name, priority, key=None):
    files = {path: data for path, data in folder_files(GRIND).items() if path != "until.yaml"}
    manifest = files["function.yaml"].decode() if isinstance(files["function.yaml"], bytes) else files["function.yaml"]
    manifest = manifest.replace("name: grind", f"name: {name}").replace("priority: 5", f"priority: {priority}")
    files["function.yaml"] = manifest.encode()
    answer = server.deploy(name, files, key=key)
    assert answer.status == 201, answer.body


class Call(threading.Thread):
    """A call that goes on while the test does something else."""

    def __init__(self, server, name, parameters, key=None):
        super().__init__()
        self.server, self.name_of, self.parameters, self.key, self.answer = server, name, parameters, key, None
        self.start()

    def run(self):
        self.answer = self.server.infer(self.name_of, {}, self.parameters, key=self.key)

    def end(self):
        self.join(60)
        assert self.answer is not None, "it has not ended"
        return self.answer


def is_running(server, name, key=None):
    listed = server.request("GET", "/v1/requests", key=key).json["requests"]
    return [one["id"] for one in listed if one["function"] == name and one["state"] == "running"]


def wait_running(call):
    """Returns the id of the call's request, once that is running."""
    server, name, key = call.server, call.name_of, call.key
    return server.wait_until(lambda: is_running(server, name, key), f"{name} is running", watched=[call])[0]


@pytest.fixture
def gated(make_server):
    server = make_server(config=config())
    deploy(server, "slow", 9)
    deploy(server, "quick", 0)
    for name in ("slow", "quick"):  # warm, and their kernels known, though by a fortieth of what they take later
        assert server.infer(name, {}, SHORT).status == 200
    yield server
    assert server.request("GET", "/v1/counters").json["past_gate"] == 0, "nothing is launched without a grant"


@pytest.mark.drivers
def test_an_urgent_call_does_not_wait_for_a_long_kernel(gated):
    slow = Call(gated, "slow", LONG)
    wait_running(slow)
    for _ in range(5):
        answer = gated.infer("quick", {}, SHORT)
        assert answer.status == 200, answer.body
    assert slow.is_alive() and is_running(gated, "slow"), "the long kernel ended first"
    ended = slow.end()
    assert ended.status == 200, ended.body
    np.testing.assert_array_equal(ended.outputs["marks"], np.ones(LONG["groups"], np.uint32))


def latencies(server, count, goes_on=lambda: True):
    """Seconds that calls of `quick` took, one after another."""
    connection, took = server.connect(), []
    while len(took) < count and goes_on():
        began = time.monotonic()
        assert server.infer("quick", {}, SHORT, connection=connection).status == 200
        took.append(time.monotonic() - began)
    connection.close()
    return took


@pytest.mark.drivers
def test_a_long_kernel_delays_urgent_calls_by_less_than_two_milliseconds(gated):
    delays = []
    for _ in range(5):  # a machine with other work takes the core away now and then: one quiet second of five will do
        alone = statistics.median(latencies(gated, 30))
        slow = Call(gated, "slow", LONG)
        wait_running(slow)
        beside = latencies(gated, 30, slow.is_alive)
        assert len(beside) >= 10, "the long kernel ended first"
        assert slow.end().status == 200
        delays.append(statistics.median(beside) - alone)
        if delays[-1] < 0.002:
            return
    raise AssertionError(f"delays of {delays} s")


def test_why_tells_who_was_more_urgent(gated):
    slow = Call(gated, "slow", LONG)
    request = wait_running(slow)
    assert gated.infer("quick", {}, {"groups": 64, "iterations": 40000}).status == 200
    assert slow.end().status == 200
    ran = gated.cli("why", request)
    assert ran.returncode == 0, ran.stderr
    assert "Its gate was closed for " in ran.stdout and "function quick was more urgent." in ran.stdout, ran.stdout
    story = gated.request("GET", f"/v1/requests/{request}").json
    assert story["gated_ns"] > 0


def test_without_gates_it_does(make_server):
    server = make_server(config=config(policy="{dispatch: none}"))
    deploy(server, "slow", 9)
    deploy(server, "quick", 0)
    assert server.infer("slow", {}, SHORT).status == server.infer("quick", {}, SHORT).status == 200

    def passes():
        slow = Call(server, "slow", LONG)
        wait_running(slow)
        assert server.infer("quick", {}, SHORT).status == 200
        was_running = is_running(server, "slow")
        assert slow.end().status == 200
        return was_running
    # Of one tenant, so in one executor: its device takes one kernel after the other. That the first has ended may be
    # heard later than that the second has, on a busy machine; not every time.
    assert not all(passes() for _ in range(3)), "a kernel that is not cut cannot be passed"


@pytest.mark.drivers
def test_a_run_can_be_cancelled_within_a_kernel(gated):
    before = sorted(gated.executors())
    slow = Call(gated, "slow", LONG)
    request = wait_running(slow)
    assert gated.cli("cancel", request).returncode == 0
    assert slow.end().status == 499
    assert gated.infer("slow", {}, SHORT).status == 200
    assert sorted(gated.executors()) == before, "its executor lived on"


class Urgent:
    """Clients that leave no gap: there is always one of them more than fit on the device."""

    def __init__(self, server, name, count=4):
        self.is_over, self.calls, self.called = False, 0, threading.Condition()
        self.threads = [threading.Thread(target=self._work, args=(server, name)) for _ in range(count)]

    def _work(self, server, name):
        connection = server.connect()
        while not self.is_over:
            answer = server.infer(name, {}, {"groups": 128, "iterations": 40000}, connection=connection)
            assert answer.status == 200, answer.body
            with self.called:
                self.calls += 1
                self.called.notify_all()
        connection.close()

    def wait(self, more):
        with self.called:
            enough = self.calls + more
            assert self.called.wait_for(lambda: self.calls >= enough, 60), "no answers come"

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        self.wait(len(self.threads))
        return self

    def __exit__(self, *_):
        self.is_over = True
        for thread in self.threads:
            thread.join(60)


def with_least_share(make_server, share):
    server = make_server(config=config(least_share=share))
    deploy(server, "slow", 9)
    deploy(server, "quick", 0)
    assert server.infer("slow", {}, SHORT).status == 200
    return server


def test_nothing_starves_beside_one_that_never_stops(make_server):
    server = with_least_share(make_server, "0.1")
    with Urgent(server, "quick") as urgent:
        assert server.infer("slow", {}, {"groups": 512, "iterations": 40000}).status == 200
        urgent.wait(1)


def test_the_least_share_can_be_nothing(make_server):
    server = with_least_share(make_server, "0")
    with Urgent(server, "quick") as urgent:
        slow = Call(server, "slow", LONG)
        wait_running(slow)
        urgent.wait(150)  # ten times what it needs, and more
        assert slow.is_alive()
    assert slow.end().status == 200


def test_a_storm_of_small_kernels_is_passed_too(gated):
    storms = [Call(gated, "slow", {"groups": 1, "iterations": 10, "steps": 50}) for _ in range(20)]
    for _ in range(20):
        assert gated.infer("quick", {}, SHORT).status == 200
    for storm in storms:
        assert storm.end().status == 200


@pytest.mark.parametrize("caller", ["red", "blue"])
def test_an_urgent_call_waits_for_no_lane_or_level(make_server, caller):
    """Four long runs of a tenant have all lanes of its executor, and all levels of the device; a call, its own or
    another's, is more urgent than all of them."""
    server = make_server(config=config() + tenants())
    red = KEYS["red"]
    slow = {f"slow{priority}": priority for priority in (9, 8, 7, 6)}
    for name, priority in slow.items():
        deploy(server, name, priority, red)
        assert server.infer(name, {}, SHORT, key=red).status == 200
    deploy(server, "quick", 0, KEYS[caller])
    assert server.infer("quick", {}, SHORT, key=KEYS[caller]).status == 200
    calls = []
    for name in slow:  # each more urgent than those before, so that it begins
        calls.append(Call(server, name, LONG, red))
        wait_running(calls[-1])
    for _ in range(3):
        assert server.infer("quick", {}, SHORT, key=KEYS[caller]).status == 200
    assert all(is_running(server, name, red) for name in slow), "it waited for one of them to end"
    for call in calls:
        ended = call.end()
        assert ended.status == 200, ended.body


def test_a_priority_that_is_changed_counts_from_the_next_call(gated):
    slow = Call(gated, "slow", LONG)
    wait_running(slow)
    assert gated.cli("set", "slow", "priority=0").returncode == 0
    assert gated.cli("set", "quick", "priority=3").returncode == 0
    assert gated.infer("quick", {}, SHORT).status == 200
    assert slow.is_alive() and is_running(gated, "slow"), "it runs as it began, and is passed"
    assert slow.end().status == 200
    listed = gated.request("GET", "/v1/requests").json["requests"]
    assert {(one["function"], one["priority"]) for one in listed} >= {("slow", 9), ("quick", 0), ("quick", 3)}


def classes_of(server):
    """What the operating system does with the threads of executors: their scheduling policies."""
    policies = set()
    for pid in server.executors():
        for task in os.listdir(f"/proc/{pid}/task"):
            try:
                policies.add(os.sched_getscheduler(int(task)))
            except ProcessLookupError:
                pass
    return policies


@pytest.mark.drivers
@pytest.mark.skipif(os.geteuid() != 0, reason="raising a thread again needs the right to")
def test_workers_of_the_best_effort_give_way(make_server):
    server = make_server(config=config(classes="true"))
    deploy(server, "slow", 9)
    deploy(server, "quick", 0)
    assert server.infer("quick", {}, SHORT).status == 200
    assert os.SCHED_IDLE not in classes_of(server)
    slow = Call(server, "slow", LONG)
    wait_running(slow)
    assert os.SCHED_IDLE in classes_of(server)
    assert slow.end().status == 200
    assert server.infer("quick", {}, SHORT).status == 200
    assert os.SCHED_IDLE not in classes_of(server)


@pytest.mark.skipif(os.geteuid() != 0, reason="raising a thread again needs the right to")
@pytest.mark.parametrize("driver, has_classes", [("opencl", True), ("fake", False)])
def test_only_devices_with_classes_get_any(make_server, driver, has_classes):
    """The fake one stands for a device of its own: the operating system cannot hold it back, so its gates have to."""
    server = make_server(config=f"devices: [{{name: one, driver: {driver}, cores: [0], memory: 1GiB}}]\n"
                                "classes: true\n")
    [device] = server.request("GET", "/v1/devices").json["devices"]
    assert device["worker_classes"] is has_classes
    assert json.loads(server.cli("devices", "--json", check=0).stdout)["devices"][0]["worker_classes"] is has_classes
    server.deploy("saxpy")
    assert server.infer("saxpy", saxpy_inputs(), {"priority": 9}).status == 200
    assert (os.SCHED_IDLE in classes_of(server)) is has_classes
    assert (os.SCHED_BATCH in classes_of(server)) is False or has_classes


def test_classes_change_nothing_but_the_time(make_server):
    server = make_server(config=config(classes="true"))
    deploy(server, "slow", 9)
    deploy(server, "quick", 0)
    assert server.infer("quick", {}, SHORT).status == 200
    slow = Call(server, "slow", LONG)
    wait_running(slow)
    assert server.infer("quick", {}, SHORT).status == 200
    assert slow.is_alive() and is_running(server, "slow")
    np.testing.assert_array_equal(slow.end().outputs["marks"], np.ones(LONG["groups"], np.uint32))


def test_functions_tell_which_kernels_can_be_cut(gated):
    ran = gated.cli("functions", "--kernels", "--json")
    assert ran.returncode == 0, ran.stderr
    assert "grind" in json.dumps(json.loads(ran.stdout))
