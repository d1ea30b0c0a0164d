// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "bench/bench.h"

namespace quern::bench {

Status run_warm(const Options& options, Report& report);
Status run_small(const Options& options, Report& report);
Status run_kernels(const Options& options, Report& report);
Status run_plan(const Options& options, Report& report);
Status run_core(const Options& options, Report& report);
Status run_record(const Options& options, Report& report);
Status run_kaas(const Options& options, Report& report);
Status run_twin(const Options& options, Report& report);

std::span<const Bench> all() {
  static const std::vector<Bench> benches = {
      {"warm", "warm calls of a resident function against the same kernels by raw OpenCL", run_warm},
      {"small", "calls of a 1 KiB copy against a bare Beast echo, and where their time goes", run_small},
      {"kernels", "matrix product and convolution in OpenCL C against OpenBLAS and oneDNN, one thread", run_kernels},
      {"plan", "planning of graphs: time per kernel, and arenas against the least that they need", run_plan},
      {"core", "the scheduler alone: instructions per event, and how they grow with devices and with the queue",
       run_core},
      {"record", "what serve --record adds to a request, in CPU time of the daemon", run_record},
      {"twin", "the same closed-loop calls live and simulated, over a device file made on the spot", run_twin},
      {"kaas", "the throughput table of KaaS, simulated, beside what was published", run_kaas},
  };
  return benches;
}

}  // namespace quern::bench
