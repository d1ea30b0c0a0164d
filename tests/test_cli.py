"""Every command of "what a user can do", as a user types it."""
import hashlib
import json
import os
import re
import select
import signal
import subprocess

import numpy as np
import pytest
from conftest import BINARY, CALL_LIMIT, EXAMPLES, PRESET, START_LIMIT, children_of, run_cli, wait_gone

pytestmark = pytest.mark.fake


def test_version():
    shown = run_cli("version", check=0).stdout
    assert re.match(r"quern \d+\.\d+\.\d+ \(commit ", shown)
    parsed = json.loads(run_cli("version", "--json", check=0).stdout)
    assert {"version", "commit", "compiler"} <= set(parsed)
    assert run_cli("--version", check=0).stdout.strip() == parsed["version"]


def test_help_names_every_command():
    shown = run_cli("--help", check=0).stdout
    for command in ("demo", "serve", "deploy", "invoke", "functions", "devices", "requests", "cancel", "remove",
                    "bench", "version"):
        assert re.search(rf"^  {command}\b", shown, re.M), command
    assert "executor" not in shown and "Examples:" in shown


def test_unknown_command_and_flag():
    ran = run_cli("deplyo", check=2)
    assert "did you mean 'deploy'?" in ran.stderr and ran.stderr.startswith("error: ")
    assert run_cli("functions", "--jsn", check=2).stderr.startswith("error: ")
    assert run_cli("invoke", check=2).stderr.startswith("error: ")


def test_no_server():
    ran = run_cli("functions", "--server", "http://127.0.0.1:1", check=1)
    assert ran.stderr.startswith("error: server http://127.0.0.1:1") and "quern serve" in ran.stderr
    assert "TLS is not built yet" in run_cli("functions", "--server", "https://x", check=1).stderr


