"""The pages of docs/guide are true: their files are written and their commands are run, as they stand and in order.

A line `` `path`: `` before a fenced block makes the block that file. A block of `sh` is run and must succeed; one of
`sh fails` must end with an error. Every line of a block of `text` behind it must be in what it printed, where `…`
stands for anything and spaces count once.
"""
import os
import re
import shlex
import stat
import subprocess
import sys

import pytest
from conftest import BINARY, BINARY_CACHE, CALL_LIMIT, PRESET, ROOT

GUIDES = sorted((ROOT / "docs" / "guide").glob("*.md"))
GUIDE = ROOT / "docs" / "guide" / "functions.md"
FILES = {"yaml", "c", "python"}


class Block:
    def __init__(self, line, kind, text, path):
        self.line, self.kind, self.text, self.path = line, kind, text, path


def read_blocks(guide):
    blocks, path, begin = [], None, None
    for number, line in enumerate(guide.read_text().splitlines(), 1):
        if begin is None and line.startswith("```"):
            begin, kind, inside = number, line[3:].strip(), []
        elif begin is not None and line == "```":
            blocks.append(Block(begin, kind, "\n".join(inside) + "\n", path))
            path = begin = None
        elif begin is not None:
            inside.append(line)
        elif match := re.fullmatch(r"`([^`]+)`:", line):
            path = match[1]
        elif line:
            path = None
    assert begin is None, f"{guide.name}:{begin}: the block does not end"
    return blocks


def write_program(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def make_programs(folder):
    """`quern` as a user has it in PATH, and a `python3` that has numpy."""
    folder.mkdir()
    BINARY_CACHE.mkdir(parents=True, exist_ok=True)
    binary, cache = shlex.quote(str(BINARY)), shlex.quote(str(BINARY_CACHE))
    write_program(folder / "quern", f'case "$1" in run|check) exec {binary} "$@" --binary-cache {cache};; esac\n'
                                    f'exec {binary} "$@"\n')
    write_program(folder / "python3", f'exec {shlex.quote(sys.executable)} "$@"\n')


def is_shown(wanted, lines):
    pattern = re.compile(".*".join(re.escape(part) for part in " ".join(wanted.split()).split("…")))
    return any(pattern.fullmatch(line) for line in lines)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_blocks_are_of_known_kinds(guide):
    assert read_blocks(guide)
    for block in read_blocks(guide):
        where = f"{guide.name}:{block.line}"
        assert block.kind in FILES | {"sh", "sh fails", "text"}, f"{where}: '{block.kind}' is neither file nor command"
        assert (block.kind in FILES) == (block.path is not None), f"{where}: a file has a name, and nothing else has"


@pytest.mark.skipif(PRESET != "dev", reason="its kernels need a compiler")
@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_commands_do_what_the_guide_says(guide, make_server, tmp_path):
    server = make_server()
    make_programs(tmp_path / "bin")
    folder = tmp_path / "work"
    folder.mkdir()
    environment = dict(os.environ, PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}", QUERN_SERVER=server.url)
    ran = None
    for block in read_blocks(guide):
        where = f"{guide.name}:{block.line}"
        if block.path:
            path = folder / block.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.kind == "text":
            lines = [" ".join(line.split()) for line in ran.stdout.splitlines()]
            missing = [line for line in block.text.splitlines() if line.strip() and not is_shown(line, lines)]
            assert not missing, f"{where}: not shown:\n" + "\n".join(missing) + "\n\nbut:\n" + ran.stdout
        else:
            ran = subprocess.run(["/bin/sh", "-e", "-c", block.text], cwd=folder, env=environment, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=2 * CALL_LIMIT, check=False)
            assert (ran.returncode != 0) == (block.kind == "sh fails"), f"{where}: exit {ran.returncode}\n{ran.stdout}"


def constants():
    """Every `constexpr` number of the headers that limit functions."""
    found = {}
    for name in ("graph", "plan", "yaml_tree", "tar", "expression"):
        for line in (ROOT / "src" / "function" / f"{name}.h").read_text().splitlines():
            if "constexpr" in line:
                for constant, value in re.findall(r"(k[A-Z]\w+) = ([^,;]+)", line):
                    value = re.sub(r"\w+\{(\d+)\}", r"\1", value.replace("'", ""))
                    if re.fullmatch(r"[\d <]+", value):
                        found[constant] = eval(value)  # digits and shifts only
    return found


def test_limits_are_those_of_the_headers():
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", GUIDE.read_text().split("## 11. ")[1], re.M))
    limits = constants()
    assert limits["kMostFolderBytes"] == 1 << 30 and rows["bytes of these files"] == "1 GiB"
    assert limits["kMostYamlBytes"] == 4 << 20 and rows["`function.yaml`"].startswith("4 MiB; ")
    assert limits["kLargestDim"] == 1 << 40 and rows["a dim"] == "2^40"
    assert limits["kMostBufferBytes"] == 1 << 40 and rows["a buffer"] == "1 TiB"
    for row, names in {
        "files that a manifest names": ["kMostFiles"],
        "`function.yaml`": ["kDeepestYaml", "kMostYamlNodes"],
        "programs of a driver": ["kMostDriverPrograms"],
        "dims; params; values under `let`": ["kMostDims", "kMostParams", "kMostLets"],
        "sizes in a shape": ["kMostRank"],
        "buffers": ["kMostBuffers", "kMostTensors"],
        "steps as written": ["kMostSteps"],
        "steps when rounds that use their index are written out": ["kMostLaunches"],
        "scalars that depend on params, written out likewise": ["kMostSlots"],
        "arguments of a kernel": ["kMostArguments"],
        "repeats": ["kMostRepeats", "kDeepestRepeat", "kMostSwaps", "kMostReported"],
        "rounds of a repeat": ["kMostRounds"],
        "an expression": ["kLongest", "kDeepest"],
        "views": ["kViewAlignment"],
    }.items():
        shown = [int(number) for number in re.findall(r"\d+", rows[row])]
        assert [limits[name] for name in names] == [n for n in shown if n != 4 or row != "`function.yaml`"], row
