# SPDX-License-Identifier: Apache-2.0
"""c = a @ b. Rewrites expected/."""

import pathlib
import sys

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from cases import write_case  # noqa: E402


def sgemm(a, b):
    return (a.astype(numpy.float64) @ b.astype(numpy.float64)).astype(numpy.float32)


def main():
    random = numpy.random.default_rng(2)
    for name, (m, n, k) in {"smallest": (1, 1, 1), "default": (64, 64, 64), "odd": (101, 37, 53)}.items():
        a = random.uniform(-1, 1, (m, k)).astype(numpy.float32)
        b = random.uniform(-1, 1, (k, n)).astype(numpy.float32)
        write_case(HERE, name, {"a": a, "b": b}, {"c": sgemm(a, b)}, rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    main()
