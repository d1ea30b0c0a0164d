# SPDX-License-Identifier: Apache-2.0
"""k-means by Lloyd's rounds. Rewrites expected/."""

import pathlib
import sys

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from cases import write_case  # noqa: E402


def kmeans(points, start):
    """Until nothing moves: centroids, labels."""
    points, centroids = points.astype(numpy.float64), start.astype(numpy.float64)
    for _ in range(200):
        distances = ((points[:, None, :] - centroids[None, :, :]) ** 2).sum(axis=2)
        labels = distances.argmin(axis=1)
        if len(centroids) > 1:
            # A point in the middle between two centroids would make the answer a matter of rounding.
            nearest = numpy.partition(distances, 1, axis=1)
            assert (nearest[:, 1] - nearest[:, 0]).min() > 1e-5, "choose another seed"
        new = centroids.copy()
        for c in range(len(centroids)):
            if (labels == c).any():
                new[c] = points[labels == c].mean(axis=0)
        if (new == centroids).all():
            return centroids.astype(numpy.float32), labels.astype(numpy.uint32)
        centroids = new
    raise AssertionError("does not converge; choose another seed")


def main():
    for name, seed, (n, k, d) in (("smallest", 6, (1, 1, 1)), ("default", 16, (2000, 8, 4)), ("odd", 6, (1511, 5, 3))):
        random = numpy.random.default_rng(seed)
        centres = random.uniform(-10, 10, (k, d))
        points = (centres[random.integers(k, size=n)] + random.normal(0, 1.5, (n, d))).astype(numpy.float32)
        start = points[:k].copy()
        centroids, labels = kmeans(points, start)
        write_case(HERE, name, {"points": points, "start": start},
                   {"centroids": centroids, "labels": labels, "moved": numpy.zeros(1, numpy.uint32)},
                   rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    main()
