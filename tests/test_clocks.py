"""Times of launches: a server tells how many timestamps of a device could not be true, so that people see that its
clock is off."""
import json
import os
import signal

import numpy as np
import pytest
from conftest import saxpy_inputs, wait_gone

pytestmark = pytest.mark.fake

# The fake device stamps launches of `misdated` with times that cannot be true.
MISDATED = {
    "function.yaml": """\
api: quern/v1
name: misdated
kind: graph
programs: {opencl: misdated.cl}
buffers:
  x: {role: input,  dtype: uint8, shape: [64]}
  y: {role: output, dtype: uint8, shape: [64]}
kernels:
  - {entry: misdated, global: [16], local: [16], args: [{in: x}, {out: y}, {uint32: 64}]}
  - {entry: misdated, global: [16], local: [16], args: [{in: x}, {out: y}, {uint32: 64}]}
""",
    "misdated.cl": "kernel void misdated(global const uchar* input, global uchar* output, uint n) {}\n",
}


def corrected(server):
    [device] = server.request("GET", "/v1/devices").json["devices"]
    assert json.loads(server.cli("devices", "--json", check=0).stdout)["devices"] == [device]
    return device["corrected_timings"]


def test_timings_that_were_corrected_are_counted_by_device(make_server):
    server = make_server(config="devices: [{name: fake0, driver: fake}]\npool: 0\n")
    server.deploy("saxpy")
    assert server.deploy("misdated", MISDATED).status == 201
    assert server.infer("saxpy", saxpy_inputs()).status == 200
    assert corrected(server) == 0
    x = {"x": np.arange(64, dtype=np.uint8)}
    for _ in range(3):
        assert server.infer("misdated", x).status == 200
    assert corrected(server) == 6
    # The count is the server's, and outlives the executor that told it.
    for executor in server.executors():
        os.kill(executor, signal.SIGKILL)
        assert wait_gone(executor)
    assert server.infer("misdated", x).status == 200
    assert corrected(server) == 8
