// SPDX-License-Identifier: Apache-2.0
#include "sim/report_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/units.h"

namespace quern::sim {
namespace {

using Row = std::vector<std::string>;

std::string show_time(double ns) {
  for (const auto& [unit, size] : {std::pair{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}})
    if (ns >= size) return fmt::format("{:.{}f}{}", ns / size, ns >= 100 * size ? 0 : ns >= 10 * size ? 1 : 2, unit);
  return fmt::format("{:.0f}ns", ns);
}
std::string show_time(Duration duration) { return show_time(static_cast<double>(duration.ns)); }
std::string show_rate(double per_second) { return fmt::format("{:.{}f}/s", per_second, per_second < 100 ? 2 : 0); }
std::string show_percent(double part) { return fmt::format("{:.1f}%", 100 * part); }

// The first column to the left, the others to the right.
std::string align(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i)
      text += i == 0 ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

template <class F>
void add_row(std::vector<Row>& rows, std::span<const Summary> summaries, std::string name, F&& cell) {
  Row& row = rows.emplace_back(Row{std::move(name)});
  for (const Summary& one : summaries) row.push_back(cell(one));
}

void add_latency_rows(std::vector<Row>& rows, std::span<const Summary> summaries) {
  add_row(rows, summaries, "latency mean", [](const Summary& s) { return show_time(s.all.latency.mean_ns()); });
  for (const auto& [name, part] : {std::pair{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}})
    add_row(rows, summaries, fmt::format("latency {}", name),
            [part = part](const Summary& s) { return show_time(s.all.latency.percentile(part)); });
  add_row(rows, summaries, "latency max", [](const Summary& s) { return show_time(s.all.latency.largest()); });
}

// How many rounds each made, and how long one took.
void add_program_rows(std::vector<Row>& rows, const Model& model, std::span<const Summary> summaries) {
  for (size_t i = 0; i < model.programs.size(); ++i) {
    const auto add = [&](const char* what, auto&& cell) {
      add_row(rows, summaries, fmt::format("{} {}", model.programs[i].name, what),
              [&](const Summary& s) { return i < s.rounds.size() ? cell(s.rounds[i]) : std::string("-"); });
    };
    add("rounds", [](const Histogram& rounds) { return fmt::format("{}", rounds.count()); });
    add("p50", [](const Histogram& rounds) { return show_time(rounds.percentile(0.5)); });
    add("p95", [](const Histogram& rounds) { return show_time(rounds.percentile(0.95)); });
  }
}

std::vector<Row> whole_rows(const Model& model, std::span<const Summary> summaries) {
  const auto number = [](uint64_t value) { return fmt::format("{}", value); };
  const auto any = [&](auto&& value) { return std::any_of(summaries.begin(), summaries.end(), value); };
  std::vector<Row> rows;
  add_row(rows, summaries, "POLICY", [](const Summary& s) { return s.policy; });
  add_row(rows, summaries, "requests", [&](const Summary& s) { return number(s.all.requests); });
  for (size_t end = 0; end < kEnds; ++end)
    if (end == 0 || any([&](const Summary& s) { return s.all.ends[end] != 0; }))
      add_row(rows, summaries, fmt::format("  {}", name_of(static_cast<sched::End>(end))),
              [&](const Summary& s) { return number(s.all.ends[end]); });
  if (any([](const Summary& s) { return s.all.lost_in_restart != 0; }))
    add_row(rows, summaries, "  lost in restart", [&](const Summary& s) { return number(s.all.lost_in_restart); });
  add_row(rows, summaries, "throughput", [](const Summary& s) { return show_rate(s.per_second()); });
  add_latency_rows(rows, summaries);
  add_row(rows, summaries, "utilisation", [](const Summary& s) { return show_percent(s.utilisation()); });
  add_row(rows, summaries, "fairness lag", [](const Summary& s) { return show_time(Duration{s.lag}); });
  add_row(rows, summaries, "executors started", [&](const Summary& s) { return number(s.executors_started); });
  add_row(rows, summaries, "executors killed", [&](const Summary& s) { return number(s.executors_killed); });
  add_row(rows, summaries, "loads", [&](const Summary& s) { return number(s.loads); });
  add_row(rows, summaries, "bytes loaded", [](const Summary& s) { return show_bytes(s.loaded_bytes); });
  if (any([](const Summary& s) { return s.fetches != 0; })) {
    add_row(rows, summaries, "fetches", [&](const Summary& s) { return number(s.fetches); });
    add_row(rows, summaries, "bytes fetched", [](const Summary& s) { return show_bytes(s.fetched_bytes); });
  }
  add_row(rows, summaries, "hits", [](const Summary& s) { return show_percent(s.hit_rate()); });
  add_row(rows, summaries, "misses", [&](const Summary& s) { return number(s.misses); });
  add_row(rows, summaries, "prefetches", [&](const Summary& s) { return number(s.prefetches); });
  add_row(rows, summaries, "evictions", [&](const Summary& s) { return number(s.evictions); });
  add_row(rows, summaries, "exits", [&](const Summary& s) { return number(s.exits); });
  add_program_rows(rows, model, summaries);
  FaultCounts faults;
  for (const Summary& one : summaries)
    for (const auto& [name, count] : one.outcome.faults) faults[name] += count;
  for (const auto& fault : faults)
    add_row(rows, summaries, "fault " + fault.first, [&](const Summary& s) {
      const auto found = s.outcome.faults.find(fault.first);
      return number(found == s.outcome.faults.end() ? 0 : found->second);
    });
  add_row(rows, summaries, "events", [&](const Summary& s) { return number(s.outcome.steps); });
  add_row(rows, summaries, "virtual time",
          [](const Summary& s) { return show_time(static_cast<double>(s.outcome.ended.ns)); });
  if (any([](const Summary& s) { return !s.outcome.drained; }))
    add_row(rows, summaries, "all work ended", [](const Summary& s) { return s.outcome.drained ? "yes" : "NO"; });
  return rows;
}

std::vector<Row> detail_rows(const Summary& summary, std::string heading, const std::vector<Measures>& parts,
                             const std::vector<std::string>& names) {
  std::vector<Row> rows{
      {std::move(heading), "REQUESTS", "DONE", "THROUGHPUT", "MEAN", "P50", "P95", "P99", "DEVICE TIME"}};
  for (size_t i = 0; i < parts.size(); ++i) {
    const Measures& one = parts[i];
    if (one.requests == 0) continue;
    const double share = summary.all.device_time.ns == 0 ? 0
                                                         : static_cast<double>(one.device_time.ns) /
                                                               static_cast<double>(summary.all.device_time.ns);
    rows.push_back({names[i], fmt::format("{}", one.requests), fmt::format("{}", one.done()),
                    show_rate(summary.per_second(one)), show_time(one.latency.mean_ns()),
                    show_time(one.latency.percentile(0.5)), show_time(one.latency.percentile(0.95)),
                    show_time(one.latency.percentile(0.99)), show_percent(share)});
  }
  return rows;
}

std::vector<std::string> names_of(const Model& model, Detail detail) {
  std::vector<std::string> names;
  if (detail == Detail::kTenants)
    for (const TenantModel& tenant : model.tenants) names.push_back(tenant.name);
  if (detail == Detail::kFunctions)
    for (const FunctionModel& function : model.functions)
      names.push_back(model.tenants[function.tenant].name + "/" + function.name);
  return names;
}

const std::vector<Measures>& parts_of(const Summary& summary, Detail detail) {
  return detail == Detail::kTenants ? summary.tenants : summary.functions;
}

std::string json_measures(const Summary& summary, const Measures& one) {
  std::vector<std::string> ends;
  for (size_t end = 0; end < kEnds; ++end)
    if (end == 0 || one.ends[end] != 0)
      ends.push_back(fmt::format("\"{}\": {}", name_of(static_cast<sched::End>(end)), one.ends[end]));
  return fmt::format(
      "\"requests\": {}, \"ends\": {{{}}}, \"lost_in_restart\": {}, \"per_second\": {:.6g}, \"latency_ns\": "
      "{{\"mean\": {:.0f}, \"p50\": {}, \"p95\": {}, \"p99\": {}, \"max\": {}}}, \"device_time_ns\": {}",
      one.requests, fmt::join(ends, ", "), one.lost_in_restart, summary.per_second(one), one.latency.mean_ns(),
      one.latency.percentile(0.5).ns, one.latency.percentile(0.95).ns, one.latency.percentile(0.99).ns,
      one.latency.largest().ns, one.device_time.ns);
}

}  // namespace

std::string table_of(const Model& model, std::span<const Summary> summaries, Detail detail) {
  std::string text = align(whole_rows(model, summaries));
  if (detail == Detail::kNone) return text;
  const std::vector<std::string> names = names_of(model, detail);
  for (const Summary& one : summaries)
    text += fmt::format(
        "\n{}:\n{}", one.policy,
        align(detail_rows(one, detail == Detail::kTenants ? "TENANT" : "FUNCTION", parts_of(one, detail), names)));
  return text;
}

std::string json_of(const Model& model, std::span<const Summary> summaries, uint64_t seed, Detail detail) {
  const std::vector<std::string> names = names_of(model, detail);
  std::vector<std::string> policies;
  for (const Summary& one : summaries) {
    std::vector<std::string> faults, parts, programs;
    for (const auto& [name, count] : one.outcome.faults) faults.push_back(fmt::format("\"{}\": {}", name, count));
    std::string text = fmt::format(
        "{{\"policy\": \"{}\", {}, \"devices\": {}, \"measured_ns\": {}, \"utilisation\": {:.6f}, \"lag_ns\": {}, "
        "\"lag_bound_ns\": {}, \"executors_started\": {}, \"executors_killed\": {}, \"loads\": {}, \"loaded_bytes\": "
        "{}, \"fetches\": {}, \"fetched_bytes\": {}, \"hits\": {}, \"misses\": {}, \"prefetches\": {}, "
        "\"evictions\": {}, \"exits\": {}, \"faults\": {{{}}}, \"events\": {}, \"virtual_time_ns\": {}, "
        "\"drained\": {}",
        one.policy, json_measures(one, one.all), one.devices, one.measured.ns, one.utilisation(), one.lag,
        one.lag_bound, one.executors_started, one.executors_killed, one.loads, one.loaded_bytes, one.fetches,
        one.fetched_bytes, one.hits, one.misses, one.prefetches, one.evictions, one.exits, fmt::join(faults, ", "),
        one.outcome.steps, one.outcome.ended.ns, one.outcome.drained);
    for (size_t i = 0; i < one.rounds.size() && i < model.programs.size(); ++i)
      programs.push_back(fmt::format(
          "{{\"name\": \"{}\", \"rounds\": {}, \"round_ns\": {{\"mean\": {:.0f}, \"p50\": {}, \"p95\": {}, \"max\": "
          "{}}}}}",
          model.programs[i].name, one.rounds[i].count(), one.rounds[i].mean_ns(), one.rounds[i].percentile(0.5).ns,
          one.rounds[i].percentile(0.95).ns, one.rounds[i].largest().ns));
    if (!programs.empty()) text += fmt::format(", \"programs\": [{}]", fmt::join(programs, ", "));
    if (detail != Detail::kNone) {
      const auto& measures = parts_of(one, detail);
      for (size_t i = 0; i < measures.size(); ++i)
        parts.push_back(fmt::format("{{\"name\": \"{}\", {}}}", names[i], json_measures(one, measures[i])));
      text +=
          fmt::format(", \"{}\": [{}]", detail == Detail::kTenants ? "tenants" : "functions", fmt::join(parts, ", "));
    }
    policies.push_back(text + "}");
  }
  return fmt::format("{{\"seed\": {}, \"policies\": [{}]}}\n", seed, fmt::join(policies, ", "));
}

}  // namespace quern::sim
