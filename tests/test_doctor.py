"""`quern doctor`: every kind of file of a state is damaged in turn. Doctor says so, and after --repair the server
starts and serves all that is whole."""
import contextlib
import hashlib
import json
import sqlite3

import numpy as np
import pytest
from conftest import EXAMPLES, run_cli, saxpy_inputs

pytestmark = pytest.mark.fake

TENSOR = b"a tensor of the tenant"
TABLE = np.arange(256, dtype=np.uint8)
TABLE_MANIFEST = """
api: quern/v1
name: table
kind: graph
programs: {opencl: copy.cl}
dims: {n: 256}
buffers:
  w: {role: constant, dtype: uint8, shape: [n], file: w.bin}
  copy_of_w: {role: output, dtype: uint8, shape: [n]}
kernels: [{entry: copy, global: [64], local: [16], args: [{in: w}, {out: copy_of_w}, {uint32: n}]}]
"""


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def server(make_server):
    """With saxpy, copy, a function with a constant and an object of the tenant; stopped."""
    one = make_server()
    copy = (EXAMPLES / "copy" / "copy.cl").read_bytes()
    for name, files in (("saxpy", None), ("copy", None),
                        ("table", {"function.yaml": TABLE_MANIFEST, "copy.cl": copy, "w.bin": TABLE.tobytes()})):
        answer = one.deploy(name, files)
        assert answer.status == 201, answer.body
    assert one.request("PUT", "/v1/objects", TENSOR).status in (200, 201)
    one.stop()
    return one


def path_of(server, name):
    return server.state / "objects" / name[:2] / name


def query(server, sql):
    with contextlib.closing(sqlite3.connect(f"file:{server.state / 'state.db'}?immutable=1", uri=True)) as database:
        return database.execute(sql).fetchall()


def object_of(server, function, path):
    [[name]] = query(server, f"SELECT object FROM version_files WHERE name = '{function}' AND path = '{path}'")
    return name


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def doctor(server, *flags, check):
    return json.loads(run_cli("doctor", server.state, "--json", *flags, check=check).stdout)


def kinds(report):
    return [(one["kind"], one["damage"]) for one in report["findings"]]


def snapshot(server):
    return {path: path.read_bytes() if path.is_file() else None for path in sorted(server.state.rglob("*"))}


def answers(server):
    """Which functions answer as they should."""
    good = set()
    inputs = saxpy_inputs()
    answer = server.infer("saxpy", inputs, {"alpha": 2.0})
    if answer.status == 200:
        np.testing.assert_allclose(answer.outputs["z"], 2 * inputs["x"] + inputs["y"], rtol=1e-6)
        good.add("saxpy")
    x = np.tile(TABLE, 16)
    answer = server.infer("copy", {"input": x})
    if answer.status == 200:
        np.testing.assert_array_equal(answer.outputs["output"], x)
        good.add("copy")
    answer = server.infer("table", {})
    if answer.status == 200:
        np.testing.assert_array_equal(answer.outputs["copy_of_w"], TABLE)
        good.add("table")
    return good


EVERYTHING = {"saxpy", "copy", "table"}


def test_a_healthy_state(server):
    before = snapshot(server)
    report = doctor(server, check=0)
    assert report["healthy"] and report["findings"] == [] and report["schema"] == 6
    assert sorted(one["name"] for one in report["functions"]) == sorted(EVERYTHING)
    assert all(one["whole"] and one["current"] for one in report["functions"])
    assert report["tenant_objects"] == 1
    text = run_cli("doctor", server.state, check=0).stdout
    assert "3 of 3 versions are whole" in text and "all is well" in text
    assert snapshot(server) == before, "an examination changes something"
    doctor(server, "--repair", check=0)
    assert snapshot(server) == before, "a repair of nothing changes something"


def test_a_server_that_runs_is_left_alone(server):
    server.start()
    for flags in ((), ("--repair",)):
        ran = run_cli("doctor", server.state, *flags, check=1)
        assert "a server has it open; stop that server first" in ran.stderr
    assert answers(server) == EVERYTHING


def test_a_folder_that_is_no_state(tmp_path):
    for folder in (tmp_path, tmp_path / "none"):
        ran = run_cli("doctor", folder, "--repair", check=1)
        assert "name the folder that 'quern serve --state' has" in ran.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["empty", "missing", "garbage", "truncated"])
