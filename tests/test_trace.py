"""`quern trace`: what is on a device, from when to when and why, as Chrome's trace events and as a picture."""
import hashlib
import json
import os
import signal
import subprocess
import threading
import time
import xml.etree.ElementTree

import numpy as np
import pytest
from conftest import BINARY, CALL_LIMIT, PRESET, ROOT, Server, assert_error, finish, folder_files, run_cli

pytestmark = pytest.mark.skipif(PRESET != "dev", reason="kernels need a device that compiles them")
GRIND = ROOT / "bench" / "functions" / "grind"
AFFINE = ROOT / "tests" / "functions" / "affine"
LONG = {"groups": 16384, "iterations": 20000}  # half a second in one kernel
SHORT = {"groups": 16, "iterations": 20000}
# One core for all kernels; classes are a trick of this kind of device, and gates must do without.
CONFIG = "devices: [{name: cpu0, cores: [0], memory: 1GiB}]\nclasses: false\n"
SVG = "{http://www.w3.org/2000/svg}"


def deploy_grind(server, name, priority, key=None):
    files = {path: data for path, data in folder_files(GRIND).items() if path in ("function.yaml", "grind.cl")}
    manifest = files["function.yaml"].decode()
    manifest = manifest.replace("name: grind", f"name: {name}").replace("priority: 5", f"priority: {priority}")
    answer = server.deploy(name, dict(files, **{"function.yaml": manifest}), key=key)
    assert answer.status == 201, answer.body
    assert server.infer(name, {}, {"groups": 4, "iterations": 1000}, key=key).status == 200  # warm, its kernel known


def call_affine(server, number):
    """A version with a constant of its own, which has to be loaded."""
    bias = np.full(64, number, np.float32)
    answer = server.deploy("affine", dict(folder_files(AFFINE), **{"b.bin": bias.tobytes()}))
    assert answer.status == 201, answer.body
    assert server.infer("affine", {"x": np.ones((4, 64), np.float32)}).status == 200


class Busy(threading.Thread):
    """Does the same again and again until it is told to end."""

    def __init__(self, work):
        super().__init__()
        self.work, self.over, self.problem = work, threading.Event(), None
        self.start()

    def run(self):
        number = 0
        while not self.over.is_set() and self.problem is None:
            number += 1
            try:
                self.work(number)
            except Exception as problem:  # told where it is waited for
                self.problem = problem

    def end(self):
        self.over.set()
        self.join(2 * CALL_LIMIT)
        assert not self.is_alive(), "it does not end"
        assert self.problem is None, self.problem


