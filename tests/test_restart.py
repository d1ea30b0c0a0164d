"""What is deployed outlives the server, however it ends."""
import numpy as np
import pytest
from conftest import saxpy_inputs

pytestmark = pytest.mark.fake


def check_saxpy(server):
    inputs = saxpy_inputs()
    answer = server.infer("saxpy", inputs, {"alpha": 2.0})
    assert answer.status == 200, answer.body
    np.testing.assert_allclose(answer.outputs["z"], 2 * inputs["x"] + inputs["y"], rtol=1e-6)


def listed(server):
    return [(one["name"], one["version"]) for one in server.request("GET", "/v1/functions").json["functions"]]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_functions_come_back(server, how):
    for name in ("saxpy", "copy"):
        assert server.deploy(name).status == 201
    check_saxpy(server)
    before = listed(server)
    getattr(server, how)()
    server.start()
    assert listed(server) == before
    check_saxpy(server)
    assert server.request("GET", "/v1/counters").json["builds"] == 0, "what was built is built again"


def test_removed_stays_removed(server):
    server.deploy("saxpy")
    server.deploy("copy")
    assert server.request("DELETE", "/v1/functions/saxpy").status == 200
    server.kill()
    server.start()
    assert [name for name, _ in listed(server)] == ["copy"]


def test_killed_while_deploying_changes_nothing(server):
    server.deploy("saxpy")
    connection = server.connect()
    connection.putrequest("PUT", "/v1/functions/copy")
    connection.putheader("Content-Length", "100000")
    connection.endheaders(b"x" * 512)
    server.kill()
    connection.close()
    server.start()
    assert [name for name, _ in listed(server)] == ["saxpy"]
    check_saxpy(server)
