// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quern::bench {

/// One figure: ours, what it is held against, and what was hoped for.
struct Row {
  std::string name;
  double value = 0;
  std::string unit;                ///< "us", "calls/s", "GB/s"
  std::optional<double> baseline;  ///< the other side of the same run, in the same unit
  /// Value against baseline; taken from the pairs, so not always their quotient. NaN, which meets no goal: there should
  /// be one, but there is nothing to hold the value against.
  std::optional<double> ratio;
  std::optional<double> spread;  ///< of the ratio: half the distance between its quartiles, as a share of it
  std::string goal;              ///< "<= 1.05", ">= 0.3", "== 0"; empty: recorded, not judged
  /// Judged by `judge`: the ratio where there is one, else the value.
  std::optional<bool> met = std::nullopt;
};

/// What `quern bench NAME` prints and writes.
struct Report {
  std::string bench, commit, machine, layout;
  std::vector<Row> rows;
  std::vector<std::string> notes;  ///< printed below the table; not in the JSON
  /// Of the cores' time meanwhile, what the machine under this one gave to others: where it is much, what is told of
  /// latencies is told of them.
  std::optional<double> stolen = std::nullopt;
};

/// Whether `figure` meets a goal such as "<= 1.05". kInvalid for a goal that does not read `<=|>=|<|>|== NUMBER`.
Result<bool> meets(std::string_view goal, double figure);

/// Fills `met` of every row that has a goal.
Status judge(Report& report);

/// Aligned, for people.
std::string table_of(const Report& report);
/// For programs; the keys are those of Row and Report.
std::string json_of(const Report& report);

/// "2 x AMD EPYC 9B14, 7.7GiB, Linux 6.1.0": what a number means nothing without.
std::string machine_description();

/// What the cores did since the machine started, by the first line of /proc/stat.
struct CoreTime {
  uint64_t all = 0, stolen = 0;
};
CoreTime core_time_of(std::string_view stat);
CoreTime core_time();
/// Nothing where no time went by.
std::optional<double> stolen_between(const CoreTime& from, const CoreTime& to);

/// The middle of the sorted samples, and half the distance between the quartiles as a share of it.
struct Middle {
  double median = 0, spread = 0;
};
Middle middle_of(std::span<const double> samples);

/// The smallest sample that at least this part of them are not above: 0.95 of 20 is the 19th. NaN of none.
double percentile_of(std::span<const double> samples, double part);

}  // namespace quern::bench
