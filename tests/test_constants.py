"""Constants are objects on disk, each once, and in memory only while they are needed."""
import hashlib
import io
import os
import pathlib
import sqlite3

import numpy as np
import pytest
from conftest import EXAMPLES

pytestmark = pytest.mark.fake

COUNT = 4096
MANIFEST = """
api: quern/v1
name: tables
kind: graph
programs: {opencl: copy.cl}
dims: {n: 4096}
buffers:
  v: {role: constant, dtype: uint8, shape: [n], file: v.npy}
  w: {role: constant, dtype: uint8, shape: [n], file: w.bin}
  x: {role: input, dtype: uint8, shape: [n]}
  copy_of_v: {role: output, dtype: uint8, shape: [n]}
  copy_of_w: {role: output, dtype: uint8, shape: [n]}
  copy_of_x: {role: output, dtype: uint8, shape: [n]}
kernels:
  - {entry: copy, global: [64], local: [16], args: [{in: v}, {out: copy_of_v}, {uint32: n}]}
  - {entry: copy, global: [64], local: [16], args: [{in: w}, {out: copy_of_w}, {uint32: n}]}
  - {entry: copy, global: [64], local: [16], args: [{in: x}, {out: copy_of_x}, {uint32: n}]}
"""


def table(seed):
    return np.random.default_rng(seed).integers(0, 256, COUNT, np.uint8)


def npy_of(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def files():
    return {"function.yaml": MANIFEST, "copy.cl": (EXAMPLES / "copy" / "copy.cl").read_bytes(),
            "v.npy": npy_of(table(1)), "w.bin": table(2).tobytes()}


def sha256(content):
    return hashlib.sha256(content).hexdigest()


V, W = sha256(table(1).tobytes()), sha256(table(2).tobytes())
V_FILE = sha256(npy_of(table(1)))


def path_of(server, name):
    return server.state / "objects" / name[:2] / name


def is_stored(server, name):
    return path_of(server, name).exists()


def call(server):
    return server.infer("tables", {"x": table(3)})


def check(server):
    answer = call(server)
    assert answer.status == 200, answer.body
    for name, seed in (("v", 1), ("w", 2), ("x", 3)):
        np.testing.assert_array_equal(answer.outputs["copy_of_" + name], table(seed))


def constants_in_memory(server):
    """How many the server itself has: sealed objects of their size."""
    found = 0
    for entry in pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir():
        try:
            found += "quern-object" in os.readlink(entry) and os.stat(entry).st_size == COUNT
        except FileNotFoundError:
            continue
    return found


def test_each_is_on_disk_once_and_not_in_memory(server):
    assert server.deploy("tables", files()).status == 201
    assert is_stored(server, V) and is_stored(server, W)
    assert not is_stored(server, V_FILE), "its elements are all that is needed of it"
    assert constants_in_memory(server) == 0
    check(server)
    assert server.request("DELETE", "/v1/functions/tables").status == 200
    server.stop()
    server.start()
    assert not is_stored(server, V) and not is_stored(server, W)


def test_a_restart_does_not_read_them(server):
    assert server.deploy("tables", files()).status == 201
    server.stop()
    path_of(server, W).write_bytes(table(2).tobytes()[:100])
    server.start()
    assert [one["name"] for one in server.request("GET", "/v1/functions").json["functions"]] == ["tables"]
    assert constants_in_memory(server) == 0
    answer = call(server)
    assert answer.status >= 500 and f"object {W}: is damaged on disk" in answer.json["error"], answer.body
    # As the error advises, though nothing else has changed.
    assert server.deploy("tables", files()).status == 200
    check(server)


def test_what_schema_three_stored_is_taken_over(server):
    assert server.deploy("tables", files()).status == 201
    server.stop()
    with sqlite3.connect(server.state / "state.db") as database:
        for path, name in (("v.npy", V_FILE), ("w.bin", W)):
            database.execute("INSERT INTO version_files SELECT tenant, name, version, ?, ? FROM versions", (path, name))
        for later in ("version_constants", "tenant_objects", "kernel_times", "function_kernels", "function_gaps"):
            database.execute(f"DROP TABLE {later}")
        database.execute("PRAGMA user_version=3")
    database.close()
    path_of(server, V_FILE).write_bytes(npy_of(table(1)))
    path_of(server, V).unlink()
    for _ in range(2):  # the second time nothing is left to take over
        server.start()
        assert is_stored(server, V) and is_stored(server, W) and not is_stored(server, V_FILE)
        check(server)
        assert server.request("GET", "/v1/counters").json["builds"] == 0
        server.stop()
