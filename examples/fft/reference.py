# SPDX-License-Identifier: Apache-2.0
"""Rewrites expected/ with numpy's transforms, which compute in fp64."""

import pathlib
import sys

import numpy

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
from cases import write_case


def main():
    random = numpy.random.default_rng(6)
    for name, n, inverse in (("smallest", 2, 0), ("default", 1024, 0), ("odd", 2048, 1)):
        x = random.normal(0, 1, (n, 2)).astype(numpy.float32)
        z = x[:, 0] + 1j * x[:, 1].astype(numpy.float64)
        z = numpy.fft.ifft(z) if inverse else numpy.fft.fft(z)
        y = numpy.stack([z.real, z.imag], axis=1).astype(numpy.float32)
        # Errors are relative to the largest of the results, of which some are nearly 0.
        write_case(FOLDER, name, {"x": x}, {"y": y}, params={"inverse": inverse}, rtol=1e-5,
                   atol=float(numpy.float32(1e-6 * numpy.abs(y).max())))


if __name__ == "__main__":
    main()
