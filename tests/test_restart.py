"""What is deployed outlives the server, however it ends."""
import hashlib
import sqlite3

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


@pytest.mark.events
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_tenants_keep_their_place(make_server, tmp_path, how):
    names = ("a", "b")
    rows = [f"{{name: {name}, key_sha256: {hashlib.sha256(name.encode()).hexdigest()}}}" for name in names]
    record = tmp_path / "record.txt"
    server = make_server(config=f"tenants: [{', '.join(rows)}]\n", key="a", arguments=["--record", str(record)])
    server.deploy("saxpy")
    check_saxpy(server)
    if how == "kill":  # once they are stored; until then there is nothing to lose
        for _ in range(2):  # the first time that they are stored they may be those of before the call above
            since = server.mark()
            check_saxpy(server)
            server.wait_line("the tenants' virtual times are stored", since=since)
    getattr(server, how)()
    # Through a copy: what the server left in the log of the database is its to take over.
    for file in server.state.glob("state.db*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    with sqlite3.connect(tmp_path / "state.db") as database:
        stood = dict(database.execute("SELECT tenant, vtime FROM standings"))
    assert stood["a"] > 0, stood
    server.start()
    check_saxpy(server)
    server.stop()
    sets = [line.split() for line in record.read_text().splitlines() if " tenant t" in line]
    assert [line[2] for line in sets] == ["t1", "t2"]
    units = {"ns": 1, "us": 1000, "ms": 10**6, "s": 10**9}
    [vtime] = [word.removeprefix("vtime=") for word in sets[0] if word.startswith("vtime=")]
    number = vtime.rstrip("numsn")
    assert int(number) * units[vtime[len(number):]] == stood["a"], (vtime, stood)
