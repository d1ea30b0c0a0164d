// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sched/policy/arbitration.h"
#include "sched/policy/eviction.h"
#include "sched/policy/exit.h"
#include "sched/policy/fairness.h"
#include "sched/policy/placement.h"
#include "sched/policy/setup.h"

namespace quern::sched {

template <class P>
struct PolicyRow {
  std::string_view name;
  std::string_view status;  ///< experimental or supported
  std::unique_ptr<P> (*make)();
};

/// Every policy there is.
std::span<const PolicyRow<Fairness>> fairnesses();
std::span<const PolicyRow<Placement>> placements();
std::span<const PolicyRow<Eviction>> evictions();
std::span<const PolicyRow<Setup>> setups();
std::span<const PolicyRow<Exit>> exits();
std::span<const PolicyRow<Arbitration>> dispatches();

/// Null if there is none of that name.
std::unique_ptr<Fairness> make_fairness(std::string_view name);
std::unique_ptr<Placement> make_placement(std::string_view name);
std::unique_ptr<Eviction> make_eviction(std::string_view name);
std::unique_ptr<Setup> make_setup(std::string_view name);
std::unique_ptr<Exit> make_exit(std::string_view name);
std::unique_ptr<Arbitration> make_dispatch(std::string_view name);
bool has_fairness(std::string_view name);
bool has_placement(std::string_view name);
bool has_eviction(std::string_view name);
bool has_setup(std::string_view name);
bool has_exit(std::string_view name);
bool has_dispatch(std::string_view name);

/// A name for a choice over all parts: `quern` is ours, others stand for published systems.
std::optional<Policy> preset(std::string_view name);
std::vector<std::string_view> presets();

}  // namespace quern::sched
