#!/usr/bin/env python3
"""Reads what ctest, GoogleTest and pytest wrote, and closes a test run: what failed, what was skipped and why, the ten
slowest, and `N passed, N failed` alone on the last line.

    tools/test_report.py FOLDER [SECONDS]        FOLDER/ROUND/{ctest.xml,pytest*.xml,gtest/*.xml}
"""
import collections
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

Case = collections.namedtuple("Case", "name seconds state reason")


def cases_of(path, prefix):
    """The cases of one JUnit file; a file that a crash cut off has none."""
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError:
        return []
    cases = []
    for case in root.iter("testcase"):
        name = f"{prefix}{case.get('classname', '')}.{case.get('name')}"
        state, reason = "passed", ""
        if (skipped := case.find("skipped")) is not None:
            state, reason = "skipped", (skipped.get("message") or "").splitlines()[0:1]
            reason = reason[0] if reason else ""
        if case.get("status") == "notrun" or case.get("result") == "suppressed":
            continue  # disabled
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            state = "failed"
        cases.append(Case(name, float(case.get("time") or 0), state, reason))
    return cases


def unit_cases(folder):
    """Each ctest test, by its GoogleTest cases where it wrote any. One that ended badly without a failed case (it
    crashed, or ran out of time) is a failed case itself."""
    cases = []
    if not (folder / "ctest.xml").exists():
        return cases
    inner = {path.stem: cases_of(path, f"{path.stem}: ") for path in (folder / "gtest").glob("*.xml")}
    for test in cases_of(folder / "ctest.xml", ""):
        name = test.name.split(".", 1)[1]
        stem = "quern_" + name.replace("/", "_") + "_test"
        found = inner.get(stem, [])
        cases += found
        if not found or (test.state == "failed" and all(case.state != "failed" for case in found)):
            cases.append(test._replace(name=name))
    return cases


def main(folder, seconds=None):
    cases = []
    for one in sorted(folder.iterdir(), key=lambda path: int(path.name)):
        cases += unit_cases(one)
        for name, prefix in (("pytest.xml", ""), ("pytest-intel.xml", "on Intel's OpenCL: ")):
            if (one / name).exists():
                cases += cases_of(one / name, prefix)
    count = collections.Counter(case.state for case in cases)
    skipped = collections.Counter((case.name, case.reason) for case in cases if case.state == "skipped")
    failed = collections.Counter(case.name for case in cases if case.state == "failed")
    if skipped:
        print(f"\nskipped ({count['skipped']}):")
        for (name, reason), times in sorted(skipped.items()):
            print(f"  {name}{f' x{times}' if times > 1 else ''}: {reason}")
    print("\nten slowest:")
    for case in sorted(cases, key=lambda case: -case.seconds)[:10]:
        print(f"  {case.seconds:8.2f} s  {case.name}")
    if failed:
        print("\nfailed:")
        for name, times in sorted(failed.items()):
            print(f"  {name}{f' x{times}' if times > 1 else ''}")
    if seconds is not None:
        print(f"\nin {seconds // 60} min {seconds % 60} s")
    print(f"\n{count['passed']} passed, {count['failed']} failed")
    return 1 if count["failed"] or not cases else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None))
