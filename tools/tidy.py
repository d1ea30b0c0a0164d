#!/usr/bin/env python3
"""Checks what the compiler does not: arrows between modules, purity, sizes, maps that must be true, committed paths.

    tools/tidy.py [--root DIR] [--build DIR] [--format]

--build also looks into the archives and the product built there: object code has the last word on what a pure module
reaches, and on whether the product is free of benchmarks.
--format also holds C++ against .clang-format, where clang-format is installed.
Each finding is `file:line: error: what is wrong; what to do`. A ctest of the same name runs this on every build.
"""
import argparse
import ast
import pathlib
import re
import shutil
import subprocess
import sys

MOST_LINES, MOST_COLUMNS = 600, 120
SKIPPED_FOLDERS = {"build", "state", ".git", "__pycache__", ".pytest_cache", ".cache", ".vscode", ".idea"}
CPP = {".h", ".cc"}
TEXT = {".h", ".cc", ".cl", ".py", ".sh", ".md", ".txt", ".yaml", ".yml", ".json", ".cmake", ".proto", ""}
# What tests and benchmarks get on top: the row `+tests` of layers.txt.
IS_TEST = re.compile(r"_(test|fuzz|bench)\.(cc|h)$|cts_backend\.cc$")

PURE = {"base": [], "function": [], "model": [], "sched": [
    ("unordered_", "std::map or a sorted vector: iteration order is output"),
    ("spdlog", "nothing: the shell logs events and actions")]}
IMPURE_TEXT = [
    ("steady_clock", "the `now` argument"), ("system_clock", "the `now` argument"),
    ("high_resolution_clock", "the `now` argument"), ("clock_gettime", "the `now` argument"),
    ("<thread>", "nothing: it has no threads"), ("<mutex>", "nothing: it has no threads"),
    ("<condition_variable>", "nothing: it has no threads"), ("<fstream>", "bytes that the caller read"),
    ("<filesystem>", "bytes that the caller read"), ("random_device", "base/prng.h with a seed"),
    ("getenv", "a field of the config"), ("<unistd.h>", "what the caller passes in")]
IMPURE_SYMBOLS = ("_clock::now", "pthread_", "getenv", "random_device", "fopen", "std::basic_ofstream",
                  "std::basic_ifstream", "nanosleep", "quern::os::")
IMPURE_PLAIN = re.compile(r"^\s*U (socket|open|open64|read|write|clock_gettime)(@|$)", re.M)
BENCH_SYMBOL = "5quern5bench"  # quern::bench, as the compiler spells it in names
# Told apart from words of prose: a call, in the languages of the tests.
SLEEP = re.compile(r"\b(time\.sleep|asyncio\.sleep|sleep_for|sleep_until|usleep|nanosleep)\s*\("
                   r"|(^|[;&|]\s*)sleep\s+[0-9]")
# Spelled in pieces so that this file passes its own check.
MACHINE_PATH = re.compile(r"(?<![\w.$}~/-])/(" + "|".join(["wo" + "rk", "ho" + "me", "ro" + "ot"]) + r")/[A-Za-z0-9_]")
LATER = "TO" + "DO"
NEVER = "FIX" + "ME"


