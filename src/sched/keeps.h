// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "sched/types.h"

namespace quern::sched {

/// What is to be kept, by whom, and until when.
///
/// A Keep without an end says how a function is kept for good, and what was said before is void. One with an end is a
/// lease: at each stage the longest of all that were said holds. All costs are logarithmic, times the objects of one
/// function.
class Keeps {
 public:
  struct Kept {
    FunctionId function;
    DomainId domain;
    std::vector<ObjectNeed> objects;
    std::array<Time, 4> until = {};  ///< by Stage; 0: it is not kept there

    Time at(Stage stage) const { return until[static_cast<size_t>(stage)]; }
    /// The one it is to be kept at now.
    Stage highest(Time now) const;
  };

  bool empty() const { return kept_.empty(); }
  /// Null: it is not kept.
  const Kept* find(FunctionId function) const;
  void set(const Keep& keep);
  void erase(FunctionId function);
  /// One whose lease of some stage is over by now: it has less from now on, or is forgotten. Each is told once.
  std::optional<Kept> lapse(Time now);
  /// When the next lease is over.
  Time next_end() const { return ends_.empty() ? Time::never() : std::get<Time>(*ends_.begin()); }

  /// Until when some function of the domain is kept at least at kContext; 0: none is.
  Time context(DomainId domain) const { return longest({Stage::kContext, domain, {0}}); }
  /// Until when some function that has the object is kept: with it on the host, or on a device for this domain.
  Time on_host(ObjectId object) const { return longest({Stage::kHost, {0}, object}); }
  Time on_device(DomainId domain, ObjectId object) const { return longest({Stage::kHot, domain, object}); }

 private:
  using What = std::tuple<Stage, DomainId, ObjectId>;
  Time longest(const What& what) const;
  void change(Kept& kept, Stage stage, Time until);

  std::map<FunctionId, Kept> kept_;
  std::map<What, std::set<std::pair<Time, FunctionId>>> by_what_;  // none empty
  std::set<std::tuple<Time, FunctionId, Stage>> ends_;             // of leases
};

}  // namespace quern::sched
