# SPDX-License-Identifier: Apache-2.0
"""Writes the expected cases of the examples; each examples/X/reference.py uses it.

A case is one invocation with its answer: expected/CASE/input/NAME.npy, expected/CASE/output/NAME.npy, and
expected/CASE/case.yaml with the keys it needs of dims, params, rtol and atol. An output agrees if
|output - expected| <= atol + rtol * |expected| everywhere, as in numpy.allclose.
"""

import pathlib
import shutil

import numpy


def _scalar(value):
    """A number as YAML reads it back: 1e-06 without a dot would be a string to PyYAML."""
    if isinstance(value, (bool, numpy.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, numpy.integer)):
        return str(int(value))
    text = repr(float(value))
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


def _mapping(values):
    return "{" + ", ".join(f"{key}: {_scalar(value)}" for key, value in values.items()) + "}"


def write_case(folder, name, inputs, outputs, dims=None, params=None, rtol=1e-5, atol=1e-6):
    """Rewrites FOLDER/expected/NAME.

    folder: the example's folder (`pathlib.Path(__file__).parent`); an existing case of that name is replaced.
    inputs, outputs: buffer name -> array; the dtypes of the arrays are the dtypes of the buffers.
    dims, params: what the invocation must say beside its inputs, if anything.
    rtol, atol: the tolerance of the comparison; 0 and 0 ask for equal values.
    """
    case = pathlib.Path(folder) / "expected" / name
    if case.exists():
        shutil.rmtree(case)
    for kind, arrays in (("input", inputs), ("output", outputs)):
        (case / kind).mkdir(parents=True)
        for buffer, array in arrays.items():
            numpy.save(case / kind / f"{buffer}.npy", numpy.array(array, order="C"))  # a copy: C order, no views
    lines = []
    if dims:
        lines.append(f"dims: {_mapping(dims)}")
    if params:
        lines.append(f"params: {_mapping(params)}")
    lines.append(f"rtol: {_scalar(rtol)}")
    lines.append(f"atol: {_scalar(atol)}")
    (case / "case.yaml").write_text("\n".join(lines) + "\n")
