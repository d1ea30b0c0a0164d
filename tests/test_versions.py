"""Versions and settings of functions: deploy, rollback, set, history, and what is collected."""
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import numpy as np
import pytest
from conftest import CALL_LIMIT, EXAMPLES, PRESET, assert_error, folder_files, tar_of

pytestmark = pytest.mark.fake
DATA = {"input": np.arange(100, dtype=np.uint8)}
KEPT = 8


def copy_files(most=1 << 26, priority=None):
    """The example copy as another version for each `most`."""
    files = folder_files(EXAMPLES / "copy")
    text = files["function.yaml"].decode()
    assert "67108864" in text
    text = text.replace("67108864", str(most))
    if priority is not None:
        text += f"\nsettings: {{priority: {priority}}}\n"
    files["function.yaml"] = text.encode()
    return files


def put(server, most=1 << 26, **settings):
    answer = server.deploy("copy", copy_files(most, **settings))
    assert answer.status in (200, 201), answer.body
    return answer.json["version"], answer.status


def works(server, version=None):
    answer = server.infer("copy", DATA, version=version)
    assert answer.status == 200, answer.body
    np.testing.assert_array_equal(answer.outputs["output"], DATA["input"])
    return answer.json["model_version"]


def history(server):
    return server.request("GET", "/v1/functions/copy/history").json


def test_the_same_content_changes_nothing(server):
    first, status = put(server)
    assert status == 201
    before = history(server)
    again, status = put(server)
    assert (again, status) == (first, 200)
    assert history(server) == before


def test_versions_can_be_called_and_rolled_back(server):
    one, _ = put(server, 11000)
    two, _ = put(server, 12000)
    three, _ = put(server, 13000)
    assert len({one, two, three}) == 3
    assert works(server) == three
    for version in (one, two, three):
        assert works(server, version) == version
    assert [v["version"] for v in history(server)["versions"]] == [three, two, one]
    assert server.request("GET", "/v2/models/copy").json["versions"] == [three, two, one]

    answer = server.request("POST", "/v1/functions/copy/rollback")
    assert (answer.status, answer.json["version"]) == (200, two)
    assert works(server) == two
    answer = server.request("POST", "/v1/functions/copy/rollback")
    assert answer.json["version"] == one, "twice back"
    assert_error(server.request("POST", "/v1/functions/copy/rollback"), 409, "conflict", "no older version")
    answer = server.request("POST", f"/v1/functions/copy%40{three}/rollback")
    assert answer.json["version"] == three
    answer = server.request("POST", f"/v1/functions/copy@{one}/rollback")
    assert answer.json["version"] == one
    assert [item["what"] for item in history(server)["history"]] == ["rolled back"] * 4 + ["deployed"] * 3

    assert_error(server.request("POST", f"/v1/functions/copy@{one}/rollback"), 409, "conflict", "is the current one")
    assert_error(server.request("POST", "/v1/functions/copy@123456789/rollback"), 404, "not_found", "stored are", one)
    assert_error(server.infer("copy", DATA, version="abcdef123456"), 404, "not_found", "has no version")
    again, status = put(server, 13000)
    assert (again, status) == (three, 201), "older content deployed again is current again"


def test_one_version_has_nothing_to_go_back_to(server):
    put(server)
    assert_error(server.request("POST", "/v1/functions/copy/rollback"), 409, "conflict", "no older version")
    assert_error(server.request("POST", "/v1/functions/cody/rollback"), 404, "not_found", "did you mean 'copy'")


def test_all_comes_back_after_a_kill(make_server):
    server = make_server()
    one, _ = put(server, 11000)
    two, _ = put(server, 12000)
    server.request("POST", "/v1/functions/copy/rollback")
    assert server.request("PATCH", "/v1/functions/copy", b'{"limits.timeout": "7s", "priority": 2}').status == 200
    before = history(server)
    server.kill()
    server.start()
    assert history(server) == before
    assert works(server) == one
    assert works(server, two) == two
    settings = server.request("GET", "/v1/functions/copy").json["settings"]
    assert (settings["priority"], settings["limits"]["timeout"]) == (2, "7s")


