"""Constants on a device that has no room for all of them: they come and go, and no answer is wrong."""
import concurrent.futures

import numpy as np
import pytest
from conftest import PRESET, assert_error

pytestmark = pytest.mark.skipif(PRESET != "dev", reason="its kernels need a device that compiles them")

COUNT, MIB = 1 << 20, 1 << 20  # of each constant: 4 MiB
KERNEL = """
__kernel void pick(__global const float* table, __global const uint* at, __global float* z) {
  z[get_global_id(0)] = table[at[get_global_id(0)]];
}
"""
MANIFEST = """
api: quern/v1
name: {name}
kind: graph
programs: {{opencl: pick.cl}}
dims: {{n: {count}, k: 64}}
buffers:
  table: {{role: constant, dtype: fp32, shape: [n], file: table.bin}}
  at: {{role: input, dtype: uint32, shape: [k]}}
  z: {{role: output, dtype: fp32, shape: [k]}}
kernels:
  - {{entry: pick, global: [k], local: [64], args: [{{in: table}}, {{in: at}}, {{out: z}}]}}
"""
AT = np.arange(64, dtype=np.uint32) * 16000


def table(seed):
    return np.random.default_rng(seed).random(COUNT, np.float32)


def deploy(server, name, seed, count=COUNT):
    files = {"function.yaml": MANIFEST.format(name=name, count=count), "pick.cl": KERNEL,
             "table.bin": table(seed)[:count].tobytes()}
    return server.deploy(name, files)


def check(server, name, seed):
    answer = server.infer(name, {"at": AT})
    assert answer.status == 200, answer.body
    np.testing.assert_array_equal(answer.outputs["z"], table(seed)[AT])


def counters(server):
    return server.request("GET", "/v1/counters").json


@pytest.mark.parametrize("in_place", ["true", "false"])
def test_more_constants_than_fit(make_server, in_place):
    server = make_server(config=f"devices: [{{name: cpu0, cores: [0], memory: 10MiB, in_place: {in_place}}}]\n"
                                "policy: {eviction: lru}")
    for i in range(5):
        assert deploy(server, f"t{i}", i).status == 201
    check(server, "t0", 0)
    check(server, "t1", 1)
    check(server, "t0", 0)
    assert counters(server)["evictions"] == 0, "two fit"
    for _ in range(2):
        for i in range(5):
            check(server, f"t{i}", i)
    assert counters(server)["evictions"] >= 8
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        for done in [pool.submit(check, server, f"t{i % 5}", i % 5) for i in range(100)]:
            done.result()
    assert counters(server)["executors_lost"] == 0


def test_the_same_constant_is_there_once(make_server):
    server = make_server(config="devices: [{name: cpu0, cores: [0], memory: 6MiB}]")
    for name in ("one", "two", "three"):
        assert deploy(server, name, 7).status == 201
    for _ in range(3):
        for name in ("one", "two", "three"):
            check(server, name, 7)
    assert counters(server)["evictions"] == 0


def test_what_fits_no_device_is_refused(make_server):
    server = make_server(config="devices: [{name: cpu0, cores: [0], memory: 6MiB, context_memory: 3MiB}]")
    assert_error(deploy(server, "large", 1), 400, "invalid", "the largest device has")
    small = deploy(server, "small", 1, COUNT // 2)
    assert small.status == 201, small.body
    answer = server.infer("small", {"at": AT % (COUNT // 2)})
    assert answer.status == 200, answer.body
