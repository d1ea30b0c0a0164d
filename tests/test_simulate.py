"""quern simulate and calibrate: files in, numbers out, the same each time."""
import json
import os
import pathlib

import pytest
from conftest import EXAMPLES, PRESET, run_cli

pytestmark = pytest.mark.fake

FILES = EXAMPLES / "simulate"
POOL = ["--devices", FILES / "v100x4.yaml"]


def simulate(*words, check=0):
    return run_cli("simulate", *words, check=check)


def summaries(*words):
    return json.loads(simulate(*words, "--json").stdout)


@pytest.mark.parametrize("workload", ["mixed.yaml", "tenants32.yaml"])
def test_two_runs_give_the_same_bytes(workload):
    command = (*POOL, "--workload", FILES / workload, "--policy", "fifo,exclusive,kaas,quern", "--by", "tenant")
    once, again = simulate(*command), simulate(*command)
    assert once.stdout == again.stdout and len(once.stdout.splitlines()) > 8
    assert simulate(*command, "--seed", "2").stdout != once.stdout


def test_two_more_devices_help(tmp_path):
    six = tmp_path / "six.yaml"
    six.write_text((FILES / "v100x4.yaml").read_text().replace("count: 4", "count: 6"))
    command = ("--workload", FILES / "tenants32.yaml", "--policy", "quern")
    rates = []
    for pool in (FILES / "v100x4.yaml", six):
        result = summaries("--devices", pool, *command)
        rates.append(result["policies"][0]["per_second"])
    assert rates[1] > 1.3 * rates[0]


def test_a_device_of_ones_own_is_lost_and_won():
    """More tenants than devices: whoever needs a device for itself thrashes, and sharing does not."""
    result = summaries(*POOL, "--workload", FILES / "tenants32.yaml", "--policy", "exclusive,quern")
    exclusive, ours = (one["per_second"] for one in result["policies"])
    assert ours > 10 * exclusive


def test_mistakes_are_told_with_their_place(tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("devices:\n  - {name: a, memry: 1GiB}\n  - {name: b, count: 0}\n")
    told = simulate("--devices", bad, "--workload", FILES / "mixed.yaml", check=1).stderr
    assert f"{bad}:2:" in told and "did you mean 'memory'" in told and f"{bad}:3:" in told
    assert "none.yaml" in simulate("--devices", "none.yaml", "--workload", FILES / "mixed.yaml", check=1).stderr
    told = simulate(*POOL, "--workload", FILES / "mixed.yaml", "--policy", "kas", check=1).stderr
    assert "did you mean 'kaas'" in told


def test_a_trace_is_read(tmp_path):
    data = pathlib.Path(os.environ.get("QUERN_DATA", "../shared/data")).resolve()
    trace = data / "traces" / "lora_request_trace.csv"
    if not trace.exists():
        pytest.skip(f"{trace}: the public trace is not here")
    workload = tmp_path / "trace.yaml"
    workload.write_text(f"loads:\n  - trace: {{file: {trace}, time_scale: 1}}\nrequests: 2000\n")
    result = summaries(*POOL, "--workload", workload)
    assert result["policies"][0]["requests"] == 2000


def test_the_search_is_clean_and_says_what_it_saw():
    shown = simulate("--search", "--seeds", "3").stdout
    for word in ("submit", "start-executor", "done", "resident", "device_loss", "ledger", "fairness", ": clean"):
        assert word in shown, word


@pytest.mark.skipif(PRESET != "dev", reason="its kernels need a compiler")
def test_calibrate_writes_files_that_simulate_reads(tmp_path):
    devices, workload = tmp_path / "here.yaml", tmp_path / "mine.yaml"
    told = run_cli("calibrate", EXAMPLES / "saxpy", "--devices", devices, "--workload", workload, check=0)
    assert "written" in told.stdout
    assert "launch:" in devices.read_text() and "saxpy" in workload.read_text()
    assert summaries("--devices", devices, "--workload", workload)["policies"][0]["requests"] > 100
