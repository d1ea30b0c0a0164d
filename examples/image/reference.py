# SPDX-License-Identifier: Apache-2.0
"""Rewrites expected/: the same pipeline over whole arrays, on a picture with edges and noise."""

import pathlib
import sys

import numpy

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
from cases import write_case


def make_picture(h, w, random):
    y, x = numpy.mgrid[0:h, 0:w]
    picture = numpy.stack([x * 200 / w, y * 200 / h, numpy.full((h, w), 90)], axis=2)
    picture[(x - w / 2) ** 2 + (y - h / 2) ** 2 < (min(h, w) / 3) ** 2] = (230, 180, 40)
    picture[(x // 8 + y // 8) % 5 == 0] *= 0.5
    return (picture + random.normal(0, 6, (h, w, 3))).clip(0, 255).astype(numpy.uint8)


def shifted(array, rows, columns):
    """Moved by at most 2; past the rim the outermost pixels go on."""
    h, w = array.shape[:2]
    return array[(numpy.arange(h) + rows).clip(0, h - 1)][:, (numpy.arange(w) + columns).clip(0, w - 1)]


def pipeline(picture, strength, threshold):
    weights = (1, 4, 6, 4, 1)
    whole = picture.astype(numpy.int32)
    across = sum(weight * shifted(whole, 0, k - 2) for k, weight in enumerate(weights))
    blurred = (sum(weight * shifted(across, k - 2, 0) for k, weight in enumerate(weights)) + 128) >> 8
    grey = (blurred @ numpy.array([77, 150, 29]) + 128) >> 8
    dx = sum(weight * (shifted(grey, k, 1) - shifted(grey, k, -1)) for k, weight in ((-1, 1), (0, 2), (1, 1)))
    dy = sum(weight * (shifted(grey, 1, k) - shifted(grey, -1, k)) for k, weight in ((-1, 1), (0, 2), (1, 1)))
    is_edge = abs(dx) + abs(dy) >= threshold
    sharp = numpy.floor(whole + strength * (whole - blurred) + 0.5).clip(0, 255)
    result = numpy.where(is_edge[:, :, None], sharp, blurred)
    return {"edges": (255 * is_edge).astype(numpy.uint8), "result": result.astype(numpy.uint8)}


def main():
    random = numpy.random.default_rng(9)
    for name, h, w, params in (("smallest", 1, 1, {"strength": 0.75, "threshold": 0}), ("default", 96, 128, {}),
                               ("odd", 53, 67, {"strength": 1.5, "threshold": 40})):
        picture = make_picture(h, w, random)
        expected = pipeline(picture, params.get("strength", 0.75), params.get("threshold", 64))
        # These strengths are exact in binary, so there is nothing to round differently.
        write_case(FOLDER, name, {"picture": picture}, expected, params=params, rtol=0, atol=0)


if __name__ == "__main__":
    main()
