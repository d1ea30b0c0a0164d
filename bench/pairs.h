// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/bench.h"

namespace quern::bench {

/// The two sides of pairs, one sample each a pair.
struct Samples {
  std::vector<double> ours, theirs;

  /// The ratio is the median of the pairs' ratios.
  Row row(std::string name, std::string unit, std::string goal) const;
};

/// Each side of a pair is measured twice. The first time finds everyone asleep, the second follows one of its own kind
/// as in any caller's loop: that one is the row's, the other is recorded.
struct Pairs {
  Samples after_idle, after_call;
};

/// Does the same twice in a row; how long each took.
using Twice = std::function<Result<std::array<double, 2>>()>;
/// From something that is done once.
Twice twice(std::function<Result<double>()> once);

/// `count` pairs after some rounds of ours to warm up; who is first changes from pair to pair.
Result<Pairs> interleave(const Options& options, std::string_view name, size_t count, const Twice& ours,
                         const Twice& theirs);

}  // namespace quern::bench
