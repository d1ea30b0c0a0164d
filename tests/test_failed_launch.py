"""A launch that the device gives up on, as GPUs do, ends its executor and costs one call: the call that launched it."""
import numpy as np
import pytest
from conftest import EXAMPLES, assert_error, folder_files
from test_faults import KEYS, two_tenants
from test_hangs import ONES, Loops, row_of

pytestmark = pytest.mark.fake

CONFIG = "devices: [{name: fake0, driver: fake}]\n"
QUARANTINED_AFTER = 20

# `spin` takes its time before the launch that fails, so that calls of others are in flight by then.
BREAKS = {
    "function.yaml": b"""
api: quern/v1
name: breaks
kind: graph
programs: {opencl: breaks.cl}
buffers:
  x: {role: input, dtype: fp32, shape: [64]}
  y: {role: output, dtype: fp32, shape: [64]}
  z: {role: output, dtype: fp32, shape: [64]}
kernels:
  - {entry: spin, global: [64], local: [64], args: [{in: x}, {out: y}, {uint32: 64}, {uint32: 64}, {uint32: 20000}]}
  - {entry: fail, global: [64], local: [64], args: [{out: z}]}
  - {entry: spin, global: [64], local: [64], args: [{in: x}, {out: y}, {uint32: 64}, {uint32: 64}, {uint32: 20000}]}
""",
    "breaks.cl": b"""
kernel void spin(global const float* input, global float* output, uint n, uint items, uint iterations) {}
kernel void fail(global float* output) {}
""",
}
X = {"x": np.ones(64, np.float32)}
SPIN = {"groups": 64, "iterations": 200}


@pytest.fixture
def server(make_server):
    server = make_server(config=CONFIG + two_tenants())
    assert server.deploy("spin", folder_files(EXAMPLES / "spin"), key=KEYS["good"]).status == 201
    return server


BROKEN = r"function breaks: kernel fail: .*; the executor ended"


@pytest.mark.parametrize("culprit", ["good", "bad"], ids=["one tenant", "two tenants"])
def test_a_failed_launch_fails_only_its_own_call(server, culprit):
    key = KEYS[culprit]
    assert server.deploy("breaks", BREAKS, key=key).status == 201
    with Loops(server, 2, KEYS["good"], SPIN):
        for _ in range(3):
            answer = server.infer("breaks", X, key=key)
            assert_error(answer, 422, "faulted", "function breaks", "kernel fail", "failed on the device")
    server.wait_lines(BROKEN, 3)
    assert row_of(server, "breaks", key)["failed"] == 3
    assert row_of(server, "spin", KEYS["good"])["failed"] == 0
    # The server serves on, with another executor.
    assert server.infer("spin", ONES, SPIN, key=KEYS["good"]).status == 200


def test_a_function_whose_launches_keep_failing_is_quarantined(server):
    assert server.deploy("breaks", BREAKS, key=KEYS["bad"]).status == 201
    for _ in range(QUARANTINED_AFTER):
        assert server.infer("breaks", X, key=KEYS["bad"]).status == 422
    answer = server.infer("breaks", X, key=KEYS["bad"])
    assert_error(answer, 503, "unavailable", "function breaks", "quarantined", f"{QUARANTINED_AFTER} times in a row")
    assert server.infer("spin", ONES, SPIN, key=KEYS["good"]).status == 200
