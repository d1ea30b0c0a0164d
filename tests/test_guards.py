"""quern check looks around buffers: writes outside of them, elements that nobody wrote, memory read too early."""
import json
import shutil

import numpy as np
import pytest
from conftest import BINARY_CACHE, EXAMPLES, PRESET, run_cli

pytestmark = pytest.mark.skipif(PRESET != "dev", reason="its kernels need a compiler")

# y = 2 x, by way of scratch: 64 elements in all, one for each item.
TWICE = """\
api: quern/v1
name: twice
kind: graph
programs: {opencl: twice.cl}
dims: {n: {default: 64, min: 64, max: 1024, multiple_of: 64}}
params: {shift: {dtype: int32, default: 0}}
buffers:
  x: {role: input, dtype: fp32, shape: [n]}
  half: {role: scratch, dtype: fp32, shape: [n]}
  rest: {role: scratch, dtype: fp32, shape: [n]}
  y: {role: output, dtype: fp32, shape: [n]}
kernels:
  - {entry: first, global: [n], local: [64], args: [{in: x}, {out: half}, {out: rest}, {int32: shift}]}
  - {entry: second, global: [n], local: [64], args: [{in: half}, {in: rest}, {out: y}, {int32: shift}]}
"""
TWICE_CL = """\
__kernel void first(__global const float* x, __global float* half_, __global float* rest, int shift) {
  int i = get_global_id(0);
  FIRST
}
__kernel void second(__global const float* half_, __global const float* rest, __global float* y, int shift) {
  int i = get_global_id(0);
  SECOND
}
"""
FIRST, SECOND = "half_[i] = x[i]; rest[i] = 0;", "y[i] = 2 * half_[i] + rest[i];"


@pytest.fixture
def check(tmp_path):
    """Checks TWICE with other kernels; the results by name."""
    BINARY_CACHE.mkdir(parents=True, exist_ok=True)
    folder = tmp_path / "twice"
    folder.mkdir()

    def run(first=FIRST, second=SECOND, manifest=TWICE, ok=False):
        (folder / "function.yaml").write_text(manifest)
        (folder / "twice.cl").write_text(TWICE_CL.replace("FIRST", first).replace("SECOND", second))
        ran = run_cli("check", folder, "--json", "--binary-cache", BINARY_CACHE, check=0 if ok else 1)
        checked = json.loads(ran.stdout)
        assert checked["ok"] is ok
        return {one["name"]: one["result"] for one in checked["checks"]}

    run.folder = folder
    return run


def test_a_function_that_stays_within_its_buffers(check):
    assert set(check(ok=True).values()) == {"runs"}


@pytest.mark.parametrize("buffer, kernel, change", [
    ("y", "second", {"second": SECOND + "if (i < 61) y[get_global_size(0) + i] = 5;"}),
    ("half", "first", {"first": FIRST + "if (i < 61) half_[get_global_size(0) + i] = 5;"}),
    ("rest", "first", {"first": FIRST + "if (i < 61) rest[get_global_size(0) + i] = 5;"}),
    ("x", "first", {"first": FIRST + "if (i < 61) ((__global float*)((ulong)x + 4 * get_global_size(0)))[i] = 5;"}),
])
def test_a_write_behind_a_buffer(check, buffer, kernel, change):
    assert check(**change)["default"] == (
        f"kernel '{kernel}' writes outside of buffer '{buffer}', behind its 64 elements: "
        "elements 64 to 124 (bytes 256 to 499); check its indices")


def test_a_write_before_a_buffer(check):
    assert check(second=SECOND + "if (i < 3) y[-1 - i] = 5;")["default"] == (
        "kernel 'second' writes outside of buffer 'y', before its 64 elements: "
        "elements -3 to -1 (bytes -12 to -1); check its indices")


def test_a_write_behind_a_buffer_at_one_size_only(check):
    told = check(second=SECOND + "if (get_global_size(0) == 64 && i == 0) y[64] = 1;",
                 manifest=TWICE.replace("default: 64", "default: 128"))
    assert told["default"] == "runs" and "'y', behind its 64 elements: element 64 (byte 256);" in told["smallest"]


@pytest.mark.parametrize("value", ["as_float(0xffffffff)", "as_float(0x42424242)"])
def test_a_write_of_what_a_guard_has_is_found_in_the_other_run(check, value):
    assert "outside of buffer 'y'" in check(second=SECOND + f"if (i == 0) y[get_global_size(0)] = {value};")["default"]


def test_elements_of_an_output_that_are_never_written(check):
    second = "if (i < 50) " + SECOND
    assert check(second=second)["default"] == (
        "output 'y': 14 of 64 elements are never written, or only with what nobody wrote; "
        "the first is element 50 (byte 200); write all, or state zero: true")
    zeroed = TWICE.replace("{role: output, ", "{role: output, zero: true, ").replace("{out: y}", "{inout: y}")
    assert check(second=second, manifest=zeroed, ok=True)["default"] == "runs"


def test_elements_of_scratch_that_are_read_before_they_are_written(check):
    told = check(first="if (i < 50) {" + FIRST + "}")["default"]
    assert told.startswith("y: element 50 is ") and "a kernel reads scratch before it is written" in told


def test_a_read_outside_of_a_buffer(check):
    told = check(second="y[i] = 2 * half_[i] + rest[i + 1];")["default"]
    assert told.startswith("y: element 63 is ") and "or outside of a buffer" in told


def test_what_is_never_the_same_is_not_compared(check):
    """Where its memory lies, for example, is another in each process, whatever the memory has."""
    second = SECOND + "y[i] = (float)(((ulong)half_ >> 20) & 0xffffff);"
    assert set(check(second=second, ok=True).values()) == {"runs"}


