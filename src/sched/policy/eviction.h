// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <variant>

#include "sched/ledger.h"

namespace quern::sched {

/// What leaves a device when room is short? A policy gets a view and chooses; it never acts and stores nothing.
class Eviction {
 public:
  virtual ~Eviction() = default;
  /// An object nobody has pinned, or an executor without runs; nothing if there is neither.
  using Victim = std::variant<Ledger::Key, ExecutorId>;
  virtual std::optional<Victim> choose(const Ledger& ledger) const = 0;
};

}  // namespace quern::sched
