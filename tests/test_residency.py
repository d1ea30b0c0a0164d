"""Device memory as a cache, from outside: who is loaded, who waits, who leaves, what is told of it, and what a stranger
can see of it. Numbers in `contract N` are those of docs/guide/memory.md."""
import concurrent.futures
import hashlib
import itertools
import os
import resource
import signal
import threading

import numpy as np
import pytest
from conftest import PRESET, assert_error, tar_of as tar
from test_memory import AT, COUNT, KERNEL as PICK, MANIFEST, MIB, check, counters, deploy, table

pytestmark = [pytest.mark.events,
              pytest.mark.skipif(PRESET != "dev", reason="its kernels need a device that compiles them")]

OWN = "devices: [{{name: cpu0, cores: [0], memory: {}, in_place: false}}]\n"
NO_BLANKS = OWN.format("64MiB") + "pool: 0\n"  # of which there are more or fewer by what was called for lately
KEYS = {"red": "red-key", "blue": "blue-key"}


def tenants():
    hashes = {name: hashlib.sha256(key.encode()).hexdigest() for name, key in KEYS.items()}
    return "tenants:\n" + "".join(f"  - {{name: {name}, key_sha256: {one}}}\n" for name, one in hashes.items())


def open_manifest(name, count=COUNT):
    return MANIFEST.format(name=name, count=count)


def memory(server, key=None):
    answer = server.request("GET", "/v1/memory", key=key)
    assert answer.status == 200, answer.body
    return {place["name"]: place for place in answer.json["places"]}


def test_loads_are_single_flight(make_server):
    """contract 10, contract 2, contract 4: many who wait for the same constant cost one load."""
    server = make_server(config=OWN.format("64MiB"))
    for name in ("one", "two"):
        assert deploy(server, name, 7).status == 201
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(check, server, name, 7) for name in ("one", "two") * 16]:
            done.result()
    told = counters(server)
    assert told["loads"] == 1 and told["loaded_bytes"] == 4 * MIB and told["fetches"] == 1
    [item] = [item for item in memory(server)["cpu0"]["items"] if item["kind"] == "object"]
    assert item["bytes"] == 4 * MIB and item["state"] == "resident" and item["function"] in ("one", "two")


def test_constants_are_read_in_place(make_server):
    """contract 3: an executor maps the host's memory, read-only, and has no copy."""
    server = make_server(config="devices: [{name: cpu0, cores: [0]}]\npool: 0")
    assert deploy(server, "big", 3).status == 201
    check(server, "big", 3)
    [executor] = server.executors()
    maps = open(f"/proc/{executor}/maps").read().splitlines()
    mapped = [line.split()[1] for line in maps if "quern-object" in line]
    assert mapped and all(rights.startswith("r-") for rights in mapped), maps


def test_memory_tells_what_is_there(make_server):
    """contract 9: what the books say is what is there; other tenants' is told as a sum."""
    server = make_server(config=OWN.format("64MiB") + tenants())
    for name, key in KEYS.items():
        files = {"function.yaml": open_manifest("pick"), "pick.cl": PICK, "table.bin": table(len(name)).tobytes()}
        assert server.request("PUT", "/v1/functions/pick", tar(files), key=key).status == 201
        answer = server.infer("pick", {"at": AT}, key=key)
        np.testing.assert_array_equal(answer.outputs["z"], table(len(name))[AT])
    for key in KEYS.values():
        place = memory(server, key)["cpu0"]
        own = sum(item["bytes"] for item in place["items"])
        assert own + place["others_bytes"] == place["held_bytes"] and place["others_bytes"] >= 4 * MIB
        assert place["held_bytes"] + place["free_bytes"] == place["memory_bytes"] and place["pinned_bytes"] == 0
        assert {item["function"] for item in place["items"]} == {"pick"} and all(item["why"] for item in place["items"])


def test_nothing_that_fits_alone_is_refused(make_server):
    """contract 6, contract 1: far more than fits at once, from many at a time; every answer is right."""
    server = make_server(config=OWN.format("10MiB"))
    for i in range(6):
        assert deploy(server, f"t{i}", i).status == 201
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        for done in [pool.submit(check, server, f"t{i % 6}", i % 6) for i in range(240)]:
            done.result()
    told = counters(server)
    assert told["evictions"] > 0 and told["executors_lost"] == 0
    place = memory(server)["cpu0"]
    assert place["held_bytes"] <= place["memory_bytes"]


