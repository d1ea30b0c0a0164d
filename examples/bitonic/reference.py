# SPDX-License-Identifier: Apache-2.0
"""Rewrites expected/ with numpy's sort."""

import pathlib
import sys

import numpy

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
from cases import write_case


def main():
    random = numpy.random.default_rng(7)
    for name, n in (("smallest", 2), ("default", 4096), ("odd", 512)):
        low, high = (-50, 50) if name == "odd" else (-2**31, 2**31)  # odd: every key many times
        keys = random.integers(low, high, n, dtype=numpy.int32)
        write_case(FOLDER, name, {"keys": keys}, {"sorted": numpy.sort(keys)}, rtol=0, atol=0)


if __name__ == "__main__":
    main()
