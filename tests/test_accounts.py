"""Accounts: who used what and who waited for what, as people are told, against what the kernel of the machine says of
the threads that did the work."""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import signal
import threading

import numpy as np
import pytest
from conftest import CALL_LIMIT, PRESET, assert_error, wait_gone

pytestmark = [pytest.mark.events,
              pytest.mark.skipif(PRESET != "dev", reason="its kernels need a device that compiles them")]

KEYS = {"red": "red-key", "blue": "blue-key", "grey": "grey-key"}
CORE = "devices: [{name: cpu0, cores: [0], memory: 1GiB}]\n"
CAUSES = ("queue", "fairness", "memory", "setup", "urgent", "quota")
MS = 1_000_000

# A group is one work-item that takes as long as it is told to, some 1.5 ns per iteration. MARK may be the size of the
# launch: then it cannot be cut.
KERNEL = """
__kernel void grind(__global uint* marks, uint iterations) {
  uint state = get_global_id(0) + 1;
  for (uint i = 0; i < iterations; ++i) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
  }
  marks[get_global_id(0)] = state == 0 ? 0 : MARK;
}
"""
MANIFEST = """
api: quern/v1
name: {name}
kind: graph
programs: {{opencl: grind.cl}}
dims:
  groups: {{default: 64, min: 1, max: 65536}}
  steps: {{default: 1, min: 1, max: 60000}}
params:
  iterations: {{dtype: uint32, default: 10000, min: 1, max: 100000000}}
buffers:
  marks: {{role: output, dtype: uint32, shape: [groups]}}
kernels:
  - repeat: {{times: steps}}
    kernels:
      - {{entry: grind, global: [groups], local: [1], args: [{{out: marks}}, {{uint32: iterations}}]}}
settings: {settings}
"""
FOREVER = KERNEL.replace("++i", "i += state == 0")  # never: the state never is 0
SHORT = {"groups": 4, "iterations": 1000}           # microseconds
MILLISECOND = {"groups": 64, "iterations": 10000}   # about that
LONG = {"groups": 16384, "iterations": 40000}       # about a second


def tenants():
    hashes = {name: hashlib.sha256(key.encode()).hexdigest() for name, key in KEYS.items()}
    return "tenants:\n" + "".join(f"  - {{name: {name}, key_sha256: {one}}}\n" for name, one in hashes.items())


def grind(name, settings="{}", whole=False, kernel=KERNEL):
    """The files of a function of one kernel."""
    mark = "(uint)get_global_size(0)" if whole else "1"
    return {"function.yaml": MANIFEST.format(name=name, settings=settings), "grind.cl": kernel.replace("MARK", mark)}


def deploy(server, name, settings="{}", whole=False, kernel=KERNEL, key=None, warm=True):
    answer = server.deploy(name, grind(name, settings, whole, kernel), key=key)
    assert answer.status in (200, 201), answer.body
    if warm:
        call(server, name, SHORT, key=key)


def call(server, name, parameters=None, key=None, connection=None):
    answer = server.infer(name, {}, parameters or {}, key=key, connection=connection)
    assert answer.status == 200, answer.body
    return answer


class Call(threading.Thread):
    """A call that goes on while the test does something else."""

    def __init__(self, server, name, parameters=None, key=None):
        super().__init__()
        self.server, self.function, self.parameters, self.key = server, name, parameters or {}, key
        self.answer = None
        self.start()

    def run(self):
        self.answer = self.server.infer(self.function, {}, self.parameters, key=self.key)

    def end(self, status=200):
        self.join(CALL_LIMIT)
        assert self.answer is not None, "it has not ended"
        assert self.answer.status == status, self.answer.body
        return self.answer


def requests_of(server, name, state, key=None):
    listed = server.request("GET", "/v1/requests", key=key).json["requests"]
    return [one["id"] for one in listed if one["function"] == name and one["state"] == state]


def wait_state(server, name, state="running", key=None, watched=()):
    """Returns the id of a request of the function, once one is in that state."""
    return server.wait_until(lambda: requests_of(server, name, state, key), f"{name} is {state}", watched=watched)[0]


def wait_counted(server, is_true, what, watched=()):
    """Waits for what is only counted, so that no event can tell of it: the time that threads used, which the operating
    system adds up, or the time that has passed."""
    return server.wait_until(is_true, what, watched=watched, look_every=0.005)