def test_every_case_is_looked_at_with_fresh_memory(check):
    """Two cases of one size: what the first leaves behind must not look as if the second had written it."""
    second = "if (i < shift) " + SECOND
    x = np.arange(64, dtype=np.float32)
    for name, shift in (("a", 64), ("b", 60)):
        case = check.folder / "expected" / name
        for part in ("input", "output"):
            (case / part).mkdir(parents=True)
        np.save(case / "input" / "x.npy", x)
        np.save(case / "output" / "y.npy", 2 * x)
        (case / "case.yaml").write_text(f"params: {{shift: {shift}}}\n")
    told = check(second=second)
    assert told["expected/a"] == "is equal"
    assert "output 'y': 4 of 64 elements are never written" in told["expected/b"]
    assert "the first is element 60" in told["expected/b"]


# Guarded runs are slower and need more memory; a function that is right passes all the same.

# Thousands of launches with 32 buffers each take a fraction of a second alone, and more than five with guards: those of
# each buffer are examined behind each launch.
LONG = """\
api: quern/v1
name: long
kind: graph
programs: {opencl: long.cl}
dims: {rounds: {default: 4500, min: 1, max: 4500}}
buffers:
  y: {role: output, dtype: fp32, shape: [64], zero: true}
SCRATCH
kernels:
  - repeat: {times: rounds}
    kernels:
      - {entry: up, global: [64], local: [64], args: [{inout: y}, ARGS]}
settings: {limits: {timeout: 5s}}
"""


@pytest.mark.long
def test_guarded_runs_may_take_longer_than_the_limits_of_the_function(tmp_path):
    BINARY_CACHE.mkdir(parents=True, exist_ok=True)
    names = [f"s{i}" for i in range(31)]
    scratch = "\n".join(f"  {name}: {{role: scratch, dtype: fp32, shape: [64]}}" for name in names)
    text = LONG.replace("SCRATCH", scratch).replace("ARGS", ", ".join(f"{{out: {name}}}" for name in names))
    (tmp_path / "function.yaml").write_text(text)
    (tmp_path / "long.cl").write_text(
        "__kernel void up(__global float* y, " + ", ".join(f"__global float* {name}" for name in names) + ") {\n"
        "  int i = get_global_id(0);\n  y[i] += 1;\n" + "".join(f"  {name}[i] = 1;\n" for name in names) + "}\n")
    case = tmp_path / "expected" / "odd"  # instead of thousands of rounds more
    (case / "output").mkdir(parents=True)
    np.save(case / "output" / "y.npy", np.ones(64, np.float32))
    (case / "case.yaml").write_text("dims: {rounds: 1}\n")
    ran = run_cli("check", tmp_path, "--json", "--binary-cache", BINARY_CACHE, check=0)
    told = {one["name"]: one["result"] for one in json.loads(ran.stdout)["checks"]}
    assert told == {"smallest": "runs", "default": "runs", "expected/odd": "is equal"}


LARGE = """\
api: quern/v1
name: large
kind: graph
programs: {opencl: large.cl}
dims: {n: {default: 64, min: 64, max: 1024, multiple_of: 64}}
buffers:
  x: {role: input, dtype: fp32, shape: [1]}
  y: {role: output, dtype: fp32, shape: [n]}
kernels:
  - {entry: spread, global: [n], local: [64], args: [{in: x}, {out: y}]}
"""


def test_a_guarded_run_that_does_not_fit_the_device_is_told_and_is_no_failure(check, tmp_path):
    """The buffer leaves no room for guards in the largest piece of memory that the device gives at once."""
    elements = (16 << 20) - 1024
    (check.folder / "function.yaml").write_text(
        LARGE.replace("64, min: 64, max: 1024", f"{elements}, min: {elements}, max: {elements}"))
    (check.folder / "large.cl").write_text(
        "__kernel void spread(__global const float* x, __global float* y) { y[get_global_id(0)] = x[0]; }\n")
    (tmp_path / "quern.yaml").write_text("devices: [{name: cpu0, memory: 64MiB}]\n")
    ran = run_cli("check", check.folder, "--json", "--binary-cache", BINARY_CACHE, "--config", tmp_path / "quern.yaml",
                  check=0)
    for one in json.loads(ran.stdout)["checks"]:
        assert one["result"].startswith("runs; guard bands were not looked at: "), one


def test_people_see_it_too(check):
    check(second=SECOND + "if (i < 61) y[get_global_size(0) + i] = 5;")
    ran = run_cli("check", check.folder, "--binary-cache", BINARY_CACHE, check=1)
    assert "FAILED: kernel 'second' writes outside of buffer 'y'" in ran.stdout and "a check failed" in ran.stderr


def test_constants_have_guards(check, tmp_path):
    affine = tmp_path / "affine"
    shutil.copytree(EXAMPLES.parent / "tests" / "functions" / "affine", affine)
    source = affine / "affine.cl"
    text = source.read_text()
    at = text.index("{", text.index("void add(")) + 1
    name = text[text.index("void add("):at].split(",")[0].split("*")[1].strip()
    # By way of a number, so that no compiler can tell that an argument named `in` is written to.
    write = f"if (get_global_id(0) == 0) *(__global float*)((ulong){name} + 4 * get_global_size(0)) = 1;"
    source.write_text(text[:at] + "\n  " + write + text[at:])
    ran = run_cli("check", affine, "--binary-cache", BINARY_CACHE, check=1)
    assert "kernel 'add' writes outside of buffer 'b', behind its 64 elements" in ran.stdout, ran.stdout
