# SPDX-License-Identifier: Apache-2.0
"""Rewrites expected/: the steady state by a direct solver, in which every inner cell is the mean of its neighbours."""

import pathlib
import sys

import numpy

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
from cases import write_case


def steady(start):
    h, w = start.shape
    matrix, right = numpy.eye(h * w), start.astype(numpy.float64).ravel()
    for y in range(1, h - 1):
        for x in range(1, w - 1):
            cell = y * w + x
            matrix[cell, [cell - w, cell + w, cell - 1, cell + 1]] = -0.25
            right[cell] = 0
    return numpy.linalg.solve(matrix, right).reshape(h, w).astype(numpy.float32)


def main():
    random = numpy.random.default_rng(2)
    for name, h, w in (("smallest", 3, 3), ("default", 32, 32), ("odd", 37, 23)):
        start = random.uniform(0, 1, (h, w)).astype(numpy.float32)
        start[0] = numpy.linspace(0, 1, w)  # a warm rim: hot above on the right, cold below
        start[-1] = 0
        # The change of a round is 4e-3 of what is left (1 - the largest eigenvalue): below 1e-6, about 3e-4 are left.
        write_case(FOLDER, name, {"start": start}, {"u": steady(start), "change": numpy.zeros(1, numpy.float32)},
                   rtol=0, atol=1e-3)


if __name__ == "__main__":
    main()
