"""Numbers arrive as they were written: in flags, in JSON, in cases and in manifests, and come back so."""
import json

import numpy as np
import pytest
from conftest import BINARY_CACHE, PRESET, run_cli

pytestmark = pytest.mark.skipif(PRESET != "dev", reason="its kernel needs a compiler")

# Gives back its params and its input.
ECHO = """\
api: quern/v1
name: echo
kind: graph
programs: {opencl: echo.cl}
dims: {n: {default: 4, min: 1, max: 64}}
params:
  u: {dtype: uint64, default: 18446744073709551615}
  i: {dtype: int64, default: -9223372036854775808}
  f: {dtype: fp32, default: 1}
  least: {dtype: uint64, min: 9223372036854775809, max: 18446744073709551614}
buffers:
  x: {role: input, dtype: fp32, shape: [n]}
  y: {role: output, dtype: fp32, shape: [n]}
  whole: {role: output, dtype: uint64, shape: [3]}
  real: {role: output, dtype: fp32, shape: [1]}
kernels:
  - entry: echo
    global: [n]
    local: [1]
    args: [{in: x}, {out: y}, {out: whole}, {out: real}, {uint64: u}, {int64: i}, {fp32: f}, {uint64: least}]
"""
ECHO_CL = """\
__kernel void echo(__global const float* x, __global float* y, __global ulong* whole, __global float* real, ulong u,
                   long i, float f, ulong least) {
  y[get_global_id(0)] = x[get_global_id(0)];
  if (get_global_id(0) == 0) whole[0] = u, whole[1] = (ulong)i, whole[2] = least, real[0] = f;
}
"""
LEAST = 2**63 + 1
MOST = 2**64 - 1


@pytest.fixture
def echo(tmp_path):
    folder = tmp_path / "echo"
    folder.mkdir()
    (folder / "function.yaml").write_text(ECHO)
    (folder / "echo.cl").write_text(ECHO_CL)
    BINARY_CACHE.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def echo_server(server, echo):
    server.cli("deploy", echo, check=0)
    return server


def run(echo, *arguments, check=0):
    return run_cli("run", echo, "--binary-cache", BINARY_CACHE, *arguments, check=check)


def outputs_of(ran):
    return {output["name"]: output["data"] for output in json.loads(ran.stdout)["outputs"]}


WHOLE = ("--input", "x=@ones", "--param", f"least={LEAST}", "--json")


@pytest.mark.parametrize("u", [0, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1, MOST])
def test_whole_params_of_64_bits_are_exact(echo_server, echo, u):
    flags = ("--param", f"u={u}", *WHOLE)
    assert outputs_of(run(echo, *flags))["whole"] == [u, 2**63, LEAST]
    assert outputs_of(echo_server.cli("invoke", "echo", *flags, check=0))["whole"] == [u, 2**63, LEAST]
    x = np.ones(4, np.float32)
    answer = echo_server.infer("echo", {"x": x}, {"u": u, "i": -2**63, "least": LEAST}, binary=False)
    assert answer.status == 200, answer.body
    assert {one["name"]: one["data"] for one in answer.json["outputs"]}["whole"] == [u, 2**63, LEAST]


def test_defaults_and_bounds_of_uint64_are_exact(echo_server, echo):
    assert outputs_of(run(echo, *WHOLE))["whole"][0] == MOST
    shown = echo_server.request("GET", "/v1/functions/echo").json["params"]
    assert shown["u"]["default"] == MOST and shown["i"]["default"] == -2**63
    assert (shown["least"]["min"], shown["least"]["max"]) == (LEAST, MOST - 1)


@pytest.mark.parametrize("param, text", [
    ("u=18446744073709551616", "does not fit uint64; send a whole number from 0 to 18446744073709551615"),
    ("u=-1", "param 'u' is -1, which does not fit uint64"),
    ("u=1e19", "does not fit uint64"),
    ("i=9223372036854775808", "param 'i' is 9223372036854775808, which does not fit int64"),
    ("i=-9223372036854775809", "does not fit int64; send a whole number from -9223372036854775808 to"),
    ("least=9223372036854775808", "param 'least' is 9223372036854775808; send 9223372036854775809 to"),
    ("least=18446744073709551615", "param 'least' is 18446744073709551615; send 9223372036854775809 to"),
])
def test_what_does_not_fit_is_said(echo_server, echo, param, text):
    flags = ["--input", "x=@ones", "--param", param]
    if not param.startswith("least"):
        flags += ["--param", f"least={LEAST}"]
    assert text in run(echo, *flags, check=1).stderr
    assert text in echo_server.cli("invoke", "echo", *flags, check=1).stderr


