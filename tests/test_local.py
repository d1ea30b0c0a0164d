"""new, plan, run and check: what one does with a function's folder before there is a server."""
import ctypes
import hashlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess

import numpy as np
import pytest
from conftest import BINARY, BINARY_CACHE, CALL_LIMIT, EXAMPLES, PRESET, STOP_LIMIT, children_of, run_cli, wait_gone

needs_compiler = pytest.mark.skipif(PRESET != "dev", reason="its kernels need a compiler")

# Two slopes of one smooth picture: `across` may lie where `wide` lay.
CHAIN = """\
api: quern/v1
name: chain
kind: graph
programs: {opencl: chain.cl}
dims:
  n: {default: 1024, max: 65536, multiple_of: 64}
params:
  rounds: {dtype: uint32, default: 2, min: 0, max: 100}
buffers:
  x:      {role: input,   dtype: fp32, shape: [n]}
  wide:   {role: scratch, dtype: fp32, shape: [n]}
  smooth: {role: scratch, dtype: fp32, shape: [n]}
  across: {role: scratch, dtype: fp32, shape: [n]}
  down:   {role: scratch, dtype: fp32, shape: [n]}
  y:      {role: output,  dtype: fp32, shape: [n]}
kernels:
  - {entry: one, global: [n], args: [{in: x}, {out: wide}]}
  - {entry: one, global: [n], args: [{in: wide}, {out: smooth}]}
  - {entry: one, global: [n], args: [{in: smooth}, {out: across}]}
  - {entry: one, global: [n], args: [{in: smooth}, {out: down}]}
  - {entry: two, global: [n], args: [{in: across}, {in: down}, {out: y}]}
  - repeat: {times: rounds}
    kernels:
      - {fill: y, value: 0, offset: 0, count: 64}
"""

MISTAKEN = """\
api: quern/v2
name: chain
kind: graph
programs: {opencl: chian.cl}
dims:
  n: {default: 1000}
bufers: {}
buffers:
  x: {role: input, dtype: fp33, shape: [n]}
  y: {role: output, dtype: fp32, shape: [m]}
kernels:
  - {entry: one, global: [round_up(n, 64)], args: [{in: z}, {out: y}]}
settings: {priority: 10}
"""
MISTAKES = ["1:6: error: api", "4:20: error: there is no file", "6:6: error: dim 'n' has no 'max'",
            "7:1: error: the manifest has no key 'bufers'; did you mean 'buffers'?",
            "9:27: error: buffer 'x': there is no dtype 'fp33'; did you mean 'fp32'?",
            "10:42: error: a shape names 'm'", "12:27: error: a global size", "12:39: error: a global size",
            "12:57: error: there is no buffer 'z'", "13:22: error: priority is 10"]


@pytest.fixture
def quern(tmp_path):
    """Runs commands in a folder of the test's own. Whatever they are told, they leave their TMPDIR empty."""
    folder, temporary = tmp_path / "work", tmp_path / "tmp"
    folder.mkdir()
    temporary.mkdir()
    BINARY_CACHE.mkdir(parents=True, exist_ok=True)

    def run(*arguments, check=0):
        cached = ["--binary-cache", BINARY_CACHE] if arguments[0] in ("run", "check") else []
        environment = dict(os.environ, TMPDIR=str(temporary))
        return run_cli(*arguments, *cached, environment=environment, check=check, cwd=folder)

    run.folder, run.temporary = folder, temporary
    yield run
    assert list(temporary.iterdir()) == []


@pytest.fixture
def mill(quern):
    """A new function `mill` (y = 2 x + 1), and its commands."""
    quern("new", "mill")
    quern.mill = quern.folder / "mill"
    return quern


def write_chain(quern, manifest=CHAIN):
    (quern.folder / "chain").mkdir()
    (quern.folder / "chain" / "function.yaml").write_text(manifest)
    (quern.folder / "chain" / "chain.cl").write_text("nothing that compiles\n")


