"""Profiles: how long kernels and gaps take, learned while serving, kept over restarts, and shown."""
import concurrent.futures
import json
import re
import threading
import time

import numpy as np
import pytest
from conftest import CALL_LIMIT, PRESET, assert_error
from test_accounts import (CORE, KEYS, LONG, MILLISECOND, MS, SHORT, Call, Workers, account, call, deploy, grind,
                           story, tenants, wait_counted, wait_state, why)

pytestmark = pytest.mark.skipif(PRESET != "dev", reason="its kernels need a device that compiles them")

SIZES = {"groups": 256, "iterations": 10000}  # some milliseconds


def profile(server, name, key=None):
    answer = server.request("GET", f"/v1/functions/{name}/profile", key=key)
    assert answer.status == 200, answer.body
    return answer.json


def kernels(server, name, key=None):
    """{work-groups: what is known of that launch}; each on one device."""
    return {one["groups"]: one for one in profile(server, name, key)["kernels"]}


def call_until(server, name, parameters, is_enough, key=None):
    """Only calls bring about what this waits for. What is learned is told at the end of a run, and at most every 10 ms;
    a disturbed sample does not count."""
    connection, deadline, found = server.connect(), time.monotonic() + CALL_LIMIT, None
    while not found:
        assert time.monotonic() < deadline, "not enough was learned in time"
        call(server, name, parameters, key, connection)
        found = is_enough()
    connection.close()
    return found


def learn(server, name, parameters, samples=16, key=None):
    """Calls it until there are so many samples of that size."""
    def known():
        one = kernels(server, name, key).get(parameters["groups"])
        return one if one and "launch_ns" in one and one["samples"] >= samples else None
    return call_until(server, name, parameters, known, key)


@pytest.fixture
def server(make_server):
    return make_server(config=CORE + "classes: false\npool: 0\n")


def test_a_function_that_was_never_called(server):
    deploy(server, "mill", warm=False)
    told = profile(server, "mill")
    assert told["kernels"] == [] and told["gaps"] == [] and told["function"] == "mill"
    text = server.cli("profile", "mill", check=0).stdout
    assert "nothing is known of its kernels: call it, or try 'quern profile mill --measure'" in text
    assert "no gaps yet" in text


def test_kernels_are_learned_while_serving(server):
    deploy(server, "mill", warm=False)
    first = learn(server, "mill", SIZES)
    assert first["entry"] == "grind" and first["device"] == "cpu0" and first["sliceable"], first
    assert not first["delays_urgent"], "it can be cut"
    group = first["group_ns"]
    assert 0 < group["p10"] <= group["p50"] <= group["p90"], first
    assert group["p10"] * 0.5 <= group["mean"] <= group["p90"] * 2 and group["spread"] >= 0, first
    assert first["launch_ns"] == pytest.approx(group["p50"] * SIZES["groups"], rel=0.01)
    assert re.fullmatch("[0-9a-f]{16}", first["identity"])
    # Twice the groups are another kernel; of those a group takes as long.
    twice = learn(server, "mill", {"groups": 512, "iterations": 10000})
    assert twice["identity"] != first["identity"]
    assert twice["group_ns"]["p50"] == pytest.approx(group["p50"], rel=0.3)


def test_what_is_learned_is_what_it_takes(server):
    """A sample is undisturbed when the workers had nearly all of the time: so it is their CPU time, whatever else the
    machine does."""
    deploy(server, "mill")
    learned = learn(server, "mill", SIZES)
    [executor] = [pid for pid in server.executors() if Workers(server).used_ns(pid) > 0]
    before, times = Workers(server).used_ns(executor), 50
    for _ in range(times):
        call(server, "mill", SIZES)
    used = (Workers(server).used_ns(executor) - before) / times
    assert used * 0.8 <= learned["launch_ns"] <= used * 1.2, (used, learned)


def test_old_samples_fade(server):
    """The same kernel takes four times as long from now on: what is told of it follows."""
    deploy(server, "mill")
    before = learn(server, "mill", SIZES)
    slower = dict(SIZES, iterations=4 * SIZES["iterations"])
    after = call_until(server, "mill", slower, lambda: next(
        (one for one in [kernels(server, "mill")[SIZES["groups"]]] if one["samples"] >= before["samples"] + 64), None))
    assert after["identity"] == before["identity"], "what it is called with is not part of it"
    for what in ("p10", "p50", "mean"):
        assert after["group_ns"][what] > 2.5 * before["group_ns"][what], (what, before, after)


def gaps_of(server, name, key=None):
    return [gap for gap in profile(server, name, key)["gaps"] if gap["known"]]


def fill_behind(server, name, stop):
    """Someone less urgent, all the time: gaps matter only then, and are learned only then."""
    connection = server.connect()
    while not stop.is_set():
        call(server, name, {"groups": 8192, "iterations": 10000}, connection=connection)
    connection.close()


