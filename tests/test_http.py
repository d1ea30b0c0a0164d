"""The API by curl and by bare sockets: what a client we did not write meets."""
import json
import shutil
import socket
import subprocess

import numpy as np
import pytest
from conftest import PRESET, CALL_LIMIT, EXAMPLES, assert_error, folder_files, saxpy_inputs

pytestmark = pytest.mark.fake
needs_curl = pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")


def curl(server, path, *arguments, data=None):
    """(status, headers as text, body) as curl saw them."""
    ran = subprocess.run(["curl", "-sS", "-i", "--max-time", str(CALL_LIMIT), server.url + path, *arguments],
                         input=data, capture_output=True, timeout=2 * CALL_LIMIT, check=True)
    head, _, body = ran.stdout.partition(b"\r\n\r\n")
    while head.startswith(b"HTTP/1.1 100"):
        head, _, body = body.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode(), body


def saxpy_json(x, y, **extra):
    return dict({"inputs": [{"name": "x", "datatype": "FP32", "shape": [len(x)], "data": x},
                            {"name": "y", "datatype": "FP32", "shape": [len(y)], "data": y}]}, **extra)


def post(server, body, path="/v2/models/saxpy/infer", headers=None):
    return server.request("POST", path, json.dumps(body) if isinstance(body, dict) else body, headers)


@needs_curl
def test_curl_json(examples):
    body = saxpy_json([1, 2, 3], [10, 20, 30], parameters={"alpha": 2}, id="mine")
    status, head, answer = curl(examples, "/v2/models/saxpy/infer", "-d", json.dumps(body))
    assert status == 200 and "Inference-Header-Content-Length" not in head and "Quern-Request: " in head
    parsed = json.loads(answer)
    assert parsed["model_name"] == "saxpy" and parsed["id"] == "mine" and isinstance(parsed["model_version"], str)
    assert parsed["outputs"] == [{"name": "z", "datatype": "FP32", "shape": [3], "data": [12, 24, 36]}]


@needs_curl
def test_curl_large_body_waits_for_continue(examples, tmp_path):
    data = np.random.default_rng(1).integers(0, 256, 3 << 20, np.uint8).tobytes()
    head = json.dumps({"inputs": [{"name": "input", "datatype": "UINT8", "shape": [len(data)],
                                   "parameters": {"binary_data_size": len(data)}}],
                       "parameters": {"binary_data_output": True}}).encode()
    (tmp_path / "body").write_bytes(head + data)
    status, lines, body = curl(examples, "/v2/models/copy/infer", "--data-binary", f"@{tmp_path}/body", "-H",
                               f"Inference-Header-Content-Length: {len(head)}", "-H", "Expect: 100-continue")
    assert status == 200 and "Inference-Header-Content-Length: " in lines
    assert body.endswith(data)


@needs_curl
def test_curl_deploys(server, tmp_path):
    subprocess.run(["tar", "-C", EXAMPLES / "saxpy", "-cf", tmp_path / "saxpy.tar", "."], check=True)
    status, _, body = curl(server, "/v1/functions/saxpy", "-T", f"{tmp_path}/saxpy.tar")
    assert status == 201, body
    status, _, body = curl(server, "/v2/models/saxpy/infer", "-d", json.dumps(saxpy_json([1], [2])))
    assert status == 200 and json.loads(body)["outputs"][0]["data"] == [3]


@needs_curl
def test_encodings_that_are_not_taken(examples):
    status, _, _ = curl(examples, "/v2/models/saxpy/infer", "-H", "Transfer-Encoding: chunked", "-d", "@-", data=b"{}")
    assert status == 411
    status, _, _ = curl(examples, "/v2/models/saxpy/infer", "-H", "Content-Encoding: gzip", "-d", "{}")
    assert status == 415


def test_health_and_metadata(examples):
    assert examples.request("GET", "/v2/health/live").status == 200
    assert examples.request("GET", "/v2/health/ready").status == 200
    server = examples.request("GET", "/v2").json
    assert server["name"] == "quern" and server["extensions"] == ["binary_tensor_data"] and server["version"]
    model = examples.request("GET", "/v2/models/saxpy").json
    assert model["name"] == "saxpy" and model["platform"] == "quern_graph" and len(model["versions"]) == 1
    assert model["inputs"] == [{"name": name, "datatype": "FP32", "shape": [-1]} for name in ("x", "y")]
    assert model["outputs"] == [{"name": "z", "datatype": "FP32", "shape": [-1]}]
    assert examples.request("GET", "/v2/models/saxpy/ready").status == 200


