// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>

#include "base/time.h"
#include "sched/arrivals.h"
#include "sched/scheduler.h"

namespace quern::sched {

/// How long does stay what nobody needs, though there is room? A policy gets a view and decides; it stores nothing.
class Exit {
 public:
  virtual ~Exit() = default;
  /// `price_ns`: of bringing it back. `rent`: what keeping it costs, per ns. `stage`: 0 objects on the device, 1 on the
  /// host, 2 the context.
  virtual Duration stay(const Arrivals& arrivals, FunctionId function, int64_t price_ns, double rent, int stage,
                        const Config& config) const = 0;
};

/// By the function's own arrivals (ski rental: see Arrivals::stay).
class StagedExit final : public Exit {
 public:
  Duration stay(const Arrivals& arrivals, FunctionId function, int64_t price_ns, double rent, int,
                const Config&) const override {
    return arrivals.stay(function, price_ns, rent);
  }
};
/// The same time for everyone, stage by stage.
class FixedExit final : public Exit {
 public:
  Duration stay(const Arrivals&, FunctionId, int64_t, double, int stage, const Config& config) const override {
    return {config.keep_alive.ns * (stage + 1)};
  }
};
/// Until its room is needed.
class NeverExit final : public Exit {
 public:
  Duration stay(const Arrivals&, FunctionId, int64_t, double, int, const Config&) const override {
    return Duration::forever();
  }
};
/// No longer than its run.
class AtOnceExit final : public Exit {
 public:
  Duration stay(const Arrivals&, FunctionId, int64_t, double, int, const Config&) const override { return {0}; }
};

}  // namespace quern::sched
