#!/usr/bin/env python3
"""headers.py in small repositories: which headers it chooses, and that it finds a missing include."""
import contextlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import headers  # noqa: E402

GOOD, BAD = "#pragma once\n#include <string>\nstd::string f();\n", "#pragma once\nstd::string f();\n"


@unittest.skipUnless(shutil.which("git"), "no git")
class HeadersTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        for patch in (mock.patch.object(headers, "ROOT", self.root),
                      # Neither a hook nor a setting of the user who runs this counts.
                      mock.patch.dict(os.environ, {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
                                                   "GIT_CEILING_DIRECTORIES": str(self.root.parent)})):
            patch.start()
            self.addCleanup(patch.stop)
        for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
            os.environ.pop(name, None)  # of a hook that runs this; mock restores them
        self.write("src/a/first.h", GOOD)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def git(self, *arguments):
        ran = subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments], cwd=self.root,
                             check=True, capture_output=True, text=True)
        return ran.stdout.strip()

    def commit(self, *names):
        """Commits these files, with a header for each name that ends so; returns the commit."""
        if not (self.root / ".git").exists():
            self.git("init", "-q")
        for name in names:
            self.write(name, GOOD)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "x")
        return self.git("rev-parse", "HEAD")

    def set_main(self, commit):
        self.git("update-ref", "refs/remotes/origin/main", commit)

    def chosen(self):
        return headers.changed_headers("origin/main")

    def test_headers_of_all_commits_since_the_branch_was_left(self):
        base = self.commit("src/a/old.h")
        self.set_main(self.commit("src/a/theirs.h"))
        self.git("checkout", "-q", "-b", "mine", base)
        self.commit("src/a/one.h", "src/a/one.cc", "docs/one.h")
        self.commit("bench/two.h")
        names, what = self.chosen()
        self.assertEqual(names, ["bench/two.h", "src/a/one.h"])
        self.assertEqual(what, f"comparing with {base[:12]} (where HEAD left origin/main)")

    def test_headers_that_are_not_committed(self):
        self.set_main(self.commit("src/a/old.h", "src/a/gone.h"))
        self.commit("src/a/one.h")
        self.write("src/a/old.h", GOOD + "int g();\n")
        self.write("src/a/new.h", GOOD)
        (self.root / "src/a/gone.h").unlink()
        self.assertEqual(self.chosen()[0], ["src/a/new.h", "src/a/old.h", "src/a/one.h"])

    def test_a_head_that_is_part_of_the_branch_is_compared_with_the_commit_before(self):
        before = self.commit("src/a/old.h")
        self.set_main(self.commit("src/a/one.h"))
        names, what = self.chosen()
        self.assertEqual(names, ["src/a/one.h"])
        self.assertEqual(what, f"comparing with {before[:12]} (HEAD~1, because HEAD is part of origin/main)")

    def test_a_clone_without_the_branch_is_compared_with_the_commit_before(self):
        before = self.commit("src/a/old.h")
        self.commit("src/a/one.h")
        names, what = self.chosen()
        self.assertEqual(names, ["src/a/one.h"])
        self.assertEqual(what, f"comparing with {before[:12]} (HEAD~1, because this clone has no origin/main)")

    def test_without_a_commit_before_all_headers_are_chosen(self):
        self.commit("bench/b.h")
        names, what = self.chosen()
        self.assertEqual(names, ["src/a/first.h", "bench/b.h"])
        self.assertTrue(what.startswith("comparing with nothing"), what)
        self.set_main("HEAD")
        self.assertEqual(self.chosen()[0], names)

    def test_without_a_repository_all_headers_are_chosen(self):
        self.assertEqual(self.chosen()[0], ["src/a/first.h"])

    @unittest.skipUnless(shutil.which("g++"), "no compiler")
    def test_a_missing_include_fails(self):
        build = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, build)
        (build / "compile_commands.json").write_text(json.dumps([{"command": "c++ -std=c++20 -o a.o -c a.cc"}]))
        self.commit()
        for text, code in ((BAD, 1), (GOOD, 0)):
            self.write("src/a/one.h", text)
            self.commit()
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                self.assertEqual(headers.main(["--build", str(build), "--since", "origin/main"]), code, said.getvalue())
            lines = said.getvalue().splitlines()
            self.assertIn("HEAD~1", lines[0])
            self.assertEqual(lines[-1], f"1 headers compiled alone, {code} of them failed")
            self.assertEqual("src/a/one.h: does not compile alone; include what it uses" in lines, code == 1)


if __name__ == "__main__":
    unittest.main()
