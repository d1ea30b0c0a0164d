// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace quern::daemon {

/// What happened on the devices for a while, for drawing. Moments are of the steady clock; once it is complete, all are
/// within `from` and `to`.
///
/// It was made for one tenant: the work of others is in it, but is called kOther, and tells nothing but its time.
struct Trace {
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr std::string_view kOther = "another tenant";

  struct Device {
    uint64_t id = 0;
    std::string name;
  };
  /// A lane of an executor, or a program.
  struct Launcher {
    uint64_t device = 0;
    uint64_t executor = 0;  ///< of a lane
    uint32_t lane = 0;
    bool is_program = false;
    uint32_t name = 0;   ///< of a program
    uint16_t level = 0;  ///< of a program; that of a lane is its run's. The lower, the more urgent
  };
  /// From the push into its lane until it was reported, or its executor was lost.
  struct Run {
    uint32_t launcher = 0, name = 0;
    uint64_t function = 0;  ///< by id: others' functions have one name
    std::string request;    ///< empty: another tenant's
    uint16_t level = 0;
    uint8_t priority = 0;
    Time from, to;
    bool began_before = false, is_over = false;
  };
  /// One launch: a kernel, or `parts` of the `of` that it has, beginning with `first`.
  struct Launch {
    uint32_t launcher = 0, run = kNone;  ///< a program has no runs
    uint32_t name = 0;
    uint32_t index = 0;  ///< in the plan of the run: slices of one kernel have the same
    uint64_t first = 0, parts = 1, of = 1;
    Time from, to;
  };
  /// A program has something to launch, from when to when it said so.
  struct Work {
    uint32_t launcher = 0;
    Time from, to;
    uint64_t device_time_ns = 0;
  };
  /// A grant, until the next one.
  struct Gate {
    uint32_t launcher = 0, run = kNone;
    bool open = false;
    bool fills = false;    ///< it was opened while someone more urgent of that device paused
    std::string_view why;  ///< it is closed: urgent, quota, units; empty: it was before the trace began
    Time opens = {0};      ///< nothing may be launched before
    Time until = Time::never();
    Duration slice = {0};
    Time from, to;
  };
  /// Nothing is launched: by a program that said so, or by a function between two of its runs.
  struct Gap {
    struct Filler {
      uint32_t name = 0;
      Duration time = {0};  ///< on the device within the gap
    };
    uint32_t launcher = kNone;  ///< kNone: between runs
    uint64_t device = 0, function = 0;
    uint32_t name = 0;
    uint16_t level = 0;
    Time from, to;
    std::vector<Filler> fillers;  ///< less urgent ones, the most of it first
  };
  /// An object on its way to a device, or from disk to the host (device 0).
  struct Load {
    uint64_t device = 0, executor = 0;
    uint32_t name = 0;
    uint64_t bytes = 0;
    bool has_failed = false, is_over = false;
    Time from, to;
  };
  /// An executor from the start of its process until it greeted; or its end, a moment.
  struct Process {
    uint64_t device = 0, executor = 0;
    bool was_blank = false, is_lost = false;
    Time from, to;
  };

  Time from, to;
  uint64_t dropped = 0;  ///< spans past what is kept
  std::vector<Device> devices;
  std::vector<std::string> names;
  std::vector<Launcher> launchers;
  std::vector<Run> runs;
  std::vector<Launch> launches;
  std::vector<Work> works;
  std::vector<Gate> gates;
  std::vector<Gap> gaps;
  std::vector<Load> loads;
  std::vector<Process> processes;
};

/// Longer pauses of a function are no gaps: nobody expects it back.
constexpr Duration kLongestGap = Duration::millis(50);

/// Cuts what began or ended outside, and adds what follows from the rest: gaps between the runs of a function while
/// others had runs there, who filled which gap, which gates were opened for one. Takes a while where much was noted.
void complete(Trace& trace);

}  // namespace quern::daemon
