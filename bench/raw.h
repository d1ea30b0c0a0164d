// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "bench/stage.h"

namespace quern::bench {

/// What quern is held against: the kernel of examples/spin by plain OpenCL in this process, 64 KiB in and out in place,
/// its launch threads on the device's core. One call is: set the arguments, enqueue, finish.
class Raw {
 public:
  static constexpr uint32_t kChainLength = 300, kChainElements = 1024;

  /// Sets variables that PoCL reads once, so: one per process, before any thread starts.
  static Result<std::unique_ptr<Raw>> create(const Layout& layout, const std::string& folder);
  ~Raw();

  /// `count` calls, each as soon as the one before ended; the microseconds of each, as the launch thread saw them.
  Result<std::vector<double>> call(uint32_t iterations, uint32_t count);

  /// Calls per second of `count` calls, two in flight: two threads, each with an in-order queue.
  Result<double> throughput(uint32_t iterations, uint32_t count);

  /// The iterations after which a call takes `target`.
  Result<uint32_t> calibrate(Duration target);

  /// As `call`, of bench/functions/chain300: one call enqueues all its kernels, whose arguments are set before, and
  /// then finishes. No events, no profiling.
  Result<std::vector<double>> chain(uint32_t iterations, uint32_t count);

  struct Step {
    uint32_t iterations = 0;
    double micros = 0;  ///< of a kernel, without its launch
  };
  /// The iterations after which a kernel of the chain takes `target`.
  Result<Step> calibrate_chain(Duration target);

 private:
  class Lane;
  struct Shared;
  Raw();
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace quern::bench
