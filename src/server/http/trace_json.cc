// SPDX-License-Identifier: Apache-2.0
#include "server/http/trace_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "server/error_map.h"

namespace quern::server {
namespace {

using daemon::Trace;

constexpr size_t kMostFillers = 8;  // that are named, of one gap

// In the order in which they contain each other.
enum class Kind : uint8_t { kRun, kWork, kKernel, kSlice, kGate, kGap, kLoad, kProcess };

struct Row {
  uint64_t process = 0;
  std::string name;
  std::string_view kind;
  uint32_t launcher = Trace::kNone;
};

struct Event {
  Time from, to;
  Kind kind = Kind::kRun;
  uint32_t item = 0;              // in its list
  uint32_t row = 0;               // its thread, less one
  uint32_t number = 0, of = 0;    // of a slice: which of how many; of a kernel: `of` slices
  uint64_t first = 0, parts = 0;  // of a kernel: which parts were seen
};

class Writer {
 public:
  explicit Writer(Trace trace) : trace_(std::move(trace)) {
    lists_of(trace_.runs, runs_);
    lists_of(trace_.launches, launches_);
    lists_of(trace_.works, works_);
    lists_of(trace_.gates, gates_);
  }

  std::string write() {
    gather();
    std::stable_sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
      return std::tuple(a.from, b.to, a.kind) < std::tuple(b.from, a.to, b.kind);
    });
    out_.reserve(4096 + events_.size() * 256);
    out_ += "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"program\":\"quern\",\"length_us\":";
    us(trace_.to - trace_.from);
    fmt::format_to(to(), ",\"dropped\":{}}},\"traceEvents\":[", trace_.dropped);
    names();
    for (const Event& event : events_) write(event);
    if (trace_.dropped > 0) {
      out_ += ",\n{\"ph\":\"i\",\"s\":\"g\",\"pid\":1,\"tid\":1,\"cat\":\"trace\",\"ts\":";
      us(trace_.to - trace_.from);
      fmt::format_to(to(), ",\"name\":\"{} spans more are not in it\"}}", trace_.dropped);
    }
    out_ += "\n]}\n";
    return std::move(out_);
  }

 private:
  using Lists = std::vector<std::vector<uint32_t>>;

  std::back_insert_iterator<std::string> to() { return std::back_inserter(out_); }
  void us(Duration time) { fmt::format_to(to(), "{}.{:03}", time.ns / 1000, time.ns % 1000); }
  void text(std::string_view value) { append_json_string(out_, value); }
  std::string_view name(uint32_t number) const { return trace_.names[number]; }

  template <class T>
  void lists_of(const std::vector<T>& items, Lists& lists) const {
    lists.resize(trace_.launchers.size());
    for (uint32_t i = 0; i < items.size(); ++i) lists[items[i].launcher].push_back(i);
    for (auto& list : lists)
      std::stable_sort(list.begin(), list.end(), [&](uint32_t a, uint32_t b) { return items[a].from < items[b].from; });
  }

  // What is on one thread must not overlap, and clocks of devices are not exact to the nanosecond.
  template <class T>
  void part(std::vector<T>& items, const std::vector<uint32_t>& list) {
    Time end{0};
    for (const uint32_t i : list) {
      items[i].from = std::max(items[i].from, end);
      items[i].to = end = std::max(items[i].to, items[i].from);
    }
  }

  uint32_t add_row(Row row) {
    rows_.push_back(std::move(row));
    return static_cast<uint32_t>(rows_.size() - 1);
  }