@pytest.mark.skipif(PRESET != "dev", reason="the fake device does not compile what the kernel says")
def test_versions(server):
    first = server.deploy("saxpy").json["version"]
    files = folder_files(EXAMPLES / "saxpy")
    files["saxpy.cl"] = files["saxpy.cl"].replace(b"alpha * x[i] + y[i]", b"alpha * x[i] - y[i]")
    second = server.deploy("saxpy", files).json["version"]
    assert first != second
    body = saxpy_json([5.0], [1.0])
    for path, value in ((f"/v2/models/saxpy/versions/{second}/infer", 4), ("/v2/models/saxpy/infer", 4)):
        answer = post(server, body, path)
        assert answer.status == 200 and answer.json["outputs"][0]["data"] == [value], path
        assert answer.json["model_version"] == second
    assert post(server, body, f"/v2/models/saxpy%40{second}/infer").status == 200
    assert_error(post(server, body, "/v2/models/saxpy/versions/000000000000/infer"), 404, "not_found")


def test_nested_and_flat_data(examples):
    a = {"name": "a", "datatype": "FP32", "shape": [2, 3], "data": [[1, 2, 3], [4, 5, 6]]}
    b = {"name": "b", "datatype": "FP32", "shape": [3, 1], "data": [1, 1, 1]}
    answer = post(examples, {"inputs": [a, b]}, "/v2/models/sgemm/infer")
    assert answer.status == 200, answer.body
    assert answer.json["outputs"][0] == {"name": "c", "datatype": "FP32", "shape": [2, 1], "data": [6, 15]}


def test_binary_both_ways_copies_nothing(examples):
    before = examples.request("GET", "/v1/counters").json["copied_bytes"]
    for n in (1, 1000, 1 << 20):
        inputs = saxpy_inputs(n)
        answer = examples.infer("saxpy", inputs, {"alpha": 3.0})
        assert answer.status == 200, answer.body
        np.testing.assert_allclose(answer.outputs["z"], 3 * inputs["x"] + inputs["y"], rtol=1e-6)
    assert examples.request("GET", "/v1/counters").json["copied_bytes"] == before


def test_mixed_json_and_binary(examples):
    y = np.array([1, 2], np.float32).tobytes()
    head = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 1]},
                                  {"name": "y", "datatype": "FP32", "shape": [2],
                                   "parameters": {"binary_data_size": len(y)}}],
                       "outputs": [{"name": "z", "parameters": {"binary_data": False}}]}).encode()
    answer = post(examples, head + y, headers={"Inference-Header-Content-Length": str(len(head))})
    assert answer.status == 200 and answer.json["outputs"][0]["data"] == [2, 3]
    assert answer.headers["Inference-Header-Content-Length"] is None


def test_infinite_output_asks_for_binary(examples):
    y = np.array([np.inf], np.float32)
    inputs = {"x": np.ones(1, np.float32), "y": y}
    assert np.isinf(examples.infer("saxpy", inputs).outputs["z"][0])
    head = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]},
                                  {"name": "y", "datatype": "FP32", "shape": [1],
                                   "parameters": {"binary_data_size": 4}}]}).encode()
    answer = post(examples, head + y.tobytes(), headers={"Inference-Header-Content-Length": str(len(head))})
    assert answer.status >= 400 and "binary" in answer.json["error"]


def changed(path, value):
    """A right request with one thing changed; `path` leads to it."""
    body = saxpy_json([1.0, 2.0], [3.0, 4.0])
    place = body
    for step in path[:-1]:
        place = place[step]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return body


