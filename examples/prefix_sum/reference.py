# SPDX-License-Identifier: Apache-2.0
"""Rewrites expected/: whole numbers, so they must be equal."""

import pathlib
import sys

import numpy

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
from cases import write_case


def main():
    random = numpy.random.default_rng(5)
    for name, n in (("smallest", 1), ("default", 4096), ("odd", 10007)):
        values = random.integers(-1000, 1000, n, dtype=numpy.int32)
        if name == "odd":
            values *= 1000003  # sums that wrap around
        write_case(FOLDER, name, {"values": values}, {"sums": numpy.cumsum(values, dtype=numpy.int32)}, rtol=0, atol=0)


if __name__ == "__main__":
    main()