def test_settings_change_in_place(server):
    version, _ = put(server, 11000, priority=6)
    get = lambda: server.request("GET", "/v1/functions/copy").json["settings"]
    assert get()["priority"] == 6
    answer = server.request("PATCH", "/v1/functions/copy", b'{"priority": 1, "limits.memory": "1MiB"}')
    assert answer.status == 200, answer.body
    assert answer.json["version"] == version
    assert (get()["priority"], get()["limits"]["memory_bytes"]) == (1, 1 << 20)
    assert works(server)

    # What is set holds for the next version too, and its deploy says so.
    answer = server.deploy("copy", copy_files(12000, priority=7))
    assert "priority=1" in answer.json["warnings"][-1], answer.json
    assert get()["priority"] == 1
    assert server.request("PATCH", "/v1/functions/copy", b'{"priority": null}').status == 200
    assert get()["priority"] == 7, "what the manifest says"
    assert server.request("POST", "/v1/functions/copy/rollback").status == 200
    assert get()["priority"] == 6


def test_settings_that_make_no_sense_change_nothing(server):
    put(server)
    before = server.request("GET", "/v1/functions/copy").json
    for body, text in ((b'{"priority": 10}', "0 (most urgent) to 9"), (b'{"quota.units": 2}', "at most 1"),
                       (b'{"priority": 3, "limits.timeout": "x"}', "timeout"), (b'{"priority": [1]}', "neither"),
                       (b'{"limit.timeout": "1s"}', "did you mean 'limits.timeout'"), (b"[]", "no object"),
                       (b"{", "no JSON"), (b"{}", "nothing"),
                       (b'{"priority": 1, "priority": 2}', "'priority' is given twice; give it once"),
                       (b'{"priority": 1, "limits.timeout": "1s", "prior\\u0069ty": 1}', "'priority' is given twice"),
                       (b'{"priority": "5, limits: {timeout: 1s}"}', "write a number")):
        assert_error(server.request("PATCH", "/v1/functions/copy", body), 400, "invalid", text)
    assert server.request("PATCH", "/v1/functions/copy", b'{"a": "' + b"x" * 70_000 + b'"}').status == 413
    assert server.request("GET", "/v1/functions/copy").json == before


def test_a_lower_timeout_holds_at_once(server):
    if PRESET != "dev":
        pytest.skip("spin takes its time on a real device")
    server.deploy("spin")
    data = {"input": np.zeros(16384, np.float32)}
    assert server.infer("spin", data, {"iterations": 3_000_000}).status == 200
    assert server.request("PATCH", "/v1/functions/spin", b'{"limits.timeout": "50ms"}').status == 200
    assert_error(server.infer("spin", data, {"iterations": 300_000_000}), 504, "deadline")


def objects(server):
    names = [path.name for path in (server.state / "objects").rglob("*") if path.is_file()]
    return sorted(name for name in names if len(name) == 64)


def test_old_versions_and_their_objects_are_collected(server):
    versions = [put(server, 11000 + i)[0] for i in range(KEPT + 3)]
    assert [v["version"] for v in history(server)["versions"]] == versions[:-KEPT - 1:-1]
    assert_error(server.infer("copy", DATA, version=versions[0]), 404, "not_found")
    assert works(server, versions[3]) == versions[3]
    # One manifest per version is left, one source and one binary for all.
    assert len(objects(server)) == KEPT + 2
    assert server.request("DELETE", "/v1/functions/copy").status == 200
    assert len(objects(server)) == 1, "a binary may serve again"
    assert_error(server.request("GET", "/v1/functions/copy/history"), 404, "not_found")


def test_only_named_files_are_kept(server):
    files = dict(copy_files(), **{"notes.txt": b"not named", "expected/a/output/output.npy": b"x" * 10_000})
    assert server.deploy("copy", files).status == 201
    assert len(objects(server)) == 3


def test_two_deploys_at_once(server):
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        versions = [version for version, _ in pool.map(lambda i: put(server, 11000 + i), range(6))]
        for _ in range(20):
            assert works(server) in versions
    current = works(server)
    listed = history(server)
    assert sorted(v["version"] for v in listed["versions"]) == sorted(versions)
    assert listed["versions"][0]["version"] == current
    server.kill()
    server.start()
    assert works(server) == current, "what was current last is what is stored as current"


