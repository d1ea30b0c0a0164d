"""Objects: inputs and outputs by name, so that a chain of calls moves nothing twice."""
import hashlib
import json
import os
import pathlib
import signal

import numpy as np
import pytest
from conftest import DATATYPES, PRESET, assert_error, saxpy_inputs

pytestmark = [pytest.mark.fake, pytest.mark.events]
KEYS = {"a": "key-of-a", "b": "key-of-b", "c": "key-of-c"}
N = 100_000
X = np.random.default_rng(3).random(N, np.float32)
Y = np.random.default_rng(4).random(N, np.float32)


def tenants():
    """a and b share a domain; c has one of its own."""
    return "tenants:\n" + "".join(
        f"  - {{name: {name}, key_sha256: {hashlib.sha256(key.encode()).hexdigest()}, "
        f"domain: {'c' if name == 'c' else 'shared'}}}\n" for name, key in KEYS.items())


def put(server, array, key=None):
    answer = server.request("PUT", "/v1/objects", array.tobytes(), key=key)
    assert answer.status == 201, answer.body
    assert answer.json == {"object": hashlib.sha256(array.tobytes()).hexdigest(), "bytes": array.nbytes}
    return answer.json["object"]


def get(server, name, keep=False, key=None):
    return server.request("GET", f"/v1/objects/{name}" + ("?keep=true" if keep else ""), key=key)


def listed(server, key=None):
    return server.request("GET", "/v1/objects", key=key).json["objects"]


def call(server, function, inputs, keep=None, parameters=None, key=None):
    """`inputs`: an array, or (id, dtype, shape). `keep`: {output: lease}; those outputs only."""
    tensors, blobs = [], []
    for name, value in inputs.items():
        if isinstance(value, tuple):
            value, dtype, shape = value
            tensors.append({"name": name, "datatype": DATATYPES[np.dtype(dtype).name], "shape": list(shape),
                            "parameters": {"object": value}})
        else:
            blobs.append(value.tobytes())
            tensors.append({"name": name, "datatype": DATATYPES[value.dtype.name], "shape": list(value.shape),
                            "parameters": {"binary_data_size": value.nbytes}})
    body = {"inputs": tensors, "parameters": dict(parameters or {}, binary_data_output=True)}
    if keep:
        body["outputs"] = [{"name": name, "parameters": {"object": True, "lease": lease}}
                           for name, lease in keep.items()]
    head = json.dumps(body).encode()
    return server.request("POST", f"/v2/models/{function}/infer", head + b"".join(blobs),
                          {"Inference-Header-Content-Length": str(len(head))}, key)


def left(answer, output):
    """The id of an output that stayed."""
    assert answer.status == 200, answer.body
    [one] = [one for one in answer.json["outputs"] if one["name"] == output]
    assert "data" not in one and "Inference-Header-Content-Length" not in answer.headers, "its bytes came as well"
    return one["parameters"]["object"]


def copied(server):
    return server.request("GET", "/v1/counters").json["copied_bytes"]


@pytest.fixture
def saxpy(server):
    assert server.deploy("saxpy").status in (200, 201)
    return server


def test_put_call_get(saxpy):
    x = put(saxpy, X)
    assert put(saxpy, X) == x, "the same bytes have the same id"
    assert get(saxpy, x).body == X.tobytes()
    for n in range(3):
        answer = call(saxpy, "saxpy", {"x": (x, np.float32, [N]), "y": Y}, parameters={"alpha": float(n)})
        assert answer.status == 200, answer.body
        np.testing.assert_allclose(answer.outputs["z"], n * X + Y, rtol=1e-6)
    # Bytes have no type: the same ones are an input of uint8.
    assert saxpy.deploy("copy").status in (200, 201)
    answer = call(saxpy, "copy", {"input": (x, np.uint8, [4 * N])})
    assert answer.outputs["output"].tobytes() == X.tobytes()
    assert [(one["object"], one["bytes"], one["kind"]) for one in listed(saxpy)] == [(x, 4 * N, "stored")]
    assert saxpy.request("DELETE", "/v1/objects/" + x).json == {"removed": x}
    for answer in (get(saxpy, x), call(saxpy, "saxpy", {"x": (x, np.float32, [N]), "y": Y}),
                   saxpy.request("DELETE", "/v1/objects/" + x)):
        assert_error(answer, 404, "not_found", x)
    assert listed(saxpy) == []


