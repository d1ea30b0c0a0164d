"""What a plan does besides plain launches, on the real device: repeats, swaps, until, fills, views, headers."""
import numpy as np
import pytest
from conftest import EXAMPLES, PRESET, ROOT, assert_error, folder_files

pytestmark = pytest.mark.skipif(PRESET != "dev", reason="kernels need a device that compiles them")
STEPS = ROOT / "tests" / "functions" / "steps"


@pytest.fixture(params=["true", "false"], ids=["in_place", "own_memory"])
def steps(make_server, request):
    server = make_server(config=f"devices: [{{name: cpu0, cores: [0], memory: 1GiB, in_place: {request.param}}}]")
    answer = server.deploy("steps", folder_files(STEPS))
    assert answer.status == 201, answer.body
    return server


def check(server, n, rounds, limit, start=1.5):
    x = np.arange(n, dtype=np.float32)
    answer = server.infer("steps", {"x": x}, {"rounds": rounds, "limit": limit, "start": start})
    assert answer.status == 200, answer.body
    out = answer.outputs
    one, two = (2 * start, 7) if rounds % 2 == 0 else (7, 2 * start)
    np.testing.assert_array_equal(out["one"], np.full(n, one, np.float32))
    np.testing.assert_array_equal(out["two"], np.full(n, two, np.float32))
    np.testing.assert_array_equal(out["late"], np.full(n, rounds, np.float32))
    np.testing.assert_array_equal(out["halves"], np.concatenate([2 * x[n // 2:], 4 * x[:n // 2]]))
    done = 2 * (limit // 2 + 1)  # looked at every two rounds, until the count is above the limit
    assert answer.json["parameters"] == {"rounds.counting": done}
    assert out["count"][0] == done
    np.testing.assert_array_equal(out["sums"], [1, 0, 100, 1000 + 1000 * done // 2])


def test_steps(steps):
    for n, rounds, limit in ((128, 3, 5), (256, 4, 4), (128, 0, 0), (1024, 1, 17), (128, 3, 5), (384, 100, 1)):
        check(steps, n, rounds, limit)


def test_a_limit_that_is_an_error(steps):
    x = {"x": np.zeros(128, np.float32)}
    answer = steps.infer("steps", x, {"limit": 20})
    assert_error(answer, 422, "faulted", "function steps", "'count' was not above 20 after 20 rounds")
    check(steps, 128, 3, 5)


def jacobi(server, a, b, parameters=None):
    return server.infer("jacobi", {"a": a.astype(np.float32), "b": b.astype(np.float32)}, parameters)


def test_until_and_its_rounds(server):
    assert server.deploy("jacobi", folder_files(EXAMPLES / "jacobi")).status == 201
    numbers = np.random.default_rng(5)
    n = 64
    a = numbers.uniform(0, 1, (n, n)) + np.eye(n) * n * 0.55
    b = numbers.uniform(-1, 1, n)
    strict = jacobi(server, a, b, {"tolerance": 1e-6})
    loose = jacobi(server, a, b, {"tolerance": 1e-1})
    assert strict.status == loose.status == 200, strict.body
    assert loose.json["parameters"]["rounds"] < strict.json["parameters"]["rounds"] < 3000
    np.testing.assert_allclose(strict.outputs["x"], np.linalg.solve(a, b), rtol=1e-2, atol=1e-4)
    through = jacobi(server, a, b, {"tolerance": 0.0})
    assert_error(through, 422, "faulted", "'err' was not below 0 after 3000 rounds")


def test_nan_in_until_is_told(server):
    assert server.deploy("jacobi", folder_files(EXAMPLES / "jacobi")).status == 201
    n = 64
    b = np.ones(n)
    b[3] = np.nan
    answer = jacobi(server, np.eye(n) * 4, b)
    assert_error(answer, 422, "faulted", "function jacobi", "'err' is NaN after round")
    answer = jacobi(server, np.eye(n) * 4, np.ones(n))
    assert answer.status == 200, "the executor goes on"
    np.testing.assert_allclose(answer.outputs["x"], np.full(n, 0.25), rtol=1e-5)


def test_a_dim_bound_to_two_values(server):
    assert server.deploy("jacobi", folder_files(EXAMPLES / "jacobi")).status == 201
    answer = jacobi(server, np.eye(64), np.ones(65))
    assert_error(answer, 400, "invalid", "'b'", "n = 64", "[65]")
    answer = server.infer("jacobi", {"a": np.eye(64, dtype=np.float32), "b": np.ones(64, np.float32)}, {"n": 63})
    assert_error(answer, 400, "invalid", "n = 63")


def test_a_stop_in_the_middle_of_rounds(make_server):
    """A timeout ends a repeat between two kernels, and the executor lives on."""
    server = make_server(config="pool: 0")
    assert server.deploy("heat", folder_files(EXAMPLES / "heat")).status == 201
    grid = np.random.default_rng(1).random((700, 700), np.float32)
    [tensor] = [i["name"] for i in server.request("GET", "/v1/functions/heat").json["inputs"]][:1]
    assert server.infer("heat", {tensor: grid[:8, :8]}).status == 200
    before = server.executors()
    answer = server.infer("heat", {tensor: grid}, {"tolerance": 0.0, "timeout": 100_000})
    assert_error(answer, 504, "deadline", "function heat")
    assert server.executors() == before


# Counts to 3 in the first outer round, to 5 in the second, to 4 in the last.
NESTED = """\
api: quern/v1
name: nested
kind: graph
programs: {opencl: nested.cl}
buffers:
  goals: {role: constant, dtype: int32, shape: [3], data: [3, 5, 4]}
  count: {role: scratch, dtype: int32, shape: [1]}
  left: {role: scratch, dtype: int32, shape: [1]}
  total: {role: output, dtype: int32, shape: [1], zero: true}
kernels:
  - repeat: {times: 3, index: i}
    kernels:
      - {fill: count, value: 0}
      - repeat: {at_most: 100, until: {buffer: left, equals: 0}%s}
        kernels:
          - {entry: up, global: [1], args: [{in: goals}, {inout: count}, {out: left}, {inout: total}, {int32: i}]}
"""
NESTED_CL = b"""
__kernel void up(__global const int* goals, __global int* count, __global int* left, __global int* total, int i) {
  count[0] += 1;
  total[0] += 1;
  left[0] = goals[i] - count[0];
}
"""


@pytest.mark.parametrize("name, parameter", [("", "rounds.last"), (", name: inner", "rounds.inner.last")])
def test_rounds_of_a_nested_repeat_are_those_of_its_last_time(server, name, parameter):
    files = {"function.yaml": (NESTED % name).encode(), "nested.cl": NESTED_CL}
    answer = server.deploy("nested", files)
    assert answer.status == 201, answer.body
    answer = server.infer("nested", {})
    assert answer.status == 200, answer.body
    assert answer.outputs["total"].tolist() == [12]
    assert answer.json["parameters"] == {parameter: 4}
