// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "sim/checker.h"
#include "sim/shadow.h"

namespace quern::sim {

/// Exactly one end per request, and the right one: an Answer names a request that waits for it, its last run, and a
/// reason that its events and times bear out. A request that was cancelled, whose time is up, or whose function is gone
/// gets its end at once, unless a run of it must be stopped first, and the core is woken for the next of those. Who
/// killed an executor is kept apart and quarantined as it deserves.
class EndsChecker final : public Checker {
 public:
  explicit EndsChecker(const sched::Config& config)
      : Checker("ends"), config_(config), shadow_(config.granularity_bytes) {}

  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
               const sched::Scheduler& core) override;
  void on_restart(Time now) override;
  void on_end(Time now, bool drained, const sched::Scheduler& core) override;

 private:
  void note(Time now, const sched::Event& event);
  /// A run of the function took an executor with it.
  void blame(Time now, sched::FunctionId function);
  void check(Time now, const sched::Event& event, const sched::Answer& answer);
  bool makes_sense(Time now, const sched::Event& event, const sched::Answer& answer, const Shadow::Request& request);
  /// `only_up`: now, without those that may be taken for smaller than they are; else ever.
  bool fits_some(const sched::Submit& submit, bool only_up) const;
  void check_overdue(Time now);
  void check_blamed(Time now, const sched::Scheduler& core);
  void check_apart(Time now, const sched::Run& run);

  const sched::Config config_;
  Shadow shadow_;
  std::set<std::pair<Time, sched::RequestId>> deadlines_;  // of those that wait for an answer
  std::set<sched::FunctionId> gone_;
  struct Record {
    uint32_t kills = 0;  ///< since the last good run
    uint32_t good_runs_owed = 0;
    Time quarantined_until;
  };
  std::map<sched::FunctionId, Record> records_;
  std::set<sched::FunctionId> blamed_;    // by this event
  std::set<sched::RequestId> set_apart_;  // waited when their function was blamed, or came while it was
};

}  // namespace quern::sim
