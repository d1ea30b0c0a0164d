// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <utility>

#include "bench/report.h"

namespace quern::bench {

/// A figure held against another: the ratio is their quotient. NaN as baseline: there is none to hold it against.
inline Row row_of(std::string name, double value, std::string unit, double baseline, std::string goal = "") {
  Row row;
  row.name = std::move(name);
  row.value = value;
  row.unit = std::move(unit);
  row.goal = std::move(goal);
  if (baseline == baseline) {
    row.baseline = baseline;
    row.ratio = value / baseline;
  }
  return row;
}
/// A figure by itself.
inline Row row_of(std::string name, double value, std::string unit, std::string goal = "") {
  Row row;
  row.name = std::move(name);
  row.value = value;
  row.unit = std::move(unit);
  row.goal = std::move(goal);
  return row;
}

}  // namespace quern::bench
