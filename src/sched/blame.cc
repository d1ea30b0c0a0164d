// SPDX-License-Identifier: Apache-2.0
#include "sched/blame.h"

namespace quern::sched {

void Blame::release(FunctionId function) {
  const auto it = records_.find(function);
  --it->second.holders;
  forget_if_unneeded(it);
}

void Blame::forget_if_unneeded(std::map<FunctionId, Record>::iterator it) {
  const Record& record = it->second;
  const bool guilty = record.good_runs_owed > 0 || record.kills_in_a_row > 0;
  if (record.holders == 0 && (record.gone || !guilty)) records_.erase(it);
}

bool Blame::has_own_executor(FunctionId function) const {
  const auto it = records_.find(function);
  return it != records_.end() && it->second.good_runs_owed > 0;
}

bool Blame::is_gone(FunctionId function) const {
  const auto it = records_.find(function);
  return it != records_.end() && it->second.gone;
}

Duration Blame::quarantine_left(FunctionId function, Time now) const {
  const auto it = records_.find(function);
  if (it == records_.end() || it->second.quarantined_until <= now) return {0};
  return it->second.quarantined_until - now;
}

uint32_t Blame::kills_in_a_row(FunctionId function) const {
  const auto it = records_.find(function);
  return it == records_.end() ? 0 : it->second.kills_in_a_row;
}

void Blame::killed(FunctionId function, Time now) {
  Record& record = records_.at(function);
  record.good_runs_owed = config_.own_executor_runs;
  if (++record.kills_in_a_row >= config_.quarantine_after) record.quarantined_until = now + config_.quarantine;
}

void Blame::suspected(FunctionId function) { records_.at(function).good_runs_owed = config_.own_executor_runs; }

void Blame::ended_well(FunctionId function) {
  Record& record = records_.at(function);
  record.kills_in_a_row = 0;
  record.quarantined_until = {0};
  if (record.good_runs_owed > 0) --record.good_runs_owed;
}

void Blame::gone(FunctionId function) {
  const auto it = records_.find(function);
  if (it == records_.end()) return;
  it->second.gone = true;
  forget_if_unneeded(it);
}

}  // namespace quern::sched
