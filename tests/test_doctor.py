"""`quern doctor`: each kind of file of a state is damaged in turn; after --repair the server serves what is whole."""
import contextlib
import hashlib
import json
import os
import re
import shutil
import sqlite3
import time

import numpy as np
import pytest
from conftest import EXAMPLES, PRESET, assert_error, folder_files, run_cli, saxpy_inputs

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
    assert report["healthy"] and report["findings"] == [] and report["schema"] == 7
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


def objects_of(server):
    """The names of all objects in the store."""
    return {path.name for path in (server.state / "objects").rglob("*") if len(path.name) == 64}


@pytest.mark.parametrize("how", ["missing", "empty", "truncated", "flipped", "garbage"])
def test_the_log_of_the_database(server, how):
    """A database that lost its last changes does not name what they stored. Nothing of that is deleted."""
    before = objects_of(server)
    server.start()
    files = {name: content + b"# another version\n" if name == "function.yaml" else content + b"// another version\n"
             for name, content in folder_files(EXAMPLES / "copy").items()}
    assert server.deploy("copy", files).status in (200, 201)
    assert server.deploy("spin").status == 201
    tensor = b"put by the server that was killed"
    assert server.request("PUT", "/v1/objects", tensor).status in (200, 201)
    server.kill()
    stored = objects_of(server)
    new = stored - before
    assert sha256(tensor) in new and len(new) >= 5
    log = server.state / "state.db-wal"
    content = bytearray(log.read_bytes())
    if how == "missing":
        log.unlink()
    else:
        log.write_bytes({"empty": b"", "truncated": content[:len(content) // 16], "garbage": b"x" * len(content),
                         "flipped": content[:48] + bytes(byte ^ 0x55 for byte in content[48:])}[how])
    report = doctor(server, check=1)
    assert kinds(report) == [("database", True)] and report["keeps_unnamed"]
    [finding] = report["findings"]
    assert "is older than its objects and lacks" in finding["problem"] and "state.db-wal" in finding["problem"]
    assert "moves those objects aside" in finding["cure"]
    doctor(server, "--repair", check=1)
    assert objects_of(server) == stored, "only the server knows what it needs"

    server.start()
    assert answers(server) == EVERYTHING
    line = server.wait_line(r"that no record names were moved to", since=server.begin)
    assert f"state: {len(new)} objects of " in line and "nothing was deleted" in line
    server.wait_line(r"state: state.db is older than its objects and lacks \d+ changes", since=server.begin)
    [aside] = (server.state / "aside").iterdir()
    assert str(aside) in line
    assert {path.name for path in aside.rglob("*") if path.is_file()} == new
    moved = aside / "objects" / sha256(tensor)[:2] / sha256(tensor)
    assert moved.read_bytes() == tensor
    server.stop()
    report = doctor(server, check=0)
    assert report["healthy"] and report["aside_files"] == len(new)
    assert re.search(rf"\naside +{len(new)} files", run_cli("doctor", server.state, check=0).stdout)


@pytest.mark.parametrize("how", ["garbage", "long", "empty", "folder"])
@pytest.mark.parametrize("repairs", [True, False], ids=["repaired", "left to the server"])
def test_the_count_of_changes(server, how, repairs):
    """A count that makes no sense says nothing about the database. Nothing is lost, and the count begins anew."""
    path = server.state / "changes"
    path.unlink()
    if how == "folder":
        path.mkdir()
    else:
        path.write_bytes({"garbage": b"garbage", "long": b"x" * 1000, "empty": b""}[how])
    orphan = b"an object that no record names"
    path_of(server, sha256(orphan)).parent.mkdir(exist_ok=True)
    path_of(server, sha256(orphan)).write_bytes(orphan)
    report = doctor(server, check=1)
    assert kinds(report) == [("database", True)] and report["keeps_unnamed"]
    [finding] = report["findings"]
    assert finding["thing"] == "file changes" and finding["works"] == "everything"
    assert "nobody knows whether state.db is as new as the objects" in finding["problem"]
    assert "--repair moves it aside, as the server does when it starts" in finding["cure"]
    if repairs:
        report = doctor(server, "--repair", check=0)
        assert report["findings"] == [] and [one["thing"] for one in report["repaired"]] == ["file changes"]
        assert not path.exists()
    server.start()
    assert answers(server) == EVERYTHING
    if not repairs:
        server.wait_line("state: file changes .* nobody knows .* moved to .*; if functions are missing, deploy",
                         since=server.begin)
    server.stop()
    moved = [one.name for one in (server.state / "aside").rglob("*")]
    assert "changes" in moved and sha256(orphan) in moved
    assert path.is_file() and path.stat().st_size == 21
    assert doctor(server, check=0)["findings"] == []


@pytest.mark.parametrize("how", ["garbage", "missing"])
def test_the_format_of_the_store(server, how):
    path = server.state / "objects" / "format"
    content = path.read_bytes()
    path.write_bytes(b"garbage") if how == "garbage" else path.unlink()
    report = doctor(server, check=0)
    assert kinds(report) == ([("leftover", False)] if how == "garbage" else [])
    assert doctor(server, "--repair", check=0)["findings"] == []
    server.start()
    assert answers(server) == EVERYTHING
    assert path.read_bytes() == content


@pytest.mark.parametrize("how", ["garbage", "missing", "folder"])
def test_the_lock(server, how):
    """What is in it means nothing: it is there to be held."""
    path = server.state / "lock"
    path.unlink()
    if how == "garbage":
        path.write_bytes(b"garbage")
    if how == "folder":
        path.mkdir()
        for command in (("doctor", server.state), ("serve", "--listen", "127.0.0.1:0", "--state", server.state)):
            ran = run_cli(*command, check=1)
            assert "lock: open: Is a directory" in ran.stderr, ran
        path.rmdir()
    assert doctor(server, check=0)["findings"] == []
    assert path.exists() == (how == "garbage"), "an examination makes nothing"
    doctor(server, "--repair", check=0)
    server.start()
    assert answers(server) == EVERYTHING


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_root_leaves_a_lock_that_the_owner_can_take(server):
    for path in (server.state, *server.state.rglob("*")):
        os.chown(path, 65534, 65534)
    (server.state / "lock").unlink()
    assert doctor(server, "--repair", check=0)["findings"] == []
    assert (server.state / "lock").stat().st_uid == 65534


@pytest.mark.parametrize("how", ["flipped", "missing"])
def test_the_source_of_a_kernel(server, how):
    path = path_of(server, object_of(server, "saxpy", "saxpy.cl"))
    flip(path) if how == "flipped" else path.unlink()
    report = doctor(server, check=1)
    assert kinds(report) == [("object", True)]
    assert "all but function saxpy@" in report["findings"][0]["works"]
    doctor(server, "--repair", check=1)
    server.allow_errors("function saxpy")
    server.start()
    assert answers(server) == {"copy", "table"}
    assert_error(server.infer("saxpy", saxpy_inputs(16)), 500, "internal", path.name)
    assert server.deploy("saxpy").status in (200, 201)
    assert answers(server) == EVERYTHING
    server.stop()
    doctor(server, check=0)


def test_all_objects_are_missing(server):
    shutil.rmtree(server.state / "objects")
    report = doctor(server, check=1)
    assert report["objects"] == 0 and not any(one["whole"] for one in report["functions"])
    assert {one["problem"] for one in report["findings"]} == {"is missing"}
    report = doctor(server, "--repair", check=1)
    assert len(report["functions"]) == 3, "the records stay"
    server.allow_errors("function (saxpy|copy|table)")
    server.start()
    assert answers(server) == set()
    states = {one["name"]: one["state"] for one in server.request("GET", "/v1/functions").json["functions"]}
    assert states == dict.fromkeys(EVERYTHING, "damaged")
    assert server.deploy("saxpy").status in (200, 201)
    assert answers(server) == {"saxpy"}


def test_a_database_that_is_a_link_is_followed(server, tmp_path):
    target = tmp_path / "state-on-another-disk.db"
    shutil.move(server.state / "state.db", target)
    (server.state / "state.db").symlink_to(target)
    assert doctor(server, "--repair", check=0)["findings"] == []
    server.start()
    assert answers(server) == EVERYTHING
    server.stop()
    assert doctor(server, "--repair", check=0)["findings"] == []
    assert (server.state / "state.db").is_symlink() and not (server.state / "aside").exists()
    # Its disk is not there today.
    target.rename(tmp_path / "away")
    for flags in ((), ("--repair",)):
        ran = run_cli("doctor", server.state, *flags, check=1)
        assert "state.db: is a link that leads nowhere" in ran.stderr
    assert not (server.state / "aside").exists()
    (tmp_path / "away").rename(target)
    server.start()
    assert answers(server) == EVERYTHING


def test_an_object_that_cannot_be_read_stays(server):
    path = path_of(server, object_of(server, "saxpy", "saxpy.cl"))
    content = path.read_bytes()
    path.unlink()
    path.symlink_to("/proc/self/mem")  # reading its first byte is an I/O error
    report = doctor(server, "--repair", check=1)
    assert kinds(report) == [("unreadable", False)] and report["repaired"] == [] and path.is_symlink()
    text = run_cli("doctor", server.state, check=1).stdout
    assert "UNREADABLE" in text and "1 thing is unreadable" in text
    path.unlink()
    path.write_bytes(content)
    doctor(server, check=0)


def query_live(server, sql):
    """As query, while the server runs: through a copy, for what it changed last is in the log of the database."""
    for name in ("state.db", "state.db-wal"):
        shutil.copy(server.state / name, server.folder / ("copy-of-" + name))
    with contextlib.closing(sqlite3.connect(server.folder / "copy-of-state.db")) as database:
        return database.execute(sql).fetchall()


def change(server, sql, values=()):
    """Of a server that is stopped."""
    with contextlib.closing(sqlite3.connect(server.state / "state.db")) as database:
        database.execute(sql, values)
        database.commit()


@pytest.mark.events
def test_an_older_version_is_not_kept_warm_in_place_of_a_damaged_one(make_server):
    server = make_server(config="devices: [{name: fake0, driver: fake, in_place: false}]\n")
    copy = (EXAMPLES / "copy" / "copy.cl").read_bytes()
    warm = TABLE_MANIFEST.replace("global: [64]", "global: [16]") + "settings: {keep_warm: hot}\n"

    def deploy(table):
        answer = server.deploy("table", {"function.yaml": warm, "copy.cl": copy, "w.bin": table.tobytes()})
        assert answer.status in (200, 201), answer.body

    def kept():
        places = server.request("GET", "/v1/memory").json["places"]
        return [item["name"] for place in places for item in place["items"]
                if item["kind"] == "object" and "kept" in item["why"]]

    deploy(TABLE)
    deploy(TABLE[::-1])
    server.wait_until(kept, "the current version is kept")
    server.stop()
    [[version]] = query(server, "SELECT version FROM versions ORDER BY turn DESC LIMIT 1")
    constant = query(server, f"SELECT object FROM version_constants WHERE version = '{version}'")[0][0]
    assert constant == sha256(TABLE[::-1].tobytes())
    change(server, "UPDATE version_constants SET bytes = 1 WHERE version = ?", (version,))
    server.allow_errors("function table")
    server.start()
    server.wait_line(r"functions: all 2 stored versions were looked at, 1 are ready", since=server.begin)
    assert_error(server.infer("table", {}), 500, "internal")
    # Whatever the server was asked to keep, it is told after this call, which loads the older version for itself.
    [old] = [one for [one] in query_live(server, "SELECT version FROM versions") if one != version]
    assert server.infer("table", {}, version=old).status == 200
    assert kept() == []


# Eight take a compiler half a second.
WORK = "#define A(i) v = sin(v) * x[(i)] + cos(v);\n#define B(i) " + " ".join(f"A(i+{i})" for i in range(8)) + "\n"
SOURCE = """__kernel void k(__global const float* x, __global float* y) {{
  float v = x[get_global_id(0)];
  {work}
  y[get_global_id(0)] = v;
}}
"""
LINE_MANIFEST = """
api: quern/v1
name: {name}
kind: graph
programs: {{opencl: a.cl}}
dims: {{n: {{default: 16, max: 1024}}}}
buffers:
  x: {{role: input, dtype: fp32, shape: [n]}}
  y: {{role: output, dtype: fp32, shape: [n]}}
kernels: [{{entry: k, global: [n], args: [{{in: x}}, {{out: y}}]}}]
"""


def source_of(name, blocks):
    """A program whose compilation takes the longer the more `blocks` it has."""
    return f"// {name}\n" + WORK + SOURCE.format(work=" ".join(f"B({8 * i})" for i in range(blocks)))


@pytest.mark.skipif(PRESET != "dev", reason="needs a compiler that takes its time")
def test_a_server_listens_while_it_compiles_and_stops_meanwhile(make_server):
    server = make_server(binary_cache=False)
    names = ["c-quick", "b-medium", "a-slow"]  # in this order they are made ready
    for name in names:
        answer = server.deploy(name, {"function.yaml": LINE_MANIFEST.format(name=name), "a.cl": source_of(name, 0)})
        assert answer.status == 201, answer.body
    server.stop()
    # The compiled programs are lost, and two sources are such that a compiler takes seconds, or minutes, for them.
    for [name] in query(server, "SELECT DISTINCT object FROM binaries"):
        path_of(server, name).unlink()
    for name, blocks in (("b-medium", 6), ("a-slow", 500)):
        source = source_of(name, blocks).encode()
        path_of(server, sha256(source)).write_bytes(source)
        change(server, "UPDATE version_files SET object = ? WHERE name = ? AND path = 'a.cl'", (sha256(source), name))
    begun = time.monotonic()
    server.start(ready=False)
    server.wait_line("function a-slow: is being compiled", since=server.begin)
    # It listened before, tells how far it is, and serves what is ready.
    said = [line for line in server.lines[server.begin:] if "listening on" in line or " functions: " in line]
    assert said[0].startswith("listening on"), said
    assert any("functions: 2 of 3 versions are ready" in line for line in said), said
    assert not any("functions: all" in line for line in said), said
    listed = {one["name"]: one["state"] for one in server.request("GET", "/v1/functions").json["functions"]}
    assert listed == {"c-quick": "ready", "b-medium": "ready", "a-slow": "starting"}
    x = np.ones(16, np.float32)
    assert server.infer("c-quick", {"x": x}).status == 200
    assert_error(server.infer("a-slow", {"x": x}), 503, "unavailable", "is being made ready")
    assert "starting" in server.cli("functions", check=0).stdout
    # Nobody waits for its compiler.
    stopped = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - stopped < 15, f"started {stopped - begun:.0f} s before"
    assert not any("functions: all" in line for line in server.lines[server.begin:])


def test_a_folder_that_holds_other_things_is_left_as_it_is(tmp_path):
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "letter.txt").write_text("mine")
    folder.chmod(0o755)
    ran = run_cli("serve", "--listen", "127.0.0.1:0", "--state", folder, check=1)
    assert "holds other things ('letter.txt') and no state of a server" in ran.stderr
    assert f"as in {folder}/quern-state" in ran.stderr
    assert folder.stat().st_mode & 0o777 == 0o755 and [path.name for path in folder.iterdir()] == ["letter.txt"]


