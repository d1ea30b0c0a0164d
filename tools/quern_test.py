#!/usr/bin/env python3
"""./quern and tools/test.sh over a build that is pretended: when they configure, and what they build for a test."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import headers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Writes what the options of the presets are to the cache, as cmake does.
CMAKE = """#!/bin/bash
echo "cmake $*" >> calls
case $2 in
  demo) folder=dev tests=OFF bench=OFF ;;
  bench) folder=dev tests=OFF bench=ON ;;
  dev) folder=dev tests=ON bench=ON ;;
  *) folder=$2 tests=ON bench=OFF ;;
esac
printf 'QUERN_TESTS:BOOL=%s\\nQUERN_BENCH:BOOL=%s\\n' $tests $bench > build/$folder/CMakeCache.txt
touch build/$folder/build.ninja
"""
NINJA = """#!/bin/bash
echo "ninja ${*:5}" >> calls
printf '#!/bin/bash\\necho it runs\\n' > $2/quern
chmod +x $2/quern
"""
TESTS = {"hal": "quern_hal_test", "hal/fake": "quern_hal_fake_test", "hal/opencl": "quern_hal_opencl_test",
         "function": "quern_function_test", "function/manifest_fuzz": "quern_manifest_fuzz",
         "function/manifest_fuzz/long": "quern_manifest_fuzz", "sim": "quern_sim_test", "sim/long": "quern_sim_test"}


class QuernTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        for folder in ("src", "bench", "cmake", "tools", "bin", "build"):
            (self.root / folder).mkdir()
        shutil.copy(ROOT / "quern", self.root)
        shutil.copy(ROOT / "tools" / "test.sh", self.root / "tools")
        for name in ("cmake/packages.txt", "CMakeLists.txt", "CMakePresets.json", "calls"):
            (self.root / name).touch()
        for name, text in (("cmake", CMAKE), ("ninja", NINJA)):
            (self.root / "bin" / name).write_text(text)
            (self.root / "bin" / name).chmod(0o755)
        self.age("cmake/packages.txt", "CMakeLists.txt", "CMakePresets.json", "src", "bench", "cmake")
        (self.root / "build" / ".packages-build-run").touch()

    def age(self, *names):
        """Gives these files a time before now."""
        for name in names:
            os.utime(self.root / name, (1_000_000_000, 1_000_000_000))

    def change(self, name):
        """Changes a file a second after everything else."""
        now = max(path.stat().st_mtime for path in self.root.rglob("*")) + 1
        os.utime(self.root / name, (now, now))

    def run_quern(self, *words):
        """What `./quern WORDS` calls: cmake and ninja."""
        environment = dict(os.environ, PATH=f"{self.root / 'bin'}:{os.environ['PATH']}")
        (self.root / "calls").write_text("")
        ran = subprocess.run([self.root / "quern", *words], cwd=self.root, env=environment, capture_output=True,
                             text=True, check=False)
        self.assertEqual((ran.returncode, ran.stdout), (0, "it runs\n"), ran.stderr)
        return (self.root / "calls").read_text().splitlines()

    def test_configures_once(self):
        self.assertEqual(self.run_quern("version"), ["cmake --preset demo", "ninja quern"])
        self.assertEqual(self.run_quern("version"), [])

    def test_configures_again_when_the_presets_change(self):
        self.run_quern("version")
        self.change("CMakePresets.json")
        self.assertEqual(self.run_quern("version"), ["cmake --preset demo", "ninja quern"])

    def test_does_not_configure_again_when_something_else_changes(self):
        self.run_quern("version")
        self.change("CMakeLists.txt")
        self.assertEqual(self.run_quern("version"), ["ninja quern"])  # ninja itself sees to CMakeLists.txt

    def test_a_folder_that_an_older_quern_configured_is_configured_again(self):
        self.run_quern("version")
        (self.root / "build/dev/.configured").unlink()
        (self.root / "build/dev/.built-quern").unlink()
        self.assertEqual(self.run_quern("version"), ["cmake --preset demo", "ninja quern"])

    def test_an_option_that_is_on_stays_on(self):
        self.run_quern("version")
        cache = self.root / "build/dev/CMakeCache.txt"
        for text, preset in (("QUERN_TESTS:BOOL=ON\nQUERN_BENCH:BOOL=ON\n", "dev"),
                             ("QUERN_TESTS:BOOL=OFF\nQUERN_BENCH:BOOL=ON\n", "bench")):
            cache.write_text(text)
            self.change("CMakePresets.json")
            self.assertEqual(self.run_quern("version"), [f"cmake --preset {preset}", "ninja quern"])

    def targets(self, *names):
        """What is built for these tests with a sanitizer."""
        folder = self.root / "build/asan"
        (folder / "src/main").mkdir(parents=True, exist_ok=True)
        lines = [f'add_test([=[{name}]=] "{folder}/{program}" "3000000")\nset_tests_properties([=[{name}]=] X)\n'
                 for name, program in TESTS.items()]
        lines.append(f'add_test([=[tidy]=] "{self.root}/tools/tidy.py" "--build" "{folder}")\nsubdirs("src/main")\n')
        (folder / "CTestTestfile.cmake").write_text("".join(lines))
        (folder / "src/main/CTestTestfile.cmake").write_text(
            f'add_test([=[main]=] "{folder}/src/main/quern_main_test")\n')
        ran = subprocess.run(["bash", "-euo", "pipefail", "-c", 'source tools/test.sh; targets_of "$@"', "test",
                              str(folder), "^(hal/opencl|tidy)$", *names], cwd=self.root, capture_output=True,
                             text=True, check=False)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        return ran.stdout.split()

    def test_a_module_is_built_with_the_modules_below_it(self):
        self.assertEqual(self.targets("hal"), ["quern_hal_fake_test", "quern_hal_test"])
        self.assertEqual(self.targets("function"), ["quern_function_test", "quern_manifest_fuzz"])
        self.assertEqual(self.targets("main"), ["quern_main_test"])

    def test_a_test_is_built_by_its_own_name(self):
        self.assertEqual(self.targets("function/manifest_fuzz"), ["quern_manifest_fuzz"])
        self.assertEqual(self.targets("sim/long", "hal/fake"), ["quern_hal_fake_test", "quern_sim_test"])

    def test_what_has_no_program_needs_nothing(self):
        for name in ("builder", "tidy", "headers", "bench", "hal/opencl"):
            self.assertEqual(self.targets(name), [], name)

    def test_the_stamp_of_many_targets_has_a_short_name(self):
        ran = subprocess.run(["bash", "-c", 'eval "$(sed -n "/^stamp_of/,/^}/p" quern)"; stamp_of build "$1"', "test",
                              " ".join(f"quern_some_module_{i}_test" for i in range(20))], cwd=self.root,
                             capture_output=True, text=True, check=True)
        self.assertLess(len(ran.stdout), 60)


@unittest.skipUnless("QUERN_BUILD" in os.environ, "ctest names the build")
class CoresTest(unittest.TestCase):
    """`./quern test` starts two tests at a time. What uses more than one core must run alone."""

    def test_what_uses_both_cores_runs_alone(self):
        ran = subprocess.run(["ctest", "--show-only=json-v1"], cwd=os.environ["QUERN_BUILD"], capture_output=True,
                             text=True, check=True)
        tests = {test["name"]: {one["name"]: one["value"] for one in test["properties"]}
                 for test in json.loads(ran.stdout)["tests"]}
        drivers = ("hal/opencl", "hal/opencl/intel", "hal/opencl/one_unit", "hal/opencl/intel/one_unit")
        for name in (*drivers, "sim/mutants", "sim/mutants/long"):
            if name in tests:  # not with a sanitizer
                self.assertTrue(tests[name].get("RUN_SERIAL"), name)
        for name in ("headers", "headers/long"):
            self.assertEqual(tests[name].get("PROCESSORS"), headers.COMPILERS, name)
        self.assertIn("ctest --test-dir \"$folder\" -j2 ", (ROOT / "tools" / "test.sh").read_text())


if __name__ == "__main__":
    unittest.main()
