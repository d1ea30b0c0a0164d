"""Nobody waits for another's disk, bytes, compiler or connections."""
import hashlib
import http.client
import pathlib
import resource
import select
import socket
import sqlite3
import tarfile
import threading
import time

import numpy as np
import pytest
from conftest import (CALL_LIMIT, EXAMPLES, PRESET, assert_error, children_of, command_of, folder_files, saxpy_inputs,
                      tar_of, wait_gone)

KEYS = {"a": "key-of-a", "b": "key-of-b"}
BUILD_LIMIT = 60  # the server's own, in seconds: what never ends is stopped by then

MANIFEST = """api: quern/v1
name: {name}
kind: graph
programs: {{opencl: a.cl}}
dims: {{n: {{default: 16, max: 1024}}}}
buffers:
  x: {{role: input, dtype: fp32, shape: [n]}}
  y: {{role: output, dtype: fp32, shape: [n]}}
kernels: [{{entry: k, global: [n], args: [{{in: x}}, {{out: y}}]}}]
"""
QUICK = "__kernel void k(__global const float* x, __global float* y) { y[get_global_id(0)] = x[get_global_id(0)]; }\n"
# A compiler takes minutes for this.
SLOW = """
#define A(i) v = sin(v) * x[(i)] + cos(v);
#define B(i) A(i) A(i+1) A(i+2) A(i+3) A(i+4) A(i+5) A(i+6) A(i+7)
#define C(i) B(i) B(i+8) B(i+16) B(i+24) B(i+32) B(i+40) B(i+48) B(i+56)
#define D(i) C(i) C(i+64) C(i+128) C(i+192) C(i+256) C(i+320) C(i+384) C(i+448)
__kernel void k(__global const float* x, __global float* y) {
  float v = x[get_global_id(0)];
  D(0) D(512) D(1024) D(2048)
  y[get_global_id(0)] = v;
}
"""


def files_of(name, source):
    return {"function.yaml": MANIFEST.format(name=name).encode(), "a.cl": (f"// {name}\n" + source).encode()}


def config(more=""):
    rows = "".join(f"  - {{name: {name}, key_sha256: {hashlib.sha256(key.encode()).hexdigest()}{more}}}\n"
                   for name, key in KEYS.items())
    return "pool: 0\ntenants:\n" + rows


def begin_deploy(server, name, source, key=None):
    """A connection that has sent a deploy, and waits for its answer."""
    connection = server.connect()
    headers = {"Authorization": "Bearer " + key} if key else {}
    connection.request("PUT", "/v1/functions/" + name, tar_of(files_of(name, source)), headers)
    return connection


def builders(server):
    return [pid for pid in children_of(server.process.pid) if "builder" in command_of(pid)[1:2]]


def test_one_tenants_compiles_hold_up_no_other(make_server):
    server = make_server(config=config(), binary_cache=False)
    assert server.deploy("known", files_of("known", QUICK), key=KEYS["b"]).status == 201
    slow = [begin_deploy(server, f"slow{i}", SLOW, KEYS["a"]) for i in range(6)]
    server.wait_lines(r"function slow\d: is being compiled", 2)  # of three builders a tenant has two
    begun = time.monotonic()
    again = files_of("known", QUICK)
    again["function.yaml"] = again["function.yaml"].replace(b"default: 16", b"default: 32")
    assert server.deploy("known", again, key=KEYS["b"]).status == 201, "its program is known"
    assert server.deploy("new", files_of("new", QUICK), key=KEYS["b"]).status == 201, "a builder is left for others"
    assert server.infer("new", {"x": np.ones(16, np.float32)}, key=KEYS["b"]).status == 200
    assert server.request("PATCH", "/v1/functions/new", b'{"priority": 2}', key=KEYS["b"]).status == 200
    # Every builder is taken: a known program needs none.
    slow.append(begin_deploy(server, "slow6", SLOW, KEYS["b"]))
    server.wait_lines(r"function slow\d: is being compiled", 3)
    again["function.yaml"] = again["function.yaml"].replace(b"default: 32", b"default: 48")
    assert server.deploy("known", again, key=KEYS["b"]).status == 201, "its program is known"
    running = builders(server)
    assert len(running) == 3, "a builder was free after all"
    assert time.monotonic() - begun < BUILD_LIMIT / 2, "somebody waited for a compiler"
    # Whoever hangs up is not compiled for.
    for connection in slow:
        connection.close()
    assert [pid for pid in running if not wait_gone(pid)] == []
    assert server.request("GET", "/v1/counters", key=KEYS["b"]).json["builds"] <= 5, "it began what nobody waits for"