def infers(server, name, parameters, key=None):
    def work(_):
        answer = server.infer(name, {}, parameters, key=key)
        assert answer.status == 200, answer.body
    return work


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Two seconds of an urgent function, one with a long kernel and one with constants, on one device."""
    server = Server(tmp_path_factory.mktemp("trace"), config=CONFIG)
    server.start()
    try:
        deploy_grind(server, "quick", 0)
        deploy_grind(server, "slow", 9)
        busy = [Busy(infers(server, "quick", SHORT)), Busy(infers(server, "slow", LONG)),
                Busy(lambda number: call_affine(server, number))]
        file = server.folder / "t.json"
        begun = time.monotonic()
        try:
            ran = server.cli("trace", "--seconds", 2, "-o", file, "--json")
            seconds = time.monotonic() - begun
        finally:
            for one in busy:
                one.end()
        assert ran.returncode == 0, ran.stderr
        yield server, file, json.loads(file.read_text()), json.loads(ran.stdout), seconds
    finally:
        finish([server])


@pytest.fixture
def trace(shared):
    return shared[2]


def ns(us):
    return round(us * 1000)


def spans(trace, category):
    return [event for event in trace["traceEvents"] if event.get("cat") == category and event["ph"] == "X"]


def begin_of(event):
    return ns(event["ts"])


def end_of(event):
    return ns(event["ts"]) + ns(event["dur"])


def check_chrome(trace):
    """What every trace has: the fields, an order, and spans of a thread that are one after the other or nested."""
    last, open_spans, named = 0, {}, {}
    for event in trace["traceEvents"]:
        assert {"ph", "ts", "pid", "tid"} <= event.keys(), event
        assert event["ph"] in "MXi" and event["ts"] >= last, event
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                named[event["tid"]] = event["pid"]
            continue
        last = event["ts"]
        if event["ph"] == "i":
            continue
        assert event["dur"] >= 0 and named[event["tid"]] == event["pid"], event
        assert end_of(event) <= ns(trace["otherData"]["length_us"]), event
        around = open_spans.setdefault(event["tid"], [])
        while around and end_of(around[-1]) <= begin_of(event):
            around.pop()
        assert all(end_of(event) <= end_of(outer) for outer in around), (event, around)
        around.append(event)


def within(inner, outer):
    return inner["tid"] == outer["tid"] and begin_of(outer) <= begin_of(inner) and end_of(inner) <= end_of(outer)


def test_it_is_a_trace_of_chrome(shared, trace):
    check_chrome(trace)
    assert trace["otherData"]["dropped"] == 0
    assert 2_000_000 <= trace["otherData"]["length_us"] <= shared[4] * 1e6, "no longer than its command"
    processes = [event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"]
    assert processes[0] == "device cpu0"


def test_kernels_are_in_their_runs_and_slices_in_their_kernels(trace):
    runs, kernels, slices = spans(trace, "run"), spans(trace, "kernel"), spans(trace, "slice")
    assert {run["name"] for run in runs} == {"quick", "slow", "affine"}
    for kernel in kernels:
        around = [run for run in runs if within(kernel, run) and run["args"]["request"] == kernel["args"]["request"]]
        assert len(around) == 1 and around[0]["name"] == kernel["args"]["function"], kernel
    assert {kernel["name"] for kernel in kernels} == {"grind", "multiply", "add"}
    cut = [kernel for kernel in kernels if "slices" in kernel["args"]]
    assert any(kernel["args"]["function"] == "slow" and kernel["args"]["slices"] > 10 for kernel in cut)
    assert any("slices" not in kernel["args"] for kernel in kernels), "some were launched whole"
    for kernel in cut:
        inside = [one for one in slices if within(one, kernel)]
        assert len(inside) == kernel["args"]["slices"]
        assert [one["args"]["slice"] for one in inside] == list(range(1, len(inside) + 1))
        assert sum(one["args"]["parts"] for one in inside) == kernel["args"]["parts"] <= kernel["args"]["of"]
    assert sum(kernel["args"]["slices"] for kernel in cut) == len(slices)


def test_runs_that_ended_within_it_are_all_there(shared, trace):
    server = shared[0]
    ended = [run["args"]["request"] for run in spans(trace, "run") if "goes_on" not in run["args"]]
    assert len(ended) == len(set(ended)) > 4
    # The last of them are still known, and were on the device for as long as their kernels show.
    run = [one for one in spans(trace, "run") if one["name"] == "quick" and "goes_on" not in one["args"]][-1]
    story = server.request("GET", "/v1/requests/" + run["args"]["request"])
    assert story.status == 200 and story.json["function"] == "quick"


def test_gates_are_closed_for_the_urgent_and_opened_to_fill(trace):
    gates = [gate for gate in spans(trace, "gate") if gate["args"].get("function") == "slow"]
    assert any(not gate["args"]["open"] and gate["args"]["why"] == "urgent" for gate in gates)
    assert any(gate["args"].get("fills") for gate in gates)
    assert all(gate["args"]["open"] for gate in spans(trace, "gate") if gate["args"].get("function") == "quick"), \
        "nobody is more urgent"


def test_gaps_tell_who_filled_them(trace):
    gaps = [gap for gap in spans(trace, "gap") if gap["args"]["function"] == "quick"]
    launches = [one for one in spans(trace, "kernel") + spans(trace, "slice") if one["args"]["function"] == "slow"
                and (one["cat"] == "slice" or "slices" not in one["args"])]
    filled = 0
    for gap in gaps:
        told = {filler["name"]: filler["us"] for filler in gap["args"]["filled_by"]}
        assert "quick" not in told
        assert gap["args"]["filled_us"] == pytest.approx(sum(told.values()), abs=0.01)
        seen = sum(max(0, min(end_of(gap), end_of(one)) - max(begin_of(gap), begin_of(one))) for one in launches)
        assert told.get("slow", 0) == pytest.approx(seen / 1000, abs=20), gap
        filled += "slow" in told
    assert len(gaps) > 10 and filled > len(gaps) / 4, (len(gaps), filled)


def test_loads_tell_what_was_brought_and_how_much(trace):
    devices = {event["args"]["name"]: event["pid"] for event in trace["traceEvents"] if event["name"] == "process_name"}
    loads = [load for load in spans(trace, "load") if load["pid"] == devices["device cpu0"]]
    assert loads and all(load["name"] == "load " + load["args"]["object"] for load in loads), loads
    # Each version has a constant of its own; what is on a device has whole pages.
    assert 4096 in {load["args"]["bytes"] for load in loads}
    assert len({load["args"]["object"] for load in loads}) == len(loads)


def test_the_summary_counts_what_is_in_it(shared):
    _, file, trace, told, _ = shared
    assert told["file"] == str(file)
    assert told["length_ns"] == ns(trace["otherData"]["length_us"])
    for field, category in {"runs": "run", "kernels": "kernel", "slices": "slice", "grants": "gate", "gaps": "gap",
                            "loads": "load"}.items():
        assert told[field] == len(spans(trace, category)) > 0, field
    assert told["filled_ns"] == sum(ns(gap["args"]["filled_us"]) for gap in spans(trace, "gap"))


def count_bars(svg):
    """Spans that the bars of each class stand for; those of the legend tell nothing on hover."""
    counts = {}
    for bar in xml.etree.ElementTree.fromstring(svg).iter(SVG + "rect"):
        if bar.find(SVG + "title") is not None:
            kind = bar.get("class").split()[0]
            counts[kind] = counts.get(kind, 0) + int(bar.get("data-spans", "1"))
    return counts


def test_the_picture_shows_the_same(shared, tmp_path):
    _, file, trace, _, _ = shared
    picture = tmp_path / "t.svg"
    ran = run_cli("trace", "--input", file, "--svg", "-o", picture, check=0)
    assert "kernels" in ran.stdout and str(picture) in ran.stdout
    counts = count_bars(picture.read_text())
    for category in ("run", "kernel", "slice", "gap", "load"):
        assert counts[category] == len(spans(trace, category)), category
    text = picture.read_text()
    for name in ("device cpu0", "slow (priority 9)", "quick (priority 0)", "gaps of quick", "gate closed: urgent"):
        assert name in text, name


def test_a_part_of_the_picture(shared, tmp_path):
    _, file, trace, _, _ = shared
    part = run_cli("trace", "--input", file, "--svg", "-o", "-", "--begin", "1s", "--length", "60ms", check=0)
    assert "drawn: a part of 2" in part.stderr
    in_part = [one for one in spans(trace, "kernel") if end_of(one) > 1_000_000_000 and begin_of(one) < 1_060_000_000]
    assert count_bars(part.stdout)["kernel"] == len(in_part) < len(spans(trace, "kernel"))
    assert len(part.stdout) < 400_000
    ran = run_cli("trace", "--input", file, "--svg", "-o", tmp_path / "x.svg", "--begin", "1h")
    assert ran.returncode == 1 and "the trace is 2" in ran.stderr and not (tmp_path / "x.svg").exists()


def test_others_have_no_names(make_server, tmp_path):
    keys = {"alice": "key-of-alice", "bob": "key-of-bob"}
    rows = "".join(f"  - {{name: {name}, key_sha256: {hashlib.sha256(key.encode()).hexdigest()}}}\n"
                   for name, key in keys.items())
    server = make_server(config=CONFIG + "tenants:\n" + rows)
    deploy_grind(server, "sauce", 9, key=keys["alice"])
    deploy_grind(server, "quick", 0, key=keys["bob"])
    busy = [Busy(infers(server, "sauce", LONG, keys["alice"])), Busy(infers(server, "quick", SHORT, keys["bob"]))]
    files = {name: tmp_path / f"{name}.json" for name in keys}
    try:
        for name, key in keys.items():
            server.cli("trace", "--seconds", 1, "-o", files[name], key=key, check=0)
    finally:
        for one in busy:
            one.end()
    of_bob = json.loads(files["bob"].read_text())
    check_chrome(of_bob)
    for secret in ("sauce", "alice"):
        assert secret not in files["bob"].read_text()
    for secret in ("quick", "bob"):
        assert secret not in files["alice"].read_text()
    others = [one for one in spans(of_bob, "run") + spans(of_bob, "kernel") if one["name"] == "another tenant"]
    assert {one["cat"] for one in others} == {"run", "kernel"}
    for one in others:
        assert one["args"].keys() <= {"function", "goes_on", "began_before"}, one
    assert {one["args"]["function"] for one in spans(of_bob, "slice")} <= {"quick"}
    fillers = {filler["name"] for gap in spans(of_bob, "gap") for filler in gap["args"]["filled_by"]}
    assert fillers == {"another tenant"}
    drawn = run_cli("trace", "--input", files["bob"], "--svg", "-o", "-", check=0).stdout
    assert "another tenant" in drawn and "sauce" not in drawn


def test_there_is_one_at_a_time_and_it_can_end_sooner(make_server):
    server = make_server(config=CONFIG)
    assert_error(server.request("DELETE", "/v1/trace"), 404, "not_found", "none of yours is under way")
    # Whichever of the two comes second is told so at once, so that then the other one is under way.
    refused, answers = threading.Event(), []

    def ask():
        answer = server.request("GET", "/v1/trace?seconds=60")
        answers.append(answer)
        if answer.status != 200:
            refused.set()

    both = [threading.Thread(target=ask), threading.Thread(target=ask)]
    for one in both:
        one.start()
    assert refused.wait(CALL_LIMIT / 2)
    assert_error(answers[0], 429, "exhausted", "one at a time", "retry when it has ended")
    ran = server.cli("trace", "-o", "-")
    assert ran.returncode == 1 and "one is under way" in ran.stderr, ran.stderr
    assert server.request("DELETE", "/v1/trace").status == 202
    for one in both:
        one.join(CALL_LIMIT)
    assert answers[1].status == 200
    check_chrome(answers[1].json)
    assert answers[1].json["otherData"]["length_us"] < 60_000_000


@pytest.mark.events
def test_one_ends_with_whoever_asked_for_it(make_server):
    server = make_server(config=CONFIG)
    connection = server.connect()
    connection.request("GET", "/v1/trace?seconds=60")
    server.wait_line(r"trace \S+: begins")
    connection.close()
    server.wait_line(r"trace \S+: is over", CALL_LIMIT / 2)
    assert server.request("GET", "/v1/trace?seconds=1").status == 200


def test_an_interrupt_ends_it_and_it_is_written(make_server, tmp_path):
    server = make_server(config=CONFIG)
    file = tmp_path / "t.json"
    process = subprocess.Popen([str(BINARY), "trace", "--seconds", "60", "-o", str(file), "--server", server.url],
                               env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "60 s; Ctrl-C ends it sooner" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=CALL_LIMIT / 2)
    assert process.returncode == 0, err
    assert str(file) in out
    trace = json.loads(file.read_text())
    check_chrome(trace)
    assert trace["otherData"]["length_us"] < 60_000_000


def test_of_nothing_it_is_a_trace_too(make_server, tmp_path):
    server = make_server(config=CONFIG)
    ran = server.cli("trace", "--seconds", 1, "-o", tmp_path / "t.json", check=0)
    assert "nothing ran meanwhile" in ran.stdout and "quern trace --input" in ran.stdout
    trace = json.loads((tmp_path / "t.json").read_text())
    check_chrome(trace)
    assert {event["ph"] for event in trace["traceEvents"]} == {"M"}
    picture = server.cli("trace", "--seconds", 1, "--svg", "-o", "-", check=0)
    assert count_bars(picture.stdout) == {}
    assert "device cpu0" in picture.stdout and "nothing happened here" in picture.stdout


def test_what_is_wrong_is_said_with_what_to_do(make_server, tmp_path):
    server = make_server(config=CONFIG)
    for seconds in ("0", "61", "-1", "1.5", "five", ""):
        assert server.cli("trace", f"--seconds={seconds}").returncode == 2, seconds
        if seconds:
            assert_error(server.request("GET", f"/v1/trace?seconds={seconds}"), 400, "invalid",
                         "write a whole number from 1 to 60")
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    for arguments, text in (
            (["-o", tmp_path / "none" / "t.json"], "make it first"),
            (["-o", tmp_path], "is a folder; name a file in it"),
            (["-o", "-", "--json"], "name a file with -o"),
            (["--input", bad], "draw it with --svg"),
            (["--input", bad, "--svg"], "is none of quern's"),
            (["--input", tmp_path / "no.json", "--svg"], "no.json"),
            (["--svg", "--length", "60"], "write a number with ns, us, ms"),
            (["--server", "http://127.0.0.1:1"], "start one with 'quern serve'")):
        ran = server.cli("trace", *arguments)
        assert ran.returncode == 1 and text in ran.stderr, (arguments, ran.stderr)
    assert server.cli("trace", "--begin", "1s").returncode == 2  # of the picture only
    assert_error(server.request("POST", "/v1/trace"), 405, "invalid")
