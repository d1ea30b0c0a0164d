"""Memory that passes to another domain is zeroed first. The fake device hands out memory that someone else wrote to,
which PoCL never does: so what is not zeroed is seen here."""
import numpy as np
import pytest
from conftest import tar_of

pytestmark = pytest.mark.fake

MANIFEST = """
api: quern/v1
name: look
kind: graph
programs: {opencl: it.cl}
dims: {n: 65536}
buffers:
  x: {role: input, dtype: uint8, shape: [1]}
  scratch: {role: scratch, dtype: uint8, shape: [n]}
  unwritten: {role: output, dtype: uint8, shape: [n]}
  z: {role: output, dtype: uint8, shape: [n]}
kernels:
  - {entry: copy, global: [64], local: [64], args: [{inout: scratch}, {out: z}, {uint32: n}]}
  - {entry: copy, global: [64], local: [64], args: [{inout: unwritten}, {inout: scratch}, {uint32: 0}]}
"""
KERNEL = "kernel void copy(global uchar* input, global uchar* output, uint n) {}\n"


@pytest.mark.parametrize("in_place", ["true", "false"])
def test_a_run_finds_zeros_where_nobody_of_its_domain_wrote(make_server, in_place):
    """contract 15: scratch, outputs that nobody wrote, and outputs that stay."""
    server = make_server(config=f"devices: [{{name: fake0, driver: fake, in_place: {in_place}}}]\n")
    answer = server.request("PUT", "/v1/functions/look", tar_of({"function.yaml": MANIFEST, "it.cl": KERNEL}))
    assert answer.status == 201, answer.body
    for _ in range(2):
        answer = server.infer("look", {"x": np.zeros(1, np.uint8)})
        assert answer.status == 200, answer.body
        assert not answer.outputs["z"].any(), "what another left in scratch is seen"
        assert not answer.outputs["unwritten"].any(), "what another left in an output is seen"