def test_stop_does_not_wait_for_a_compiler(make_server):
    server = make_server(binary_cache=False)
    waiting = begin_deploy(server, "slow", SLOW)
    server.wait_line("function slow: is being compiled", CALL_LIMIT)
    begun = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - begun < BUILD_LIMIT / 2
    answer = waiting.getresponse()
    assert answer.status == 503 and b"stopping" in answer.read()


@pytest.mark.fake
def test_a_second_signal_ends_at_once(make_server):
    server = make_server()
    # A caller that sends its body forever is waited for, as the first signal promises.
    slow = socket.create_connection(("127.0.0.1", server.port), CALL_LIMIT)
    slow.sendall(b"PUT /v1/objects HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx")
    assert server.request("GET", "/v2/health/live").status == 200  # what came before it is read
    below = children_of(server.process.pid)
    server.process.terminate()
    server.wait_line("asked to stop")
    server.process.terminate()
    assert server._reap() == 1
    assert [pid for pid in below if not wait_gone(pid)] == []
    slow.close()


@pytest.mark.fake
def test_idle_connections_give_way(make_server):
    server = make_server()
    idle = [socket.create_connection(("127.0.0.1", server.port), CALL_LIMIT) for _ in range(1100)]
    assert server.request("GET", "/v2/health/live").status == 200
    server.wait_line(r"warning server: \d+ connections are open and at most 1024 may be; closed \d+ idle ones")
    assert idle[0].recv(1) == b"", "the one that was idle for longest is closed"
    for one in idle:
        one.close()


