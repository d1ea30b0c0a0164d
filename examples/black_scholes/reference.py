# SPDX-License-Identifier: Apache-2.0
"""European options by Black and Scholes. Rewrites expected/."""

import math
import pathlib
import sys

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from cases import write_case  # noqa: E402


def below(x):
    return numpy.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in x])


def black_scholes(spot, strike, years, rate=0.02, volatility=0.3):
    s, k, t = (array.astype(numpy.float64) for array in (spot, strike, years))
    r, v = float(numpy.float32(rate)), float(numpy.float32(volatility))
    d1 = (numpy.log(s / k) + (r + v * v / 2) * t) / (v * numpy.sqrt(t))
    d2 = d1 - v * numpy.sqrt(t)
    owed = k * numpy.exp(-r * t)
    call = s * below(d1) - owed * below(d2)
    put = owed * below(-d2) - s * below(-d1)
    return call.astype(numpy.float32), put.astype(numpy.float32)


def main():
    random = numpy.random.default_rng(9)
    other = {"rate": -0.01, "volatility": 0.5}
    for name, n, params in (("smallest", 1, {}), ("default", 4096, {}), ("odd", 1013, other)):
        spot = random.uniform(50, 150, n).astype(numpy.float32)
        strike = random.uniform(50, 150, n).astype(numpy.float32)
        years = random.uniform(0.1, 5, n).astype(numpy.float32)
        call, put = black_scholes(spot, strike, years, **params)
        write_case(HERE, name, {"spot": spot, "strike": strike, "years": years}, {"call": call, "put": put},
                   params=params, rtol=1e-5, atol=1e-4)


if __name__ == "__main__":
    main()
