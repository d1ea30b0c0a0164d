# SPDX-License-Identifier: Apache-2.0
"""c[i] = a[i] @ b[i]. Rewrites expected/."""

import pathlib
import sys

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from cases import write_case  # noqa: E402


def batched_sgemm(a, b):
    return (a.astype(numpy.float64) @ b.astype(numpy.float64)).astype(numpy.float32)


def main():
    random = numpy.random.default_rng(3)
    sizes = {"smallest": (1, 1, 1, 1), "default": (8, 32, 32, 32), "odd": (3, 29, 37, 23)}
    for name, (batch, m, n, k) in sizes.items():
        a = random.uniform(-1, 1, (batch, m, k)).astype(numpy.float32)
        b = random.uniform(-1, 1, (batch, k, n)).astype(numpy.float32)
        write_case(HERE, name, {"a": a, "b": b}, {"c": batched_sgemm(a, b)}, rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    main()
