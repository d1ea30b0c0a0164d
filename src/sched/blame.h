// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>

#include "sched/scheduler.h"

namespace quern::sched {

/// What is known about functions: who killed executors, what follows from it, and who is gone.
///
/// A function that killed gets an executor of its own until enough of its runs ended well; one that kills again and
/// again, with no good run between, is quarantined: until the time is over, after which a single further kill brings it
/// back there, or until a run that was under way meanwhile ends well.
///
/// A record exists while a request or run holds it, and of those that killed until the function is gone: no longer.
class Blame {
 public:
  explicit Blame(const Config& config) : config_(config) {}

  /// Each accepted request and each run holds its function once.
  void hold(FunctionId function) { ++records_[function].holders; }
  void release(FunctionId function);

  bool has_own_executor(FunctionId function) const;
  bool is_gone(FunctionId function) const;
  /// How long it is still refused; 0 if it is not.
  Duration quarantine_left(FunctionId function, Time now) const;

  /// How many executors it killed since its last good run.
  uint32_t kills_in_a_row(FunctionId function) const;

  /// A kernel of it took an executor with it, or had to be killed. The function is held.
  void killed(FunctionId function, Time now);
  /// A kernel of it, or of another function, took an executor with it. The function is held.
  void suspected(FunctionId function);
  /// A run of it ended well. The function is held.
  void ended_well(FunctionId function);
  /// Nothing is submitted for it any more.
  void gone(FunctionId function);

  size_t size() const { return records_.size(); }

 private:
  struct Record {
    uint64_t holders = 0;
    bool gone = false;
    uint32_t good_runs_owed = 0;  ///< until it may share an executor again
    uint32_t kills_in_a_row = 0;
    Time quarantined_until = {0};
  };
  void forget_if_unneeded(std::map<FunctionId, Record>::iterator it);

  const Config& config_;
  std::map<FunctionId, Record> records_;
};

}  // namespace quern::sched
