// SPDX-License-Identifier: Apache-2.0
#include "bench/pairs.h"

#include <fmt/format.h>

#include "bench/stage.h"

namespace quern::bench {

Row Samples::row(std::string name, std::string unit, std::string goal) const {
  std::vector<double> ratios;
  for (size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / theirs[i]);
  const Middle ratio = middle_of(ratios);
  Row row;
  row.name = std::move(name);
  row.value = middle_of(ours).median;
  row.unit = std::move(unit);
  row.baseline = middle_of(theirs).median;
  row.ratio = ratio.median;
  row.spread = ratio.spread;
  row.goal = std::move(goal);
  return row;
}

Twice twice(std::function<Result<double>()> once) {
  return [once = std::move(once)]() -> Result<std::array<double, 2>> {
    QUERN_TRY(const double first, once());
    QUERN_TRY(const double second, once());
    return std::array{first, second};
  };
}

Result<Pairs> interleave(const Options& options, std::string_view name, size_t count, const Twice& ours,
                         const Twice& theirs) {
  constexpr size_t kWarmUps = 10;
  Pairs pairs;
  for (size_t i = 0; i < kWarmUps; ++i) QUERN_TRY(ours());
  QUERN_TRY(theirs());
  for (size_t i = 0; i < count; ++i) {
    if (i % 25 == 0) options.progress(fmt::format("{}: pair {} of {}", name, i, count));
    for (size_t turn = 0; turn < 2; ++turn) {
      settle();
      const bool is_ours = (i + turn) % 2 == 1;
      QUERN_TRY(const auto both, is_ours ? ours() : theirs());
      (is_ours ? pairs.after_idle.ours : pairs.after_idle.theirs).push_back(both[0]);
      (is_ours ? pairs.after_call.ours : pairs.after_call.theirs).push_back(both[1]);
    }
  }
  return pairs;
}

}  // namespace quern::bench