def story(server, request, key=None):
    answer = server.request("GET", f"/v1/requests/{request}", key=key)
    assert answer.status == 200, answer.body
    return answer.json


def waits(told):
    """{cause: ns} of a story, after a look at whether it makes sense."""
    sums = dict.fromkeys(CAUSES, 0)
    for wait in told["waits"]:
        sums[wait["cause"]] += wait["ns"]
    assert sum(sums.values()) <= told["times"]["answered_ns"], told
    return sums


def why(server, request, key=None):
    return server.cli("why", request, key=key, check=0).stdout


def accounts(server, by="function", key=None):
    answer = server.request("GET", f"/v1/accounts?by={by}", key=key)
    assert answer.status == 200, answer.body
    return answer.json


def account(server, name, key=None):
    [row] = [row for row in accounts(server, key=key)["accounts"] if row["function"] == name]
    return row


class Workers:
    """The threads that execute kernels: what they used, also those of executors that are gone. The vendor's threads
    have the name of the process or "cpu". Intel's runtime also executes kernels on the threads that wait in it."""

    NAMES = ("cpu\n", "opencl-wait\n")

    def __init__(self, server):
        self.server, self.gone_ns, self.before_ns = server, 0, 0

    @staticmethod
    def of(pid):
        """{thread: ns of CPU time}; nothing of one that is starting, or gone."""
        used = {}
        try:
            first = pathlib.Path(f"/proc/{pid}/comm").read_text()
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                if task.name != str(pid) and (task / "comm").read_text() in (first, *Workers.NAMES):
                    used[int(task.name)] = int((task / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            pass
        return used

    def used_ns(self, pid):
        return sum(self.of(pid).values())

    def total_ns(self):
        return self.gone_ns + sum(self.used_ns(pid) for pid in self.server.executors()) - self.before_ns

    def begin(self):
        """All that is used from here on is somebody's; before, they started."""
        self.before_ns += self.total_ns()
        self.told_ns = sums(self.server, "tenant")

    def freeze(self, pid):
        """From here on it uses nothing: whoever ends it, what it used is known."""
        os.kill(pid, signal.SIGSTOP)
        stats = list(pathlib.Path(f"/proc/{pid}/task").glob("*/stat"))
        # Only its parent is told that a process has stopped, and this test is not its parent.
        wait_counted(self.server, lambda: all(stat.read_text().rsplit(")", 1)[1].split()[0] == "T" for stat in stats),
                     "all its threads are stopped")
        self.gone_ns += self.used_ns(pid)


def sums(server, by):
    return sum(accounts(server, by, key)["total"]["device_time_ns"] for key in KEYS.values())


def assert_same(server, workers, within=0.01):
    told, used = sums(server, "tenant") - workers.told_ns, workers.total_ns()
    assert abs(told - used) <= within * used, f"accounts have {told / 1e6:.1f} ms, the workers {used / 1e6:.1f} ms"


def call_all(server, jobs):
    """Each (function, tenant, parameters, how often) by a client of its own."""
    def client(name, tenant, parameters, times):
        connection = server.connect()
        for _ in range(times):
            call(server, name, parameters, KEYS[tenant], connection)
        connection.close()

    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        for done in [pool.submit(client, *job) for job in jobs]:
            done.result()


MIX = [("urgent", "red", SHORT, 300), ("urgent", "red", MILLISECOND, 100), ("usual", "red", MILLISECOND, 200),
       ("usual", "blue", {"groups": 2000, "iterations": 10000}, 20), ("limited", "blue", MILLISECOND, 50),
       ("last", "grey", {"groups": 16384, "iterations": 20000}, 2), ("whole", "grey", MILLISECOND, 50)]


def deploy_mix(server):
    for tenant in ("red", "blue", "grey"):
        key = KEYS[tenant]
        deploy(server, "urgent", "{priority: 0}", key=key)
        deploy(server, "usual", key=key)
        deploy(server, "last", "{priority: 9}", key=key)
        deploy(server, "whole", whole=True, key=key)
        deploy(server, "limited", "{quota: {time: {limit: 0.3}}}", key=key)


@pytest.mark.drivers
@pytest.mark.parametrize("classes", ["false", "true"])
def test_every_nanosecond_is_on_an_account(make_server, classes):
    """Several tenants at once, urgent ones among them, so that long kernels are cut and their profiles are used."""
    server = make_server(config=CORE + f"classes: {classes}\npool: 0\n" + tenants())
    workers = Workers(server)
    deploy_mix(server)
    workers.begin()
    call_all(server, MIX)
    assert_same(server, workers)
    assert sums(server, "function") == sums(server, "device") == sums(server, "tenant")
    [device] = server.request("GET", "/v1/devices", key=KEYS["red"]).json["devices"]
    assert device["device_time_ns"] == sums(server, "tenant")
    for name, tenant, _, times in MIX:
        assert account(server, name, KEYS[tenant])["requests"] >= times
        assert account(server, name, KEYS[tenant])["device_time_ns"] > 0


def test_every_nanosecond_of_executors_that_we_end(make_server):
    """A kernel that does not end costs its executor its life, again and again: what was used until then is charged."""
    server = make_server(config=CORE + "pool: 0\n" + tenants())
    workers = Workers(server)
    deploy_mix(server)
    workers.begin()
    key = KEYS["grey"]
    deploy(server, "forever", "{limits: {device_time: 400ms}}", kernel=FOREVER, key=key, warm=False)
    for _ in range(3):
        before = {pid: workers.used_ns(pid) for pid in server.executors()}
        stuck = Call(server, "forever", key=key)
        wait_state(server, "forever", key=key, watched=[stuck])
        executor = wait_counted(server, lambda: next((pid for pid in server.executors() if workers.used_ns(pid) >
                                                      before.get(pid, 0) + 50 * MS), None), "it began", [stuck])
        workers.freeze(executor)
        assert_error(stuck.end(504), 504, "deadline", "'grind'")
        assert wait_gone(executor)
        call_all(server, MIX[:2])
    row = account(server, "forever", key)
    assert row["failed"] == row["runs"] == 3 and row["device_time_ns"] >= 3 * 50 * MS, row
    assert_same(server, workers)


def test_an_executor_that_someone_else_ends(make_server):
    """What its workers used nobody knows any more: it is as long as the run was on the device, and no more than all of
    the process used."""
    server = make_server(config=CORE + tenants())
    workers = Workers(server)
    deploy(server, "mill", key=KEYS["red"])
    [executor] = [pid for pid in server.executors() if workers.used_ns(pid) > 0]
    before, charged = workers.used_ns(executor), account(server, "mill", KEYS["red"])["device_time_ns"]
    long = Call(server, "mill", LONG, key=KEYS["red"])
    request = wait_state(server, "mill", key=KEYS["red"], watched=[long])
    wait_counted(server, lambda: workers.used_ns(executor) > before + 100 * MS, "it used anything", [long])
    workers.freeze(executor)
    used = workers.used_ns(executor) - before
    os.kill(executor, signal.SIGKILL)
    assert wait_gone(executor)
    long.end()  # in another one
    told = story(server, request, KEYS["red"])
    row = account(server, "mill", KEYS["red"])
    assert row["runs"] == 3, "warm, lost, and again"
    lost = row["device_time_ns"] - charged - told["device_time_ns"]
    assert 0.99 * used <= lost <= told["times"]["answered_ns"] - told["device_time_ns"], (used, lost, told)
    assert told["account"]["runs"] == 2, "both are its own"
    assert told["account"]["device_time_ns"] == row["device_time_ns"] - charged


def test_what_a_cancelled_request_used_is_on_its_account(server):
    """It is answered before its run ends, and what that used is known later still."""
    key = KEYS["red"]
    charged = account(server, "mill", key)["device_time_ns"]
    long = Call(server, "mill", LONG, key)
    request = wait_state(server, "mill", key=key, watched=[long])
    used = Workers(server).total_ns()
    wait_counted(server, lambda: Workers(server).total_ns() > used + 20 * MS, "it is on the device", [long])
    assert server.request("DELETE", f"/v1/requests/{request}", key=key).status == 202
    long.end(499)
    own = server.wait_until(lambda: (one := story(server, request, key)["account"])["runs"] and one, "its run ended")
    assert own["runs"] == 1 and own["device_time_ns"] >= 20 * MS * 0.9, own
    assert own["device_time_ns"] == account(server, "mill", key)["device_time_ns"] - charged


def test_of_two_units_both_are_charged(make_server):
    server = make_server(config="devices: [{name: cpu0, cores: [0, 1], memory: 1GiB}]\npool: 0\n" + tenants())
    workers = Workers(server)
    deploy(server, "mill", key=KEYS["red"])
    deploy(server, "half", "{quota: {units: 0.5}}", key=KEYS["blue"])
    workers.begin()
    call_all(server, [("mill", "red", {"groups": 512, "iterations": 20000}, 40)] * 2 +
             [("half", "blue", {"groups": 512, "iterations": 20000}, 20)] * 2)
    assert_same(server, workers)


# What requests wait for: each cause is provoked, and then looked for in the story, in the sentences and in the account.

@pytest.fixture
def server(make_server):
    one = make_server(config=CORE + "classes: false\npool: 0\n" + tenants())
    for key in KEYS.values():
        deploy(one, "mill", key=key)
    return one


def assert_waited(server, request, cause, function, least_ns, sentence, key):
    told = story(server, request, key)
    assert waits(told)[cause] >= least_ns, told
    assert re.search(sentence, why(server, request, key)), why(server, request, key)
    assert account(server, function, key)["waits"][cause + "_ns"] >= least_ns
    return told


def test_waiting_in_the_queue(server):
    """Behind work of its own tenant."""
    key = KEYS["red"]
    first = [Call(server, "mill", LONG, key) for _ in range(3)]
    last = wait_state(server, "mill", "queued", key, first)
    for one in first:
        one.end()
    told = assert_waited(server, last, "queue", "mill", 200 * MS, "behind earlier work of its own tenant", key)
    assert waits(told)["fairness"] < waits(told)["queue"] / 10, told


def test_waiting_for_fairness(server):
    """While another tenant has its turn."""
    first = [Call(server, "mill", LONG, KEYS["red"]) for _ in range(2)]
    wait_state(server, "mill", key=KEYS["red"], watched=first)
    late = Call(server, "mill", MILLISECOND, KEYS["blue"])
    request = wait_state(server, "mill", "queued", KEYS["blue"], [late])
    for one in first + [late]:
        one.end()
    told = assert_waited(server, request, "fairness", "mill", 200 * MS, "while other tenants had their turn",
                         KEYS["blue"])
    assert waits(told)["queue"] < waits(told)["fairness"] / 10, told


def test_waiting_for_someone_more_urgent(server):
    """Who it was is named, if it was its own tenant's."""
    for key in (KEYS["red"], KEYS["blue"]):
        deploy(server, "first", "{priority: 0}", key=key)
    for key, names_it in ((KEYS["red"], True), (KEYS["blue"], False)):
        slow = Call(server, "mill", LONG, KEYS["red"])
        request = wait_state(server, "mill", key=KEYS["red"], watched=[slow])
        call(server, "first", {"groups": 4096, "iterations": 40000}, key)
        slow.end()
        told = assert_waited(server, request, "urgent", "mill", 100 * MS,
                             "function first was more urgent" if names_it else "another tenant's run, or a program",
                             KEYS["red"])
        assert [wait.get("for") for wait in told["waits"] if wait["cause"] == "urgent" and wait["ns"] > 100 * MS] == \
            (["first"] if names_it else [None]), told
        assert told["gated_ns"] >= 100 * MS


def test_waiting_for_setup(server):
    """A first call: an executor is started for its tenant, and a constant is brought."""
    server.stop()
    server.start()
    for key in (KEYS["red"], KEYS["blue"]):
        call(server, "mill", SHORT, key)
        request = server.request("GET", "/v1/requests", key=key).json["requests"][0]["id"]
        told = assert_waited(server, request, "setup", "mill", 2 * MS, "(?s)executor.*Set-up took .* in all", key)
        assert told["setup"], told


def test_waiting_for_a_quota(server):
    key = KEYS["red"]
    deploy(server, "slow", "{quota: {time: {limit: 0.1}}}", key=key)
    limited = Call(server, "slow", {"groups": 2048, "iterations": 20000}, key)
    request = wait_state(server, "slow", key=key, watched=[limited])
    limited.end()
    # It has a tenth of every window and waits the rest of it, but for what others had of the core meanwhile.
    least = story(server, request, key)["device_time_ns"] / 2
    assert least > 15 * MS
    assert_waited(server, request, "quota", "slow", least, "none of its share left, of time or of units", key)


PICK = """
__kernel void pick(__global const float* table, __global float* z, uint iterations) {
  float state = table[get_global_id(0)];
  for (uint i = 0; i < iterations; ++i) state = state * 0.999f + 0.5f;
  z[get_global_id(0)] = state;
}
"""
PICK_MANIFEST = """
api: quern/v1
name: {name}
kind: graph
programs: {{opencl: pick.cl}}
dims: {{n: 1048576, k: 64}}
buffers:
  table: {{role: constant, dtype: fp32, shape: [n], file: table.bin}}
  x: {{role: input, dtype: fp32, shape: [k]}}
  z: {{role: output, dtype: fp32, shape: [k]}}
kernels:
  - {{entry: pick, global: [k], local: [1], args: [{{in: table}}, {{out: z}}, {{uint32: 10}}]}}
"""
X = {"x": np.zeros(64, np.float32)}


def deploy_pick(server, name, seed, key):
    table = np.full(1 << 20, seed, np.float32)
    files = {"function.yaml": PICK_MANIFEST.format(name=name), "pick.cl": PICK, "table.bin": table.tobytes()}
    answer = server.deploy(name, files, key=key)
    assert answer.status == 201, answer.body


def test_bytes_loads_and_evictions(make_server):
    """Of constants of 4 MiB two fit: a third drives one out, and that one is counted where it was charged."""
    server = make_server(config="devices: [{name: cpu0, cores: [0], memory: 10MiB, in_place: false}]\n"
                                "policy: {eviction: lru}\n" + tenants())
    key = KEYS["red"]
    for seed, name in enumerate("abc"):
        deploy_pick(server, name, seed, key)
    for name in ("a", "a", "b", "c"):
        assert server.infer(name, X, key=key).status == 200
    rows = {row["function"]: row for row in accounts(server, key=key)["accounts"]}
    assert [(rows[name]["loads"], rows[name]["evictions"]) for name in "abc"] == [(1, 1), (1, 0), (1, 0)], rows
    assert all(rows[name]["loaded_bytes"] == 4 << 20 for name in "abc"), rows
    assert [(rows[name]["bytes_in"], rows[name]["bytes_out"]) for name in "ab"] == [(512, 512), (256, 256)], rows
    assert server.infer("a", X, key=key).status == 200
    assert account(server, "a", key)["loads"] == 2 and account(server, "a", key)["evictions"] == 1
    assert account(server, "b", key)["evictions"] == 1, "the one that was used least lately"
    counters = server.request("GET", "/v1/counters", key=key).json
    total = accounts(server, "tenant", key)["total"]
    assert (total["loads"], total["evictions"]) == (counters["loads"], counters["evictions"])
    # The same by request, the oldest first: a load where it had to be brought, an eviction where it needed the room.
    requests = [one["id"] for one in server.request("GET", "/v1/requests", key=key).json["requests"]][::-1]
    each = [story(server, request, key)["account"] for request in requests]
    assert [(one["loads"], one["evictions"]) for one in each] == [(1, 0), (0, 0), (1, 0), (1, 1), (1, 1)], each
    assert [one["loaded_bytes"] for one in each] == [one["loads"] * 4 << 20 for one in each], each
    assert all(one["evicted_bytes"] >= one["evictions"] * 4 << 20 for one in each), each
    for what in ("bytes_in", "bytes_out", "runs", "device_time_ns", "loads", "loaded_bytes", "evictions"):
        assert sum(one[what] for one in each) == total[what], (what, each, total)
    assert re.search(r"Its account: .* of device time in 1 run, 256B in, 256B out, 1 load \(4MiB\), "
                     r"1 eviction to make room for it \(4MiB\)\.", why(server, requests[-1], key))


def test_waiting_for_memory(make_server):
    """Another tenant's constant has to leave first, and its executor takes its time."""
    server = make_server(config="devices: [{name: cpu0, cores: [0], memory: 10MiB, in_place: false}]\n"
                                "policy: {eviction: lru}\npool: 0\n" + tenants())
    deploy_pick(server, "a", 1, KEYS["red"])
    deploy_pick(server, "b", 2, KEYS["blue"])
    deploy_pick(server, "c", 3, KEYS["blue"])
    for name, tenant in (("b", "blue"), ("a", "red")):
        assert server.infer(name, X, key=KEYS[tenant]).status == 200
    known = set(server.executors())
    assert server.infer("b", X, key=KEYS["blue"]).status == 200
    assert set(server.executors()) == known and len(known) == 2
    [red] = [pid for pid in known if pid == max(known)]  # it came last
    since = server.mark()
    os.kill(red, signal.SIGSTOP)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        try:
            late = pool.submit(server.infer, "c", X, key=KEYS["blue"])
            [request] = server.wait_requests("c", "queued", since=since, watched=[late])
            wait_counted(server, lambda: sum(wait["ns"] for wait in story(server, request, KEYS["blue"])["waits"]
                                             if wait["cause"] in ("memory", "setup")) > 200 * MS,
                         "it waits at its place", [late])
        finally:
            os.kill(red, signal.SIGCONT)
        assert late.result().status == 200
    assert_waited(server, request, "memory", "c", 100 * MS, r"It waited .* for room", KEYS["blue"])


def test_a_request_that_is_refused_is_on_an_account(server):
    key = KEYS["red"]
    deploy(server, "whole", "{quota: {time: {request: 1}}}", key=key)
    deploy(server, "more", "{quota: {time: {request: 0.5}}}", key=key, warm=False)
    long = Call(server, "whole", LONG, key)
    wait_state(server, "whole", key=key, watched=[long])
    assert server.infer("more", {}, SHORT, key=key).status == 429
    long.end()
    row = account(server, "more", key)
    assert (row["requests"], row["failed"], row["runs"], row["device_time_ns"]) == (0, 1, 0, 0), row
    assert [one["device"] for one in accounts(server, "device", key)["accounts"]] == ["-", "cpu0"]


def test_accounts_are_shown_to_their_tenant_only(server):
    for key in (KEYS["red"], KEYS["blue"]):
        assert {row["tenant"] for row in accounts(server, key=key)["accounts"]} == \
            {name for name, one in KEYS.items() if one == key}
    deploy(server, "secret", key=KEYS["blue"])
    assert "secret" not in json.dumps(accounts(server, key=KEYS["red"]))
    request = server.request("GET", "/v1/requests", key=KEYS["blue"]).json["requests"][0]["id"]
    assert_error(server.request("GET", f"/v1/requests/{request}", key=KEYS["red"]), 404, "not_found")
    assert "is not known" in server.cli("why", request, key=KEYS["red"], check=1).stderr


def test_the_command_line(server):
    key = KEYS["red"]
    call(server, "mill", MILLISECOND, key)
    for by, heading in (("tenant", "TENANT"), ("function", "FUNCTION"), ("device", "DEVICE")):
        lines = server.cli("account", "--by", by, key=key, check=0).stdout.splitlines()
        assert lines[0].split()[0] == heading and lines[-1].split()[0] == "total" and len(lines) == 3, lines
        assert lines[1].split()[0] == {"tenant": "red", "function": "mill", "device": "cpu0"}[by], lines
        assert lines[1].split()[1:4] == ["2", "-", "2"], lines
        told = json.loads(server.cli("account", "--by", by, "--json", key=key, check=0).stdout)
        assert told["by"] == by and told["total"] == accounts(server, by, key)["total"]
    assert server.cli("account", key=key, check=0).stdout.startswith("FUNCTION"), "by function if nothing is said"
    wrong = server.cli("account", "--by", "functoin", key=key, check=1).stderr
    assert "did you mean 'function'?" in wrong, wrong
    assert_error(server.request("GET", "/v1/accounts?by=day", key=key), 400, "invalid", "tenant, function or device")
    wrong = server.cli("why", "no-such", key=key, check=1).stderr
    assert "no-such" in wrong


def test_nobody_called_anything(make_server):
    server = make_server(config=CORE)
    assert server.cli("account", check=0).stdout.startswith("no accounts")
    assert accounts(server)["accounts"] == [] and accounts(server)["total"]["device_time_ns"] == 0
