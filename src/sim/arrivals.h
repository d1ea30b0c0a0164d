// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "base/prng.h"
#include "sched/types.h"
#include "sim/agenda.h"
#include "sim/model.h"

namespace quern::sim {

/// Who calls, and when: puts Agenda::Kind::kCall for every call that is to come. Each load draws from numbers of its
/// own, so what it does depends on nothing but the seed and, in a closed loop, on when its answers come.
class Arrivals {
 public:
  /// `model` must outlive it.
  Arrivals(const Model& model, uint64_t seed, Agenda& agenda);

  struct Call {
    uint32_t function = 0;  ///< into Model::functions
    Duration work;          ///< its device time at speed 1
  };
  /// The time of a kCall has come: what is called. The next call of an open loop is planned.
  Call call(Time now, const Agenda::Entry& entry);
  /// The time of a kCall has come, and it is not made: there were enough.
  void skip() { --planned_; }
  /// None is on the agenda: as long as no call ends, none comes.
  bool is_over() const { return planned_ == 0; }
  /// A call of this load ended: the client of a closed loop thinks, then calls again. After anything but a good answer
  /// it waits for `retry_after`, and for a millisecond at least: a client that is refused at once must not call for
  /// ever at one instant.
  void ended(Time now, uint32_t load, sched::End end, Duration retry_after);
  /// How many calls will come in all, if that is known beforehand; else 0.
  uint64_t expected() const;

 private:
  struct Source {
    Prng prng;
    size_t next = 0;  ///< kTrace: into times
  };

  void put(Time at, uint32_t load, bool plans_next);
  void plan_next(Time now, uint32_t load, bool is_first);

  const std::vector<LoadModel>& loads_;
  const std::vector<FunctionModel>& functions_;
  uint64_t most_;
  Time until_;
  uint64_t planned_ = 0;  ///< on the agenda
  Agenda& agenda_;
  std::vector<Source> sources_;
};

}  // namespace quern::sim
