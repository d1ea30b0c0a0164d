#!/usr/bin/env python3
"""Compiles C++ files alone, with -fsyntax-only: builds compile ten sources at a time, which hides a missing include.

    tools/headers.py --build DIR [--since COMMIT]

All headers, or with --since the headers and sources that differ from COMMIT (and what is not committed). DIR has the
compile_commands.json to take the flags from.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DROPPED = {"-o", "-c", "-MF", "-MT", "-MQ"}


def git(*arguments):
    ran = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments], capture_output=True,
                         text=True, check=False)
    return ran.stdout.split("\n")[:-1] if ran.returncode == 0 else None


def changed_since(commit):
    """Paths that differ from `commit`; nothing is known, and so nothing changed, where the clone does not have it."""
    differs = git("diff", "--name-only", "--diff-filter=d", commit)
    return sorted(set(differs or []) | set(git("ls-files", "--others", "--exclude-standard") or []))


def flags_of(build):
    """The flags for any file: include folders, definitions and standard of all targets together."""
    flags = [f"-I{ROOT}", f"-I{ROOT / 'src'}"]
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        at = next(i for i, word in enumerate(words) if word.startswith(("-D", "-I", "-isystem", "-std", "-O", "-g")))
        skip = False
        for i, word in enumerate(words[at:], at):
            if skip or word in DROPPED:
                skip = word in DROPPED
            elif word.startswith(("-I", "-D", "-std")) and "QUERN_" not in word and word not in flags:
                flags.append(word)
            elif word == "-isystem" and words[i + 1] not in flags:
                flags += [word, words[i + 1]]
    return flags


def check(path, flags):
    text = f'#include "{path}"\n' if path.suffix == ".h" else None
    command = ["g++", "-fsyntax-only", "-Wall", "-Wextra", "-Wno-restrict", *flags, "-x", "c++",
               "-" if text else str(path)]
    ran = subprocess.run(command, input=text, capture_output=True, text=True, check=False, cwd=ROOT)
    return ran.returncode, ran.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--since")
    arguments = parser.parse_args()
    names = changed_since(arguments.since) if arguments.since else [
        str(path.relative_to(ROOT)) for folder in ("src", "bench") for path in sorted((ROOT / folder).rglob("*.h"))]
    paths = [ROOT / name for name in names if name.startswith(("src/", "bench/")) and name.endswith((".h", ".cc"))
             and (ROOT / name).exists() and not name.endswith(("version.cc", "stage.cc"))]
    flags = flags_of(arguments.build)
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, (code, errors) in zip(paths, pool.map(lambda path: check(path, flags), paths)):
            if code:
                bad += 1
                print(f"{path.relative_to(ROOT)}: does not compile alone; include what it uses\n{errors}")
    print(f"{len(paths)} files compiled alone, {bad} of them failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
