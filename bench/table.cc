// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "bench/bench.h"

namespace quern::bench {

Status run_warm(const Options& options, Report& report);
Status run_small(const Options& options, Report& report);
Status run_kernels(const Options& options, Report& report);
Status run_plan(const Options& options, Report& report);

std::span<const Bench> all() {
  static const std::vector<Bench> benches = {
      {"warm", "warm calls of a resident function against the same kernels by raw OpenCL", run_warm},
      {"small", "calls of a 1 KiB copy against a bare Beast echo, and where their time goes", run_small},
      {"kernels", "matrix product and convolution in OpenCL C against OpenBLAS and oneDNN, one thread", run_kernels},
      {"plan", "planning of graphs: time per kernel, and arenas against the least that they need", run_plan},
  };
  return benches;
}

}  // namespace quern::bench
