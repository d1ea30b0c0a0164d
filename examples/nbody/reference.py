# SPDX-License-Identifier: Apache-2.0
"""Rewrites expected/: the same steps in fp64."""

import pathlib
import sys

import numpy

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
from cases import write_case


def simulate(positions, velocities, steps, dt=0.01, softening=0.1):
    positions, velocities = positions.astype(numpy.float64), velocities.astype(numpy.float64)
    for _ in range(steps):
        away = positions[None, :, :3] - positions[:, None, :3]
        pull = positions[:, 3] / ((away**2).sum(axis=2) + softening**2) ** 1.5
        velocities[:, :3] += dt * (pull[:, :, None] * away).sum(axis=1)
        positions[:, :3] += dt * velocities[:, :3]
    return positions.astype(numpy.float32), velocities.astype(numpy.float32)


def main():
    random = numpy.random.default_rng(8)
    for name, n, steps in (("smallest", 1, 1), ("default", 256, 10), ("odd", 101, 51)):
        positions, velocities = random.normal(0, 1, (2, n, 4)).astype(numpy.float32)
        positions[:, 3] = random.uniform(0.5, 1.5, n) / n  # masses: about 1 in all
        velocities *= 0.5
        velocities[:, 3] = 0
        moved, faster = simulate(positions, velocities, steps)
        write_case(FOLDER, name, {"start_positions": positions, "start_velocities": velocities},
                   {"positions": moved, "velocities": faster}, params={"steps": steps}, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    main()
