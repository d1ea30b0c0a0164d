"""Compiled programs are a cache: whatever happens to what is stored of them, they are compiled again."""
import pytest
from conftest import saxpy_inputs
from test_doctor import change, path_of, query_live

pytestmark = pytest.mark.fake


def fake_server(make_server):
    """Over hal/fake: the same program is compiled to the same bytes each time."""
    return make_server(config="devices: [{name: fake0, driver: fake}]\n", binary_cache=False)


def test_a_program_that_the_disk_does_not_take_costs_a_compilation(make_server):
    """A folder has the name of its object: like a full disk, it lets nothing be stored."""
    server = fake_server(make_server)
    assert server.deploy("saxpy").status == 201
    [[name]] = query_live(server, "SELECT object FROM binaries")
    server.stop()
    path_of(server, name).unlink()
    (path_of(server, name) / "taken").mkdir(parents=True)
    for _ in range(2):
        server.start()
        assert server.infer("saxpy", saxpy_inputs(16)).status == 200
        assert server.request("GET", "/v1/counters").json["builds"] == 1
        server.wait_line("warning a compiled program is not stored, and is compiled again after the next start",
                         since=server.begin)
        server.stop()
    # A deploy of a program that is new is one, too.
    other = fake_server(make_server)
    (other.state / "objects" / name[:2] / name / "taken").mkdir(parents=True)
    assert other.deploy("saxpy").status == 201
    assert other.infer("saxpy", saxpy_inputs(16)).status == 200


def test_a_record_of_a_program_that_nobody_reads_is_none(make_server):
    server = fake_server(make_server)
    assert server.deploy("saxpy").status == 201
    server.stop()
    change(server, "UPDATE binaries SET signatures = x'00'")
    server.start()
    assert server.infer("saxpy", saxpy_inputs(16)).status == 200
    assert server.request("GET", "/v1/counters").json["builds"] == 1
    server.wait_line("a compiled program is not as it was stored, and is compiled again", since=server.begin)
    server.stop()
    server.start()
    assert server.request("GET", "/v1/counters").json["builds"] == 0, "and is stored again"
