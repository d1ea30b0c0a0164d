// SPDX-License-Identifier: Apache-2.0
#include "bench/quota_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "bench/row.h"

namespace quern::bench {
namespace {

constexpr std::array<double, 3> kKernelsUs{50, 1000, 20'000};
constexpr std::array<uint32_t, 5> kPercents{10, 20, 40, 60, 80};
constexpr std::array<uint32_t, 2> kQuickPercents{20, 80};
constexpr std::string_view kWorst = "worst", kWorstHard = "worst_50us_80";

std::string neighbour_name(const QuotaCase& of) { return of.name() + "_neighbour"; }

bool is_wanted(const QuotaCase& of, const Options& options) {
  return options.wants(of.name()) || (of.is_beside && options.wants(neighbour_name(of))) ||
         options.wants(of.is_hard() ? kWorstHard : kWorst);
}

Row share_row(std::string name, const std::vector<double>& shares) {
  const Middle share = middle_of(shares);
  Row row = row_of(std::move(name), share.median, "% of the device");
  row.spread = share.spread;
  return row;
}

}  // namespace

std::string QuotaCase::name() const {
  return fmt::format("{}_{}_{}", is_beside ? "beside" : "alone",
                     kernel_us < 1000 ? fmt::format("{:g}us", kernel_us) : fmt::format("{:g}ms", kernel_us / 1000),
                     percent);
}

bool QuotaCase::is_hard() const { return kernel_us == kKernelsUs.front() && percent == kPercents.back(); }

std::vector<QuotaCase> quota_cases(const Options& options) {
  std::vector<uint32_t> percents(kPercents.begin(), kPercents.end());
  if (options.quick && options.row.empty()) percents.assign(kQuickPercents.begin(), kQuickPercents.end());
  std::vector<QuotaCase> cases;
  for (const double kernel_us : kKernelsUs)
    for (const bool is_beside : {false, true})
      for (const uint32_t percent : percents)
        if (const QuotaCase one{kernel_us, is_beside, percent}; is_wanted(one, options)) cases.push_back(one);
  return cases;
}

double QuotaFigures::worst(uint32_t percent) const {
  double furthest = 0;
  for (const double share : shares) furthest = std::max(furthest, std::abs(share - percent));
  return shares.empty() ? std::nan("") : furthest;
}

void add_quota_rows(const std::vector<QuotaResult>& results, const Options& options, Report& report) {
  std::optional<double> worst, worst_hard;
  std::map<std::string, std::string> tables;  // by all but the percent
  for (const auto& [of, figures] : results) {
    const double off = figures.worst(of.percent);
    std::optional<double>& sum = of.is_hard() ? worst_hard : worst;
    sum = std::max(sum.value_or(0), off);
    if (options.wants(of.name())) report.rows.push_back(share_row(of.name(), figures.shares));
    if (of.is_beside && options.wants(neighbour_name(of)))
      report.rows.push_back(share_row(neighbour_name(of), figures.neighbour));
    const std::string name = of.name();
    tables[name.substr(0, name.rfind('_'))] +=
        fmt::format("  {}: {:.1f} [{:.1f}]", of.percent, middle_of(figures.shares).median, off);
  }
  for (const auto& [name, text] : tables)
    report.notes.push_back(fmt::format("{}, asked for: got [the worst second, points off]:{}", name, text));
  if (worst && options.wants(kWorst)) report.rows.push_back(row_of(std::string(kWorst), *worst, "points", "<= 2"));
  if (worst_hard && options.wants(kWorstHard))
    report.rows.push_back(row_of(std::string(kWorstHard), *worst_hard, "points", "<= 4"));
}

}  // namespace quern::bench