def stop_builder(server, since, deploy):
    """Stops the builder of a deploy as soon as it has started, so that the build cannot end before the test goes on.
    Returns the process id of the builder."""
    line = server.wait_line(r"builder \d+: started", since=since, watched=[deploy])
    builder = int(re.search(r"builder (\d+):", line)[1])
    # From its own program on it ends with its server. /proc has no event that tells when that begins.
    deadline = time.monotonic() + CALL_LIMIT
    while b"builder" not in pathlib.Path(f"/proc/{builder}/cmdline").read_bytes().split(b"\0"):
        assert time.monotonic() < deadline, "the builder does not begin"
    os.kill(builder, signal.SIGSTOP)
    return builder


@pytest.mark.events
@pytest.mark.skipif(PRESET != "dev", reason="a build must take some time")
def test_a_deploy_that_is_interrupted_leaves_the_old_version(make_server):
    server = make_server(binary_cache=False)
    old, _ = put(server, 11000)
    files = copy_files(12000)
    files["copy.cl"] += b"\n__kernel void other(__global float* x) { x[0] = 1; }\n"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        since = server.mark()
        deploy = pool.submit(server.deploy, "copy", files)
        builder = stop_builder(server, since, deploy)
        assert works(server) == old, "it serves while the new one is built"
        os.kill(builder, signal.SIGKILL)
        assert_error(deploy.result(), 400, "invalid")
        assert works(server) == old
        since = server.mark()
        deploy = pool.submit(server.deploy, "copy", files)
        stop_builder(server, since, deploy)
        server.kill()
        assert deploy.exception() is not None
    server.start()
    assert works(server) == old
    assert [v["version"] for v in history(server)["versions"]] == [old]
    new = server.deploy("copy", files).json["version"]
    assert works(server) == new


def test_the_command_line(server, tmp_path):
    folder = tmp_path / "copy"
    folder.mkdir()
    for most in (11000, 12000):
        for name, content in copy_files(most).items():
            (folder / name).write_bytes(content)
        server.cli("deploy", folder, check=0)
    versions = [v["version"] for v in json.loads(server.cli("history", "copy", "--json", check=0).stdout)["versions"]]
    shown = server.cli("history", "copy", check=0).stdout
    assert all(version in shown for version in versions) and "deployed" in shown
    assert server.cli("rollback", "copy", check=0).stdout == f"copy@{versions[1]} is current\n"
    assert server.cli("rollback", "copy", "--to", versions[0], check=0).stdout == f"copy@{versions[0]} is current\n"
    assert "priority=2" in server.cli("set", "copy", "priority=2", "limits.timeout=3s", check=0).stdout
    changed = json.loads(server.cli("set", "copy", "priority=", "--json", check=0).stdout)
    limits = {"timeout": "3s", "device_time": "3s"}
    assert changed["settings"] == {"priority": 5, "keep_warm": "nothing", "limits": limits}
    refused = server.cli("set", "copy", "priorty=2", check=1)
    assert "did you mean 'priority'" in refused.stderr, refused.stderr
    assert "write PATH=VALUE" in server.cli("set", "copy", "priority", check=1).stderr


# Hostile folders: refused by a stated limit, quickly, and nothing changes.

def refused(server, body, *texts):
    answer = server.request("PUT", "/v1/functions/copy", body)
    assert answer.status in (400, 413, 429), answer.body[:500]
    for text in texts:
        assert text in answer.json["error"], answer.json["error"][:500]
    assert server.request("GET", "/v1/functions").json["functions"] == []


def test_what_fits_no_device_is_refused_when_it_is_deployed(make_server):
    server = make_server(config="devices: [{name: small, driver: %s, memory: 1MiB}]" %
                         ("opencl" if PRESET == "dev" else "fake"))
    text = copy_files()["function.yaml"]
    large = text.replace(b"min: 1,", b"min: 1048577,").replace(b"default: 1024", b"default: 1048577")
    answer = server.deploy("copy", dict(copy_files(), **{"function.yaml": large}))
    assert_error(answer, 400, "invalid", "at its smallest", "2.0MiB", "1MiB")
    assert server.request("GET", "/v1/functions").json["functions"] == []
    answer = server.deploy("copy", copy_files())
    assert answer.status == 201 and "at its largest" in answer.json["warnings"][0], answer.json
    assert_error(server.infer("copy", {"input": np.zeros(1 << 20, np.uint8)}), 400, "invalid", "2MiB", "1MiB")


