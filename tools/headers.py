#!/usr/bin/env python3
"""Compiles headers alone, with -fsyntax-only: builds compile ten sources at a time, which hides a missing include.

    tools/headers.py --build DIR [--since BRANCH]

Without --since all headers are compiled. With it, those that differ from the commit where HEAD left BRANCH, committed
or not. Where the clone has no BRANCH, or HEAD is part of it, they are compared with the commit before HEAD; where that
is missing too, all headers are compiled. The first line of the output tells which of these it was. DIR has the
compile_commands.json to take the flags from.
"""
import argparse
import concurrent.futures
import json
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DROPPED = {"-o", "-c", "-MF", "-MT", "-MQ"}
COMPILERS = 2  # as many as the ctest `headers` reserves in CMakeLists.txt


def git(*arguments):
    """The lines that git prints; None if it fails or is not installed."""
    try:
        ran = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments], capture_output=True,
                             text=True, check=False)
    except FileNotFoundError:
        return None
    return ran.stdout.split("\n")[:-1] if ran.returncode == 0 else None


def commit_of(name):
    return (git("rev-parse", "--verify", "--quiet", name + "^{commit}") or [None])[0]


def base_of(branch):
    """The commit to compare with, and what it is; None and a reason if there is no such commit."""
    head, tip = commit_of("HEAD"), commit_of(branch)
    base = (git("merge-base", branch, "HEAD") or [None])[0] if tip else None
    if base and base != head:
        return base, f"where HEAD left {branch}"
    if base:
        reason = f"HEAD is part of {branch}"
    else:
        reason = f"HEAD has no history in common with {branch}" if tip else f"this clone has no {branch}"
    return commit_of("HEAD~1"), f"HEAD~1, because {reason}"


def all_headers():
    return [str(path.relative_to(ROOT)) for folder in ("src", "bench") for path in sorted((ROOT / folder).rglob("*.h"))]


def changed_headers(branch):
    """Headers that differ from `branch`, committed or not, and a line that says what they were compared with."""
    base, what = base_of(branch)
    differ = git("diff", "--name-only", "--diff-filter=d", base) if base else None
    if differ is None:
        return all_headers(), "comparing with nothing, because this clone has no commit before HEAD: all headers"
    differ = sorted(set(differ) | set(git("ls-files", "--others", "--exclude-standard") or []))
    headers = [name for name in differ if name.startswith(("src/", "bench/")) and name.endswith(".h")
               and (ROOT / name).exists()]
    return headers, f"comparing with {base[:12]} ({what})"


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


def check(name, flags):
    command = ["g++", "-fsyntax-only", "-Wall", "-Wextra", "-Wno-restrict", *flags, "-x", "c++", "-"]
    ran = subprocess.run(command, input=f'#include "{ROOT / name}"\n', capture_output=True, text=True, check=False,
                         cwd=ROOT)
    return ran.returncode, ran.stderr


def main(words=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--since")
    arguments = parser.parse_args(words)
    names, what = changed_headers(arguments.since) if arguments.since else (all_headers(), "all headers")
    print(what)
    flags = flags_of(arguments.build)
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(COMPILERS) as pool:
        for name, (code, errors) in zip(names, pool.map(lambda name: check(name, flags), names)):
            if code:
                bad += 1
                print(f"{name}: does not compile alone; include what it uses\n{errors}")
    print(f"{len(names)} headers compiled alone, {bad} of them failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