@pytest.mark.parametrize("path, value, text", [
    (["inputs", 0, "datatype"], "FP64", "x"),
    (["inputs", 0, "datatype"], "BYTES", "BYTES"),
    (["inputs", 0, "shape"], [3], "x"),
    (["inputs", 0, "shape"], [2, 1], "x"),
    (["inputs", 0, "shape"], [-2], "x"),
    (["inputs", 0, "data"], [1.0], "x"),
    (["inputs", 0, "data"], [1.0, "two"], "x"),
    (["inputs", 0, "name"], "xx", "xx"),
    (["inputs", 1, "name"], "x", "x"),
    (["inputs", 1], None, "y"),
    (["inputs"], None, "inputs"),
    (["inputs", 1, "shape"], [9], "y"),
    (["parameters"], {"alpa": 1}, "did you mean 'alpha'?"),
    (["parameters"], {"alpha": "much"}, "alpha"),
    (["parameters"], {"timeout": -1}, "timeout"),
    (["parameters"], {"priority": 10}, "priority"),
    (["parameters"], {"n": 5}, "n"),
    (["outputs"], [{"name": "zz"}], "did you mean 'z'?"),
])
def test_wrong_requests(examples, path, value, text):
    answer = post(examples, changed(path, value))
    assert_error(answer, 400, "invalid", text)
    assert post(examples, saxpy_json([1.0], [2.0])).status == 200


def test_no_json(examples):
    for body in ("", "{", "[]", "null", "{} {}", '{"inputs": 3}'):
        assert_error(post(examples, body), 400, "invalid")


def test_unknown_names(examples):
    assert_error(post(examples, {}, "/v2/models/saxpi/infer"), 404, "not_found", "did you mean 'saxpy'?")
    assert_error(examples.request("GET", "/v2/model/saxpy"), 404, "not_found")
    assert_error(examples.request("DELETE", "/v1/functions/none"), 404, "not_found")
    assert examples.request("GET", "/v2/models/saxpy/infer").status == 405


def test_keep_alive(examples):
    connection = examples.connect()
    ids = set()
    for _ in range(5):
        answer = examples.infer("saxpy", saxpy_inputs(10), connection=connection)
        assert answer.status == 200
        ids.add(answer.headers["Quern-Request"])
        local = connection.sock.getsockname()
        assert examples.request("GET", "/v2/models/none", connection=connection).status == 404
        assert connection.sock.getsockname() == local, "an error closed the connection"
    assert len(ids) == 5
    connection.close()


def test_body_shorter_than_announced(examples):
    with socket.create_connection(("127.0.0.1", examples.port), CALL_LIMIT) as sock:
        sock.sendall(b"POST /v2/models/saxpy/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{\"inp")
        sock.shutdown(socket.SHUT_WR)
        received = b""
        while piece := sock.recv(65536):
            received += piece
    assert received == b"" or received.startswith(b"HTTP/1.1 400")
    assert post(examples, saxpy_json([1.0], [2.0])).status == 200


def test_body_longer_than_its_tensors(examples):
    head = json.dumps({"inputs": [{"name": "input", "datatype": "UINT8", "shape": [4],
                                   "parameters": {"binary_data_size": 4}}]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    path = "/v2/models/copy/infer"
    assert_error(post(examples, head + b"12345", path, headers), 400, "invalid")
    assert_error(post(examples, head + b"123", path, headers), 400, "invalid")
    assert post(examples, head + b"1234", path, headers).status == 200
    assert_error(post(examples, head, path, {"Inference-Header-Content-Length": "99999"}), 400, "invalid")


def test_name_must_match(server):
    answer = server.deploy("other", folder_files(EXAMPLES / "saxpy"))
    assert_error(answer, 400, "invalid", "other", "saxpy")
    assert_error(server.request("PUT", "/v1/functions/saxpy", b"no tar at all"), 400, "invalid")
    assert server.request("GET", "/v1/functions").json["functions"] == []


def test_garbage_does_not_hurt(examples):
    for garbage in (b"\x00" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"A" * 100000):
        with socket.create_connection(("127.0.0.1", examples.port), CALL_LIMIT) as sock:
            try:
                sock.sendall(garbage)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65536):
                    pass
            except (ConnectionResetError, BrokenPipeError):
                pass
    assert post(examples, saxpy_json([1.0], [2.0])).status == 200


def test_a_server_without_tenants_answers_this_machine_alone(server):
    """A page of another site may point a name of its own here (DNS rebinding): its browser sends that name."""
    for headers in ({"Host": "evil.example"}, {"Host": f"evil.example:{server.port}"},
                    {"Origin": "http://evil.example"}):
        answer = server.request("PUT", "/v1/functions/saxpy", b"", headers)
        assert_error(answer, 403, "denied", "this machine")
    same = {"Host": f"localhost:{server.port}", "Origin": f"http://localhost:{server.port}"}
    assert server.request("GET", "/v1/functions", headers=same).status == 200
