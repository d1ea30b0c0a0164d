// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "daemon/trace.h"
#include "ipc/frames.h"
#include "ipc/gate.h"
#include "sched/types.h"

namespace quern::daemon {

/// Notes what happens on the devices, while someone asked for it. Belongs to the strand. While it is off nothing is
/// kept, and whoever has something to note asks `is_on` first.
///
/// What it keeps is bounded; the rest is counted as dropped. Times that launchers tell are cut to what can be true.
class Tracer {
 public:
  /// 60 MiB of launches: a minute of slices of 100 us on two devices.
  static constexpr size_t kMostSpans = size_t{1} << 20;
  static constexpr size_t kMostNames = size_t{1} << 16;

  explicit Tracer(size_t most_spans = kMostSpans) : most_spans_(most_spans) {}

  bool is_on() const { return is_on_; }
  /// The grant, asking for spans of launches while it is on, and only then.
  ipc::Grant marked(ipc::Grant grant) const;

  /// `tenant` is who looks at it: others' work has no name.
  void begin(std::string tenant, std::vector<Trace::Device> devices, Time now);
  /// Spans of launches are not asked for any more; those that are on their way are still taken. What happens after
  /// `now` is not part of the trace.
  void pause(Time now);
  /// What was noted, to be completed (trace.h); it is off.
  Trace end(Time now);

  // Below only while it is on.

  struct Ran {
    uint64_t run = 0, function = 0;
    std::string_view name, tenant, request;
    sched::LevelNo level = 0;
    Time at;
  };
  void run_began(sched::LauncherId lane, uint64_t device, const Ran& ran);
  void run_ended(uint64_t run, Time at);
  /// Launches of a run have ended; `entry_of` gives the name of a launch of its plan, empty where there is none.
  template <class EntryOf>
  void launched(uint64_t run, const ipc::Traced& traced, Time now, EntryOf entry_of) {
    const auto it = runs_.find(run);
    if (it == runs_.end()) return;
    for (const ipc::Traced::Span& span : traced.spans)
      if (const std::string_view entry = entry_of(span.launch); !entry.empty())
        add_launch(trace_.runs[it->second].launcher, it->second, entry, span, now);
  }
  void granted(sched::LauncherId launcher, uint64_t device, const sched::Grant& grant, Time now);
  /// How a gate stood when the trace began.
  void stood(sched::LauncherId launcher, uint64_t device, bool open);

  void program_up(sched::LauncherId program, uint64_t device, std::string_view name, std::string_view tenant,
                  sched::LevelNo level);
  void launched(sched::LauncherId program, const ipc::Traced& traced, Time now);
  void work_ready(sched::LauncherId launcher, Time at);
  void gap_begun(sched::LauncherId launcher, Time at);
  void used(sched::LauncherId launcher, uint64_t device_time_ns, Time now);
  void gone(sched::LauncherId launcher, Time now);

  /// `executor` and `device` 0: from disk to the host.
  void load_began(uint64_t executor, uint64_t device, uint64_t object, std::string_view name, std::string_view tenant,
                  uint64_t bytes, Time at);
  void load_ended(uint64_t executor, uint64_t object, bool failed, Time at);
  void executor_up(uint64_t executor, uint64_t device, Time from, Time to, bool was_blank);
  void executor_lost(uint64_t executor, uint64_t device, Time at);

 private:
  /// What is open of a launcher: places in the lists of the trace.
  struct Open {
    uint32_t launcher = 0;
    uint32_t gate = Trace::kNone, gap = Trace::kNone, work = Trace::kNone;
    Time used{0};  ///< when it last said what it used
  };

  /// False, and one more is dropped, if there is no room.
  bool has_room();
  Time within(Time time) const;
  uint32_t name_of(std::string_view name);
  uint32_t name_for(std::string_view name, std::string_view tenant);
  Open* find(sched::LauncherId launcher);
  Open* find_lane(sched::LauncherId lane, uint64_t device);
  void add_launch(uint32_t launcher, uint32_t run, std::string_view entry, const ipc::Traced::Span& span, Time now);
  void add_gate(Open& open, Trace::Gate gate);
  void end_gate(Open& open, Time at);
  void end_gap(Open& open, Time at);
  void end_work(Open& open, Time at);

  // Constant after construction.
  const size_t most_spans_;
  // Strand only.
  bool is_on_ = false, is_pausing_ = false;
  std::string tenant_;
  Trace trace_;
  size_t spans_ = 0;
  std::map<std::string, uint32_t, std::less<>> names_;
  std::map<sched::LauncherId, Open> launchers_;
  std::map<uint64_t, uint32_t> runs_;                        ///< by run: those that are not over
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> loads_;  ///< by executor and object
};

}  // namespace quern::daemon
