// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "bench/report.h"

namespace quern::bench {

/// What every benchmark may be asked.
struct Options {
  bool quick = false;  ///< a tenth of the rounds: does it run at all?
  bool full = false;   ///< every row that a benchmark knows, however long that takes, where it leaves some out
  std::string row;     ///< only rows whose names begin with this, where a benchmark can leave the others out
  bool wants(std::string_view name) const { return name.starts_with(row); }
  /// Shows one line of progress; each replaces the last.
  std::function<void(std::string_view)> progress = [](std::string_view) {};
};

/// A benchmark: one file in bench/ and one row in table.cc.
struct Bench {
  std::string_view name, summary;
  /// Fills rows, notes and layout; the rest of the report is the caller's.
  Status (*run)(const Options& options, Report& report);
};

/// All of them, in the order people see.
std::span<const Bench> all();

}  // namespace quern::bench
