// SPDX-License-Identifier: Apache-2.0
#include "sim/checker.h"

#include "sched/text.h"
#include "sim/ends_checker.h"
#include "sim/fairness_checker.h"
#include "sim/gate_checker.h"
#include "sim/hang_checker.h"
#include "sim/idle_checker.h"
#include "sim/ledger_checker.h"
#include "sim/limits_checker.h"
#include "sim/liveness_checker.h"
#include "sim/pins_checker.h"
#include "sim/quota_checker.h"
#include "sim/urgent_checker.h"

namespace quern::sim {

void Checker::fail(Time now, const std::string& text) {
  violation_ = fmt::format("{}: at {}: {}", name_, sched::to_text(now), text);
}

std::vector<std::unique_ptr<Checker>> make_checkers(const sched::Config& config) {
  std::vector<std::unique_ptr<Checker>> checkers;
  checkers.push_back(std::make_unique<EndsChecker>(config));
  checkers.push_back(std::make_unique<LedgerChecker>(config));
  checkers.push_back(std::make_unique<PinsChecker>(config));
  checkers.push_back(std::make_unique<LimitsChecker>(config));
  checkers.push_back(std::make_unique<HangChecker>(config));
  checkers.push_back(std::make_unique<FairnessChecker>(config));
  checkers.push_back(std::make_unique<IdleChecker>(config));
  checkers.push_back(std::make_unique<UrgentChecker>(config));
  checkers.push_back(std::make_unique<GateChecker>(config));
  checkers.push_back(std::make_unique<QuotaChecker>(config));
  checkers.push_back(std::make_unique<LivenessChecker>());
  return checkers;
}

}  // namespace quern::sim
