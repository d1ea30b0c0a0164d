// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "sched/scheduler.h"
#include "sched/types.h"

/// Events and actions as lines of text, for scenarios and for the recorded event log. Exact: what is written reads back
/// as the same event.
///
///     0ms device-up d1 8GiB
///     1ms submit r1 f7 t1 dom1 memory=1GiB objects=o1:2GiB,o2:5MiB deadline=2s device_time=100ms priority=3
///     start-executor e1 d1 dom1
///     run run1 r1 e1 lane=0
///
/// An id is its kind and its number: d device, dom domain, t tenant, f function, o object, r request, e executor, run
/// run; a launcher is p and a number, or e1.0, a lane. What has the default value is left out. Times count from the
/// zero of whatever clock the shell uses.
namespace quern::sched {

std::string to_text(const Event& event);
std::string to_text(const Action& action);
std::string to_text(Time time);  ///< "1500us"; "never"

/// One event without its time, such as "finished run1 failed".
Result<Event> parse_event(std::string_view line);
/// A line of the log: a time and an event.
Result<std::pair<Time, Event>> parse_timed_event(std::string_view line);

/// "config lanes=2 runs_in_flight=2 …": every setting. parse_config reads what follows the first word.
std::string to_text(const Config& config);
/// "lanes=1 quarantine_after=2": changes what it names.
Status parse_config(std::string_view line, Config& config);

}  // namespace quern::sched
