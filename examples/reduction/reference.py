# SPDX-License-Identifier: Apache-2.0
"""Rewrites expected/: sums in fp64, rounded once."""

import pathlib
import sys

import numpy

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
from cases import write_case


def main():
    random = numpy.random.default_rng(3)
    for name, n in (("smallest", 1), ("default", 16384), ("odd", 10007)):
        x = random.uniform(-1, 3, n).astype(numpy.float32)
        write_case(FOLDER, name, {"x": x}, {"sum": x.sum(dtype=numpy.float64, keepdims=True).astype(numpy.float32),
                                            "largest": x.max(keepdims=True)}, rtol=1e-5, atol=0)


if __name__ == "__main__":
    main()