def test_deploy_invoke_list_remove(server, tmp_path):
    assert "no functions yet" in server.cli("functions", check=0).stdout
    shown = server.cli("deploy", EXAMPLES / "saxpy", check=0).stdout
    version = re.match(r"saxpy@([0-9a-f]{12}) deployed", shown)[1]
    again = server.cli("deploy", EXAMPLES / "saxpy", "--json", check=0).stdout
    assert json.loads(again)["version"] == version

    table = server.cli("functions", check=0).stdout.splitlines()
    assert table[0].split() == ["NAME", "VERSION", "DEPLOYED"] and table[1].split()[:2] == ["saxpy", version]
    listed = json.loads(server.cli("functions", "--json", check=0).stdout)
    assert [one["name"] for one in listed["functions"]] == ["saxpy"]

    x = np.arange(500, dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    server.cli("invoke", "saxpy", "--input", f"x={tmp_path}/x.npy", "--input", "y=@ones", "--param", "alpha=2",
               "--output", f"z={tmp_path}/z.npy", check=0)
    np.testing.assert_array_equal(np.load(tmp_path / "z.npy"), 2 * x + 1)

    assert server.cli("remove", "saxpy", check=0).stdout == "saxpy removed\n"
    assert "saxpy" in server.cli("remove", "saxpy", check=1).stderr


def test_invoke_shows_values(examples):
    shown = examples.cli("invoke", "saxpy", "--input", "x=@ones", "--input", "y=@ones", "--param", "alpha=2",
                         "--dims", "n=1024", check=0).stdout
    assert "z  fp32 [1024]  [3, 3, 3, 3, 3, 3, 3, 3, ... 1024 in all]" in shown
    assert "answered in" in shown


def test_invoke_json_and_seed(examples):
    command = ("invoke", "sgemm", "--input", "a=@random", "--input", "b=@random", "--dims", "m=5,n=7,k=3", "--json")
    first, second = (json.loads(examples.cli(*command, check=0).stdout) for _ in range(2))
    assert first["outputs"][0]["shape"] == [5, 7] and len(first["outputs"][0]["data"]) == 35
    assert first["outputs"] == second["outputs"]
    assert first["request"] != second["request"] and len(first["times_ns"]) == 1
    other = json.loads(examples.cli(*command, "--seed", "9", check=0).stdout)
    assert other["outputs"] != first["outputs"]


def test_invoke_repeats(examples):
    shown = examples.cli("invoke", "copy", "--input", "input=@random", "--dims", "n=64", "--repeat", "5", check=0)
    assert "5 calls: first" in shown.stdout


def test_invoke_mistakes(examples, tmp_path):
    def text(*arguments):
        return examples.cli("invoke", *arguments, check=1).stderr

    assert "did you mean 'saxpy'?" in text("saxpi")
    assert "has no input 'z'" in text("saxpy", "--input", "z=@ones")
    assert "write NAME=VALUE" in text("saxpy", "--input", "x")
    assert "is none of @random" in text("saxpy", "--input", "x=@rnd")
    assert "nothing.npy" in text("saxpy", "--input", f"x={tmp_path}/nothing.npy")
    assert "has no output 'q'" in text("saxpy", "--output", "q=q.npy")
    assert "did you mean 'alpha'?" in text("saxpy", "--input", "x=@ones", "--input", "y=@ones", "--param", "alpa=1")
    assert "y" in text("saxpy", "--input", "x=@ones")


def test_devices(examples):
    table = examples.cli("devices", check=0).stdout.splitlines()
    assert table[0].startswith("NAME") and " up " in table[1]
    devices = json.loads(examples.cli("devices", "--json", check=0).stdout)["devices"]
    assert devices and devices[0]["up"] and devices[0]["units"] >= 1


def test_deploy_mistakes(examples, tmp_path):
    assert "is no folder" in examples.cli("deploy", tmp_path / "none", check=1).stderr
    assert "has no function.yaml" in examples.cli("deploy", tmp_path, check=1).stderr
    (tmp_path / "function.yaml").write_text("api: quern/v1\nname: broken\nkind: graph\nbufers: {}\nprograms: {}\n")
    text = examples.cli("deploy", tmp_path, check=1).stderr
    assert "function.yaml:4" in text and "did you mean 'buffers'?" in text


def test_a_missing_key_is_asked_for_by_its_flag(make_server):
    digest = hashlib.sha256(b"secret").hexdigest()
    server = make_server(config=f"tenants: [{{name: one, key_sha256: {digest}}}]\n")
    text = server.cli("functions", check=1).stderr
    assert "--key" in text and "$QUERN_KEY" in text
    server.cli("functions", key="secret", check=0)


def run_on_a_full_disk(*words, before=(), server=None):
    """Runs `quern WORDS` with a standard output that takes nothing."""
    environment = dict(os.environ, **({"QUERN_SERVER": server.url} if server else {}))
    with open("/dev/full", "w", encoding="utf-8") as full:
        return subprocess.run([*before, str(BINARY), *words], env=environment, stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=CALL_LIMIT, check=False)


INCOMPLETE = "error: standard output: takes no more; what was printed is not complete\n"


@pytest.mark.parametrize("words", ["functions", "functions saxpy", "functions --kernels --json", "devices --json",
                                   "invoke copy --input input=@ones --dims n=65536 --json"])
def test_what_cannot_be_printed_is_an_error(examples, words):
    """Short output fails when it is flushed at the end; the 128 KiB of the last command fail while they are printed."""
    ran = run_on_a_full_disk(*words.split(), server=examples)
    assert (ran.returncode, ran.stderr) == (1, INCOMPLETE)


@pytest.mark.parametrize("words", ["--help", "invoke --help", "--version", "version", "plan --json"])
def test_what_needs_no_server_and_cannot_be_printed_is_an_error(words):
    words = words.split() + ([str(EXAMPLES / "jacobi")] if words.startswith("plan") else [])
    ran = run_on_a_full_disk(*words)
    assert (ran.returncode, ran.stderr) == (1, INCOMPLETE)


@pytest.mark.skipif(PRESET != "dev", reason="stdbuf preloads a library, which sanitizers refuse")
@pytest.mark.parametrize("words", ["functions saxpy", "history saxpy", "memory", "account", "profile saxpy", "why"])
def test_a_full_disk_is_not_taken_for_a_server_of_another_version(examples, words):
    words = words.split()
    if words == ["why"]:
        words.append(examples.infer("copy", {"input": np.zeros(16, np.uint8)}).headers["Quern-Request"])
    ran = run_on_a_full_disk(*words, before=["stdbuf", "-o0"], server=examples)
    assert (ran.returncode, ran.stderr) == (1, INCOMPLETE)


def test_a_lease_that_cannot_be_printed_is_kept(examples):
    told = json.loads(examples.cli("invoke", "copy", "--input", "input=@ones", "--dims", "n=64", "--keep", "output",
                                   "--json", check=0).stdout)
    lease = re.search(r"lease-[0-9a-f-]+", json.dumps(told))[0]
    ran = run_on_a_full_disk("get", lease, server=examples)
    assert ran.returncode == 1 and "standard output" in ran.stderr
    environment = dict(os.environ, QUERN_SERVER=examples.url)
    whole = subprocess.run([str(BINARY), "get", lease], env=environment, capture_output=True, timeout=CALL_LIMIT,
                           check=True)
    assert len(whole.stdout) > 0
    assert lease in examples.cli("get", lease, check=1).stderr, "it is over once it was read"


def test_put_reads_standard_input(examples):
    ran = subprocess.run([str(BINARY), "put", "-"], env=dict(os.environ, QUERN_SERVER=examples.url),
                         input=b"x" * 5_000_000, capture_output=True, timeout=CALL_LIMIT, check=True)
    got = subprocess.run([str(BINARY), "get", ran.stdout.decode().strip()], capture_output=True, timeout=CALL_LIMIT,
                         env=dict(os.environ, QUERN_SERVER=examples.url), check=True)
    assert got.stdout == b"x" * 5_000_000


@pytest.mark.parametrize("words, text", [
    (["--dims", "n=-1"], "not negative"), (["--dims", "n=4", "--dims", "n=5"], "'n' is given twice"),
    (["--param", "alpha=1", "--param", "alpha=2"], "'alpha' is given twice")])
def test_flags_that_contradict_each_other(examples, words, text):
    assert text in examples.cli("invoke", "saxpy", "--input", "x=@ones", "--input", "y=@ones", *words, check=1).stderr


def test_a_setting_given_twice(examples):
    assert "is given twice" in examples.cli("set", "saxpy", "priority=3", "priority=4", check=1).stderr


@pytest.mark.skipif(PRESET != "dev", reason="built without benchmarks")
def test_bench_lists_and_suggests():
    assert run_cli("bench", check=0).stdout.startswith("NAME")
    assert "there is none" in run_cli("bench", "wrm", check=1).stderr


@pytest.mark.skipif(PRESET != "dev", reason="built without benchmarks")
def test_a_benchmark_measures_a_server(tmp_path):
    """The benchmarks are a program of their own, and measure the server that lies beside."""
    rows = tmp_path / "small.json"
    run_cli("bench", "small", "--quick", "--json", rows, check=0)
    assert json.loads(rows.read_text())["rows"]


def test_second_server_on_one_state_is_refused(server):
    ran = subprocess.run(server.command(), capture_output=True, text=True, timeout=START_LIMIT, check=False)
    assert ran.returncode == 1 and "error: " in ran.stderr and str(server.state) in ran.stderr
    assert server.request("GET", "/v2/health/ready").status == 200


def test_listening_wide_needs_tenants(tmp_path):
    ran = run_cli("serve", "--listen", "0.0.0.0:0", "--state", tmp_path / "state", check=1)
    assert "tenants" in ran.stderr and "127.0.0.1" in ran.stderr


@pytest.mark.parametrize("listen", ["8080", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999"])
def test_listen_mistakes(tmp_path, listen):
    assert "HOST:PORT" in run_cli("serve", "--listen", listen, "--state", tmp_path / "state", check=1).stderr


def test_config_mistakes_are_all_told(tmp_path):
    (tmp_path / "quern.yaml").write_text("devicez: []\ntenants: [{name: a}]\n")
    ran = run_cli("serve", "--state", "state", "--config", "quern.yaml", check=1, cwd=tmp_path)
    assert "quern.yaml:1: error:" in ran.stderr and "quern.yaml:2: error:" in ran.stderr


def test_ctrl_c_leaves_nothing(server):
    server.deploy("copy")
    assert server.infer("copy", {"input": np.zeros(16, np.uint8)}).status == 200
    below = children_of(server.process.pid)
    assert below
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(CALL_LIMIT) == 0
    assert all(wait_gone(pid) for pid in below)
    server.process = None


def test_ctrl_c_ends_the_demo():
    process = subprocess.Popen([str(BINARY), "demo", "--examples", str(EXAMPLES)], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    os.set_blocking(process.stdout.fileno(), True)
    assert select.select([process.stdout], [], [], START_LIMIT)[0]
    assert process.stdout.readline().startswith("1. start a server")
    below = children_of(process.pid)
    process.send_signal(signal.SIGINT)
    assert "interrupted" in process.communicate(timeout=CALL_LIMIT)[0]
    assert process.returncode == 1 and all(wait_gone(pid) for pid in below)