def run_folder_of(server):
    """Where executors of this server load code from."""
    return "/dev/shm/quern-{}-{}".format(os.geteuid(), sha256(str(server.state).encode())[:12])


@pytest.mark.skipif(PRESET != "dev", reason="hal/fake has no files of code")
@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there is no shared memory")
def test_a_run_folder_that_takes_nothing_is_not_shown_to_tenants(make_server):
    server = make_server()
    assert server.deploy("saxpy").status == 201
    folder = run_folder_of(server)
    executors = [name for name in os.listdir(folder) if name.startswith("executor-")]
    assert executors
    for name in executors:  # like a full disk: nothing can be written there
        shutil.rmtree(f"{folder}/{name}")
        with open(f"{folder}/{name}", "w", encoding="utf-8"):
            pass
    answer = server.infer("saxpy", saxpy_inputs(16))
    assert answer.status >= 400 and "the server's disk" in answer.json["error"], answer.body
    assert folder not in answer.json["error"]
    server.wait_line(rf"warning request \S+: .*{folder}", since=server.begin)


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
    assert [f["problem"] for f in report["findings"]] == [f"other users may use it (mode 0{m})" for m in (755, 644)]
    assert doctor(server, "--repair", check=0)["healthy"]
    assert (server.state.stat().st_mode & 0o777, (server.state / "state.db").stat().st_mode & 0o777) == (0o700, 0o600)
    server.start()
    assert answers(server) == EVERYTHING