def test_the_next_is_brought_while_others_run(make_server):
    """contract 12: what a request in the queue needs comes before its turn."""
    server = make_server(config=OWN.format("64MiB") + tenants())
    for name, key in KEYS.items():
        files = {"function.yaml": open_manifest("pick"), "pick.cl": PICK, "table.bin": table(len(name)).tobytes()}
        assert server.request("PUT", "/v1/functions/pick", tar(files), key=key).status == 201
    before = server.request("GET", "/v1/counters", key=KEYS["red"]).json["prefetches"]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(server.infer, "pick", {"at": AT}, key=key) for key in list(KEYS.values()) * 20]:
            assert done.result().status == 200
    assert server.request("GET", "/v1/counters", key=KEYS["red"]).json["prefetches"] > before


def test_host_memory_has_a_budget(make_server):
    """contract 18: constants come from disk again and again where the host may hold only two of them."""
    for in_place in ("true", "false"):
        server = make_server(config=f"devices: [{{name: cpu0, cores: [0], memory: 64MiB, in_place: {in_place}}}]\n"
                                    "host_memory: 10MiB\npolicy: {exit: at-once}")
        for i in range(5):
            assert deploy(server, f"t{i}", i).status == 201
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(check, server, f"t{i % 5}", i % 5) for i in range(100)]:
                done.result()
        assert counters(server)["fetches"] > 5
        assert memory(server)["host"]["held_bytes"] <= 10 * MIB
        server.stop()


def test_what_never_fits_the_host_is_refused(make_server):
    """contract 7: with the numbers, before it waits."""
    server = make_server(config="devices: [{name: cpu0, cores: [0], memory: 64MiB}]\nhost_memory: 3MiB")
    assert deploy(server, "large", 1).status == 201
    answer = server.infer("large", {"at": AT})
    assert_error(answer, 400, "invalid", "need 4MiB of host memory, and there are 3MiB")


def test_leaves_at_once_and_comes_back(make_server):
    """contract 13: with exit at-once nothing stays, and no call is lost."""
    server = make_server(config=OWN.format("64MiB") + "policy: {exit: at-once}")
    assert deploy(server, "gone", 5).status == 201
    for _ in range(5):
        check(server, "gone", 5)
        server.wait_until(lambda: memory(server)["cpu0"]["held_bytes"] == 0, "empty")
    told = counters(server)
    assert told["exits"] >= 5 and told["loads"] == 5


def test_keep_brings_it_before_the_first_call(make_server):
    """contract 14: a lease makes ready; so does keep_warm, also after a restart."""
    server = make_server(config=OWN.format("64MiB"))
    assert deploy(server, "warm", 5).status == 201

    def is_hot():
        return any(item["kind"] == "object" and item["state"] == "resident" and "kept" in item["why"]
                   for item in memory(server)["cpu0"]["items"])

    assert server.request("POST", "/v1/functions/warm/keep?stage=hot&for=60s").status == 202
    server.wait_until(is_hot, "hot")
    check(server, "warm", 5)
    assert counters(server)["object_misses"] == 0
    assert_error(server.request("POST", "/v1/functions/warm/keep?stage=hut"), 400, "invalid", "did you mean")
    assert_error(server.request("POST", "/v1/functions/warm/keep?for=2h"), 400, "invalid", "at most 1h")
    assert_error(server.request("POST", "/v1/functions/wram/keep"), 404, "not_found", "did you mean")
    assert server.request("DELETE", "/v1/functions/warm/keep").status == 202
    server.wait_until(lambda: not is_hot(), "let go")
    answer = server.request("PATCH", "/v1/functions/warm", b'{"keep_warm": "hot"}')
    assert answer.status == 200, answer.body
    server.stop()
    server.start()
    server.wait_until(is_hot, "hot after a restart")


