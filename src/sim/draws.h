// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/prng.h"
#include "base/time.h"

/// Random numbers that are the same on every machine: only + - * / of doubles, no function of a library whose last
/// digit differs between two of them.
namespace quern::sim {

/// The natural logarithm of a positive, normal number; within 1e-12 of it.
double natural_log(double x);

/// With mean 1.
double draw_exponential(Prng& prng);

/// With mean 0 and deviation 1: the sum of twelve uniforms minus 6, so never further out than 6.
double draw_normal(Prng& prng);

/// How often something happens in the mean, to how long it takes until it happens next; at least 1 ns. Rates of 0 and
/// below give forever.
Duration draw_gap(Prng& prng, double per_second);

/// `time` times a factor of mean 1 and deviation `spread`, kept in [0.2, 5]; at least 1 ns.
Duration draw_spread(Prng& prng, Duration time, double spread);

/// `time` as a double, back in whole ns, at least 1 ns and at most forever.
Duration whole_duration(double ns);

}  // namespace quern::sim
