// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sched/scheduler.h"
#include "sim/world.h"

namespace quern::sim {

/// An observer that knows a rule the core must keep, and tells of the first time it did not.
///
/// A checker believes events and actions, and keeps its own books of them; the core's views are what it holds against
/// its books, never what it builds them from.
class Checker : public Observer {
 public:
  std::string_view name() const { return name_; }
  /// What happened, when and to whom; empty while the rule holds.
  const std::string& violation() const { return violation_; }
  /// How often it looked at something that could have been wrong.
  uint64_t evaluations() const { return evaluations_; }

 protected:
  /// Steps: to look at all that there is costs as much as there is, so what a step did not concern is looked at now and
  /// then.
  static constexpr uint64_t kAllEvery = 64;

  explicit Checker(std::string_view name) : name_(name) {}

  template <class... Args>
  void expect(bool holds, Time now, fmt::format_string<Args...> format, Args&&... args) {
    ++evaluations_;
    if (!holds && violation_.empty()) fail(now, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void fail(Time now, const std::string& text);

  std::string_view name_;
  std::string violation_;
  uint64_t evaluations_ = 0;
};

/// One of each, in the order in which they are shown.
std::vector<std::unique_ptr<Checker>> make_checkers(const sched::Config& config);

}  // namespace quern::sim
