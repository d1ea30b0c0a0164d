// SPDX-License-Identifier: Apache-2.0
#include "bench/report.h"

#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "base/units.h"

namespace quern::bench {
namespace {

namespace json = boost::json;

// NaN and infinity are no JSON; a row that has them says null.
json::value number(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return *value;
}

std::string shown(std::optional<double> value) {
  if (!value || std::isnan(*value)) return "-";
  const double size = std::abs(*value);
  if (size >= 1e6) return fmt::format("{:.4g}", *value);
  return fmt::format("{:.{}f}", *value, size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3);
}

double quantile(std::span<const double> sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - static_cast<double>(below));
}

}  // namespace

Result<bool> meets(std::string_view goal, double figure) {
  const size_t space = goal.find(' ');
  const std::string_view sign = goal.substr(0, space);
  const std::string_view digits = space == std::string_view::npos ? "" : goal.substr(space + 1);
  double bound = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), bound);
  if (problem != std::errc() || end != digits.data() + digits.size())
    return invalid(fmt::format("goal '{}': write a comparison and a number, as in '<= 1.05'", goal));
  if (sign == "<=") return figure <= bound;
  if (sign == ">=") return figure >= bound;
  if (sign == "<") return figure < bound;
  if (sign == ">") return figure > bound;
  if (sign == "==") return figure == bound;
  return invalid(fmt::format("goal '{}': '{}' is none of <= >= < > ==", goal, sign));
}

Status judge(Report& report) {
  for (Row& row : report.rows) {
    if (row.goal.empty()) continue;
    QUERN_TRY(row.met, meets(row.goal, row.ratio.value_or(row.value)));
  }
  return {};
}

std::string table_of(const Report& report) {
  std::vector<std::vector<std::string>> cells{{"row", "value", "unit", "baseline", "ratio", "spread", "goal", "met"}};
  for (const Row& row : report.rows)
    cells.push_back({row.name, shown(row.value), row.unit, shown(row.baseline), shown(row.ratio),
                     row.spread ? fmt::format("{:.1f}%", 100 * *row.spread) : "-", row.goal.empty() ? "-" : row.goal,
                     row.met ? (*row.met ? "yes" : "NO") : "-"});
  std::vector<size_t> widths(cells[0].size());
  for (const auto& row : cells)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  static const std::set<size_t> kRight{1, 3, 4, 5};
  std::string text = fmt::format("bench {}  commit {}\nmachine {}\nlayout  {}\n", report.bench, report.commit,
                                 report.machine, report.layout);
  if (report.stolen)
    text += fmt::format("stolen  {:.1f}% of the cores' time, by other machines\n", 100 * *report.stolen);
  text += "\n";
  for (const auto& row : cells) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line +=
          kRight.contains(i) ? fmt::format("{:>{}}  ", row[i], widths[i]) : fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  if (!report.notes.empty()) text += "\n";
  for (const std::string& note : report.notes) text += note + "\n";
  return text;
}

std::string json_of(const Report& report) {
  json::array rows;
  for (const Row& row : report.rows) {
    json::object one{{"name", row.name}, {"value", number(row.value)}, {"unit", row.unit}};
    one["baseline"] = number(row.baseline);
    one["ratio"] = number(row.ratio);
    one["spread"] = number(row.spread);
    one["goal"] = row.goal.empty() ? json::value(nullptr) : json::value(row.goal);
    one["met"] = row.met ? json::value(*row.met) : json::value(nullptr);
    rows.push_back(std::move(one));
  }
  const json::object root{{"bench", report.bench},   {"commit", report.commit},         {"machine", report.machine},
                          {"layout", report.layout}, {"stolen", number(report.stolen)}, {"rows", std::move(rows)}};
  return json::serialize(root) + "\n";
}

std::string machine_description() {
  std::string model = "unknown processor", line;
  unsigned cores = 0;
  for (std::ifstream file("/proc/cpuinfo"); std::getline(file, line);) {
    if (line.starts_with("processor")) ++cores;
    if (line.starts_with("model name")) model = line.substr(std::min(line.find(':') + 2, line.size()));
  }
  struct sysinfo memory {};
  sysinfo(&memory);
  struct utsname system {};
  uname(&system);
  return fmt::format("{} x {}, {}, {} {}", cores, model, show_bytes(uint64_t{memory.totalram} * memory.mem_unit),
                     system.sysname, system.release);
}

CoreTime core_time_of(std::string_view stat) {
  CoreTime time;
  // user, nice, system, idle, iowait, irq, softirq, steal; guests' time is in the first two.
  std::istringstream words{std::string(stat.substr(0, stat.find('\n')))};
  std::string name;
  words >> name;
  uint64_t one = 0;
  for (int i = 0; i < 8 && words >> one; ++i) {
    time.all += one;
    if (i == 7) time.stolen = one;
  }
  return time;
}

CoreTime core_time() {
  std::ifstream file("/proc/stat");
  std::string line;
  std::getline(file, line);
  return core_time_of(line);
}

std::optional<double> stolen_between(const CoreTime& from, const CoreTime& to) {
  if (to.all <= from.all || to.stolen < from.stolen) return std::nullopt;
  return static_cast<double>(to.stolen - from.stolen) / static_cast<double>(to.all - from.all);
}

Middle middle_of(std::span<const double> samples) {
  if (samples.empty()) return {};
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const double median = quantile(sorted, 0.5);
  const double half = (quantile(sorted, 0.75) - quantile(sorted, 0.25)) / 2;
  return {median, median == 0 ? 0 : half / std::abs(median)};
}

double percentile_of(std::span<const double> samples, double part) {
  if (samples.empty()) return std::nan("");
  std::vector<double> sorted(samples.begin(), samples.end());
  const double count = static_cast<double>(sorted.size());
  const auto at = static_cast<size_t>(std::clamp(std::ceil(part * count), 1.0, count)) - 1;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(at), sorted.end());
  return sorted[at];
}

}  // namespace quern::bench