@pytest.mark.skipif(PRESET != "dev", reason="of a real device")
def test_groups_that_fit_no_device_are_refused_when_deployed(server):
    files = folder_files(EXAMPLES / "saxpy")
    files["function.yaml"] = files["function.yaml"].replace(b"local: [256]", b"local: [32768]").replace(
        b"round_up(n, 256)", b"round_up(n, 32768)")
    assert_error(server.deploy("saxpy", files), 400, "invalid", "kernel 'saxpy'", "32768x1x1", "work-items")
    assert server.request("GET", "/v1/functions").json["functions"] == []


def test_hostile_folders(server):
    good = copy_files()
    bomb = "a: &b0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"b{i}: &b{i} [*b{i - 1}" + f", *b{i - 1}" * 8 + "]\n" for i in range(1, 9))
    refused(server, tar_of({"function.yaml": bomb}), "function.yaml:1")
    refused(server, tar_of(dict(good, **{"../outside.cl": b"x"})), "..")
    refused(server, tar_of(dict(good, **{"/etc/outside.cl": b"x"})), "/etc")
    refused(server, tar_of({"function.yaml": b"[" * 100_000}), "function.yaml")
    refused(server, tar_of({"function.yaml": b"a: " + b"x" * (2 << 20)}), "bytes")
    refused(server, tar_of(dict(good, **{f"many/{i}": b"" for i in range(20_000)})), "files")
    refused(server, b"\0" * 1024)
    refused(server, os.urandom(4096))


def test_a_program_of_ten_thousand_entries(server):
    files = copy_files()
    files["copy.cl"] += b"".join(b"__kernel void k%d(__global int* x) { x[0] = %d; }\n" % (i, i) for i in range(10_000))
    refused(server, tar_of(files), "10001 kernels", "at most 1024")


def test_a_link_out_of_the_folder(server, tmp_path):
    folder = tmp_path / "copy"
    folder.mkdir()
    for name, content in copy_files().items():
        (folder / name).write_bytes(content)
    (folder / "copy.cl").unlink()
    (folder / "copy.cl").symlink_to("/etc/passwd")
    failed = server.cli("deploy", folder, check=1)
    assert "copy.cl" in failed.stderr and "link" in failed.stderr, failed.stderr


def test_links_in_a_folder_that_tar_packs(server, tmp_path):
    folder = tmp_path / "copy"
    folder.mkdir()
    for name, content in copy_files().items():
        (folder / name).write_bytes(content)
    (folder / "secret.bin").symlink_to("/etc/passwd")

    def pack():  # as curl -T sends it
        return subprocess.run(["tar", "-C", folder, "-c", "."], check=True, capture_output=True).stdout
    answer = server.request("PUT", "/v1/functions/copy", pack())
    assert answer.status in (200, 201), answer.body
    (folder / "copy.cl").rename(folder / "elsewhere.cl")
    (folder / "copy.cl").symlink_to("elsewhere.cl")
    answer = server.request("PUT", "/v1/functions/copy", pack())
    assert answer.status == 400 and "copy.cl: is a link; pack the file itself" in answer.json["error"], answer.body
    assert len(server.request("GET", "/v1/functions").json["functions"]) == 1, "what was deployed before is still there"


@pytest.mark.parametrize("command", ["deploy", "plan", "check", "run"])
def test_what_the_manifest_does_not_name_is_ignored(server, tmp_path, command):
    folder = tmp_path / "copy"
    folder.mkdir()
    for name, content in copy_files().items():
        (folder / name).write_bytes(content)
    (folder / "secret.bin").symlink_to("/etc/passwd")
    (folder / "nowhere").symlink_to("none")
    (folder / "around").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    with open(folder / "huge.bin", "wb") as huge:
        huge.truncate(2 << 30)
    for i in range(5000):
        pathlib.Path(folder / f"f{i}").touch()
    more = ["--input", "input=@ones", "--dims", "n=64"] if command == "run" else []
    server.cli(command, folder, *more, check=0)
