// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "base/prng.h"
#include "sched/types.h"
#include "sim/agenda.h"
#include "sim/model.h"

namespace quern::sim {

/// Tensors that pass from call to call: inputs that come as objects, and outputs that stay under a lease until others
/// of the same tenant take their place. Their ids follow those of the model's objects, and are never used twice.
class Tensors {
 public:
  Tensors(const Model& model, uint64_t seed, Agenda& agenda);

  /// What a request has of them; 0: nothing.
  struct Held {
    uint32_t passed = 0, made = 0;
  };
  /// Puts into `submit` what this call of the function passes and leaves, in place of what the one before it did.
  Held begin(uint32_t function, sched::Submit& submit);
  /// The request was answered. What nobody can name any more is put on the agenda.
  void end(Time now, uint32_t function, const Held& held, bool is_good);
  /// The daemon died, and leases with it.
  void restart();

 private:
  struct Tensor {
    uint64_t bytes = 0;
    uint32_t requests = 0;  ///< that name it
    bool is_leased = false;
  };
  void drop_unless_used(Time now, uint32_t tensor);

  static constexpr size_t kMostLeases = 3;  ///< of a tenant

  const Model& model_;
  Agenda& agenda_;
  Prng prng_;
  uint32_t next_;
  std::map<uint32_t, Tensor> tensors_;
  std::vector<std::deque<uint32_t>> leases_;  ///< by tenant, the oldest first
};

}  // namespace quern::sim
