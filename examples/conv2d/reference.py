# SPDX-License-Identifier: Apache-2.0
"""2-D convolution (as neural networks mean it: the window is not flipped). Rewrites expected/."""

import pathlib
import sys

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from cases import write_case  # noqa: E402


def conv2d(x, weights, bias):
    images, _, h, w = x.shape
    filters, _, size, _ = weights.shape
    before = (size - 1) // 2
    border = (before, size - 1 - before)
    padded = numpy.pad(x.astype(numpy.float64), ((0, 0), (0, 0), border, border))
    y = numpy.zeros((images, filters, h, w)) + bias[:, None, None]
    for down in range(size):
        for right in range(size):
            y += numpy.einsum("nchw,fc->nfhw", padded[:, :, down:down + h, right:right + w], weights[:, :, down, right])
    return y.astype(numpy.float32)


def main():
    random = numpy.random.default_rng(5)
    sizes = {"smallest": (1, 1, 1, 1, 1, 1), "default": (1, 8, 8, 24, 24, 3), "odd": (2, 3, 7, 13, 37, 5)}
    for name, (images, channels, filters, h, w, size) in sizes.items():
        x = random.uniform(-1, 1, (images, channels, h, w)).astype(numpy.float32)
        weights = random.uniform(-1, 1, (filters, channels, size, size)).astype(numpy.float32)
        bias = random.uniform(-1, 1, filters).astype(numpy.float32)
        write_case(HERE, name, {"x": x, "weights": weights, "bias": bias}, {"y": conv2d(x, weights, bias)},
                   rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    main()