  void gather() {
    std::vector<uint32_t> order;
    std::vector<bool> has_gaps(trace_.launchers.size());
    for (const Trace::Gap& gap : trace_.gaps)
      if (gap.launcher != Trace::kNone) has_gaps[gap.launcher] = true;
    for (uint32_t i = 0; i < trace_.launchers.size(); ++i)
      if (!runs_[i].empty() || !launches_[i].empty() || !works_[i].empty() || has_gaps[i]) order.push_back(i);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      const auto key = [&](uint32_t i) {
        const Trace::Launcher& one = trace_.launchers[i];
        return std::tuple(one.device, one.is_program, one.executor, one.lane, i);
      };
      return key(a) < key(b);
    });
    std::map<uint32_t, uint32_t> gap_rows;
    for (const uint32_t launcher : order) {
      const Trace::Launcher& one = trace_.launchers[launcher];
      const std::string label = label_of(one);
      gather_work(launcher, add_row({one.device, label, "launcher", launcher}));
      if (!gates_[launcher].empty()) {
        part(trace_.gates, gates_[launcher]);
        const uint32_t row = add_row({one.device, label + ": gate", "gate", launcher});
        for (const uint32_t i : gates_[launcher]) add(trace_.gates[i], Kind::kGate, i, row);
      }
      if (has_gaps[launcher]) gap_rows[launcher] = add_row({one.device, label + ": gaps", "gaps", launcher});
    }
    gather_gaps(gap_rows);
    gather_brought();
  }

  std::string label_of(const Trace::Launcher& one) const {
    if (!one.is_program) return fmt::format("executor {}, lane {}", one.executor, one.lane);
    return name(one.name) == Trace::kOther ? "program of another tenant" : fmt::format("program {}", name(one.name));
  }

  template <class T>
  Event& add(const T& item, Kind kind, uint32_t number, uint32_t row) {
    Event& event = events_.emplace_back();
    event.from = item.from;
    event.to = item.to;
    event.kind = kind;
    event.item = number;
    event.row = row;
    return event;
  }

  // Runs, in them kernels, in them slices.
  void gather_work(uint32_t launcher, uint32_t row) {
    part(trace_.runs, runs_[launcher]);
    for (const uint32_t i : runs_[launcher])
      if (trace_.runs[i].from < trace_.to) add(trace_.runs[i], Kind::kRun, i, row);
    part(trace_.works, works_[launcher]);
    for (const uint32_t i : works_[launcher]) add(trace_.works[i], Kind::kWork, i, row);

    const auto& list = launches_[launcher];
    nest(launcher);
    part(trace_.launches, list);
    for (size_t begin = 0; begin < list.size();) {
      size_t end = begin + 1;
      while (end < list.size() && is_next_slice(trace_.launches[list[end - 1]], trace_.launches[list[end]])) ++end;
      const Trace::Launch &first = trace_.launches[list[begin]], &last = trace_.launches[list[end - 1]];
      Event& kernel = add(first, Kind::kKernel, list[begin], row);
      kernel.to = last.to;
      kernel.first = first.first;
      kernel.parts = last.first + last.parts - first.first;
      kernel.of = static_cast<uint32_t>(end - begin);
      if (first.parts < first.of)
        for (size_t i = begin; i < end; ++i) {
          Event& slice = add(trace_.launches[list[i]], Kind::kSlice, list[i], row);
          slice.number = static_cast<uint32_t>(i - begin + 1);
          slice.of = static_cast<uint32_t>(end - begin);
        }
      begin = end;
    }
  }

  static bool is_next_slice(const Trace::Launch& one, const Trace::Launch& next) {
    return one.run == next.run && one.index == next.index && one.of == next.of && one.parts < one.of &&
           next.first != 0 && next.first == one.first + one.parts;
  }

  // A launch is inside its run, and one of a program in what the program says of itself or in nothing.
  void nest(uint32_t launcher) {
    const auto& works = works_[launcher];
    for (const uint32_t i : launches_[launcher]) {
      Trace::Launch& launch = trace_.launches[i];
      const auto into = [&](Time from, Time to) {
        launch.from = std::clamp(launch.from, from, to);
        launch.to = std::clamp(launch.to, launch.from, to);
      };
      if (launch.run != Trace::kNone) {
        into(trace_.runs[launch.run].from, trace_.runs[launch.run].to);
        continue;
      }
      const auto at = std::partition_point(works.begin(), works.end(),
                                           [&](uint32_t w) { return trace_.works[w].to <= launch.from; });
      if (at == works.end()) continue;
      const Trace::Work& work = trace_.works[*at];
      if (launch.from >= work.from)
        into(work.from, work.to);
      else
        into(launch.from, work.from);
    }
  }

  // Those of one function on one device are a thread of their own: they are between the runs of several lanes.
  void gather_gaps(const std::map<uint32_t, uint32_t>& of_launchers) {
    std::map<std::pair<uint64_t, uint64_t>, uint32_t> of_functions;
    for (uint32_t i = 0; i < trace_.gaps.size(); ++i) {
      const Trace::Gap& gap = trace_.gaps[i];
      if (gap.launcher != Trace::kNone) {
        add(gap, Kind::kGap, i, of_launchers.at(gap.launcher));
        continue;
      }
      auto row = of_functions.find({gap.device, gap.function});
      if (row == of_functions.end())
        row = of_functions
                  .emplace(std::pair(gap.device, gap.function),
                           add_row({gap.device, fmt::format("{}: between its runs", name(gap.name)), "gaps"}))
                  .first;
      add(gap, Kind::kGap, i, row->second);
    }
  }

  // Several objects are on their way at a time: each is on the first thread of its executor that is free.
  void gather_brought() {
    struct Brought {
      Time from;
      Kind kind;
      uint32_t item;
    };
    std::map<std::pair<uint64_t, uint64_t>, std::vector<Brought>> executors;
    for (uint32_t i = 0; i < trace_.loads.size(); ++i)
      executors[{trace_.loads[i].device, trace_.loads[i].executor}].push_back({trace_.loads[i].from, Kind::kLoad, i});
    for (uint32_t i = 0; i < trace_.processes.size(); ++i)
      executors[{trace_.processes[i].device, trace_.processes[i].executor}].push_back(
          {trace_.processes[i].from, Kind::kProcess, i});
    for (auto& [key, list] : executors) {
      std::stable_sort(list.begin(), list.end(), [](auto& a, auto& b) { return a.from < b.from; });
      std::vector<std::pair<Time, uint32_t>> threads;  // until when it is taken, and its row
      for (const Brought& one : list) {
        auto free =
            std::find_if(threads.begin(), threads.end(), [&](auto& thread) { return thread.first <= one.from; });
        if (free == threads.end()) {
          const std::string label =
              key.first == 0 ? std::string("from disk") : fmt::format("executor {}: start and loads", key.second);
          threads.push_back({{0}, add_row({key.first, label, "brought"})});
          free = threads.end() - 1;
        }
        const Event& event = one.kind == Kind::kLoad
                                 ? add(trace_.loads[one.item], one.kind, one.item, free->second)
                                 : add(trace_.processes[one.item], one.kind, one.item, free->second);
        free->first = event.to;
      }
    }
  }

  // Chrome's process 0 is the idle one of the machine: the host is the process behind the devices.
  uint64_t process_of(const Row& row) const {
    if (row.process != 0) return row.process;
    uint64_t last = 0;
    for (const Trace::Device& device : trace_.devices) last = std::max(last, device.id);
    return last + 1;
  }

  void meta(std::string_view what, uint64_t process, size_t thread) {
    out_ += is_first_ ? "\n" : ",\n";
    is_first_ = false;
    fmt::format_to(to(), "{{\"ph\":\"M\",\"ts\":0,\"pid\":{},\"tid\":{},\"name\":\"{}\",\"args\":{{", process, thread,
                   what);
  }

  void names() {
    const auto process = [&](uint64_t number, std::string_view label) {
      meta("process_name", number, 0);
      out_ += "\"name\":";
      text(label);
      out_ += "}}";
      meta("process_sort_index", number, 0);
      fmt::format_to(to(), "\"sort_index\":{}}}}}", number);
    };
    for (const Trace::Device& device : trace_.devices) process(device.id, "device " + device.name);
    const auto host = std::find_if(rows_.begin(), rows_.end(), [](const Row& row) { return row.process == 0; });
    if (host != rows_.end()) process(process_of(*host), "host");
    for (size_t i = 0; i < rows_.size(); ++i) {
      meta("thread_name", process_of(rows_[i]), i + 1);
      out_ += "\"name\":";
      text(rows_[i].name);
      fmt::format_to(to(), ",\"kind\":\"{}\"", rows_[i].kind);
      if (rows_[i].launcher != Trace::kNone) fmt::format_to(to(), ",\"launcher\":{}", rows_[i].launcher);
      out_ += "}}";
      meta("thread_sort_index", process_of(rows_[i]), i + 1);
      fmt::format_to(to(), "\"sort_index\":{}}}}}", i + 1);
    }
  }

  void begin(const Event& event, std::string_view category, std::string_view label, bool is_moment = false) {
    out_ += is_first_ ? "\n" : ",\n";
    is_first_ = false;
    out_ += is_moment ? "{\"ph\":\"i\",\"s\":\"p\",\"ts\":" : "{\"ph\":\"X\",\"ts\":";
    us(event.from - trace_.from);
    if (!is_moment) {
      out_ += ",\"dur\":";
      us(event.to - event.from);
    }
    fmt::format_to(to(), ",\"pid\":{},\"tid\":{},\"cat\":\"{}\",\"name\":", process_of(rows_[event.row]), event.row + 1,
                   category);
    text(label);
    out_ += ",\"args\":{";
    has_args_ = false;
  }
  void end() { out_ += "}}"; }

  void key(std::string_view name) {
    if (std::exchange(has_args_, true)) out_ += ',';
    fmt::format_to(to(), "\"{}\":", name);
  }
  void arg(std::string_view name, std::string_view value) { key(name), text(value); }
  void arg(std::string_view name, Duration value) { key(name), us(value); }
  void count(std::string_view name, uint64_t value) { key(name), fmt::format_to(to(), "{}", value); }
  void flag(std::string_view name, bool value) { key(name), out_ += value ? "true" : "false"; }

  void whose(const Trace::Launch& launch) {
    if (launch.run == Trace::kNone) return arg("program", name(trace_.launchers[launch.launcher].name));
    const Trace::Run& run = trace_.runs[launch.run];
    arg("function", name(run.name));
    if (!run.request.empty()) arg("request", run.request);
  }

  void write(const Event& event) {
    switch (event.kind) {
      case Kind::kRun:
        return write_run(event);
      case Kind::kWork:
        begin(event, "work", name(trace_.launchers[trace_.works[event.item].launcher].name));
        arg("program", name(trace_.launchers[trace_.works[event.item].launcher].name));
        arg("device_us", Duration{static_cast<int64_t>(trace_.works[event.item].device_time_ns)});
        return end();
      case Kind::kKernel:
      case Kind::kSlice:
        return write_launch(event);
      case Kind::kGate:
        return write_gate(event);
      case Kind::kGap:
        return write_gap(event);
      case Kind::kLoad:
        return write_load(event);
      case Kind::kProcess:
        return write_process(event);
    }
  }

  void write_run(const Event& event) {
    const Trace::Run& run = trace_.runs[event.item];
    begin(event, "run", name(run.name));
    arg("function", name(run.name));
    if (!run.request.empty()) arg("request", run.request);
    if (name(run.name) != Trace::kOther) count("priority", run.priority);
    if (run.began_before) flag("began_before", true);
    if (!run.is_over) flag("goes_on", true);
    end();
  }

  void write_launch(const Event& event) {
    const Trace::Launch& launch = trace_.launches[event.item];
    if (event.kind == Kind::kKernel) {
      begin(event, "kernel", name(launch.name));
      whose(launch);
      if (launch.parts < launch.of) count("slices", event.of), count("first", event.first), count("parts", event.parts);
    } else {
      begin(event, "slice", fmt::format("{} {}/{}", name(launch.name), event.number, event.of));
      whose(launch);
      arg("kernel", name(launch.name));
      count("slice", event.number), count("slices", event.of);
      count("first", launch.first), count("parts", launch.parts);
    }
    if (name(launch.name) != Trace::kOther) count("of", launch.of);
    end();
  }

  void write_gate(const Event& event) {
    const Trace::Gate& gate = trace_.gates[event.item];
    const std::string_view why = gate.why.empty() ? "closed before the trace began" : gate.why;
    if (gate.open)
      begin(event, "gate", gate.fills ? "open: fills a gap" : "open");
    else
      begin(event, "gate", fmt::format("closed: {}", why));
    flag("open", gate.open);
    if (!gate.open) arg("why", why);
    if (gate.fills) flag("fills", true);
    if (gate.run != Trace::kNone) arg("function", name(trace_.runs[gate.run].name));
    if (gate.open && gate.opens > gate.from) arg("from_us", gate.opens - trace_.from);
    if (gate.open && gate.until != Time::never() && gate.until >= trace_.from)
      arg("until_us", gate.until - trace_.from);
    if (gate.slice.ns > 0) arg("slice_us", gate.slice);
    end();
  }

  void write_gap(const Event& event) {
    const Trace::Gap& gap = trace_.gaps[event.item];
    begin(event, "gap", fmt::format("gap of {}", name(gap.name)));
    arg(gap.launcher == Trace::kNone ? "function" : "program", name(gap.name));
    Duration filled{0};
    for (const Trace::Gap::Filler& filler : gap.fillers) filled = filled + filler.time;
    arg("filled_us", filled);
    key("filled_by");
    out_ += '[';
    for (size_t i = 0; i < std::min(gap.fillers.size(), kMostFillers); ++i) {
      if (i > 0) out_ += ',';
      out_ += "{\"name\":";
      text(name(gap.fillers[i].name));
      out_ += ",\"us\":";
      us(gap.fillers[i].time);
      out_ += '}';
    }
    out_ += ']';
    end();
  }

  void write_load(const Event& event) {
    const Trace::Load& load = trace_.loads[event.item];
    begin(event, "load", fmt::format("{} {}", load.device == 0 ? "fetch" : "load", name(load.name)));
    arg("object", name(load.name));
    if (load.bytes > 0) count("bytes", load.bytes);
    if (load.executor != 0) count("executor", load.executor);
    if (load.has_failed) flag("failed", true);
    if (!load.is_over && !load.has_failed) flag("goes_on", true);
    end();
  }

  void write_process(const Event& event) {
    const Trace::Process& process = trace_.processes[event.item];
    if (process.is_lost)
      begin(event, "executor", fmt::format("executor {} is lost", process.executor), true);
    else
      begin(event, "executor", fmt::format("executor {} starts", process.executor));
    count("executor", process.executor);
    if (!process.is_lost) flag("was_blank", process.was_blank);
    end();
  }

  Trace trace_;
  Lists runs_, launches_, works_, gates_;  // by launcher, in order
  std::vector<Row> rows_;
  std::vector<Event> events_;
  std::string out_;
  bool is_first_ = true, has_args_ = false;
};

}  // namespace

std::string trace_json(Trace trace) { return Writer(std::move(trace)).write(); }

}  // namespace quern::server