def test_keep_warm_is_of_the_current_version_and_outlasts_leases(make_server):
    """contract 14: the versions before it are let go; a lease does not end it, nor does another setting end a lease."""
    server = make_server(config=OWN.format("64MiB"))

    def kept():
        return {item["name"] for item in memory(server)["cpu0"]["items"]
                if item["kind"] == "object" and item["state"] == "resident" and "kept" in item["why"]}

    def wait_kept(other_than, count=1):
        server.wait_until(lambda: len(kept()) == count and not kept() & other_than, "kept")
        return kept()

    assert deploy(server, "warm", 5).status == 201
    assert server.request("PATCH", "/v1/functions/warm", b'{"keep_warm": "hot"}').status == 200
    first = wait_kept(set())
    assert deploy(server, "warm", 6).status in (200, 201)
    second = wait_kept(first)
    assert server.cli("rollback", "warm").returncode == 0
    assert wait_kept(second) == first
    assert server.request("POST", "/v1/functions/warm/keep?stage=hot&for=100ms").status == 202
    assert server.cli("set", "warm", "keep_warm=").returncode == 0
    wait_kept(first | second, 0)
    assert server.request("POST", "/v1/functions/warm/keep?stage=hot&for=60s").status == 202
    wait_kept(second)
    assert server.request("PATCH", "/v1/functions/warm", b'{"priority": 3}').status == 200
    check(server, "warm", 5)
    assert kept() == first


def test_the_pool_follows_demand(make_server):
    """Of blank executors there is one more than were needed lately, and one that died is replaced."""
    server = make_server(config=OWN.format("64MiB") + "pool: 2")
    [first] = server.executors()
    since = server.mark()
    os.kill(first, signal.SIGKILL)
    server.wait_line(r"executor \d+ on cpu0: is gone", since=since)
    server.wait_line(r"executor \d+ on cpu0: is ready", since=since)
    assert len(server.executors()) == 1 and first not in server.executors(), "another is ready"
    assert deploy(server, "needs", 5).status == 201
    since = server.mark()
    check(server, "needs", 5)
    # Its own was ready before. Two more come, and ten seconds later one of them was not needed.
    server.wait_lines(r"executor \d+ on cpu0: is ready", 2, since=since)
    server.wait_line(r"executor \d+ on cpu0: is gone", since=since)
    assert len(server.executors()) == 2
    check(server, "needs", 5)


def test_why_tells_where_the_time_went(make_server):
    """contract 11: the parts of a cold call, and that a warm one had none."""
    server = make_server(config=OWN.format("64MiB") + "pool: 0")
    assert deploy(server, "slow", 5).status == 201
    cold = server.infer("slow", {"at": AT}, {"setup": True})
    parts = {part["name"]: part for part in cold.json["parameters"]["setup"]}
    assert set(parts) == {"executor", "program", "fetch", "load"}, parts
    assert parts["fetch"]["from_us"] < parts["executor"]["to_us"], "the read waits for no executor"
    story = server.request("GET", "/v1/requests/" + cold.headers["Quern-Request"]).json
    assert story["end"] == "done" and "The longest was executor" in "\n".join(story["sentences"])
    warm = server.infer("slow", {"at": AT}, {"setup": True})
    assert warm.json["parameters"]["setup"] == []
    story = server.request("GET", "/v1/requests/" + warm.headers["Quern-Request"]).json
    assert "nothing had to be set up" in "\n".join(story["sentences"])
    assert_error(server.request("GET", "/v1/requests/none"), 404, "not_found", "none")


def test_an_executor_dies_while_it_loads(make_server):
    """contract 17: those that wait for the same load are served by another, and its memory is free."""
    server = make_server(config=OWN.format("1GiB") + "pool: 0")
    server.allow_errors("executor")
    count = 64 * COUNT  # 256 MiB: long enough to be met on the way
    big = np.arange(count, dtype=np.float32)
    files = {"function.yaml": open_manifest("big", count), "pick.cl": PICK, "table.bin": big.tobytes()}
    assert server.deploy("big", files).status == 201
    for _ in range(3):
        since = server.mark()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            calls = [pool.submit(server.infer, "big", {"at": AT}) for _ in range(4)]
            server.wait_line(r"object \d+ on cpu0: is being loaded", since=since, watched=calls)
            for executor in server.executors():
                os.kill(executor, signal.SIGKILL)
            for call in calls:
                answer = call.result()
                assert answer.status == 200, answer.body
                np.testing.assert_array_equal(answer.outputs["z"], big[AT])
        for executor in server.executors():
            os.kill(executor, signal.SIGKILL)
        server.wait_until(lambda: memory(server)["cpu0"]["held_bytes"] == 0, "empty")