def test_gaps_between_runs_are_learned(server):
    deploy(server, "first", "{priority: 0}")
    deploy(server, "rest", "{priority: 9}")
    assert profile(server, "first")["gaps"] == []
    stop = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        filler = pool.submit(fill_behind, server, "rest", stop)
        try:
            [gap] = call_until(server, "first", MILLISECOND, lambda: gaps_of(server, "first"))
        finally:
            stop.set()
        filler.result()
    assert gap["between_runs"] and "after" not in gap and gap["device"] == "cpu0", gap
    assert 0 < gap["p10_ns"] <= gap["p50_ns"] <= gap["p90_ns"] and gap["samples"] >= 3, gap
    text = server.cli("profile", "first", check=0).stdout
    assert re.search(r"^GAP AFTER .*PREDICTABLE", text, re.M) and re.search(r"^a run +cpu0 ", text, re.M), text


UNTIL = """
api: quern/v1
name: {name}
kind: graph
programs: {{opencl: grind.cl}}
dims:
  groups: {{default: 64, min: 1, max: 65536}}
  steps: {{default: 10, min: 1, max: 1000}}
buffers:
  marks: {{role: output, dtype: uint32, shape: [groups]}}
kernels:
  - repeat: {{at_most: steps, until: {{buffer: marks, equals: 0}}}}
    kernels:
      - {{entry: grind, global: [groups], local: [1], args: [{{out: marks}}, {{uint32: 10000}}]}}
settings: {{priority: 0}}
"""


def test_gaps_inside_a_graph_are_learned(server):
    """A run that looks at a number after each kernel pauses there."""
    files = dict(grind("steps"), **{"function.yaml": UNTIL.format(name="steps")})
    assert server.deploy("steps", files).status == 201
    deploy(server, "rest", "{priority: 9}")
    stop = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        filler = pool.submit(fill_behind, server, "rest", stop)
        try:
            gap = call_until(server, "steps", {"groups": 64}, lambda: next(
                (gap for gap in gaps_of(server, "steps") if not gap["between_runs"]), None))
        finally:
            stop.set()
        filler.result()
    assert gap["after"] == "grind" and gap["after_identity"] == kernels(server, "steps")[64]["identity"], gap
    assert re.search(r"^grind .*(yes|no: they vary)$", server.cli("profile", "steps", check=0).stdout, re.M)


def settled(told):
    """{identity: a kernel}, without what depends on when it is asked for, and in as many digits as are kept."""
    for one in told["kernels"]:
        one.pop("age_ns", None)
        for what, ns in one.get("group_ns", {}).items():
            one["group_ns"][what] = pytest.approx(ns, abs=0.001)
    return {one["identity"]: one for one in told["kernels"]}


@pytest.mark.events
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_they_are_kept(server, how):
    deploy(server, "mill")
    deploy(server, "first", "{priority: 0}")
    learn(server, "mill", SIZES)
    stop = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        filler = pool.submit(fill_behind, server, "mill", stop)
        try:
            call_until(server, "first", MILLISECOND, lambda: gaps_of(server, "first"))
        finally:
            stop.set()
        filler.result()
    before = {name: profile(server, name) for name in ("mill", "first")}
    if how == "kill":  # once it is stored: until then there is something to lose
        deploy(server, "another", whole=True)
        samples = 0
        for _ in range(2):  # what was asked for before may be on its way
            since = server.mark()
            samples = learn(server, "another", MILLISECOND, samples + 1)["samples"]
            server.wait_line("what was learned of kernels is stored", since=since)
    getattr(server, how)()
    server.start()
    for name, told in before.items():
        again = profile(server, name)
        assert again["gaps"] == told["gaps"] and again["version"] == told["version"]
        old, new = settled(told), settled(again)
        if how == "stop":
            assert new == old
        for identity, one in old.items():  # a lane may have told of some more
            assert new[identity]["samples"] >= one["samples"] and new[identity]["groups"] == one["groups"]
    # It goes on from there.
    samples = kernels(server, "mill")[SIZES["groups"]]["samples"]
    assert learn(server, "mill", SIZES, samples + 1)["samples"] > samples


def test_they_leave_with_their_function(server):
    deploy(server, "mill")
    learn(server, "mill", SIZES)
    assert server.request("DELETE", "/v1/functions/mill").status == 200
    assert_error(server.request("GET", "/v1/functions/mill/profile"), 404, "not_found")
    deploy(server, "mill", warm=False)
    assert profile(server, "mill")["kernels"] == []