def test_a_lost_database(server, how):
    database = server.state / "state.db"
    content = database.read_bytes()
    objects = {path.name for path in (server.state / "objects").rglob("*") if len(path.name) == 64}
    if how == "missing":
        database.unlink()
    else:
        database.write_bytes({"empty": b"", "garbage": bytes(range(256)) * 64,
                              "truncated": content[:len(content) // 2]}[how])
    report = doctor(server, check=1)
    assert kinds(report) == [("database", True)]
    [finding] = report["findings"]
    assert f"and {len(objects)} objects are beside it" in finding["problem"]
    assert "restore state.db from a backup" in finding["cure"] and "moves it and all objects aside" in finding["cure"]
    text = run_cli("doctor", server.state, check=1).stdout
    assert "DAMAGED" in text and "1 thing is damaged" in text

    report = doctor(server, "--repair", check=0)
    assert report["healthy"] and report["functions"] == [] and report["objects"] == 0
    [aside] = (server.state / "aside").iterdir()
    assert {path.name for path in (aside / "objects").rglob("*") if len(path.name) == 64} == objects
    if how != "missing":
        assert (aside / "state.db").exists()
    server.start()
    assert server.deploy("saxpy").status == 201
    assert answers(server) == {"saxpy"}


@pytest.mark.parametrize("how", ["flipped", "missing"])
def test_a_file_of_a_function(server, how):
    path = path_of(server, object_of(server, "saxpy", "function.yaml"))
    flip(path) if how == "flipped" else path.unlink()
    report = doctor(server, check=1)
    assert kinds(report) == [("object", True)]
    [finding] = report["findings"]
    assert path.name in finding["thing"] and "all but function saxpy@" in finding["works"]
    assert "deploy the function again" in finding["cure"]
    assert [one["name"] for one in report["functions"] if not one["whole"]] == ["saxpy"]

    report = doctor(server, "--repair", check=1)
    assert [one["problem"] for one in report["findings"]] == ["is missing"], "only a deploy brings its bytes back"
    assert len(report["repaired"]) == (how == "flipped") and not path.exists()
    server.allow_errors("function saxpy")
    server.start()
    assert answers(server) == {"copy", "table"}
    assert server.deploy("saxpy").status in (200, 201)
    assert answers(server) == EVERYTHING
    server.stop()
    doctor(server, check=0)


@pytest.mark.parametrize("how", ["flipped", "missing"])
def test_a_constant(server, how):
    path = path_of(server, sha256(TABLE.tobytes()))
    flip(path) if how == "flipped" else path.unlink()
    report = doctor(server, check=1)
    assert kinds(report) == [("object", True)]
    assert "all but function table@" in report["findings"][0]["works"]
    doctor(server, "--repair", check=1)
    server.allow_errors("table|object")
    server.start()
    assert answers(server) == {"saxpy", "copy"}


def test_an_object_of_a_tenant(server):
    flip(path_of(server, sha256(TENSOR)))
    report = doctor(server, check=1)
    assert kinds(report) == [("object", True)]
    assert report["findings"][0]["works"] == "all but calls of tenant default that name it"
    doctor(server, "--repair", check=1)
    server.start()
    assert answers(server) == EVERYTHING
    assert server.request("PUT", "/v1/objects", TENSOR).status in (200, 201)
    server.stop()
    doctor(server, check=0)


@pytest.mark.parametrize("how", ["flipped", "missing"])
def test_a_compiled_program_is_a_cache(server, how):
    programs = [path_of(server, name) for [name] in query(server, "SELECT object FROM binaries")]
    assert programs
    for path in programs:
        flip(path) if how == "flipped" else path.unlink()
    report = doctor(server, check=0)
    assert kinds(report) == [("program", False)] * len(programs)
    assert all(one["cure"] == "it is built again" for one in report["findings"])
    assert "NOTE" in run_cli("doctor", server.state, check=0).stdout
    report = doctor(server, "--repair", check=0)
    assert report["findings"] == []
    server.start()
    assert answers(server) == EVERYTHING


def test_leftovers_go_aside(server):
    shelf = server.state / "objects" / "ab"
    (shelf / ("a" * 64 + ".1.2.tmp")).write_bytes(b"half")
    (shelf / "notes.txt").write_bytes(b"notes")
    report = doctor(server, check=0)
    assert kinds(report) == [("leftover", False)] * 2
    report = doctor(server, "--repair", check=0)
    assert report["findings"] == [] and len(report["repaired"]) == 2
    [aside] = (server.state / "aside").iterdir()
    assert (aside / "objects" / "ab" / "notes.txt").read_bytes() == b"notes"
    server.start()
    assert answers(server) == EVERYTHING


def test_permissions(server):
    server.state.chmod(0o755)
    (server.state / "state.db").chmod(0o644)
    report = doctor(server, check=1)
    assert kinds(report) == [("permissions", True)] * 2
    assert [one["problem"] for one in report["findings"]] == [f"other users may use it (mode {mode})"
                                                              for mode in ("0755", "0644")]
    assert doctor(server, "--repair", check=0)["healthy"]
    assert (server.state.stat().st_mode & 0o777, (server.state / "state.db").stat().st_mode & 0o777) == (0o700, 0o600)
    server.start()
    assert answers(server) == EVERYTHING
