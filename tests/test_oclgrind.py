"""Kernels under oclgrind, which interprets them and tells of data races and of accesses outside of their memory. It
finds both where we put them, and neither in the kernels of the examples and of the conformance suite."""
import os
import re
import shutil
import subprocess

import numpy as np
import pytest
import yaml
from conftest import BINARY_CACHE, CALL_LIMIT, EXAMPLES, PRESET, ROOT, run_cli

pytestmark = pytest.mark.skipif(PRESET != "dev", reason="its kernels need a compiler")

OCLGRIND = "/usr/lib/oclgrind/liboclgrind-rt.so"  # of Debian's package
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/function.yaml"))
# Small, since an interpreter is slow: most examples are called as in their case `odd`, which has several groups.
ARGUMENTS = {
    "copy": ["--input", "input=@random", "--dims", "n=3000"],
    "spin": ["--input", "input=@random", "--dims", "n=300,groups=3", "--param", "iterations=10"],
    # `heat` ends at its first look at how much changed.
    "heat": ["--param", "tolerance=1000"],
}
SUITE = ROOT / "src" / "hal" / "cts" / "suite_test.cc"
SUITE_PROGRAM = ROOT / "build" / PRESET / "quern_hal_opencl_test"
# They launch each kernel of the suite. The others are about time, which an interpreter does not keep, or launch kernels
# that are long on purpose.
SUITE_TESTS = "Launches.*:-Launches.OfOneKernelInManyQueuesMayDiffer:Launches.InOtherPartsDoNotWait"

