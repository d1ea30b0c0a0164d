# SPDX-License-Identifier: Apache-2.0
"""A perceptron of three layers. Rewrites weights.safetensors and expected/."""

import json
import pathlib
import struct
import sys

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from cases import write_case  # noqa: E402

WIDTHS = (64, 96, 64, 10)


def write_safetensors(path, tensors):
    """Eight bytes of header length, a JSON header padded with spaces to a multiple of 8, and the data."""
    header, data = {}, b""
    for name, array in tensors.items():
        begin = len(data)
        data += array.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def perceptron(x, layers):
    y = x.astype(numpy.float64)
    for i, (weight, bias) in enumerate(layers):
        y = y @ weight.astype(numpy.float64) + bias
        if i < len(layers) - 1:
            y = numpy.maximum(y, 0)
    y = numpy.exp(y - y.max(axis=1, keepdims=True))
    return (y / y.sum(axis=1, keepdims=True)).astype(numpy.float32)


def main():
    random = numpy.random.default_rng(7)
    layers, tensors = [], {}
    for i, (k, n) in enumerate(zip(WIDTHS, WIDTHS[1:]), 1):
        weight = (random.standard_normal((k, n)) * numpy.sqrt(2 / k)).astype(numpy.float32)
        bias = random.uniform(-0.1, 0.1, n).astype(numpy.float32)
        layers.append((weight, bias))
        tensors[f"layer{i}.weight"], tensors[f"layer{i}.bias"] = weight, bias
    write_safetensors(HERE / "weights.safetensors", tensors)
    for name, batch in {"smallest": 1, "default": 16, "odd": 101}.items():
        x = random.standard_normal((batch, WIDTHS[0])).astype(numpy.float32)
        write_case(HERE, name, {"x": x}, {"probabilities": perceptron(x, layers)}, rtol=1e-4, atol=1e-6)


if __name__ == "__main__":
    main()