# Not under sanitizers: UBSan looks at the memory of objects through a pipe, and without descriptors it has none.
def test_without_descriptors_callers_are_told(make_server):
    server = make_server()
    assert server.deploy("saxpy").status == 201
    assert server.infer("saxpy", saxpy_inputs(16)).status == 200
    open_now = len(list((pathlib.Path("/proc") / str(server.process.pid) / "fd").iterdir()))
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (open_now + 4, open_now + 4))
    busy = []
    for _ in range(12):
        one = socket.create_connection(("127.0.0.1", server.port), CALL_LIMIT)
        busy.append(one)
        one.sendall(b"PUT /v1/objects HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
    # A caller that the server has a descriptor for is answered nothing: the body of its request does not come.
    answered = select.select(busy, [], [], CALL_LIMIT)[0]
    assert answered, "nobody was told"
    told = answered[0].recv(4096)
    assert told.startswith(b"HTTP/1.1 503"), told
    for one in busy:
        one.close()
    assert server.infer("saxpy", saxpy_inputs(16)).status == 200


@pytest.mark.fake
def test_who_ends_sending_is_answered(make_server):
    server = make_server()
    assert server.deploy("saxpy").status == 201
    body = (b'{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1,2]},'
            b'{"name":"y","shape":[2],"datatype":"FP32","data":[1,2]}]}')
    with socket.create_connection(("127.0.0.1", server.port), CALL_LIMIT) as sock:
        head = b"POST /v2/models/saxpy/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
        sock.sendall(head + body)
        sock.shutdown(socket.SHUT_WR)
        received = b""
        while piece := sock.recv(65536):
            received += piece
    assert b"HTTP/1.1 200" in received and b'"data":[' in received


@pytest.mark.fake
def test_uploads_are_bounded(make_server):
    server = make_server(config=config(", limits: {storage: 1MiB}"))
    key = KEYS["a"]
    assert server.request("PUT", "/v1/objects", bytes(600_000), key=key).status == 201
    for path in ("/v1/objects", "/v1/functions/large"):
        connection = server.connect()
        connection.putrequest("PUT", path)
        connection.putheader("Authorization", "Bearer " + key)
        connection.putheader("Content-Length", "500000")
        connection.endheaders()
        refused = connection.getresponse()  # no byte of the body was sent
        assert refused.status == 429 and b"limits.storage" in refused.read()
        connection.close()
    assert server.request("PUT", "/v1/objects", bytes(500_000), key=KEYS["b"]).status == 201, "each has its own"


def resident_bytes(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS:"))


@pytest.mark.fake
@pytest.mark.skipif(PRESET != "dev", reason="sanitizers keep memory that was freed")
def test_unfinished_uploads_take_no_memory(make_server):
    server = make_server(config="devices: [{name: fake0, driver: fake}]\n")
    constant = tarfile.TarInfo("w.bin")
    constant.size = 100_000_000
    zeros = memoryview(bytes(constant.size))
    before = resident_bytes(server.process.pid)
    unfinished = []
    for path, begin, count in (("/v1/functions/large", constant.tobuf(), 4), ("/v1/objects", b"", 3)):
        head = f"PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(begin) + len(zeros)}\r\n\r\n"
        for _ in range(count):
            one = socket.create_connection(("127.0.0.1", server.port), CALL_LIMIT)
            unfinished.append(one)
            one.sendall(head.encode() + begin)
            one.sendall(zeros[1:])  # one byte is missing
    assert server.request("GET", "/v2/health/live").status == 200
    grown = resident_bytes(server.process.pid) - before
    assert grown < 100 << 20, f"{len(unfinished)} uploads take {grown >> 20} MiB"
    assert select.select(unfinished, [], [], 0)[0] == [], "an upload was refused"
    for one in unfinished:
        one.close()


@pytest.mark.fake
def test_long_answers_of_json_are_refused(make_server):
    server = make_server()
    assert server.deploy("saxpy").status == 201
    inputs = saxpy_inputs(1 << 23)
    blobs = [array.tobytes() for array in inputs.values()]
    tensors = ",".join(f'{{"name":"{name}","datatype":"FP32","shape":[{array.size}],"parameters":'
                       f'{{"binary_data_size":{array.nbytes}}}}}' for name, array in inputs.items())
    head = f'{{"inputs":[{tensors}]}}'.encode()
    answer = server.request("POST", "/v2/models/saxpy/infer", head + b"".join(blobs),
                            {"Inference-Header-Content-Length": str(len(head))})
    assert_error(answer, 400, "invalid")
    assert "more than 16MiB of JSON" in answer.json["error"] and "binary_data" in answer.json["error"]
    assert server.infer("saxpy", saxpy_inputs(100_000), binary=False).status == 200


@pytest.mark.fake
def test_a_damaged_version_is_not_replaced_by_an_older_one(make_server):
    server = make_server()
    first = server.deploy("saxpy").json["version"]
    files = dict(folder_files(EXAMPLES / "saxpy"))
    files["saxpy.cl"] += b"// another version\n"
    files["function.yaml"] += b"# another version\n"  # an object of its own
    second = server.deploy("saxpy", files).json["version"]
    assert first != second
    assert server.deploy("spin").status == 201
    server.stop()
    database = sqlite3.connect(server.state / "state.db")
    manifest = database.execute("SELECT object FROM version_files WHERE name = 'saxpy' AND version LIKE ? AND path = ?",
                                (second + "%", "function.yaml")).fetchone()[0]
    database.close()
    path = server.state / "objects" / manifest[:2] / manifest
    path.write_bytes(path.read_bytes().replace(b"saxpy", b"saxpi"))
    server.allow_errors("does not come back")
    server.start()
    refused = server.infer("saxpy", saxpy_inputs(16))
    assert_error(refused, 500, "internal")
    assert manifest in refused.json["error"] and str(server.state) not in refused.json["error"]
    assert server.infer("saxpy", saxpy_inputs(16), version=first).status == 200, "by its version it can be called"
    assert server.request("GET", "/v2/models/spin/ready").status == 200, "others work"
    shown = server.cli("functions", check=0).stdout
    assert "damaged: function saxpy" in shown and manifest in shown
    # Going back, or deploying it again, mends it.
    assert server.request("POST", "/v1/functions/saxpy/rollback").status == 200
    assert server.infer("saxpy", saxpy_inputs(16)).status == 200
    assert server.deploy("saxpy", files).status == 201
    assert server.infer("saxpy", saxpy_inputs(16)).status == 200


@pytest.mark.fake
@pytest.mark.parametrize("how", ["missing", "flipped"])
def test_a_compiled_program_that_is_lost_is_built_again(make_server, how):
    server = make_server(binary_cache=False)
    assert server.deploy("saxpy").status == 201
    server.stop()
    database = sqlite3.connect(server.state / "state.db")
    for (name,) in database.execute("SELECT object FROM binaries").fetchall():
        path = server.state / "objects" / name[:2] / name
        if how == "missing":
            path.unlink()
        else:
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)
    database.close()
    server.start()
    inputs = saxpy_inputs(16)
    answer = server.infer("saxpy", inputs, {"alpha": 2.0})
    assert answer.status == 200, answer.body
    np.testing.assert_allclose(answer.outputs["z"], 2 * inputs["x"] + inputs["y"], rtol=1e-6)
    assert server.request("GET", "/v1/counters").json["builds"] == 1
    server.stop()
    server.start()
    assert server.request("GET", "/v1/counters").json["builds"] == 0, "and is stored again"


def forget_programs(server):
    """The state of a stopped server loses the table of compiled programs."""
    database = sqlite3.connect(server.state / "state.db")
    database.execute("DELETE FROM binaries")
    database.commit()
    database.close()


def test_a_server_listens_before_its_functions_are_ready(make_server):
    server = make_server(binary_cache=False)
    names = [f"quick{i}" for i in range(4)]
    for name in names:
        assert server.deploy(name, files_of(name, QUICK)).status == 201
    server.stop()
    forget_programs(server)
    server.start(ready=False)
    listed = {one["name"]: one for one in server.request("GET", "/v1/functions").json["functions"]}
    assert sorted(listed) == names, "all are known"
    starting = [one for one in listed.values() if one["state"] == "starting"]
    for one in starting:
        answer = server.infer(one["name"], {"x": np.ones(16, np.float32)})
        assert answer.status in (200, 503), answer.body
    server.wait_line(r"functions: all 4 stored versions were looked at, 4 are ready", since=server.begin)
    for name in names:
        assert server.infer(name, {"x": np.ones(16, np.float32)}).status == 200
    server.stop()
    # Nobody waits for it to come back either.
    forget_programs(server)
    server.start(ready=False)
    assert server.stop() == 0


def test_deploying_again_what_is_still_starting_is_no_new_deploy(make_server):
    server = make_server(binary_cache=False)
    names = ["b-slow", "a-next"]  # in this order they are made ready
    for name in names:
        assert server.deploy(name, files_of(name, QUICK)).status == 201
    before = server.request("GET", "/v1/functions/a-next").json["created_at"]
    history = server.cli("history", "a-next", "--json", check=0).stdout
    server.stop()
    # A compiler takes minutes for the first, and nobody looks at the second meanwhile.
    slow = hashlib.sha256(SLOW.encode()).hexdigest()
    path = server.state / "objects" / slow[:2] / slow
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(SLOW.encode())
    database = sqlite3.connect(server.state / "state.db")
    database.execute("UPDATE version_files SET object = ? WHERE name = 'b-slow' AND path = 'a.cl'", (slow,))
    database.commit()
    database.close()
    server.start(ready=False)
    server.wait_line("function b-slow: is being compiled", since=server.begin)
    listed = {one["name"]: one["state"] for one in server.request("GET", "/v1/functions").json["functions"]}
    assert listed == dict.fromkeys(names, "starting")
    answer = server.deploy("a-next", files_of("a-next", QUICK))
    assert (answer.status, answer.json["created_at"], answer.json["has_new_settings"]) == (200, before, False)
    assert server.cli("history", "a-next", "--json", check=0).stdout == history
    assert server.infer("a-next", {"x": np.ones(16, np.float32)}).status == 200
    assert server.stop() == 0


@pytest.mark.fake
def test_settings_are_there_whole_or_not_at_all_after_a_kill(make_server):
    server = make_server()
    assert server.deploy("saxpy").status == 201
    before = server.request("GET", "/v1/functions/saxpy").json["settings"]
    before = (before["priority"], before["limits"]["timeout"], before["limits"]["device_time"])
    for round_number in range(8):
        value = 1 + round_number % 2
        body = f'{{"priority": {value}, "limits.timeout": "{value}s", "limits.device_time": "{value}s"}}'.encode()
        caller = threading.Thread(target=patch_until_gone, args=(server, body))
        caller.start()
        assert server.request("GET", "/v1/functions/saxpy").status == 200  # as many PATCHes as fit meanwhile
        server.kill()
        caller.join()
        server.start()
        settings = server.request("GET", "/v1/functions/saxpy").json["settings"]
        told = (settings["priority"], settings["limits"]["timeout"], settings["limits"]["device_time"])
        assert told in [(1, "1s", "1s"), (2, "2s", "2s"), before], settings


def patch_until_gone(server, body):
    port = server.port
    try:
        for _ in range(200):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=CALL_LIMIT)
            connection.request("PATCH", "/v1/functions/saxpy", body)
            connection.getresponse().read()
            connection.close()
    except (ConnectionError, http.client.HTTPException):
        pass
