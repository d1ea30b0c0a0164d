"""Every example is what it says: it checks, its cases come from its reference, and people can read about it."""
import importlib.util
import json
import shutil
import subprocess
import sys

import pytest
from conftest import BINARY_CACHE, CALL_LIMIT, EXAMPLES, PRESET, run_cli

NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/function.yaml"))
# They are for benchmarks: what goes in comes out.
WITHOUT_CASES = {"copy", "spin"}
CASES = {"expected/smallest", "expected/default", "expected/odd"}


@pytest.mark.drivers
@pytest.mark.skipif(PRESET != "dev", reason="its kernels need a compiler")
@pytest.mark.parametrize("name", NAMES)
def test_check(name):
    BINARY_CACHE.mkdir(parents=True, exist_ok=True)
    ran = run_cli("check", EXAMPLES / name, "--json", "--binary-cache", BINARY_CACHE)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr == "", "an example has no warnings"
    checked = json.loads(ran.stdout)
    assert checked["function"] == name and checked["ok"] is True
    assert all(one["ok"] for one in checked["checks"]), checked
    # On a CPU, a case may be charged nothing because one before it was charged a little too much.
    assert sum(one["device_time_ns"] for one in checked["checks"]) > 0, checked
    if name not in WITHOUT_CASES:
        compared = {one["name"] for one in checked["checks"] if one["result"].startswith("is equal")}
        assert CASES <= compared, checked["checks"]


@pytest.mark.parametrize("name", NAMES)
def test_readme(name):
    text = (EXAMPLES / name / "README.md").read_text()
    assert text.startswith(f"# {name}\n")
    assert f"quern deploy examples/{name}\n" in text and f"quern invoke {name} " in text


def arrays_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.npy")}


@pytest.mark.skipif(importlib.util.find_spec("numpy") is None, reason="numpy is not installed")
@pytest.mark.parametrize("name", sorted(set(NAMES) - WITHOUT_CASES))
def test_reference(name, tmp_path):
    """Its reference.py makes the files that are committed, to the byte."""
    copy = tmp_path / name
    shutil.copytree(EXAMPLES / name, copy)
    shutil.copy(EXAMPLES / "cases.py", tmp_path)
    for path in copy.rglob("*.npy"):
        path.unlink()
    ran = subprocess.run([sys.executable, "-B", "reference.py"], cwd=copy, capture_output=True, text=True,
                         timeout=2 * CALL_LIMIT, check=False)
    assert ran.returncode == 0, ran.stderr
    made, kept = arrays_of(copy), arrays_of(EXAMPLES / name)
    assert sorted(made) == sorted(kept)
    assert [path for path in kept if made[path] != kept[path]] == []
