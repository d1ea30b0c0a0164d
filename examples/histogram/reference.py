# SPDX-License-Identifier: Apache-2.0
"""Rewrites expected/: counts are whole, so they must be equal."""

import pathlib
import sys

import numpy

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
from cases import write_case


def main():
    random = numpy.random.default_rng(4)
    for name, n in (("smallest", 1), ("default", 65536), ("odd", 10007)):
        data = random.normal(100, 30, n).clip(0, 255).astype(numpy.uint8)  # uneven: some bins stay empty
        write_case(FOLDER, name, {"data": data}, {"bins": numpy.bincount(data, minlength=256).astype(numpy.uint32)},
                   rtol=0, atol=0)


if __name__ == "__main__":
    main()
