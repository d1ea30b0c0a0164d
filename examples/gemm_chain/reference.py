# SPDX-License-Identifier: Apache-2.0
"""y = x W1 W2 W3 W4 over complex numbers. Rewrites the weights (w1.npy to w4.npy) and expected/."""

import pathlib
import sys

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from cases import write_case  # noqa: E402

WIDTHS = (64, 96, 48, 80, 32)


def chain(x, weights):
    """x as pairs of floats [m, n0, 2], weights as planes [2, k, n]: pairs of floats [m, n4, 2]."""
    y = x[..., 0].astype(numpy.complex128) + 1j * x[..., 1]
    for real, imaginary in weights:
        y = y @ (real.astype(numpy.complex128) + 1j * imaginary)
    return numpy.stack([y.real, y.imag], axis=-1).astype(numpy.float32)


def main():
    random = numpy.random.default_rng(4)
    weights = []
    for i, (k, n) in enumerate(zip(WIDTHS, WIDTHS[1:]), 1):
        w = (random.standard_normal((2, k, n)) / numpy.sqrt(2 * k)).astype(numpy.float32)  # keeps the size of numbers
        numpy.save(HERE / f"w{i}.npy", w)
        weights.append(w)
    for name, m in {"smallest": 1, "default": 64, "odd": 53}.items():
        x = random.uniform(-1, 1, (m, WIDTHS[0], 2)).astype(numpy.float32)
        write_case(HERE, name, {"x": x}, {"y": chain(x, weights)}, rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    main()
