"""Slices: a kernel in parts, told apart by their offsets, does what the whole does, or says why it cannot be cut."""
import json
import os
import re

import numpy as np
import pytest
from conftest import BINARY_CACHE, EXAMPLES, PRESET, run_cli

needs_compiler = pytest.mark.skipif(PRESET != "dev", reason="its kernels need a compiler")

NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/function.yaml"))
ROUNDS = 3  # of each check
FAKE = "devices: [{name: fake0, driver: fake}]\n"

# Each kernel writes a row of its own.
RANGE = """\
api: quern/v1
name: range
kind: graph
programs: {opencl: range.cl}
dims:
  n: {default: 640, min: 64, max: 65536, multiple_of: 64}
buffers:
  x:      {role: input,  dtype: int32, shape: [n]}
  group:  {role: output, dtype: int32, shape: [n]}
  size:   {role: output, dtype: int32, shape: [n]}
  groups: {role: output, dtype: int32, shape: [n]}
  plain:  {role: output, dtype: int32, shape: [n]}
kernels:
  - {entry: by_group,  global: [n], local: [64], args: [{in: x}, {out: group}]}
  - {entry: by_size,   global: [n], local: [64], args: [{in: x}, {out: size}]}
  - {entry: by_groups, global: [n], local: [64], args: [{in: x}, {out: groups}]}
  - {entry: plainly,   global: [n],              args: [{in: x}, {out: plain}]}
"""
RANGE_CL = """\
kernel void by_group(global const int* x, global int* out) {
  const size_t i = get_global_id(0);
  out[i] = x[i] + 1000 * (int)get_group_id(0);
}
int width(void) { return get_global_size(0); }
kernel void by_size(global const int* x, global int* out) {
  const size_t i = get_global_id(0);
  out[i] = x[i] + width();
}
kernel void by_groups(global const int* x, global int* out) {
  const size_t i = get_global_id(0);
  out[i] = x[i] + get_num_groups(0);
}
kernel void plainly(global const int* x, global int* out) {
  const size_t i = get_global_id(0);
  out[i] = x[i];
}
"""
REASONS = {"by_group": "", "by_size": "uses get_global_size", "by_groups": "uses get_num_groups",
           "plainly": "names no local size"}

# Its groups number themselves as they come: a result that no launch promises.
ORDER = """\
api: quern/v1
name: order
kind: graph
programs: {opencl: order.cl}
dims: {w: 16, h: 8}
buffers:
  x:    {role: input,  dtype: int32, shape: [1]}
  next: {role: output, dtype: int32, shape: [1], zero: true}
  came: {role: output, dtype: int32, shape: [w * h]}
kernels:
  - {entry: come, global: [w, h], local: [1, 1], args: [{in: x}, {inout: next}, {out: came}]}
"""
ORDER_CL = """\
kernel void come(global const int* x, global int* next, global int* came) {
  came[atomic_inc(next)] = x[0] * 0 + get_global_id(0) + 100 * get_global_id(1);
}
"""


def write_function(folder, manifest, program):
    name = re.search(r"^name: (\w+)$", manifest, re.M)[1]
    (folder / name).mkdir()
    (folder / name / "function.yaml").write_text(manifest)
    (folder / name / f"{name}.cl").write_text(program)
    return folder / name


def check_slices(folder, *arguments, check=0):
    BINARY_CACHE.mkdir(parents=True, exist_ok=True)
    ran = run_cli("check", folder, "--slices", "--binary-cache", BINARY_CACHE, *arguments)
    assert ran.returncode == check, ran.stdout + ran.stderr
    return ran


@pytest.mark.drivers
@needs_compiler
@pytest.mark.parametrize("name", NAMES)
def test_every_example_is_the_same_in_slices(name):
    ran = check_slices(EXAMPLES / name, "--json")
    assert ran.stderr == ""
    checked = json.loads(ran.stdout)
    assert checked["ok"] is True
    assert {one["reason"] for one in checked["slices"]} == {""}, "an example can be sliced"
    assert all("not compared" not in one["result"] for one in checked["checks"]), checked["checks"]
    if name in ("copy", "spin"):
        return  # one group, unless a call asks for more
    [default] = [one for one in checked["checks"] if one["name"] in ("default", "expected/default")]
    assert default["slicings"] == ROUNDS and default["result"].endswith(", also in slices"), default
    assert any(one["sliced"] > 0 for one in checked["slices"])
    assert all(one["sliced"] <= one["launches"] for one in checked["slices"])


