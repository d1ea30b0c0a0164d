"""Who may call, and who sees whose functions."""
import hashlib

import numpy as np
import pytest
from conftest import assert_error, run_cli, saxpy_inputs

pytestmark = pytest.mark.fake
KEYS = {"a": "key-of-a", "b": "key-of-b", "c": "key-of-c"}


def config():
    rows = []
    for name, key in KEYS.items():
        domain = "shared" if name != "a" else "a"
        rows.append(f"  - {{name: {name}, key_sha256: {hashlib.sha256(key.encode()).hexdigest()}, domain: {domain}}}\n")
    return "pool: 0\ntenants:\n" + "".join(rows)


@pytest.fixture
def tenants(make_server):
    return make_server(config=config())


def test_no_or_unknown_key(tenants):
    for key in (None, "wrong"):
        for method, path in (("GET", "/v1/functions"), ("GET", "/v2/models/saxpy"), ("POST", "/v2/models/saxpy/infer")):
            assert_error(tenants.request(method, path, b"{}" if method == "POST" else None, key=key), 401, "denied")
    text = tenants.request("GET", "/v1/functions", key="wrong").body.decode()
    assert "wrong" not in text, "a key came back in an error"


def test_health_needs_no_key(tenants):
    for path in ("/v2/health/live", "/v2/health/ready"):
        assert tenants.request("GET", path).status == 200


def test_functions_belong_to_a_tenant(tenants):
    assert tenants.deploy("saxpy", key=KEYS["a"]).status == 201
    inputs = saxpy_inputs(100)
    assert tenants.infer("saxpy", inputs, key=KEYS["a"]).status == 200
    for name in ("b", "c"):
        key = KEYS[name]
        assert_error(tenants.infer("saxpy", inputs, key=key), 404, "not_found")
        assert_error(tenants.request("GET", "/v1/functions/saxpy", key=key), 404, "not_found")
        assert_error(tenants.request("DELETE", "/v1/functions/saxpy", key=key), 404, "not_found")
        assert tenants.request("GET", "/v1/functions", key=key).json["functions"] == []
        # Not even a hint that it exists.
        assert "saxpy'" not in tenants.request("GET", "/v2/models/saxpi", key=key).json["error"]


def test_same_name_twice(tenants):
    for name in ("a", "b"):
        assert tenants.deploy("copy", key=KEYS[name]).status == 201
    assert tenants.request("DELETE", "/v1/functions/copy", key=KEYS["a"]).status == 200
    data = np.arange(100, dtype=np.uint8)
    answer = tenants.infer("copy", {"input": data}, key=KEYS["b"])
    assert answer.status == 200
    np.testing.assert_array_equal(answer.outputs["output"], data)


def test_executor_per_domain(tenants):
    data = {"input": np.zeros(8, np.uint8)}
    for name, executors in (("a", 1), ("b", 2), ("c", 2)):
        tenants.deploy("copy", key=KEYS[name])
        assert tenants.infer("copy", data, key=KEYS[name]).status == 200
        assert len(tenants.executors()) == executors, f"after {name}"


def test_key_of_the_command_line(tenants):
    assert tenants.cli("functions", key=KEYS["a"], check=0).stdout.startswith("no functions yet")
    refused = tenants.cli("functions", key="wrong", check=1)
    assert refused.stderr.startswith("error: ") and "wrong" not in refused.stderr
    assert run_cli("functions", "--server", tenants.url, "--key", KEYS["b"], check=0)


def test_keys_are_not_logged(tenants):
    tenants.request("GET", "/v1/functions", key=KEYS["a"])
    tenants.request("GET", "/v1/functions", key="wrong-key")
    tenants.stop()
    assert not any("key-of-a" in line or "wrong-key" in line for line in tenants.lines)


def test_wide_listening_with_tenants(make_server):
    server = make_server(config=config(), listen="0.0.0.0:0")
    assert server.request("GET", "/v2/health/live").status == 200
