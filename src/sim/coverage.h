// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/checker.h"
#include "sim/shadow.h"
#include "sim/world.h"

namespace quern::sim {

/// How often a search met each event, action, end, progress of a request, state and kind of memory, stage to be kept,
/// kind of grant and quota, hard case of a loss, count of the core, policy, fault and checker. What was never met was
/// never tried, so a zero is a failure of the search.
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

  /// What an executor may lose with it, and what memory may lack.
  enum class Loss : uint8_t {
    kLoading,     ///< loads were under way
    kLeaving,     ///< unloads or trims were under way
    kAwaited,     ///< more than one run waited for the same load
    kNoRoomLoad,  ///< a load found less room than there should be
    kNoRoomRun,   ///< a lane did
  };

  void count_step(const sched::Event& event, std::span<const sched::Action> actions);
  void count(sched::Scheduler::Progress progress);
  void count(const sched::Scheduler::Entry& entry);
  void count(Loss loss);
  void count(const sched::Scheduler::Share& share);
  /// A quota is another than before.
  void count_change();
  void count(const sched::Scheduler::Counts& counts);
  void count(const sched::Policy& policy);
  void count(const FaultCounts& faults);
  void count(const Checker& checker);

 private:
  std::vector<uint64_t> events_, actions_, ends_, progress_, states_, kinds_, host_states_, stages_, gates_, quotas_,
      losses_, counts_;
  std::map<std::string, std::map<std::string, uint64_t>> policies_;  ///< by part
  std::map<std::string, uint64_t> faults_;
  std::vector<std::pair<std::string, uint64_t>> checkers_;
};

/// Counts what it sees into a Coverage, which must outlive it.
class CoverageObserver final : public Observer {
 public:
  explicit CoverageObserver(Coverage& coverage) : coverage_(coverage) {}
  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
               const sched::Scheduler& core) override;
  void on_restart(Time now) override { (void)now, shadow_.restart(); }
  void on_end(Time now, bool drained, const sched::Scheduler& core) override;

 private:
  /// Before the shadow takes it in.
  void count_losses(const sched::Event& event);

  Coverage& coverage_;
  Shadow shadow_;
  std::vector<sched::RequestId> newest_;  // a ring of those submitted last
  uint64_t submitted_ = 0;
  std::map<sched::FunctionId, sched::Quota> quotas_;  // as they were submitted last
};

}  // namespace quern::sim
