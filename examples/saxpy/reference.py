# SPDX-License-Identifier: Apache-2.0
"""z = alpha * x + y. Rewrites expected/."""

import pathlib
import sys

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from cases import write_case  # noqa: E402


def saxpy(x, y, alpha):
    return (numpy.float64(numpy.float32(alpha)) * x.astype(numpy.float64) + y).astype(numpy.float32)


def main():
    random = numpy.random.default_rng(1)
    for name, n, params in (("smallest", 1, None), ("default", 1024, None), ("odd", 1009, {"alpha": -2.5})):
        x, y = random.uniform(-1, 1, (2, n)).astype(numpy.float32)
        z = saxpy(x, y, params["alpha"] if params else 1)
        write_case(HERE, name, {"x": x, "y": y}, {"z": z}, params=params)


if __name__ == "__main__":
    main()
