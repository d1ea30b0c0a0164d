"""Every sentence of the contract in docs/guide/memory.md has a test that names its number, and none names another."""
import re

from conftest import ROOT

PAGE = ROOT / "docs" / "guide" / "memory.md"
FOLDERS = [(ROOT / "tests", "test_*.py"), (ROOT / "src", "**/*_test.cc"),
           (ROOT / "src" / "sched" / "scenarios", "*.txt")]


def sentences():
    section = PAGE.read_text().split("## 1. The contract")[1].split("\n## ")[0]
    return [int(number) for number in re.findall(r"^(\d+)\. ", section, re.MULTILINE)]


def named():
    """Number -> files that name it."""
    where = {}
    for folder, pattern in FOLDERS:
        for path in folder.glob(pattern):
            if path.name != "test_contract.py":
                for number in re.findall(r"contract (\d+)", path.read_text()):
                    where.setdefault(int(number), set()).add(path.name)
    return where


def test_sentences_are_numbered():
    assert sentences() == list(range(1, len(sentences()) + 1)) and len(sentences()) >= 19


def test_every_sentence_has_a_test():
    where = named()
    assert [number for number in sentences() if number not in where] == [], "sentences without a test"
    assert sorted(set(where) - set(sentences())) == [], "tests of sentences that are not there"
