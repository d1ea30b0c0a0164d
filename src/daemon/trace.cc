// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace quern::daemon {
namespace {

// How many launches are looked at for all gaps together. Gaps of many functions lie over the same launches: past this
// there are too many for anyone to look at, and fillers of the rest stay unnamed.
constexpr uint64_t kMostLooks = uint64_t{1} << 26;

uint64_t device_of(const Trace& trace, uint32_t launcher) { return trace.launchers[launcher].device; }

uint16_t level_of(const Trace& trace, const Trace::Launch& launch) {
  return launch.run == Trace::kNone ? trace.launchers[launch.launcher].level : trace.runs[launch.run].level;
}

// What was still going on has no end, and some of what was noted last began after the end. Runs stay, though, for
// others have their numbers.
void cut(Trace& trace) {
  const auto each = [&](auto& items) {
    std::erase_if(items, [&](const auto& item) { return item.from > trace.to; });
    for (auto& item : items) item.to = std::clamp(item.to, item.from, trace.to);
  };
  for (Trace::Run& run : trace.runs) run.from = std::min(run.from, trace.to);
  each(trace.runs), each(trace.launches), each(trace.works), each(trace.gates), each(trace.gaps), each(trace.loads);
  each(trace.processes);
}

// Of each launcher, what it has in the order of time. All of that is one after the other.
template <class T>
std::vector<std::vector<uint32_t>> by_launcher(const Trace& trace, const std::vector<T>& items) {
  std::vector<std::vector<uint32_t>> lists(trace.launchers.size());
  for (uint32_t i = 0; i < items.size(); ++i) lists[items[i].launcher].push_back(i);
  for (auto& list : lists)
    std::stable_sort(list.begin(), list.end(), [&](uint32_t a, uint32_t b) { return items[a].from < items[b].from; });
  return lists;
}

// The first of a list that ends after `time`.
template <class T>
size_t first_after(const std::vector<T>& items, const std::vector<uint32_t>& list, Time time) {
  const auto it = std::partition_point(list.begin(), list.end(), [&](uint32_t i) { return items[i].to <= time; });
  return static_cast<size_t>(it - list.begin());
}

// A lane may have its grant before it has its run: the first run that it is for.
void find_runs_of_gates(Trace& trace) {
  const auto runs = by_launcher(trace, trace.runs);
  for (Trace::Gate& gate : trace.gates) {
    const auto& list = runs[gate.launcher];
    const size_t at = first_after(trace.runs, list, gate.from);
    if (at < list.size() && trace.runs[list[at]].from < gate.to) gate.run = list[at];
  }
}

// Only where a less urgent one had a run meanwhile: else nobody could have used the time.
void find_gaps_between_runs(Trace& trace) {
  std::map<uint64_t, std::vector<uint32_t>> on_device;
  std::map<std::pair<uint64_t, uint64_t>, std::vector<uint32_t>> of_function;
  for (uint32_t i = 0; i < trace.runs.size(); ++i) {
    const uint64_t device = device_of(trace, trace.runs[i].launcher);
    on_device[device].push_back(i);
    of_function[{device, trace.runs[i].function}].push_back(i);
  }
  const auto by_time = [&](uint32_t a, uint32_t b) { return trace.runs[a].from < trace.runs[b].from; };
  for (auto& [device, list] : on_device) std::stable_sort(list.begin(), list.end(), by_time);
  for (auto& [key, list] : of_function) {
    std::stable_sort(list.begin(), list.end(), by_time);
    // Less urgent runs of the device, in one pass beside those of the function: the latest end so far.
    const auto& others = on_device[key.first];
    size_t next = 0;
    Time busy{0};
    Time end = trace.runs[list.front()].to;
    for (size_t i = 1; i < list.size(); ++i) {
      const Trace::Run& run = trace.runs[list[i]];
      const Time begin = std::exchange(end, std::max(end, run.to));
      if (run.from <= begin || run.from - begin > kLongestGap) continue;
      for (; next < others.size() && trace.runs[others[next]].from < run.from; ++next)
        if (trace.runs[others[next]].level > run.level) busy = std::max(busy, trace.runs[others[next]].to);
      if (busy <= begin) continue;
      trace.gaps.push_back({Trace::kNone, key.first, run.function, run.name, run.level, begin, run.from, {}});
    }
  }
}

void find_fillers(Trace& trace) {
  const auto launches = by_launcher(trace, trace.launches);
  std::map<uint64_t, std::vector<uint32_t>> launchers;  // of a device
  for (uint32_t i = 0; i < trace.launchers.size(); ++i)
    if (!launches[i].empty()) launchers[trace.launchers[i].device].push_back(i);
  uint64_t looks = 0;
  for (Trace::Gap& gap : trace.gaps) {
    std::map<uint32_t, Duration> fillers;
    for (const uint32_t launcher : launchers[gap.device]) {
      const auto& list = launches[launcher];
      for (size_t i = first_after(trace.launches, list, gap.from); i < list.size(); ++i) {
        const Trace::Launch& launch = trace.launches[list[i]];
        if (launch.from >= gap.to || ++looks > kMostLooks) break;
        if (level_of(trace, launch) <= gap.level) continue;
        const uint32_t name = launch.run == Trace::kNone ? trace.launchers[launcher].name : trace.runs[launch.run].name;
        Duration& time = fillers[name];
        time = time + (std::min(launch.to, gap.to) - std::max(launch.from, gap.from));
      }
    }
    for (const auto& [name, time] : fillers) gap.fillers.push_back({name, time});
    std::stable_sort(gap.fillers.begin(), gap.fillers.end(), [](auto& a, auto& b) { return a.time > b.time; });
  }
}

// When it is asked who pauses: as it opens. One that was opened ahead may be so a little before the gap begins.
Time moment_of(const Trace::Gate& gate) {
  if (gate.opens <= gate.from) return gate.from;
  const Time begin = std::min(gate.opens, gate.to);
  return begin + Duration{(gate.to - begin).ns / 2};
}

void find_gates_that_fill(Trace& trace) {
  std::vector<uint32_t> gates(trace.gates.size()), gaps(trace.gaps.size());
  std::iota(gates.begin(), gates.end(), 0U);
  std::iota(gaps.begin(), gaps.end(), 0U);
  std::stable_sort(gates.begin(), gates.end(),
                   [&](uint32_t a, uint32_t b) { return moment_of(trace.gates[a]) < moment_of(trace.gates[b]); });
  std::stable_sort(gaps.begin(), gaps.end(),
                   [&](uint32_t a, uint32_t b) { return trace.gaps[a].from < trace.gaps[b].from; });
  size_t next = 0;
  std::vector<uint32_t> pausing;
  for (const uint32_t i : gates) {
    Trace::Gate& gate = trace.gates[i];
    const Time moment = moment_of(gate);
    for (; next < gaps.size() && trace.gaps[gaps[next]].from <= moment; ++next) pausing.push_back(gaps[next]);
    std::erase_if(pausing, [&](uint32_t gap) { return trace.gaps[gap].to <= moment; });
    const Trace::Launcher& launcher = trace.launchers[gate.launcher];
    if (!gate.open || gate.opens >= gate.to || (gate.run == Trace::kNone && !launcher.is_program)) continue;
    const uint16_t level = launcher.is_program ? launcher.level : trace.runs[gate.run].level;
    gate.fills = std::any_of(pausing.begin(), pausing.end(), [&](uint32_t gap) {
      return trace.gaps[gap].device == launcher.device && trace.gaps[gap].level < level;
    });
  }
}

}  // namespace

void complete(Trace& trace) {
  cut(trace);
  find_runs_of_gates(trace);
  find_gaps_between_runs(trace);
  find_fillers(trace);
  find_gates_that_fill(trace);
}

}  // namespace quern::daemon
