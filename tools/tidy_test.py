#!/usr/bin/env python3
"""tidy against small trees that are wrong in one way each."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tidy  # noqa: E402

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
LAYERS = "base\nos base\nsched base\nhal base os\nhal/fake base os hal\n+tests hal/fake   # on top\n"
README = "| folder | what |\n|---|---|\n| `base/` | words |\n"


class TidyTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        self.write("src/layers.txt", LAYERS)
        self.write("src/README.md", README)
        self.write("src/base/good.h", SPDX + "#pragma once\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def findings(self, build=None):
        return tidy.Tidy(self.root).run(build)

    def expect(self, *texts):
        found = self.findings()
        self.assertEqual(len(found), len(texts), found)
        for line, text in zip(found, texts):
            self.assertIn(text, line)

    def list_folder(self, *names):
        self.write("src/README.md", README + "".join(f"| `{name}/` | x |\n" for name in names))

    def test_good_tree_is_quiet(self):
        self.expect()

    def test_wrong_arrow(self):
        self.write("src/base/a.cc", SPDX + '#include "os/clock.h"\n')
        self.expect("src/base/a.cc:2: error: base may not include os")

    def test_tests_get_more(self):
        self.list_folder("os")
        self.write("src/os/a_test.cc", SPDX + '#include "hal/fake/fake.h"\n')
        self.expect()
        self.write("src/os/a.cc", SPDX + '#include "hal/fake/fake.h"\n')
        self.expect("os may not include hal/fake")

    def test_sub_module_is_told_apart(self):
        self.list_folder("hal")
        self.write("src/hal/a.cc", SPDX + '#include "hal/fake/fake.h"\n')
        self.expect("hal may not include hal/fake")

    def test_main_may_include_all(self):
        self.list_folder("main")
        self.write("src/main/a.cc", SPDX + '#include "hal/fake/fake.h"\n')
        self.expect()

    def test_nobody_includes_main(self):
        self.write("src/base/a.cc", SPDX + '#include "main/command.h"\n')
        self.expect("base may not include main")

    def test_relative_include(self):
        self.write("src/base/a.cc", SPDX + '#include "../base/good.h"\n')
        self.expect("relative include")

    def test_purity_by_text(self):
        self.list_folder("sched")
        self.write("src/sched/a.cc",
                   SPDX + "#include <thread>\n// steady_clock in prose\nstd::unordered_map<int, int> x;\n")
        self.expect("'<thread>' is banned in sched", "'unordered_' is banned in sched")

    def test_purity_by_symbol(self):
        if not shutil.which("c++"):
            self.skipTest("no compiler")
        build = self.root / "build"
        build.mkdir()
        (build / "a.cc").write_text("#include <cstdlib>\nchar* f() { return std::getenv(\"X\"); }\n")
        subprocess.run(["c++", "-c", "a.cc", "-o", "a.o"], cwd=build, check=True)
        subprocess.run(["ar", "rc", "libquern_base.a", "a.o"], cwd=build, check=True)
        self.assertEqual(self.findings(build), ["libquern_base.a:0: error: base is pure but imports 'getenv'"])

    def test_product_without_benchmarks(self):
        if not shutil.which("c++"):
            self.skipTest("no compiler")
        build = self.root / "build"
        build.mkdir()
        for namespace, found in (("quern::main", []), ("quern::bench", ["_ZN5quern5bench3runEv"])):
            (build / "a.cc").write_text(f"namespace {namespace} {{ void run() {{}} }}\nint main() {{}}\n")
            subprocess.run(["c++", "a.cc", "-o", "quern"], cwd=build, check=True)
            self.assertEqual(self.findings(build), [
                f"quern:0: error: the product contains {symbol} of the benchmarks; link it into quern-bench only"
                for symbol in found])

    def test_size(self):
        self.write("src/base/a.cc", SPDX + "\n" * 600)
        self.write("src/base/b.cc", SPDX + "x" * 121 + "\n")
        self.expect("601 lines", "121 columns")

    def test_first_line_and_guard(self):
        self.write("src/base/a.h", "#pragma once\n")
        self.write("src/base/b.h", SPDX)
        self.expect("SPDX", "#pragma once")

    def test_words(self):
        self.write("src/base/a.cc", SPDX + "// TO" + "DO later\n// TO" + "DO(#7): fine\n// FIX" + "ME\n")
        self.expect("TO" + "DO without an issue", "FIX" + "ME")

    def test_no_sleep_in_tests(self):
        self.write("tests/test_a.py", "import time\ntime." + "sleep(1)\n")
        self.write("src/base/a_test.cc", SPDX + "std::this_thread::sleep" + "_for(x);\n")
        self.expect("src/base/a_test.cc:2", "tests/test_a.py:2")

    def test_machine_paths(self):
        self.write("a.sh", "cat /ho" + "me/me/x\nls build/wo" + "rk/x\nls $X/wo" + "rk/y\n")
        self.expect("a.sh:1: error: a path of one machine")

    def test_links(self):
        self.write("a.md", "[good](src/README.md#x) [web](https://x) [bad](none.md)\n```\n[code](none.md)\n```\n")
        self.expect("a.md:1: error: link to none.md")

    def test_source_map(self):
        self.list_folder("gone")
        self.write("src/os/a.cc", SPDX)
        self.expect("folder os is not listed", "folder gone does not exist")

    def test_module_without_row(self):
        self.list_folder("new")
        self.write("src/new/a.cc", SPDX)
        self.expect("module new has no row")

    def test_python_syntax(self):
        self.write("a.py", "def f(:\n")
        self.expect("a.py:1: error: no Python")

    def test_build_is_not_looked_at(self):
        self.write("build/a.cc", "x" * 200)
        self.expect()


if __name__ == "__main__":
    unittest.main()