def replace(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


# new

@needs_compiler
@pytest.mark.parametrize("name", ["x", "two-words.v1_0", "3d", "9"])
def test_new_and_check(quern, name):
    assert quern("new", name).stdout == f"{name}: made; now 'quern check {name}'\n"
    folder = quern.folder / name
    assert {path.name for path in folder.iterdir()} == {"function.yaml", f"{name}.cl", "README.md", "expected"}
    assert f"name: {name}\n" in (folder / "function.yaml").read_text() and name in (folder / "README.md").read_text()
    shown = quern("check", name).stdout
    assert re.match(rf"{re.escape(name)}@[0-9a-f]{{12}} builds for ", shown)
    assert "FAILED" not in shown and shown.count("is equal") == 2 and "GFLOP/s" in shown


@pytest.mark.fake
def test_new_takes_a_path(quern):
    quern("new", "deep/down/mill")
    assert "name: mill\n" in (quern.folder / "deep/down/mill/function.yaml").read_text()


@pytest.mark.fake
@pytest.mark.parametrize("name", ["", "Mill", "a b", ".hidden", "..", "ä", "x" * 64, "sub/Mill"])
def test_new_refuses_a_bad_name(quern, name):
    ran = quern("new", name, check=1)
    assert ran.stderr.startswith("error: ") and "is no name for a function" in ran.stderr
    assert list(quern.folder.iterdir()) == []


@pytest.mark.fake
def test_new_leaves_what_is_there_alone(quern):
    (quern.folder / "mill").mkdir()
    (quern.folder / "file").write_text("mine")
    for name in ("mill", "file"):
        assert f"error: {name}: is there already" in quern("new", name, check=1).stderr
    assert list((quern.folder / "mill").iterdir()) == [] and (quern.folder / "file").read_text() == "mine"


# run

@needs_compiler
def test_run_shows_values_and_writes_files(mill):
    shown = mill("run", "mill", "--input", "x=@ones", "--dims", "n=1000", "--param", "scale=3").stdout
    assert "y  fp32 [1000]  [4, 4, 4, 4, 4, 4, 4, 4, ... 1000 in all]\n" in shown and "answered in" in shown
    x = np.random.default_rng(1).random(77, np.float32)
    np.save(mill.folder / "x.npy", x)
    shown = mill("run", "mill", "--input", "x=x.npy", "--output", "y=y.npy").stdout
    assert "y  fp32 [77]  written to y.npy\n" in shown
    np.testing.assert_allclose(np.load(mill.folder / "y.npy"), 2 * x + 1, rtol=1e-6)


@needs_compiler
def test_run_for_programs(mill):
    command = ("run", "mill", "--input", "x=@random", "--dims", "n=5", "--json")
    first, again = (json.loads(mill(*command).stdout) for _ in range(2))
    assert first["function"] == "mill" and len(first["times_ns"]) == 1 and first["outputs"] == again["outputs"]
    assert first["outputs"][0]["shape"] == [5] and len(first["outputs"][0]["data"]) == 5
    other = json.loads(mill(*command, "--seed", "2", "--repeat", "3").stdout)
    assert other["outputs"] != first["outputs"] and len(other["times_ns"]) == 3


@needs_compiler
def test_run_tells_rounds(quern):
    case = EXAMPLES / "jacobi" / "expected" / "odd"
    inputs = [text for name in ("a", "b") for text in ("--input", f"{name}={case}/input/{name}.npy")]
    shown = quern("run", EXAMPLES / "jacobi", *inputs, "--output", "x=x.npy").stdout
    rounds = int(re.search(r'^\{"rounds": (\d+)\}$', shown, re.M)[1])
    assert rounds > 0 and rounds % 10 == 0
    np.testing.assert_allclose(np.load(quern.folder / "x.npy"), np.load(case / "output" / "x.npy"), atol=1e-4)
    parsed = json.loads(quern("run", EXAMPLES / "jacobi", *inputs, "--json").stdout)
    assert parsed["parameters"] == {"rounds": rounds}


@needs_compiler
@pytest.mark.parametrize("arguments, text", [
    ((), "input 'x' is missing"),
    (("--input", "x=@ones", "--dims", "n=0"), "dim 'n' is 0; send 1 to 67108864"),
    (("--input", "x=@ones", "--param", "scale=much"), "param 'scale' is the text 'much'"),
    (("--input", "x"), "write NAME=VALUE"),
    (("--input", "x=mill/expected/odd/input/x.npy", "--dims", "n=3"), "shape [67]"),
    (("--input", "x=@ones", "--output", "z=z.npy"), "has no output 'z'"),
    (("--input", "x=@ones", "--output", "y=none/y.npy"), "none/y.npy"),
])
def test_run_mistakes(mill, arguments, text):
    ran = mill("run", "mill", *arguments, check=1)
    assert ran.stderr.startswith("error: ") and text in ran.stderr and ran.stdout == ""


@needs_compiler
def test_a_program_that_does_not_build(mill):
    replace(mill.mill / "mill.cl", "if (i < n)", "if (i < nn)")
    for command in (("run", "mill", "--input", "x=@ones"), ("check", "mill")):
        ran = mill(*command, check=1)
        assert "does not build" in ran.stderr and "mill.cl:4" in ran.stderr and "'nn'" in ran.stderr


# plan

@pytest.mark.fake
def test_plan_shows_levels_and_memory(quern):
    write_chain(quern)
    shown = quern("plan", "chain").stdout
    assert shown.startswith("chain n=1024\n")
    steps = [line.split() for line in shown.split("\n\n")[1].splitlines()]
    assert steps[0] == ["STEP", "LEVEL", "KERNEL", "GLOBAL", "LOCAL", "READS", "WRITES"]
    assert [step[1] for step in steps[1:6]] == ["1", "2", "3", "3", "4"]
    assert steps[5][2:] == ["two", "1024", "any", "across", "down", "y"] and steps[6][1:] == ["repeat", "2"]
    assert steps[7][2:] == ["(fill)", "y"]
    buffers = {line.split()[0]: line.split() for line in shown.split("\n\n")[2].splitlines()}
    assert buffers["wide"][-1] == buffers["across"][-1] == "0+0" and buffers["smooth"][-2:] == ["1-3", "0+4096"]
    assert "(the most is 12KiB)" in shown and "█" in shown
    assert "scratch is 12KiB in 1 arena" in shown and "(16KiB if nothing were shared)" in shown


@pytest.mark.fake
def test_plan_for_programs(quern):
    write_chain(quern)
    plan = json.loads(quern("plan", "chain", "--json", "--dims", "n=65536", "--param", "rounds=0").stdout)
    assert plan["function"] == "chain" and plan["dims"] == {"n": 65536}
    assert [step["level"] for step in plan["steps"]] == [1, 2, 3, 3, 4]
    assert plan["steps"][4]["reads"] == ["across", "down"] and plan["steps"][4]["writes"] == ["y"]
    scratch = sum(buffer["size_bytes"] for buffer in plan["buffers"] if buffer["role"] == "scratch")
    assert plan["peak_bytes"] <= sum(plan["arenas"]) < scratch
    assert max(step["live_bytes"] for step in plan["steps"]) == plan["peak_bytes"]


@pytest.mark.fake
@pytest.mark.parametrize("arguments, text", [
    (("--dims", "n=0"), "0"),
    (("--dims", "n=-64"), "-64"),
    (("--dims", "n=100"), "dim 'n' is 100; send a multiple of 64"),
    (("--dims", "n=131072"), "dim 'n' is 131072; send"),
    (("--dims", "n=many"), "--dims n=many: a dim is a whole number"),
    (("--dims", "n=64.5"), "--dims n=64.5: a dim is a whole number"),
    (("--dims", "n"), "--dims n: write NAME=VALUE"),
    (("--dims", "m=64"), "there is no parameter 'm'"),
    (("--param", "rounds=101"), "param 'rounds' is 101; send 0 to 100"),
    (("--param", "round=1"), "did you mean 'rounds'?"),
    (("--param", "rounds=1", "--param", "rounds=2"), "--param rounds=2: 'rounds' is given twice; give it once"),
    (("--param", "n=64", "--dims", "n=128"), "--dims n=128: 'n' is given twice; give it once"),
])
def test_plan_mistakes(quern, arguments, text):
    write_chain(quern)
    ran = quern("plan", "chain", *arguments, check=1)
    assert ran.stderr.startswith("error: ") and text in ran.stderr and ran.stdout == ""


# check

@needs_compiler
def test_check_for_programs(mill):
    checked = json.loads(mill("check", "mill", "--json").stdout)
    assert checked["function"] == "mill" and checked["ok"] is True and re.fullmatch("[0-9a-f]{64}", checked["version"])
    assert [one["name"] for one in checked["checks"]] == ["default", "expected/odd", "expected/smallest"]
    assert all(one["ok"] for one in checked["checks"])
    assert [(one["entry"], one["launches"], one["bytes"]) for one in checked["kernels"]] == [("mill_kernel", 1, 8000)]


@needs_compiler
def test_check_names_the_element_that_differs(mill):
    path = mill.mill / "expected" / "odd" / "output" / "y.npy"
    wanted = np.load(path)
    wanted[5:] = 99
    np.save(path, wanted)
    ran = mill("check", "mill", check=1)
    assert re.search(r"^expected/odd .* FAILED: y: element 5 is 2\.25, wanted 99$", ran.stdout, re.M)
    assert re.search(r"^expected/smallest .* is equal$", ran.stdout, re.M)
    assert ran.stderr == "error: mill: a check failed\n"
    checked = json.loads(mill("check", "mill", "--json", check=1).stdout)
    assert checked["ok"] is False
    assert {one["name"]: one["ok"] for one in checked["checks"]} == {
        "default": True, "expected/odd": False, "expected/smallest": True}


@needs_compiler
def test_check_finds_garbage(mill):
    # Right for whole groups only: what the case `odd` is for.
    replace(mill.mill / "mill.cl", "y[i] = scale * x[i] + shift", "y[i] = i < 64 ? scale * x[i] + shift : -1")
    ran = mill("check", "mill", check=1)
    assert "FAILED: y: element 64 is -1, wanted 17" in ran.stdout


@needs_compiler
def test_check_names_a_kernel_that_faults(mill):
    replace(mill.mill / "mill.cl", "y[i] = ", "y[i + (1l << 33)] = ")
    ran = mill("check", "mill", check=1)
    assert ran.stdout.count("kernel 'mill_kernel' touched memory that is not its own") == 3


@needs_compiler
def test_check_within_a_tolerance(mill):
    case = mill.mill / "expected" / "odd"
    np.save(case / "output" / "y.npy", np.load(case / "output" / "y.npy") + np.float32(0.01))
    mill("check", "mill", check=1)
    (case / "case.yaml").write_text("atol: 0.02\n")
    assert "is equal within 0.01" in mill("check", "mill").stdout


@needs_compiler
def test_check_without_cases_says_so(mill):
    shutil.rmtree(mill.mill / "expected")
    shown = mill("check", "mill").stdout
    assert re.findall(r"^(\w+) +n=(\d+) .* runs$", shown, re.M) == [
        ("smallest", "1"), ("default", "1000"), ("odd", "751")]
    assert "nothing is compared" in shown


@needs_compiler
def test_check_tells_which_case_is_wrong(mill):
    case = mill.mill / "expected" / "odd"
    (case / "case.yaml").write_text("params: {scale: 2}\nrtoll: 1\n")
    assert "mill/expected/odd/case.yaml:2: 'rtoll' is no key" in mill("check", "mill", check=1).stderr
    (case / "case.yaml").write_text("params: {scal: 2}\n")
    assert re.search("expected/odd .*did you mean 'scale'?", mill("check", "mill", check=1).stdout)
    (case / "case.yaml").unlink()
    (case / "output" / "y.npy").unlink()
    assert "mill/expected/odd: has no output/*.npy" in mill("check", "mill", check=1).stderr
    np.save(case / "output" / "z.npy", np.zeros(67, np.float32))
    ran = mill("check", "mill", "--json", check=1)
    assert "expected/odd/output/z.npy: the function has no such output" in ran.stderr
    assert json.loads(ran.stdout)["error"]["message"] in ran.stderr


@pytest.mark.fake
def test_check_tells_programs_about_mistakes(quern):
    write_chain(quern, MISTAKEN)
    ran = quern("check", "chain", "--json", check=1)
    told = json.loads(ran.stdout)
    assert told["ok"] is False and len(told["mistakes"]) > 1
    assert all(one["file"] == "function.yaml" and one["line"] > 0 and one["text"] for one in told["mistakes"])


# All of them

@pytest.mark.fake
@pytest.mark.parametrize("command", ["plan", "run", "check"])
def test_all_mistakes_are_told(quern, command):
    write_chain(quern, MISTAKEN)
    ran = quern(command, "chain", check=1)
    lines = ran.stderr.splitlines()
    assert lines[-1] == "error: function chain: its manifest has mistakes; they are listed above" and ran.stdout == ""
    for mistake in MISTAKES:
        assert any(line.startswith("function.yaml:" + mistake) for line in lines), (mistake, ran.stderr)
    places = [tuple(map(int, line.split(":")[1:3])) for line in lines[:-1]]
    assert places == sorted(places)


@pytest.mark.fake
@pytest.mark.parametrize("command", ["plan", "run", "check"])
def test_what_is_no_function(quern, command):
    assert "none: is no folder" in quern(command, "none", check=1).stderr
    (quern.folder / "empty").mkdir()
    assert "empty: has no function.yaml" in quern(command, "empty", check=1).stderr
    assert quern(command, check=2).stderr.startswith("error: ")


def shared_memory():
    return {name for name in os.listdir("/dev/shm") if name.startswith("quern")}


@needs_compiler
@pytest.mark.parametrize("command, code", [(("run", "mill", "--input", "x=@ones"), 0), (("check", "mill"), 1)])
def test_nothing_is_left_behind(mill, command, code):
    replace(mill.mill / "expected" / "odd" / "case.yaml", "scale: 2", "scale: 3")  # also if it fails
    # Others of this machine come and go; what is left behind is left each time.
    for _ in range(3):
        before = shared_memory()
        mill(*command, check=code)
        assert list(mill.temporary.iterdir()) == []
        if not (left := shared_memory() - before):
            return
    assert not left


class FolderWatch:
    """Waits until something was made in a folder since it was last asked."""

    def __init__(self, folder):
        libc = ctypes.CDLL(None)
        self.fd = libc.inotify_init1(os.O_CLOEXEC)
        in_create, in_moved_to = 0x100, 0x80
        assert self.fd >= 0 and libc.inotify_add_watch(self.fd, os.fsencode(folder), in_create | in_moved_to) >= 0

    def wait(self):
        assert select.select([self.fd], [], [], CALL_LIMIT)[0], "nothing was made"
        os.read(self.fd, 4096)


@needs_compiler
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_nothing(tmp_path, sent):
    made, run_made = FolderWatch(tmp_path), FolderWatch("/dev/shm")
    command = [str(BINARY), "run", str(EXAMPLES / "spin"), "--input", "input=@ones", "--param", "iterations=4000000000",
               "--binary-cache", str(BINARY_CACHE)]
    # A shell starts what it runs in the background with SIGINT ignored, and that is inherited.
    process = subprocess.Popen(command, env=dict(os.environ, TMPDIR=str(tmp_path)), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(sent, signal.SIG_DFL))
    made.wait()
    state = next(tmp_path.iterdir())
    # Where executors keep their code: daemon.cc, run_folder_for.
    run = pathlib.Path("/dev/shm", f"quern-{os.getuid()}-{hashlib.sha256(os.fsencode(state)).hexdigest()[:12]}")
    try:
        while not run.exists():
            run_made.wait()
        below = children_of(process.pid)
        process.send_signal(sent)
        process.wait(STOP_LIMIT)
        assert all(wait_gone(pid) for pid in below)
        assert not state.exists() and not run.exists()
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(state, ignore_errors=True)
        shutil.rmtree(run, ignore_errors=True)