MANIFEST = """\
api: quern/v1
name: probe
kind: graph
programs: {opencl: probe.cl}
dims:
  n: {default: 64, min: 64, max: 64, multiple_of: 64}
buffers:
  x: {role: input,  dtype: int32, shape: [n]}
  y: {role: output, dtype: int32, shape: [n]}
kernels:
  - {entry: probe, global: [n], local: [16], args: [{in: x}, {out: y}]}
"""
PROBE = "kernel void probe(global const int* x, global int* y) {{\n  const int i = get_global_id(0);\n  {}\n}}\n"
# {what: its line, and what oclgrind says of it}
MISTAKES = {
    "write-past-the-end": ("y[i] = x[i]; y[i + 1] = x[i];", "Invalid write of size 4 at global memory address"),
    "read-past-the-end": ("y[i] = x[i + 60];", "Invalid read of size 4 at global memory address"),
    "race-of-writes": ("y[i] = 0; y[i / 2] = x[i] + i;", "Write-write data race at global memory address"),
    "race-of-groups": ("y[i] = x[i] + i + y[(i + 16) % 64];", "Read-write data race at global memory address"),
    "missing-barrier": ("local int s[16]; s[i % 16] = x[i] + i; y[i] = s[15 - i % 16];",
                        "Read-write data race at local memory address"),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The compiled oclgrind_library.cc."""
    path = tmp_path_factory.mktemp("oclgrind") / "libOpenCL.so.1"
    subprocess.run(["g++", "-std=c++20", "-shared", "-fPIC", "-w", f"-I{ROOT / 'src'}",
                    f'-DQUERN_OCLGRIND="{OCLGRIND}"', ROOT / "tests" / "oclgrind_library.cc", "-o", path],
                   check=True, timeout=CALL_LIMIT)
    return path


class Oclgrind:
    """An environment in which oclgrind is the only OpenCL driver, what it told and which kernels it ran."""

    def __init__(self, folder, library):
        self.folder = folder / "oclgrind"
        self.folder.mkdir()
        shutil.copy(library, self.folder)
        # Executors and builders get this variable, and builders may read what it names.
        self.environment = dict(os.environ, LD_LIBRARY_PATH=str(self.folder))

    def run(self, folder, *arguments):
        """`quern run` of a function."""
        BINARY_CACHE.mkdir(parents=True, exist_ok=True)
        run_cli("run", folder, *arguments, "--binary-cache", BINARY_CACHE, environment=self.environment, check=0)

    def told(self):
        """The text of all logs; fails if no process opened the device."""
        logs = list(self.folder.glob("*.log"))
        assert logs, "nothing was run under oclgrind"
        return "".join(log.read_text() for log in logs)

    def kernels(self):
        """The names of the kernels that were launched."""
        return {name for names in self.folder.glob("*.kernels") for name in names.read_text().split()}


@pytest.fixture
def oclgrind(tmp_path, library):
    return Oclgrind(tmp_path, library)


def run_probe(oclgrind, folder, line):
    """Runs a function with one kernel, which executes this line; returns what was told."""
    (folder / "probe").mkdir()
    (folder / "probe" / "function.yaml").write_text(MANIFEST)
    (folder / "probe" / "probe.cl").write_text(PROBE.format(line))
    oclgrind.run(folder / "probe", "--input", "x=@random")
    assert oclgrind.kernels() == {"probe"}
    return oclgrind.told()


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_found(oclgrind, tmp_path, what):
    line, wanted = MISTAKES[what]
    told = run_probe(oclgrind, tmp_path, line)
    assert wanted in told and "Kernel: probe" in told, told


def test_of_a_kernel_without_mistakes_nothing_is_told(oclgrind, tmp_path):
    line = "local int s[16]; s[i % 16] = x[i]; barrier(CLK_LOCAL_MEM_FENCE); y[i] = s[15 - i % 16];"
    assert run_probe(oclgrind, tmp_path, line) == ""


@pytest.fixture(scope="module")
def proven(tmp_path_factory, library):
    """Runs every mistake before the long tests, which find none."""
    for what in MISTAKES:
        folder = tmp_path_factory.mktemp(what)
        test_a_mistake_is_found(Oclgrind(folder, library), folder, what)


@pytest.mark.long
@pytest.mark.usefixtures("proven")
@pytest.mark.parametrize("name", NAMES)
def test_an_example_has_no_race_and_stays_in_its_memory(oclgrind, tmp_path, name):
    arguments, wanted, case = list(ARGUMENTS.get(name, [])), {}, EXAMPLES / name / "expected" / "odd"
    told = yaml.safe_load((case / "case.yaml").read_text()) if case.is_dir() else {}
    for path in sorted(case.glob("input/*.npy")):
        arguments += ["--input", f"{path.stem}={path}"]
    for key, value in told.get("params", {}).items():
        arguments += ["--param", f"{key}={value}"]
    if name not in ARGUMENTS:
        wanted = {tmp_path / path.name: path for path in case.glob("output/*.npy")}
        assert wanted
    for path in wanted:
        arguments += ["--output", f"{path.stem}={path}"]
    oclgrind.run(EXAMPLES / name, *arguments)
    assert oclgrind.told() == ""
    manifest = (EXAMPLES / name / "function.yaml").read_text()
    assert oclgrind.kernels() == set(re.findall(r"\bentry: (\w+)", manifest))
    for path, other in wanted.items():
        np.testing.assert_allclose(np.load(path), np.load(other), told["rtol"], told["atol"])


@pytest.mark.long
@pytest.mark.usefixtures("proven")
def test_the_kernels_of_the_conformance_suite_have_no_race_and_stay_in_their_memory(oclgrind):
    ran = subprocess.run([SUITE_PROGRAM, f"--gtest_filter={SUITE_TESTS}"],
                         env=dict(oclgrind.environment, QUERN_TEST_PLATFORM="Oclgrind"), capture_output=True, text=True,
                         timeout=5 * CALL_LIMIT, check=False)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr
    assert oclgrind.told() == ""
    kernels = re.findall(r"^kernel .*void (suite_\w+)\(", SUITE.read_text(), re.M)
    assert len(kernels) > 5 and oclgrind.kernels() == set(kernels)