def test_executors_die_while_things_come_and_go(make_server):
    """contract 9: killed at any moment, also while objects leave: no wrong answer, and the books are true."""
    server = make_server(config=OWN.format("10MiB"))
    server.allow_errors("executor")
    for i in range(5):
        assert deploy(server, f"t{i}", i).status == 201
    end = threading.Event()

    def kill():
        while not end.is_set():
            for executor in server.executors():
                try:
                    os.kill(executor, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            end.wait(0.15)

    def call(i):
        answer = server.infer(f"t{i}", {"at": AT})
        if answer.status == 503:
            return 0
        assert answer.status == 200, answer.body
        np.testing.assert_array_equal(answer.outputs["z"], table(i)[AT])
        return 1

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            done = sum(pool.map(call, [i % 5 for i in range(150)]))
    finally:
        end.set()
        killer.join()
    assert done > 0
    for i in range(5):
        check(server, f"t{i}", i)
    place = memory(server)["cpu0"]
    assert place["promised_bytes"] == 0 and place["leaving_bytes"] == 0 and place["pinned_bytes"] == 0
    assert place["held_bytes"] == sum(item["bytes"] for item in place["items"])


def test_conflicting_clients(make_server):
    """contract 14: load, call and remove the same function in all orders, all at once; nobody is told nonsense."""
    server = make_server(config=OWN.format("10MiB"))
    steps = {"deploy": lambda: deploy(server, "same", 1).status,
             "call": lambda: server.infer("same", {"at": AT}).status,
             "keep": lambda: server.request("POST", "/v1/functions/same/keep?for=10s").status,
             "let go": lambda: server.request("DELETE", "/v1/functions/same/keep").status,
             "remove": lambda: server.request("DELETE", "/v1/functions/same").status}
    fine = {"deploy": {200, 201, 409}, "call": {200, 404, 409, 503}, "keep": {202, 404}, "let go": {202, 404},
            "remove": {200, 204, 404}}

    def client(order):
        for step in order:
            status = steps[step]()
            assert status in fine[step], f"{step}: {status}"

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(client, order) for order in itertools.permutations(steps)]:
            done.result()
    assert deploy(server, "same", 1).status in (200, 201)
    check(server, "same", 1)


def test_the_device_has_less_than_it_says(make_server):
    """contract 16: an allocation fails though the books had room: what its domain keeps there leaves, and it is tried
    again later. Who is alone in saying so is not believed: for others the device is as large as ever."""
    server = make_server(config=OWN.format("1GiB") + "pool: 0")
    server.allow_errors("executor")
    assert deploy(server, "small", 1).status == 201
    check(server, "small", 1)
    count = 32 * COUNT
    big = np.arange(count, dtype=np.float32)
    files = {"function.yaml": open_manifest("big", count), "pick.cl": PICK, "table.bin": big.tobytes()}
    assert server.deploy("big", files).status == 201
    [executor] = server.executors()
    used = int(open(f"/proc/{executor}/statm").read().split()[0]) * resource.getpagesize()
    before = resource.prlimit(executor, resource.RLIMIT_AS, (used + 160 * MIB, resource.RLIM_INFINITY))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        call = pool.submit(server.infer, "big", {"at": AT}, {"timeout": 50_000_000})
        server.wait_until(lambda: all(item["function"] != "small" for item in memory(server)["cpu0"]["items"]
                                      if item["kind"] == "object"), "what is kept there has left", watched=[call])
        assert memory(server)["cpu0"]["memory_bytes"] == 1024 * MIB
        check(server, "small", 1)
        resource.prlimit(executor, resource.RLIMIT_AS, before)
        answer = call.result()
    assert answer.status == 200, answer.body
    np.testing.assert_array_equal(answer.outputs["z"], big[AT])
    assert memory(server)["cpu0"]["memory_bytes"] == 1024 * MIB


