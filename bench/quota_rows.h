// SPDX-License-Identifier: Apache-2.0
//
// What `bench quota` tries, and what it makes of what it saw.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/bench.h"

namespace quern::bench {

/// A function that always has work, with a share of the device's time, by itself or beside another that takes what it
/// can get.
struct QuotaCase {
  double kernel_us = 1000;
  bool is_beside = false;
  uint32_t percent = 40;

  /// "beside_1ms_40"
  std::string name() const;
  /// Short kernels and little room beside them: more is let pass.
  bool is_hard() const;
};

/// The cases that are asked for, those that are summed up in `worst` and `worst_50us_80` with them.
std::vector<QuotaCase> quota_cases(const Options& options);

/// What became of a case, in percent of the device, by seconds.
struct QuotaFigures {
  std::vector<double> shares, neighbour;

  /// How far the second that was furthest off was from what was asked for, in points.
  double worst(uint32_t percent) const;
};

struct QuotaResult {
  QuotaCase of;
  QuotaFigures figures;
};

/// A row for each case and each neighbour, and the two sums.
void add_quota_rows(const std::vector<QuotaResult>& results, const Options& options, Report& report);

}  // namespace quern::bench
