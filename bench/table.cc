// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "bench/bench.h"

namespace quern::bench {

Status run_warm(const Options& options, Report& report);
Status run_small(const Options& options, Report& report);

std::span<const Bench> all() {
  static const std::vector<Bench> benches = {
      {"warm", "warm calls of a resident function against the same kernels by raw OpenCL", run_warm},
      {"small", "calls of a 1 KiB copy against a bare Beast echo, and where their time goes", run_small},
  };
  return benches;
}

}  // namespace quern::bench