def test_a_chain_moves_nothing_twice(saxpy):
    x, y = put(saxpy, X), put(saxpy, Y)
    before = copied(saxpy)
    z = left(call(saxpy, "saxpy", {"x": (x, np.float32, [N]), "y": (y, np.float32, [N])}, {"z": "60s"},
                  {"alpha": 2.0}), "z")
    assert z.startswith("lease-") and len(z) == 38
    # The output of the first call is both inputs of the second, and its output stays too.
    second = left(call(saxpy, "saxpy", {"x": (z, np.float32, [N]), "y": (z, np.float32, [N])}, {"z": "60s"},
                       {"alpha": 3.0}), "z")
    assert copied(saxpy) == before, "bytes were copied"
    np.testing.assert_allclose(np.frombuffer(get(saxpy, second).body, np.float32), 4 * (2 * X + Y), rtol=1e-5)
    np.testing.assert_allclose(np.frombuffer(get(saxpy, z).body, np.float32), 2 * X + Y, rtol=1e-6)
    assert copied(saxpy) == before


def test_a_lease_is_read_once(saxpy):
    z = left(call(saxpy, "saxpy", {"x": X, "y": Y}, {"z": "60s"}), "z")
    [one] = listed(saxpy)
    assert one["object"] == z and one["kind"] == "lease" and one["bytes"] == 4 * N and one["expires_in"], one
    for _ in range(2):
        np.testing.assert_array_equal(np.frombuffer(get(saxpy, z, keep=True).body, np.float32), X + Y)
    head = saxpy.request("HEAD", "/v1/objects/" + z)
    assert head.status == 200 and head.headers["Content-Length"] == str(4 * N)
    assert get(saxpy, z).status == 200
    assert_error(get(saxpy, z), 404, "not_found", z)
    assert_error(call(saxpy, "saxpy", {"x": (z, np.float32, [N]), "y": Y}), 404, "not_found", z)
    z = left(call(saxpy, "saxpy", {"x": X, "y": Y}, {"z": "60s"}), "z")
    assert saxpy.request("DELETE", "/v1/objects/" + z).status == 200
    assert_error(get(saxpy, z), 404, "not_found", z)


def wait_over(server, lease):
    """Waits for the end of a lease of a millisecond. No event tells that: the clock ends a lease, and the server finds
    out when it is asked."""
    server.wait_until(lambda: server.request("HEAD", "/v1/objects/" + lease).status == 404, "the lease is over",
                      look_every=0.001)


def test_a_lease_ends(saxpy):
    longer = left(call(saxpy, "saxpy", {"x": X, "y": Y}, {"z": "1h"}), "z")
    brief = left(call(saxpy, "saxpy", {"x": X, "y": Y}, {"z": "1ms"}), "z")
    wait_over(saxpy, brief)
    assert_error(get(saxpy, brief), 404, "not_found", "lease is over")
    assert [one["object"] for one in listed(saxpy)] == [longer]


def test_leases_that_are_over_give_their_memory_back(saxpy):
    """32 leases of 16 MiB that nobody reads: in segments of 64 MiB they would be eight."""
    n = 4 << 20
    x = put(saxpy, np.zeros(n, np.float32))
    for _ in range(32):
        z = left(call(saxpy, "saxpy", {"x": (x, np.float32, [n]), "y": (x, np.float32, [n])}, {"z": "1ms"}), "z")
        wait_over(saxpy, z)
    names = []
    for fd in pathlib.Path(f"/proc/{saxpy.process.pid}/fd").iterdir():
        try:
            names.append(os.readlink(fd))
        except FileNotFoundError:
            continue
    # A segment that outputs were lent from has two descriptors.
    assert 1 <= sum("memfd:quern-output" in name for name in names) <= 4, names


