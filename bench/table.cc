// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "bench/bench.h"

namespace quern::bench {

Status run_warm(const Options& options, Report& report);
Status run_small(const Options& options, Report& report);
Status run_beside(const Options& options, Report& report);
Status run_kernels(const Options& options, Report& report);
Status run_plan(const Options& options, Report& report);
Status run_core(const Options& options, Report& report);
Status run_record(const Options& options, Report& report);
Status run_twin(const Options& options, Report& report);
Status run_tenants(const Options& options, Report& report);
Status run_cold(const Options& options, Report& report);
Status run_priority(const Options& options, Report& report);
Status run_gate(const Options& options, Report& report);
Status run_slice(const Options& options, Report& report);
Status run_quota(const Options& options, Report& report);
Status run_disb(const Options& options, Report& report);
Status run_density(const Options& options, Report& report);
Status run_replay(const Options& options, Report& report);
Status run_kaas(const Options& options, Report& report);
Status run_sage(const Options& options, Report& report);
Status run_fikit(const Options& options, Report& report);
Status run_fast(const Options& options, Report& report);
Status run_disb_sim(const Options& options, Report& report);

std::span<const Bench> all() {
  static const std::vector<Bench> benches = {
      {"warm", "warm calls of a resident function against the same kernels by raw OpenCL", run_warm},
      {"small", "calls of a 1 KiB copy against a bare Beast echo, and where their time goes", run_small},
      {"beside", "warm calls beside large deploys, changes of settings and large answers of JSON", run_beside},
      {"kernels", "matrix product and convolution in OpenCL C against OpenBLAS and oneDNN, one thread", run_kernels},
      {"plan", "planning of graphs: time per kernel, and arenas against the least that they need", run_plan},
      {"core", "the scheduler alone: instructions per event, and how they grow with devices and with the queue",
       run_core},
      {"record", "what serve --record adds to a request, in CPU time of the daemon", run_record},
      {"twin", "the same closed-loop calls live and simulated, over a device file made on the spot", run_twin},
      {"tenants", "1 to 32 tenants on the devices here, with room for all and without, against exclusive and kaas",
       run_tenants},
      {"cold", "the set-up of a cold call against its longest part, and what each idea saves", run_cold},
      {"priority", "an urgent program or client beside less urgent functions, against alone, and what those get done",
       run_priority},
      {"gate", "a run alone with gates, profiles and accounts, against the same launches without", run_gate},
      {"slice", "urgent calls beside a kernel of a second, whole and in slices, and what slices cost", run_slice},
      {"quota", "shares of a device's time, alone and beside a greedy neighbour, and of its units against time sharing",
       run_quota},
      {"disb", "the mixes of DISB under each policy of dispatch: urgent calls against alone, and all calls", run_disb},
      {"density", "functions per GiB of device memory within the same p95, against serial", run_density},
      {"replay", "an evening of a real service, live and simulated, for each eviction and placement policy",
       run_replay},
      {"kaas", "throughput and latency of KaaS, simulated, beside what was published", run_kaas},
      {"sage", "durations and density of SAGE, simulated, beside what was published", run_sage},
      {"fikit", "urgent and other programs of FIKIT's kind in pairs, simulated, beside what was published", run_fikit},
      {"fast", "shares, quotas, pods and packing of FaST-GShare, simulated, beside what was published", run_fast},
      {"disb-sim", "the mixes of DISB under each policy of dispatch, simulated", run_disb_sim},
  };
  return benches;
}

}  // namespace quern::bench
