# SPDX-License-Identifier: Apache-2.0
"""Rewrites expected/: the solutions as a direct solver finds them."""

import pathlib
import sys

import numpy

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
from cases import write_case


def solve(a, b):
    return numpy.linalg.solve(a.astype(numpy.float64), b.astype(numpy.float64)).astype(numpy.float32)


def main():
    random = numpy.random.default_rng(1)
    for name, n in (("smallest", 1), ("default", 128), ("odd", 97)):
        # Strictly diagonally dominant, so the method converges: by a factor of 0.9 a round.
        a = random.uniform(0, 1, (n, n)).astype(numpy.float32)
        numpy.fill_diagonal(a, 0)
        numpy.fill_diagonal(a, numpy.maximum(1, a.sum(axis=1) / 0.9))
        b = (a @ random.uniform(-1, 1, n)).astype(numpy.float32)
        # How small err gets depends on the rounds done; that it is below the tolerance does not.
        write_case(FOLDER, name, {"a": a, "b": b}, {"x": solve(a, b), "err": numpy.zeros(1, numpy.float32)},
                   rtol=0, atol=1e-4)


if __name__ == "__main__":
    main()
