// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/checker.h"
#include "sim/world.h"

namespace quern::sim {

/// How often a search met each event, action, end, stage of a request, state of memory, fault and checker. What was
/// never met was never tried, so a zero is a failure of the search.
class Coverage {
 public:
  Coverage();

  struct Row {
    std::string kind, name;
    uint64_t count = 0;
  };
  /// All there are, by kind.
  std::vector<Row> rows() const;
  /// "event submit" and the like; those that were not met.
  std::vector<std::string> missing() const;
  /// A table for people.
  std::string to_text() const;

  void count_step(const sched::Event& event, std::span<const sched::Action> actions);
  void count(sched::Scheduler::Stage stage);
  void count(sched::Scheduler::Entry::State state);
  void count(const FaultCounts& faults);
  void count(const Checker& checker);

 private:
  std::vector<uint64_t> events_, actions_, ends_, stages_, states_;
  std::map<std::string, uint64_t> faults_;
  std::vector<std::pair<std::string, uint64_t>> checkers_;
};

/// Counts what it sees into a Coverage, which must outlive it.
class CoverageObserver final : public Observer {
 public:
  explicit CoverageObserver(Coverage& coverage) : coverage_(coverage) {}
  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
               const sched::Scheduler& core) override;

 private:
  Coverage& coverage_;
  std::map<sched::ExecutorId, sched::DeviceId> executors_;
  std::vector<sched::RequestId> newest_;  // a ring of those submitted last
  uint64_t submitted_ = 0;
};

}  // namespace quern::sim
