# SPDX-License-Identifier: Apache-2.0
"""y = A x for a sparse A. Rewrites the matrix (row_start.npy, column.npy, value.npy) and expected/."""

import pathlib
import sys

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from cases import write_case  # noqa: E402

ROWS, COLUMNS, NONZEROS = 509, 389, 4000


def make_matrix(random):
    """CSR with rows of all lengths, empty ones too; columns go up within a row."""
    places = numpy.sort(random.choice((ROWS - 9) * COLUMNS, NONZEROS, replace=False))  # the last 9 rows are empty
    rows, column = places // COLUMNS, places % COLUMNS
    row_start = numpy.searchsorted(rows, numpy.arange(ROWS + 1))
    value = random.uniform(-1, 1, NONZEROS)
    return row_start.astype(numpy.int32), column.astype(numpy.int32), value.astype(numpy.float32)


def spmv(row_start, column, value, x):
    y = numpy.zeros((len(x), ROWS))
    for row in range(ROWS):
        one = slice(row_start[row], row_start[row + 1])
        y[:, row] = (value[one].astype(numpy.float64) * x[:, column[one]]).sum(axis=1)
    return y.astype(numpy.float32)


def main():
    random = numpy.random.default_rng(8)
    matrix = make_matrix(random)
    for name, array in zip(("row_start", "column", "value"), matrix):
        numpy.save(HERE / f"{name}.npy", array)
    for name, vectors in {"smallest": 1, "default": 4, "odd": 13}.items():
        x = random.uniform(-1, 1, (vectors, COLUMNS)).astype(numpy.float32)
        write_case(HERE, name, {"x": x}, {"y": spmv(*matrix, x)}, rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    main()