def write_case(echo, whole, u):
    case = echo / "expected" / "default"
    for name in ("input", "output"):
        (case / name).mkdir(parents=True, exist_ok=True)
    np.save(case / "input" / "x.npy", np.ones(4, np.float32))
    np.save(case / "output" / "whole.npy", np.array(whole, np.uint64))
    (case / "case.yaml").write_text(f"params: {{u: {u}, least: {LEAST}}}\n")


def test_a_case_with_whole_numbers_of_64_bits_is_exact(echo):
    def check(status):
        return run_cli("check", echo, "--binary-cache", BINARY_CACHE, check=status).stdout

    write_case(echo, [2**63 + 1, 2**63, LEAST], 2**63 + 1)
    assert "FAILED" not in check(0)
    write_case(echo, [2**63 + 2, 2**63, LEAST], 2**63 + 1)
    assert f"element 0 is {2**63 + 1}, wanted {2**63 + 2}" in check(1)


# -0

def bits(array):
    return np.asarray(array, np.float32).view(np.uint32).tolist()


MINUS_ZERO = bits([-0.0])[0]


@pytest.mark.parametrize("written", ["-0", "-0.0", "-0e0"])
def test_minus_zero_keeps_its_sign_in_json(echo_server, written):
    body = ('{"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [%s, 0]}], '
            '"parameters": {"f": %s, "i": %s, "least": %d}}' % (written, written, written, LEAST))
    answer = echo_server.request("POST", "/v2/models/echo/infer", body.encode())
    assert answer.status == 200, answer.body
    outputs = {one["name"]: one["data"] for one in answer.json["outputs"]}
    assert bits(outputs["y"]) == [MINUS_ZERO, 0] and bits(outputs["real"]) == [MINUS_ZERO]
    assert outputs["whole"][1] == 0


def test_minus_zero_keeps_its_sign_on_the_command_line(echo_server, echo):
    flags = ("--param", "f=-0", *WHOLE)
    for ran in (run(echo, *flags), echo_server.cli("invoke", "echo", *flags, check=0)):
        assert bits(outputs_of(ran)["real"]) == [MINUS_ZERO]


# Numbers that JSON does not have.

