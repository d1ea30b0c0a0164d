"""Every request can be seen and cancelled by its tenant, and by nobody else."""
import concurrent.futures
import hashlib
import json
import re

import numpy as np
import pytest
from conftest import PRESET, ROOT, assert_error, folder_files, saxpy_inputs

pytestmark = [pytest.mark.events,
              pytest.mark.skipif(PRESET != "dev", reason="calls that take their time need a device that compiles")]

FOREVER = ROOT / "tests" / "functions" / "forever"
X = {"x": np.arange(64, dtype=np.float32)}
STAY = {"stay": 1, "timeout": 60_000_000}
KEYS = {"a": "key-of-a", "b": "key-of-b"}
ON_DEVICE = 2  # that one device takes at once


def forever_files():
    """With a timeout that no test waits for."""
    files = folder_files(FOREVER)
    return dict(files, **{"function.yaml": files["function.yaml"].replace(b"timeout: 1s", b"timeout: 60s")})


def tenants():
    hashes = {name: hashlib.sha256(key.encode()).hexdigest() for name, key in KEYS.items()}
    return "devices: [{name: cpu0, cores: [0]}]\ntenants:\n" + "".join(
        f"  - {{name: {name}, key_sha256: {one}}}\n" for name, one in hashes.items())


@pytest.fixture
def busy(make_server):
    """A server of one device with `forever` deployed, and threads to call it from."""
    server = make_server(config="devices: [{name: cpu0, cores: [0]}]")
    assert server.deploy("forever", forever_files()).status in (200, 201)
    assert server.infer("forever", X).status == 200
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        server.call = lambda: pool.submit(server.infer, "forever", X, STAY)
        yield server
        # What a test that failed left would otherwise be waited for.
        for one in listed(server):
            if one["state"] != "ended":
                server.request("DELETE", "/v1/requests/" + one["id"])


def listed(server, key=None):
    answer = server.request("GET", "/v1/requests", key=key)
    assert answer.status == 200, answer.body
    return answer.json["requests"]


def wait_states(server, states, key=None, watched=()):
    """Returns the list of requests, once those that have not ended are in these states."""
    def in_states():
        requests = listed(server, key)
        found = sorted(one["state"] for one in requests if one["state"] != "ended")
        return requests if found == sorted(states) else None
    return server.wait_until(in_states, f"the requests are in the states {states}", watched=watched)


def live(requests, state):
    return [one for one in requests if one["state"] == state]


def test_queued_running_and_ended_are_shown(busy):
    calls = [busy.call() for _ in range(ON_DEVICE + 2)]
    requests = wait_states(busy, ["running", "running", "queued", "queued"], watched=calls)
    assert len({one["id"] for one in requests}) == len(requests)
    for one in requests:
        assert one["function"] == "forever" and one["tenant"] == "default" and one["age_ns"] >= 0, one
    assert all(one["device"] == "cpu0" for one in requests if one["state"] == "running")
    assert all("device" not in one and "end" not in one for one in live(requests, "queued"))
    [ended] = live(requests, "ended")
    assert ended["end"] == "done" and ended["device"] == "cpu0" and 0 < ended["took_ns"] <= ended["age_ns"]
    ages = [one["age_ns"] for one in requests if one["state"] != "ended"]
    assert ages == sorted(ages, reverse=True), "the oldest first"

    table = busy.cli("requests", check=0).stdout.splitlines()
    assert table[0].split() == ["ID", "FUNCTION", "TENANT", "STATE", "AGE", "DEVICE", "END"]
    assert len(table) == 1 + len(requests) and sum(" queued " in line for line in table) == 2
    shown = json.loads(busy.cli("requests", "--json", check=0).stdout)["requests"]
    assert [one["id"] for one in shown] == [one["id"] for one in requests]

    for one in live(requests, "queued") + live(requests, "running"):
        assert busy.cli("cancel", one["id"], check=0).stdout == one["id"] + " cancelled\n"
    for call in calls:
        assert_error(call.result(), 499, "cancelled", "function forever")


def test_cancel_of_each(busy):
    calls = [busy.call() for _ in range(ON_DEVICE + 1)]
    requests = wait_states(busy, ["running", "running", "queued"], watched=calls)
    cancelled = []
    for one in live(requests, "queued") + live(requests, "running")[::-1]:
        answer = busy.request("DELETE", "/v1/requests/" + one["id"])
        assert answer.status == 202 and answer.json == {"cancelled": one["id"]}, answer.body
        cancelled.append(one["id"])
    answers = [call.result() for call in calls]
    for answer in answers:
        assert_error(answer, 499, "cancelled", "function forever", "cancelled")
    assert sorted(answer.headers["Quern-Request"] for answer in answers) == sorted(cancelled)
    ends = {one["id"]: one["end"] for one in listed(busy) if one["state"] == "ended"}
    assert [ends[one] for one in cancelled] == ["cancelled"] * 3
    # The device is free again.
    assert busy.infer("forever", X).status == 200
    # One that ended cannot be cancelled, nor one that never was.
    for request in (cancelled[0], cancelled[0].rsplit("-", 1)[0] + "-999999", "nonsense", "a-b-c", "%2F"):
        assert_error(busy.request("DELETE", "/v1/requests/" + request), 404, "not_found", "request ")
    assert "has ended" in busy.cli("cancel", cancelled[0], check=1).stderr


def test_every_answer_names_its_request(busy):
    answer = busy.infer("forever", X)
    request = answer.headers["Quern-Request"]
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9]+", request)
    assert listed(busy)[0]["id"] == request


def test_another_tenants_are_not_there(make_server):
    server = make_server(config=tenants())
    a, b = KEYS["a"], KEYS["b"]
    assert server.deploy("forever", forever_files(), key=a).status in (200, 201)
    assert server.infer("forever", X, key=a).status == 200
    assert server.deploy("saxpy", key=b).status == 201
    assert server.infer("saxpy", saxpy_inputs(), key=b).status == 200
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        call = pool.submit(server.infer, "forever", X, STAY, key=a)
        [one] = live(wait_states(server, ["running"], a, [call]), "running")
        assert [other["function"] for other in listed(server, key=b)] == ["saxpy"]
        assert_error(server.request("DELETE", "/v1/requests/" + one["id"], key=b), 404, "not_found")
        assert_error(server.request("DELETE", "/v1/requests/" + one["id"]), 401, "denied")
        assert live(listed(server, key=a), "running"), "another tenant cancelled it"
        assert server.request("DELETE", "/v1/requests/" + one["id"], key=a).status == 202
        assert_error(call.result(), 499, "cancelled")


def test_a_caller_that_leaves_cancels(busy):
    connection = busy.connect()
    head = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[64],"parameters":{"binary_data_size":256}}],' \
           b'"parameters":{"stay":1,"timeout":60000000}}'
    connection.request("POST", "/v2/models/forever/infer", head + b"\0" * 256,
                       {"Inference-Header-Content-Length": str(len(head))})
    [one] = live(wait_states(busy, ["running"]), "running")
    connection.close()
    requests = wait_states(busy, [])
    assert [ended["end"] for ended in requests if ended["id"] == one["id"]] == ["cancelled"]


def test_no_more_than_256_that_ended_are_kept(make_server):
    server = make_server()
    assert server.deploy("copy").status == 201
    connection = server.connect()
    data = {"input": np.zeros(8, np.uint8)}
    last = [server.infer("copy", data, connection=connection).headers["Quern-Request"] for _ in range(300)][-256:]
    assert [one["id"] for one in listed(server)] == last[::-1]