class Tidy:
    def __init__(self, root):
        self.root = root
        self.src = root / "src"
        self.findings = []
        self.layers = self.read_layers()

    def find(self, path, line, text):
        self.findings.append(f"{path.relative_to(self.root)}:{line}: error: {text}")

    def read_layers(self):
        layers = {}
        path = self.src / "layers.txt"
        if path.exists():
            for line in path.read_text().splitlines():
                cells = line.split("#")[0].split()
                if cells:
                    layers[cells[0]] = set(cells[1:])
        return layers

    def files(self):
        for path in sorted(self.root.rglob("*")):
            parts = path.relative_to(self.root).parts
            if SKIPPED_FOLDERS.isdisjoint(parts) and path.is_file() and not path.is_symlink():
                yield path

    def owner(self, parts):
        """The module of a path below src/: the longest row of layers.txt, else its first folder."""
        for size in range(len(parts), 0, -1):
            if "/".join(parts[:size]) in self.layers:
                return "/".join(parts[:size])
        return parts[0] if parts else None

    def check_include(self, path, number, line, module):
        match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not match:
            return
        if ".." in match[1].split("/"):
            self.find(path, number, f'relative include "{match[1]}"; write the path from src/')
            return
        owner = self.owner(match[1].split("/")[:-1])
        if owner is None or module in (None, "main") or owner == module:
            return
        if owner not in self.layers and owner not in ("main", "bench"):
            return  # not a module: a vendor's header in quotes
        allowed = self.layers.get(module, set())
        if IS_TEST.search(path.name):
            allowed = allowed | self.layers.get("+tests", set())
        if owner not in allowed:
            self.find(path, number, f"{module} may not include {owner} (src/layers.txt)")

    def check_pure_text(self, path, number, line, module):
        if module not in PURE or IS_TEST.search(path.name) or path.name == "fuzz_main.h":
            return
        code = line.split("//")[0]
        for banned, instead in IMPURE_TEXT + PURE[module]:
            if banned in code:
                self.find(path, number, f"'{banned}' is banned in {module}, which is pure; use {instead}")

    def check_cpp(self, path, lines):
        if not lines or not lines[0].startswith("// SPDX-License-Identifier: "):
            self.find(path, 1, "the first line must be // SPDX-License-Identifier: Apache-2.0")
        if path.suffix == ".h" and "#pragma once" not in lines[:12]:
            self.find(path, 1, "a header needs #pragma once")
        module = None
        if self.src in path.parents:
            parts = path.relative_to(self.src).parts[:-1]
            module = self.owner(parts)
            if module and module not in self.layers and module != "main":
                self.find(path, 1, f"module {module} has no row in src/layers.txt")
        for number, line in enumerate(lines, 1):
            self.check_include(path, number, line, module)
            self.check_pure_text(path, number, line, module)

    def check_lines(self, path, lines):
        name = path.relative_to(self.root).as_posix()
        if path.suffix in CPP | {".py", ".sh", ".cl"} and len(lines) > MOST_LINES:
            self.find(path, MOST_LINES, f"{len(lines)} lines; at most {MOST_LINES}: split it by noun")
        is_test = IS_TEST.search(path.name) or name.startswith("tests/")
        for number, line in enumerate(lines, 1):
            if path.suffix in CPP | {".py", ".sh", ".cl"} and len(line) > MOST_COLUMNS:
                self.find(path, number, f"{len(line)} columns; at most {MOST_COLUMNS}")
            if NEVER in line:
                self.find(path, number, f"{NEVER}: mend it, or open an issue")
            prose = re.sub(r"`[^`]*`", "", line) if path.suffix == ".md" else line
            if re.search(rf"\b{LATER}\b(?!\(#\d+\))", prose):
                self.find(path, number, f"{LATER} without an issue; write {LATER}(#123)")
            if is_test and SLEEP.search(line.split("#")[0].split("//")[0]):
                self.find(path, number, "tests do not sleep; wait for what is to happen")
            if MACHINE_PATH.search(line):
                self.find(path, number, "a path of one machine; only $QUERN_DATA may lie outside the project")
            if line != line.rstrip() and path.suffix != ".md":
                self.find(path, number, "space at the end of the line")

    def check_python(self, path, text):
        try:
            ast.parse(text)
        except SyntaxError as error:
            self.find(path, error.lineno or 1, f"no Python: {error.msg}")

    def check_links(self, path, lines):
        fenced = False
        for number, line in enumerate(lines, 1):
            if line.lstrip().startswith("```"):
                fenced = not fenced
            if fenced:
                continue
            for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
                if re.match(r"[a-z]+:|#", target):
                    continue
                there = path.parent / target.split("#")[0]
                if not there.exists():
                    self.find(path, number, f"link to {target}, which is not there")

    def check_source_map(self):
        """src/README.md lists exactly the folders that exist. Their order is the data path, which only people know."""
        path = self.src / "README.md"
        if not path.exists():
            if self.src.exists():
                self.find(self.src / "layers.txt", 1,
                          "src/README.md is missing; one line per folder, in data-path order")
            return
        listed = {}
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := re.match(r"\|\s*(?:\[)?`([a-z_/]+?)/?`", line):
                if match[1] in listed:
                    self.find(path, number, f"{match[1]} is listed twice")
                listed[match[1]] = number
        folders = {path.parent.relative_to(self.src).as_posix() for path in self.files()
                   if self.src in path.parents and path.suffix in CPP}
        rooms = {self.owner(folder.split("/")) for folder in folders if folder != "."}
        for name in sorted(rooms - set(listed)):
            self.find(path, 1, f"folder {name} is not listed")
        for name in sorted(set(listed) - rooms):
            if not (self.src / name).is_dir():
                self.find(path, listed[name], f"folder {name} does not exist")

    def check_archives(self, build):
        for module in PURE:
            for archive in sorted(build.rglob(f"libquern_{module}.a")):
                names = subprocess.run(["nm", "-uC", archive], capture_output=True, text=True, check=False).stdout
                reached = [symbol for symbol in IMPURE_SYMBOLS if symbol in names]
                reached += [match[1] for match in IMPURE_PLAIN.finditer(names)]
                for symbol in reached:
                    self.findings.append(f"{archive.name}:0: error: {module} is pure but imports '{symbol}'")

    def check_product(self, build):
        """Benchmarks are in quern-bench only; the program that users get has nothing of them."""
        product = build / "quern"
        if not product.exists():
            return
        names = subprocess.run(["nm", product], capture_output=True, text=True, check=False).stdout
        symbol = next((line.split()[-1] for line in names.splitlines() if BENCH_SYMBOL in line), None)
        if symbol:
            self.findings.append(f"quern:0: error: the product contains {symbol} of the benchmarks; link it into "
                                 "quern-bench only")

    def check_format(self):
        tool = shutil.which("clang-format") or shutil.which("clang-format-14")
        if not tool:
            self.findings.append("tidy: error: --format needs clang-format; apt-get install clang-format")
            return
        for path in self.files():
            if path.suffix in CPP:
                ran = subprocess.run([tool, "--dry-run", "-Werror", path], capture_output=True, text=True, check=False)
                if ran.returncode:
                    self.find(path, 1, "is not as .clang-format has it; run clang-format -i")

    def run(self, build=None, with_format=False):
        for path in self.files():
            if path.suffix not in TEXT or path.name == "LICENSE":
                continue
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue  # data without an ending
            lines = text.splitlines()
            self.check_lines(path, lines)
            if path.suffix in CPP:
                self.check_cpp(path, lines)
            if path.suffix == ".py":
                self.check_python(path, text)
            if path.suffix == ".md":
                self.check_links(path, lines)
        self.check_source_map()
        if build:
            self.check_archives(build)
            self.check_product(build)
        if with_format:
            self.check_format()
        return self.findings


def main():
    parser = argparse.ArgumentParser(description="Checks what the compiler does not.")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--format", action="store_true")
    flags = parser.parse_args()
    findings = Tidy(flags.root.resolve()).run(flags.build, flags.format)
    print("".join(f"{line}\n" for line in findings), end="")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