def test_what_json_has_no_number_for_is_text(echo_server, echo, tmp_path):
    np.save(tmp_path / "x.npy", np.array([np.nan, np.inf, -np.inf, -0.0], np.float32))
    flags = ("--input", f"x={tmp_path}/x.npy", "--param", f"least={LEAST}")
    for ran in (run(echo, *flags, "--json"), echo_server.cli("invoke", "echo", *flags, "--json", check=0)):
        shown = json.loads(ran.stdout, parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
        [y] = [output["data"] for output in shown["outputs"] if output["name"] == "y"]
        assert y[:3] == ["NaN", "Infinity", "-Infinity"] and bits(y[3:]) == [MINUS_ZERO]
        np.testing.assert_array_equal(np.array(y, np.float32), np.load(tmp_path / "x.npy"))
    assert "[nan, inf, -inf, -0]" in echo_server.cli("invoke", "echo", *flags, check=0).stdout


# The bound of an until

# Counts up by one, from 2^53; a double cannot hold every second number that it passes.
COUNT = """\
api: quern/v1
name: count
kind: graph
programs: {opencl: count.cl}
params: {goal: {dtype: DTYPE, default: 0}, start: {dtype: DTYPE, default: 0}}
buffers: {at: {role: output, dtype: DTYPE, shape: [1]}}
kernels:
  - {entry: begin, global: [1], args: [{out: at}, {DTYPE: start}]}
  - repeat: {at_most: 8, on_limit: error, until: {buffer: at, equals: goal}}
    kernels: [{entry: up, global: [1], args: [{inout: at}]}]
"""
COUNT_CL = """\
__kernel void begin(__global TYPE* at, TYPE start) { at[0] = start; }
__kernel void up(__global TYPE* at) { at[0] += 1; }
"""


@pytest.mark.parametrize("dtype, start", [("int64", 2**53), ("int64", -2**63), ("uint64", 2**64 - 9)])
def test_until_compares_whole_numbers_of_64_bits_exactly(tmp_path, dtype, start):
    (tmp_path / "function.yaml").write_text(COUNT.replace("DTYPE", dtype))
    (tmp_path / "count.cl").write_text(COUNT_CL.replace("TYPE", "ulong" if dtype == "uint64" else "long"))
    BINARY_CACHE.mkdir(parents=True, exist_ok=True)
    for rounds in (1, 2, 3):
        ran = run(tmp_path, "--param", f"start={start}", "--param", f"goal={start + rounds}", "--json")
        assert outputs_of(ran)["at"] == [start + rounds]
        assert json.loads(ran.stdout)["parameters"] == {"rounds": rounds}
    ran = run(tmp_path, "--param", f"start={start}", "--param", f"goal={start}", check=1)
    assert f"'at' was not equal to {start} after 8 rounds" in ran.stderr


# Settings

def test_a_number_in_a_setting_is_kept_as_it_is_written(server, echo):
    server.cli("deploy", echo, check=0)

    def set_request(number):
        answer = server.request("PATCH", "/v1/functions/echo", b'{"quota.time.request": %s}' % number)
        assert answer.status == 200, answer.body
        return answer.json["settings"]["quota"]["time"]["request"]

    assert set_request(b"0.5") == 0.5
    assert "set quota.time.request=0.5 " in server.cli("history", "echo", check=0).stdout
    assert set_request(b"1e-5") == 0.00001
    server.cli("set", "echo", "priority=3", check=0)
    shown = server.cli("functions", "echo", check=0).stdout
    assert "quota.time.request  0.00001\n" in shown, shown
    server.cli("set", "echo", "quota.time.request=5e-1", check=0)
    assert "quota.time.request  0.5\n" in server.cli("functions", "echo", check=0).stdout


@pytest.mark.parametrize("value", ["25h", "99999999999999h", "24.5h"])
def test_a_timeout_that_is_too_long_is_said(echo_server, echo, value):
    text = f"'{value}': is too long; write at most 24h"
    assert text in echo_server.cli("set", "echo", f"limits.timeout={value}", check=1).stderr
    (echo / "function.yaml").write_text(ECHO + f"settings: {{limits: {{timeout: {value}}}}}\n")
    assert text in echo_server.cli("deploy", echo, check=1).stderr
    assert text in run_cli("plan", echo, check=1).stderr


@pytest.mark.parametrize("micros", [86_400_000_001, 2**63 - 1, 2**63, 2**70])
def test_a_request_with_a_timeout_that_is_too_long_is_refused(echo_server, echo, micros):
    text = "which is too long; send at most 86400000000 (24h)"
    answer = echo_server.infer("echo", {"x": np.ones(4, np.float32)}, {"timeout": micros, "least": LEAST})
    assert answer.status == 400 and text in answer.json["error"], answer.body
    assert text in run(echo, "--param", f"timeout={micros}", *WHOLE, check=1).stderr
    assert echo_server.infer("echo", {"x": np.ones(4, np.float32)},
                             {"timeout": 86_400_000_000, "least": LEAST}).status == 200


def test_keep_warm_is_shown(echo_server):
    def shown():
        return echo_server.request("GET", "/v1/functions/echo").json["settings"]["keep_warm"]

    assert shown() == "nothing"
    echo_server.cli("set", "echo", "keep_warm=host", check=0)
    assert shown() == "host"
    assert "keep_warm           host\n" in echo_server.cli("functions", "echo", check=0).stdout
    assert json.loads(echo_server.cli("functions", "echo", "--json", check=0).stdout)["settings"]["keep_warm"] == "host"
