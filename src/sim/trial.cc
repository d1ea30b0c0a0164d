// SPDX-License-Identifier: Apache-2.0
#include "sim/trial.h"

#include <memory>

#include "sched/text.h"

namespace quern::sim {

namespace {

using Checkers = std::vector<std::unique_ptr<Checker>>;

struct Watch {
  const Checkers& checkers;
  const Checker* first = nullptr;  // to fail

  bool look() {
    for (const auto& checker : checkers)
      if (!first && !checker->violation().empty()) first = checker.get();
    return first != nullptr;
  }
};

}  // namespace

void Trail::on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
                    const sched::Scheduler& /*core*/) {
  if (steps_.size() == kSteps) steps_.pop_front();
  steps_.push_back({now, event, {actions.begin(), actions.end()}});
}

void Trail::on_restart(Time now) {
  if (steps_.size() == kSteps) steps_.pop_front();
  steps_.push_back({now, std::nullopt, {}});
}

std::string Trail::to_text() const {
  std::string text;
  for (const Step& step : steps_) {
    text += sched::to_text(step.time) + " " + (step.event ? sched::to_text(*step.event) : "restart") + "\n";
    for (const sched::Action& action : step.actions) text += "    " + sched::to_text(action) + "\n";
  }
  return text;
}

Trial try_model(const Model& model, uint64_t seed, Coverage* coverage, Trail* trail, std::string_view only) {
  Checkers checkers = make_checkers(model.config);
  if (!only.empty()) std::erase_if(checkers, [&](const auto& checker) { return checker->name() != only; });
  std::optional<CoverageObserver> counter;
  World world(model, seed);
  if (trail) world.observe(*trail);
  if (coverage) world.observe(counter.emplace(*coverage));
  for (const auto& checker : checkers) world.observe(*checker);

  Watch watch{.checkers = checkers};
  Trial trial;
  trial.outcome = world.run([](void* context) { return static_cast<Watch*>(context)->look(); }, &watch);
  if (watch.look()) trial.violation = Violation{std::string(watch.first->name()), watch.first->violation()};
  if (coverage) {
    for (const auto& checker : checkers) coverage->count(*checker);
    coverage->count(trial.outcome.faults);
    coverage->count(model.config.policy);
  }
  return trial;
}

}  // namespace quern::sim