@needs_compiler
def test_check_tells_what_can_be_sliced(tmp_path):
    folder = write_function(tmp_path, RANGE, RANGE_CL)
    x = np.arange(640, dtype=np.int32)
    outputs = {"group": x + 1000 * (x // 64), "size": x + 640, "groups": x + 10, "plain": x}
    for kind, arrays in (("input", {"x": x}), ("output", outputs)):
        (folder / "expected" / "default" / kind).mkdir(parents=True)
        for name, array in arrays.items():
            np.save(folder / "expected" / "default" / kind / f"{name}.npy", array.astype(np.int32))
    checked = json.loads(check_slices(folder, "--json").stdout)
    [default] = [one for one in checked["checks"] if one["name"] == "expected/default"]
    assert default["result"] == "is equal, also in slices" and default["slicings"] == ROUNDS
    [smallest] = [one for one in checked["checks"] if one["name"] == "smallest"]
    assert smallest["result"] == "runs" and smallest["slicings"] == 0, "it has one group"
    assert {one["entry"]: one["reason"] for one in checked["slices"]} == REASONS
    # Three sizes, of which two have more than one group.
    assert {one["entry"]: (one["launches"], one["sliced"]) for one in checked["slices"]} == {
        "by_group": (9, 6), "by_size": (9, 0), "by_groups": (9, 0), "plainly": (9, 0)}

    shown = check_slices(folder).stdout
    assert "in random slices, 3 times each (seed 1):\n" in shown
    assert re.search(r"^by_group +9 +6$", shown, re.M)
    assert re.search(r"^by_size +9 +0 +uses get_global_size$", shown, re.M)
    plain = run_cli("check", folder, "--json", "--binary-cache", BINARY_CACHE, check=0)
    assert "slices" not in json.loads(plain.stdout) and "slicings" not in plain.stdout


@needs_compiler
def test_check_finds_a_kernel_that_is_not_the_same(tmp_path):
    folder = write_function(tmp_path, ORDER, ORDER_CL)
    # With one worker its groups come in one order, and in slices in another.
    core = min(os.sched_getaffinity(0))
    (tmp_path / "quern.yaml").write_text(f"devices: [{{name: cpu0, driver: opencl, cores: [{core}]}}]\n")
    ran = check_slices(folder, "--config", tmp_path / "quern.yaml", check=1)
    found = re.search(r"FAILED: runs; in slices came: element \d+ is \d+, before it was \d+$", ran.stdout, re.M)
    assert found, ran.stdout
    assert "a check failed" in ran.stderr
    run_cli("check", folder, "--config", tmp_path / "quern.yaml", "--binary-cache", BINARY_CACHE, check=0)


@pytest.mark.fake
def test_slices_over_the_fake_device(tmp_path):
    (tmp_path / "quern.yaml").write_text(FAKE)
    checked = json.loads(check_slices(EXAMPLES / "saxpy", "--config", tmp_path / "quern.yaml", "--json").stdout)
    assert checked["ok"] is True
    [saxpy] = checked["slices"]
    assert saxpy["entry"] == "saxpy" and saxpy["reason"] == "" and 0 < saxpy["sliced"] <= saxpy["launches"]


@pytest.mark.fake
def test_functions_tell_their_kernels(server):
    assert "no functions yet" in server.cli("functions", "--kernels", check=0).stdout
    for name in ("saxpy", "sgemm"):
        assert server.deploy(name).status == 201
    rows = [re.split(" {2,}", line) for line in server.cli("functions", "--kernels", check=0).stdout.splitlines()]
    assert rows[0] == ["FUNCTION", "KERNEL", "GLOBAL", "LOCAL", "SLICED"]
    assert rows[1] == ["saxpy", "saxpy", "round_up(n, 256)", "256", "yes"]
    assert rows[2][:4] == ["sgemm", "sgemm", "ceil_div(m, 192) x ceil_div(n, 16)", "1 x 1"]
    listed = json.loads(server.cli("functions", "--kernels", "--json", check=0).stdout)["functions"]
    assert [one["name"] for one in listed] == ["saxpy", "sgemm"]
    assert listed[0]["kernels"] == [
        {"entry": "saxpy", "global": ["round_up(n, 256)"], "local": ["256"], "sliceable": True}]
    assert server.request("GET", "/v1/functions/saxpy").json == listed[0]


@needs_compiler
def test_functions_tell_why_a_kernel_is_not_sliced(server, tmp_path):
    server.cli("deploy", write_function(tmp_path, RANGE, RANGE_CL), check=0)
    for _ in range(2):
        shown = server.cli("functions", "--kernels", check=0).stdout
        rows = [re.split(" {2,}", line) for line in shown.splitlines()]
        assert rows[1] == ["range", "by_group", "n", "64", "yes"]
        assert rows[2] == ["range", "by_size", "n", "64", "no: uses get_global_size"]
        assert rows[4] == ["range", "plainly", "n", "any", "no: names no local size"]
        kernels = server.request("GET", "/v1/functions/range").json["kernels"]
        assert {one["entry"]: one.get("reason", "") for one in kernels} == REASONS
        assert all(one["sliceable"] == ("reason" not in one) for one in kernels)
        # What the compiler saw is stored with the binary.
        server.stop()
        server.start()