def test_versions_share_what_did_not_change(server):
    deploy(server, "mill")
    learned = learn(server, "mill", SIZES)
    old = profile(server, "mill")["version"]
    files = grind("mill")
    files["function.yaml"] = files["function.yaml"].replace("max: 65536", "max: 32768")
    assert server.deploy("mill", files).status == 201
    call(server, "mill", SIZES)
    again = kernels(server, "mill")[SIZES["groups"]]
    assert again["identity"] == learned["identity"] and again["samples"] >= learned["samples"]
    assert profile(server, "mill")["version"] != old
    assert profile(server, f"mill@{old}")["version"] == old, "a version can be named"


def test_measuring(server):
    deploy(server, "mill", "{priority: 8}", warm=False)
    ran = server.cli("profile", "mill", "--measure", "--runs", "30", "--dims", "groups=256", check=0)
    assert re.match(r"measured (\d+) calls, one after the other, with .*groups=256.*: half of them took less than ",
                    ran.stdout), ran.stdout
    assert int(ran.stdout.split()[1]) >= 30
    assert re.search(r"^KERNEL +DEVICE +GROUPS +LAUNCH", ran.stdout, re.M), ran.stdout
    rows = [line.split() for line in ran.stdout.splitlines() if line.startswith("grind ")]
    assert [row[:3] for row in rows] == [["grind", "cpu0", "256"]], ran.stdout
    assert account(server, "mill")["requests"] == int(ran.stdout.split()[1])
    told = json.loads(server.cli("profile", "mill", "--measure", "--runs", "5", "--dims", "groups=256", "--json",
                                 check=0).stdout)
    assert told["measured"]["calls"] >= 5 and told["measured"]["median_ns"] > 0
    assert told["kernels"][0]["samples"] > 0 and told["kernels"][0]["group_ns"]["p50"] > 0
    newest = server.request("GET", "/v1/requests").json["requests"][0]
    assert newest["priority"] == 0, "as urgent as it may be"
    refused = server.cli("profile", "mill", "--runs", "5", check=None)
    assert refused.returncode != 0 and "--measure" in refused.stderr


def test_names(make_server):
    server = make_server(config=CORE + tenants())
    red, blue = KEYS["red"], KEYS["blue"]
    deploy(server, "mill", key=red)
    learn(server, "mill", SIZES, key=red)
    refused = server.cli("profile", "mlil", key=red, check=1).stderr
    assert "did you mean 'mill'?" in refused, refused
    # Another tenant's is not there, and no hint that it is; of the same function it has its own.
    for name in ("mill", "mlil"):
        refused = server.request("GET", f"/v1/functions/{name}/profile", key=blue)
        assert_error(refused, 404, "not_found")
        assert "did you mean" not in refused.json["error"]
    deploy(server, "mill", key=blue, warm=False)
    assert profile(server, "mill", blue)["kernels"] == []
    call(server, "mill", SHORT, blue)
    assert all(one["samples"] <= SHORT["groups"] for one in profile(server, "mill", blue)["kernels"])
    assert SIZES["groups"] not in kernels(server, "mill", blue)


@pytest.mark.events
def test_a_long_kernel_that_cannot_be_cut(server):
    """It is in everybody's way, and that is said: in its profile, and of the run that was."""
    deploy(server, "block", "{priority: 9}", whole=True)
    deploy(server, "quick", "{priority: 0}")
    second = {"groups": 8192, "iterations": 80000}
    one = learn(server, "block", second, samples=0)  # on a busy machine nothing so long is undisturbed
    assert not one["sliceable"] and "get_global_size" in one["reason"], one
    assert one["delays_urgent"] and one["launch_ns"] > profile(server, "block")["bound_ns"], one
    text = server.cli("profile", "block", check=0).stdout
    assert re.search(r"kernel grind on cpu0: is launched whole \(.*get_global_size.*\) and takes .*: whoever is more "
                     r"urgent waits", text), text
    before = Workers(server).total_ns()
    slow = Call(server, "block", second)
    request = wait_state(server, "block", watched=[slow])
    wait_counted(server, lambda: Workers(server).total_ns() > before + 50 * MS, "it is on the device", [slow])
    answer = call(server, "quick", SHORT)
    slow.end()
    told = story(server, request)
    assert told["held_up"]["kernel"] == "grind", told
    # From when the other was ready until it began: in one executor one kernel goes after the other.
    times = story(server, answer.headers["Quern-Request"])["times"]
    waited_ns = times["started_ns"] - times["ready_ns"]
    assert abs(told["held_up"]["ns"] - waited_ns) < waited_ns / 10 + 1 * MS, (told, times)
    assert "get_global_size" in told["held_up"]["why"], told
    assert re.search(r"Its kernel grind kept more urgent work waiting for .*: it cannot be cut \(.*get_global_size",
                     why(server, request)), why(server, request)
    # Who waited for it is told so too: it was not its turn that it waited for.
    waited = story(server, answer.headers["Quern-Request"])
    assert sum(wait["ns"] for wait in waited["waits"]) > told["held_up"]["ns"] / 2, (waited, told)
