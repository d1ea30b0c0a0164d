"""What a manifest can say beside plain launches, on the real device: names of models, numbers without sizes, sizes of 0,
let, when, copy, partial, several programs, labels."""
import json

import numpy as np
import pytest
from conftest import BINARY_CACHE, PRESET, ROOT, assert_error, folder_files, run_cli

pytestmark = pytest.mark.skipif(PRESET != "dev", reason="kernels need a device that compiles them")
LANGUAGE = ROOT / "tests" / "functions" / "language"


@pytest.fixture(params=["true", "false"], ids=["in_place", "own_memory"])
def language(make_server, request):
    server = make_server(config=f"devices: [{{name: cpu0, cores: [0], memory: 1GiB, in_place: {request.param}}}]")
    answer = server.deploy("language", folder_files(LANGUAGE))
    assert answer.status == 201, answer.body
    assert answer.json.get("warnings", []) == []
    return server


def call(server, n, lengths=(3, 1, 4), parameters=None, binary=True):
    inputs = {"input.1": np.arange(n, dtype=np.float32), "factor": np.array(2, np.float32),
              "ends": np.cumsum((0, *lengths), dtype=np.int32), "bias": np.ones((n + 63) // 64 * 64, np.float32)}
    answer = server.infer("language", inputs, parameters, binary=binary)
    assert answer.status == 200, answer.body
    return answer


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
def test_every_size(language, binary):
    for n in (100, 0, 1, 63, 64, 0, 1000):
        x = np.arange(n, dtype=np.float32)
        out = call(language, n, binary=binary).outputs
        np.testing.assert_array_equal(out["495"], 2 * x + 1)
        assert out["/sum/out"].shape == () and out["/sum/out"] == 2 * x.sum()
        np.testing.assert_array_equal(out["lengths"], [3, 1, 4])
        np.testing.assert_array_equal(out["both"], np.stack([x, 2 * x + 1]))


def test_a_step_by_a_param_and_a_dim_by_a_sum(language):
    assert call(language, 5, lengths=(7,)).outputs["lengths"].tolist() == [7]
    assert call(language, 5, lengths=(7, 8), parameters={"measures": False}).outputs["lengths"].tolist() == [0, 0]
    inputs = {"input.1": np.zeros(1, np.float32), "factor": np.array(2, np.float32), "ends": np.zeros(100, np.int32),
              "bias": np.zeros(64, np.float32)}
    assert_error(language.infer("language", inputs), 400, "invalid", "dim 'sequence_length' is 99; send 1 to 64")


def test_programs_are_kept_one_by_one(make_server):
    """Another function with one of the programs compiles the other one alone."""
    language = make_server(binary_cache=False)
    files = folder_files(LANGUAGE)
    assert language.deploy("language", files).status == 201
    assert language.log().count("is being compiled") == 2
    files["function.yaml"] = files["function.yaml"].replace(b"name: language", b"name: other").replace(b"FIRST: 0", b"FIRST: 1")
    assert language.deploy("other", files).status == 201
    assert language.log().count("is being compiled") == 3


def test_a_client_makes_tensors_of_lets(language):
    ran = language.cli("invoke", "language", "--input", "input.1=@ones", "--input", "factor=@ones", "--input",
                       "ends=@zeros", "--input", "bias=@ones", "--dims", "n=70", check=0)
    assert "495  fp32 [70]  [2, 2" in ran.stdout and "/sum/out  fp32 []  [70]" in ran.stdout, ran.stdout
    shown = language.cli("functions", "--kernels", check=0).stdout
    assert "/layer.0/Mul" in shown


def test_check_and_plan():
    ran = run_cli("check", LANGUAGE, "--binary-cache", BINARY_CACHE, check=0)
    assert "/layer.0/Mul" in ran.stdout and "n=0" in ran.stdout
    plan = json.loads(run_cli("plan", LANGUAGE, "--json", check=0).stdout)
    assert plan["steps"][1]["label"] == "/layer.0/Mul", plan["steps"]
    assert [step["to"] for step in plan["steps"] if "copy" in step] == ["both", "both"]
    people = run_cli("plan", LANGUAGE, check=0).stdout
    assert "padded=128" in people and "LABEL" in people
    small = json.loads(run_cli("plan", LANGUAGE, "--dims", "n=0", "--json", check=0).stdout)
    assert [step.get("kernel") for step in small["steps"] if "kernel" in step] == ["measure"]
