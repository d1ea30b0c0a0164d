// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/coverage.h"
#include "sim/world.h"

namespace quern::sim {

/// A rule that was broken.
struct Violation {
  std::string checker;
  std::string text;
};

/// Keeps the last steps, so that what led to a violation can be shown.
class Trail final : public Observer {
 public:
  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
               const sched::Scheduler& core) override;
  void on_restart(Time now) override;
  /// One line per event with its time, its actions below it, in the words of scenarios.
  std::string to_text() const;

  static constexpr size_t kSteps = 20;

 private:
  struct Step {
    Time time;
    std::optional<sched::Event> event;  ///< nothing: a restart
    std::vector<sched::Action> actions;
  };
  std::deque<Step> steps_;
};

/// A model run once with all checkers on, or `only` the one of that name; it stops at the first violation.
struct Trial {
  World::Outcome outcome;
  std::optional<Violation> violation;
};
Trial try_model(const Model& model, uint64_t seed, Coverage* coverage = nullptr, Trail* trail = nullptr,
                std::string_view only = {});

}  // namespace quern::sim