PATTERN = 0x5EC2E7A5
PLANT = """
__kernel void plant(__global const uint* seed, __global uint* scratch, __global uint* z) {
  size_t i = get_global_id(0);
  for (uint k = 0; k < 1024; ++k) scratch[i * 1024 + k] = seed[0];
  z[i] = scratch[i * 1024 + 7];
}
"""
SEEK = """
__kernel void seek(__global const uint* seed, __global uint* scratch, __global uint* unwritten, __global uint* z,
                   __local uint* corner) {
  size_t i = get_global_id(0);
  uint found = 0;
  for (uint k = 0; k < 1024; ++k) found += scratch[i * 1024 + k] == seed[0];
  for (uint k = 0; k < 64; ++k) found += corner[k] == seed[0];
  z[i] = found;
}
"""
SECRET = """
api: quern/v1
name: {name}
kind: graph
programs: {{opencl: it.cl}}
dims: {{n: 4096}}
buffers:
  seed: {{role: input, dtype: uint32, shape: [1]}}
  scratch: {{role: scratch, dtype: uint32, shape: [n * 1024]}}
{extra}  z: {{role: output, dtype: uint32, shape: [n]}}
kernels:
  - {{entry: {name}, global: [n], local: [64], args: [{args}]}}
"""


@pytest.mark.parametrize("in_place", ["true", "false"])
def test_nobody_sees_what_another_left(make_server, in_place):
    """contract 15: scratch, outputs that nobody wrote, and local memory."""
    server = make_server(config=f"devices: [{{name: cpu0, cores: [0], memory: 64MiB, in_place: {in_place}}}]\n"
                                + tenants())
    plant = SECRET.format(name="plant", extra="", args="{in: seed}, {inout: scratch}, {out: z}")
    seek = SECRET.format(name="seek", extra="  unwritten: {role: output, dtype: uint32, shape: [n]}\n",
                         args="{in: seed}, {inout: scratch}, {inout: unwritten}, {out: z}, {local: 256}")
    files = {"function.yaml": plant, "it.cl": PLANT}
    assert server.request("PUT", "/v1/functions/plant", tar(files), key=KEYS["red"]).status == 201
    answer = server.request("PUT", "/v1/functions/seek", tar({"function.yaml": seek, "it.cl": SEEK}), key=KEYS["blue"])
    assert answer.status == 201, answer.body
    seed = {"seed": np.array([PATTERN], np.uint32)}
    for _ in range(4):
        planted = server.infer("plant", seed, key=KEYS["red"])
        assert planted.status == 200 and (planted.outputs["z"] == PATTERN).all()
        sought = server.infer("seek", seed, key=KEYS["blue"])
        assert sought.status == 200, sought.body
        assert sought.outputs["z"].sum() == 0
        assert not (sought.outputs["unwritten"] == PATTERN).any()


def cycles(server, count):
    """Deploys, calls and removes; how much the server's process has and how many descriptors are open."""
    def sizes():
        resident = int(open(f"/proc/{server.process.pid}/statm").read().split()[1])
        return resident, len(os.listdir(f"/proc/{server.process.pid}/fd"))

    def once(i):
        assert deploy(server, "cycle", 1, count=COUNT // 8 + i % 7).status == 201
        assert server.infer("cycle", {"at": AT % (COUNT // 8)}).status == 200
        assert server.request("DELETE", "/v1/functions/cycle").status in (200, 204)

    def is_settled():
        return all(item["kind"] != "object" for item in memory(server)["cpu0"]["items"])

    for i in range(100):  # every thread that allocates has done so by then, also on a busy machine
        once(i)
    server.wait_until(is_settled, "empty")
    before = sizes()
    for i in range(count):
        once(i)
    server.wait_until(lambda: is_settled() and sizes()[1] <= before[1], f"as few descriptors as before ({before[1]})")
    after = sizes()
    assert after[0] <= before[0] * 1.05, f"pages: {before[0]} -> {after[0]}"


def test_cycles_leave_nothing_behind(make_server):
    """contract 13: 300 deploys, calls and removals."""
    cycles(make_server(config=NO_BLANKS), 300)


@pytest.mark.long
def test_many_cycles_leave_nothing_behind(make_server):
    cycles(make_server(config=NO_BLANKS), 10_000)