def test_wrong_sizes_and_ids(saxpy):
    x = put(saxpy, X)
    assert_error(call(saxpy, "saxpy", {"x": (x, np.float32, [N - 1]), "y": Y[1:]}), 400, "invalid",
                 f"input x: object {x} has {4 * N} bytes, but FP32 of shape [{N - 1}] takes {4 * N - 4}")
    assert_error(call(saxpy, "saxpy", {"x": (x, np.float64, [N // 2]), "y": Y}), 400, "invalid")
    for name in ("nonsense", "lease-" + "0" * 32, "0" * 64, "../../etc/passwd"):
        assert_error(call(saxpy, "saxpy", {"x": (name, np.float32, [N]), "y": Y}), 404, "not_found", name)
    for lease in ("2h", "0s", "soon", "-1s"):
        assert_error(call(saxpy, "saxpy", {"x": X, "y": Y}, {"z": lease}), 400, "invalid", "lease")
    both = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1], "parameters": {"object": x}}
    body = json.dumps({"inputs": [both]})
    assert_error(saxpy.request("POST", "/v2/models/saxpy/infer", body), 400, "invalid", "give one")
    assert_error(saxpy.request("PUT", "/v1/objects", b"x", {"Transfer-Encoding": "chunked"}), 411, "invalid")
    # An empty object is one, though of no use to saxpy.
    assert saxpy.request("PUT", "/v1/objects", b"", {"Content-Length": "0"}).json["bytes"] == 0


def test_another_tenants_are_not_there(make_server):
    """contract 19"""
    server = make_server(config=tenants())
    for key in KEYS.values():
        assert server.deploy("saxpy", key=key).status in (200, 201)
    a = KEYS["a"]
    x = put(server, X, key=a)
    z = left(call(server, "saxpy", {"x": (x, np.float32, [N]), "y": Y}, {"z": "1h"}, key=a), "z")
    for name in ("b", "c"):
        key = KEYS[name]
        for theirs, none in ((x, "0" * 64), (z, "lease-" + "0" * 32)):
            for ask in (lambda one, key=key: get(server, one, key=key),
                        lambda one, key=key: server.request("DELETE", "/v1/objects/" + one, key=key),
                        lambda one, key=key: call(server, "saxpy", {"x": (one, np.float32, [N]), "y": Y}, key=key)):
                answer = ask(theirs)
                assert_error(answer, 404, "not_found")
                # The same words as for one that never was.
                assert answer.json["error"].replace(theirs, none) == ask(none).json["error"]
        assert listed(server, key=key) == []
    assert get(server, x, key=a).status == 200 and get(server, z, key=a).status == 200
    assert_error(server.request("GET", "/v1/objects"), 401, "denied")
    # Who puts the same bytes has an object of its own.
    assert put(server, X, key=KEYS["b"]) == x
    assert server.request("DELETE", "/v1/objects/" + x, key=a).status == 200
    assert get(server, x, key=KEYS["b"]).body == X.tobytes()
    assert_error(get(server, x, key=a), 404, "not_found")


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_restart_keeps_stored_ones_and_forgets_leases(saxpy, how):
    x = put(saxpy, X)
    z = left(call(saxpy, "saxpy", {"x": (x, np.float32, [N]), "y": Y}, {"z": "1h"}), "z")
    getattr(saxpy, how)()
    saxpy.start()
    assert [one["object"] for one in listed(saxpy)] == [x]
    assert_error(get(saxpy, z), 404, "not_found")
    for _ in range(2):
        answer = call(saxpy, "saxpy", {"x": (x, np.float32, [N]), "y": Y})
        np.testing.assert_allclose(answer.outputs["z"], X + Y, rtol=1e-6)
    assert copied(saxpy) <= 4 * N, "it was brought into memory more than once"


def test_an_object_in_a_lost_executor_is_still_there(saxpy):
    """The memory is the daemon's: who wrote it may go."""
    x = put(saxpy, X)
    z = left(call(saxpy, "saxpy", {"x": (x, np.float32, [N]), "y": Y}, {"z": "1h"}), "z")
    saxpy.allow_errors("executor")
    for executor in saxpy.executors():
        os.kill(executor, signal.SIGKILL)
    answer = call(saxpy, "saxpy", {"x": (z, np.float32, [N]), "y": (x, np.float32, [N])})
    assert answer.status == 200, answer.body
    np.testing.assert_allclose(answer.outputs["z"], 2 * X + Y, rtol=1e-6)


OWN_MEMORY = "devices: [{" + ("name: dev0, cores: [0]" if PRESET == "dev" else "name: dev0, driver: fake") + \
             ", in_place: false}]\n"


def tensors(server):
    """Names of the tensors that the device has as objects."""
    places = {place["name"]: place for place in server.request("GET", "/v1/memory").json["places"]}
    return sorted(item["name"] for item in places["dev0"]["items"] if item["kind"] == "tensor")


def loads(server):
    counters = server.request("GET", "/v1/counters").json
    return counters["loads"], counters["loaded_bytes"]


@pytest.fixture
def own(make_server):
    server = make_server(config=OWN_MEMORY)
    assert server.deploy("saxpy").status in (200, 201)
    return server


def test_where_a_device_has_memory_of_its_own_objects_stay_there(own):
    """contract 20."""
    x = put(own, X)
    z = left(call(own, "saxpy", {"x": (x, np.float32, [N]), "y": Y}, {"z": "1h"}), "z")
    assert loads(own) == (1, X.nbytes), "an input that is an object is brought once, and an output that stays never"
    assert tensors(own) == sorted([x[:12], z[:12]])
    for _ in range(3):
        answer = call(own, "saxpy", {"x": (z, np.float32, [N]), "y": (x, np.float32, [N])})
        np.testing.assert_allclose(answer.outputs["z"], 2 * X + Y, rtol=1e-6)
    assert loads(own) == (1, X.nbytes)
    # Read is over, for the device too.
    np.testing.assert_allclose(np.frombuffer(get(own, z).body, np.float32), X + Y, rtol=1e-6)
    own.wait_until(lambda: tensors(own) == [x[:12]], "the lease has left the device")


def test_what_an_executor_had_of_objects_is_brought_again(own):
    z = left(call(own, "saxpy", {"x": X, "y": Y}, {"z": "1h"}), "z")
    own.allow_errors("executor")
    for executor in own.executors():
        os.kill(executor, signal.SIGKILL)
    answer = call(own, "saxpy", {"x": (z, np.float32, [N]), "y": X})
    assert answer.status == 200, answer.body
    np.testing.assert_allclose(answer.outputs["z"], 2 * X + Y, rtol=1e-6)
    assert loads(own)[1] == X.nbytes


def test_a_large_input_travels_ahead_of_its_run(own):
    """contract 11: its transfer begins with the rest of the set-up, and is told as a part of it."""
    n = 2 << 20
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    answer = call(own, "saxpy", {"x": x, "y": y}, parameters={"setup": True})
    np.testing.assert_allclose(answer.outputs["z"], x + y)
    parts = {part["name"]: part for part in answer.json["parameters"]["setup"]}
    assert parts["input"]["detail"] == "2 tensors, 16MiB", parts
    if "program" in parts:
        assert parts["input"]["from_us"] <= parts["program"]["to_us"], "it waited for the program"
    assert loads(own) == (2, x.nbytes + y.nbytes)
    own.wait_until(lambda: not tensors(own), "inputs that nobody can name have left the device")


def test_memory_shows_objects_and_blanks(make_server):
    server = make_server(config=OWN_MEMORY + "pool: 1\n")
    assert server.deploy("saxpy").status in (200, 201)
    x = put(server, X)
    z = left(call(server, "saxpy", {"x": (x, np.float32, [N]), "y": Y}, {"z": "1h"}), "z")
    def places_now():
        return {place["name"]: place for place in server.request("GET", "/v1/memory").json["places"]}

    server.wait_until(lambda: places_now()["dev0"]["blanks"] == 1, "a blank executor replaces the one that was taken")
    places = places_now()
    there = {item["kind"]: item for item in places["host"]["items"]}
    assert there["stored"]["name"] == x[:12] and there["stored"]["bytes"] == X.nbytes
    assert there["lease"]["name"] == z[:12] and "stays for" in there["lease"]["why"]
    text = server.cli("memory").stdout
    assert f"lease {z[:12]}" in text and "1 blank executor" in text, text


def test_objects_in_memory_have_a_budget(make_server):
    """contract 18: also what tenants put."""
    config = OWN_MEMORY.replace(", in_place: false", "") + "host_memory: 600KiB\n"
    server = make_server(config=config)
    assert server.deploy("saxpy").status in (200, 201)
    x, y = put(server, X), put(server, Y)
    assert_error(call(server, "saxpy", {"x": (x, np.float32, [N]), "y": (y, np.float32, [N])}), 429, "exhausted",
                 "raise host_memory")
    for one, other in ((x, Y), (y, X)) * 20:  # what no call uses gives way, from its answer on
        answer = call(server, "saxpy", {"x": (one, np.float32, [N]), "y": other})
        assert answer.status == 200, answer.body
        np.testing.assert_allclose(answer.outputs["z"], X + Y, rtol=1e-6)


def test_command_line(saxpy, tmp_path):
    inputs = saxpy_inputs(500)
    np.save(tmp_path / "x.npy", inputs["x"])
    np.save(tmp_path / "y.npy", inputs["y"])
    assert "no objects" in saxpy.cli("objects", check=0).stdout
    x = saxpy.cli("put", tmp_path / "x.npy", check=0).stdout.strip()
    assert x == hashlib.sha256(inputs["x"].tobytes()).hexdigest()
    whole = json.loads(saxpy.cli("put", tmp_path / "x.npy", "--whole", "--json", check=0).stdout)
    assert whole["bytes"] == (tmp_path / "x.npy").stat().st_size

    command = ("invoke", "saxpy", "--input", f"x=@object:{x}", "--input", f"y={tmp_path}/y.npy", "--param", "alpha=2")
    shown = saxpy.cli(*command, "--keep", "z=5m", check=0).stdout
    assert "z  fp32 [500]  stays for 5m as lease-" in shown
    kept = json.loads(saxpy.cli(*command, "--keep", "z", "--json", check=0).stdout)["outputs"][0]
    assert kept["expires_in"] == "1m" and "data" not in kept
    rows = [line.split() for line in saxpy.cli("objects", check=0).stdout.splitlines()]
    assert rows[0] == ["ID", "BYTES", "KIND", "EXPIRES"] and len(rows) == 5
    assert [row[2] for row in rows[1:]] == ["stored", "stored", "lease", "lease"]
    assert len(json.loads(saxpy.cli("objects", "--json", check=0).stdout)["objects"]) == 4

    z = 2 * inputs["x"] + inputs["y"]
    for keep in (["--keep"], []):
        saxpy.cli("get", kept["object"], "-o", tmp_path / "z.bin", *keep, check=0)
        np.testing.assert_allclose(np.fromfile(tmp_path / "z.bin", np.float32), z, rtol=1e-6)
    assert "lease is over" in saxpy.cli("get", kept["object"], "-o", tmp_path / "z.bin", check=1).stderr
    assert saxpy.cli("objects", "--remove", x, check=0).stdout == x + " removed\n"
    assert "put it first" in saxpy.cli("objects", "--remove", x, check=1).stderr

    for arguments, text in ((("--keep", "zz"), "did you mean 'z'?"), (("--keep", "z=soon"), "--keep z=soon"),
                            (("--keep", "z", "--output", f"z={tmp_path}/z.npy"), "give one"),
                            (("--keep", "z", "--repeat", "2"), "--repeat")):
        assert text in saxpy.cli(*command, *arguments, check=1).stderr
