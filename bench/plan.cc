// SPDX-License-Identifier: Apache-2.0
//
// Planning alone: what it takes per kernel, how that grows, and how much more memory a plan has than it must.
#include "function/plan.h"

#include <fmt/format.h>

#include <array>

#include "base/units.h"
#include "bench/bench.h"
#include "bench/graphs.h"
#include "bench/stage.h"
#include "os/clock.h"

namespace quern::bench {
namespace {

constexpr std::array<size_t, 3> kSizes{100, 1000, 10000};
constexpr int64_t kN = 64;  // the free dim of a graph

/// Graphs of one size that have 10000 kernels together, all different: growth is that of the planner. The same small
/// graph again and again is planned 2.5 times as fast with as many instructions, from caches (a third of it) and by a
/// branch predictor that know it by heart; plan_100_again shows that.
struct Crowd {
  std::vector<Graph> graphs;
  std::vector<Binding> bindings;
  std::vector<double> micros, again;  ///< per kernel, one a round

  static Crowd of(size_t kernels) {
    Crowd crowd;
    for (size_t i = 0; i < kSizes.back() / kernels; ++i) {
      crowd.graphs.push_back(mixed_graph(kernels, i + 1));
      crowd.bindings.push_back(binding_of(crowd.graphs.back(), kN));
    }
    return crowd;
  }

  /// Plans each once and counts the CPU time of that: others on the machine do not matter.
  Status run() {
    QUERN_TRY(const double each, run_once([](size_t i) { return i; }));
    micros.push_back(each);
    return {};
  }

  /// The first as often as there are graphs, instead of each once.
  Status run_first() {
    QUERN_TRY(const double first, run_once([](size_t) { return size_t{0}; }));
    again.push_back(first);
    return {};
  }

  template <class F>
  Result<double> run_once(F which) const {
    const int thread = os::thread_id();
    double sum = 0;
    for (size_t time = 0; time < graphs.size(); ++time) {
      const size_t i = which(time);
      const Duration before = os::cpu_time_of_thread(thread);
      QUERN_TRY(const Plan plan, make_plan(graphs[i], bindings[i]));
      sum += static_cast<double>((os::cpu_time_of_thread(thread) - before).ns) / 1e3;
      if (plan.launches.size() != graphs[i].kernels.size())
        return internal(graphs[i].name + ": plan has other kernels");
    }
    return sum / static_cast<double>(kSizes.back());
  }
};

Status growth(const Options& options, Report& report) {
  const size_t rounds = options.quick ? 5 : 41;
  std::vector<Crowd> crowds;
  for (const size_t size : kSizes) {
    crowds.push_back(Crowd::of(size));
    const Crowd& crowd = crowds.back();
    QUERN_TRY(const Plan plan, make_plan(crowd.graphs[0], crowd.bindings[0]));
    QUERN_TRY(check_placement(plan, plan.in_place));
    QUERN_TRY(check_placement(plan, plan.own));
    report.notes.push_back(
        fmt::format("plan_{}: {} different graphs; the first has {} buffers of {}, {} as planned, {} at least", size,
                    crowd.graphs.size(), plan.buffers.size(), show_bytes(tensor_bytes(plan)),
                    show_bytes(plan.in_place.bytes()), show_bytes(plan.peak_bytes)));
  }
  std::vector<double> ratios;
  for (size_t round = 0; round < rounds; ++round) {
    options.progress(fmt::format("plan: round {} of {}", round, rounds));
    for (Crowd& crowd : crowds) QUERN_TRY(crowd.run());
    QUERN_TRY(crowds.front().run_first());
    ratios.push_back(crowds.back().micros.back() / crowds.front().micros.back());
  }
  const auto record = [&](std::string name, const std::vector<double>& micros) {
    Row row;
    row.name = std::move(name);
    row.value = middle_of(micros).median;
    row.unit = "us/kernel";
    report.rows.push_back(std::move(row));
  };
  for (size_t i = 0; i < kSizes.size(); ++i) record(fmt::format("plan_{}", kSizes[i]), crowds[i].micros);
  record("plan_100_again", crowds.front().again);
  const Middle ratio = middle_of(ratios);
  Row row;
  row.name = "plan_growth";
  row.value = middle_of(crowds.back().micros).median;
  row.unit = "us/kernel";
  row.baseline = middle_of(crowds.front().micros).median;
  row.ratio = ratio.median;
  row.spread = ratio.spread;
  row.goal = "<= 2";
  report.rows.push_back(std::move(row));
  return {};
}

Status arena(const std::string& name, const Graph& graph, Report& report) {
  QUERN_TRY(const Plan plan, make_plan(graph, binding_of(graph, 1)));
  QUERN_TRY(check_placement(plan, plan.in_place));
  Row row;
  row.name = name;
  row.value = static_cast<double>(plan.in_place.bytes());
  row.unit = "bytes";
  row.baseline = static_cast<double>(plan.peak_bytes);
  row.ratio = row.value / *row.baseline;
  row.goal = "<= 1.1";
  report.rows.push_back(std::move(row));
  report.notes.push_back(
      fmt::format("{}: {} kernels; the tensors of all layers are {:.1f} MB, the arena is {:.2f} MB, "
                  "the most that lives at once {:.2f} MB",
                  name, plan.launches.size(), static_cast<double>(tensor_bytes(plan)) / 1e6,
                  static_cast<double>(plan.in_place.bytes()) / 1e6, static_cast<double>(plan.peak_bytes) / 1e6));
  return {};
}

}  // namespace

Status run_plan(const Options& options, Report& report) {
  const Layout layout = Layout::here();
  const std::array core{layout.device};
  QUERN_TRY(os::pin_to(core));
  report.layout = fmt::format("no device; one thread on core {}, CPU time", layout.device);
  QUERN_TRY(growth(options, report));
  QUERN_TRY(arena("arena_resnet50", resnet50(), report));
  return arena("arena_bert", bert_base(128), report);
}

}  // namespace quern::bench
