// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "sched/text.h"
#include "sim/world.h"

/// For tests of the world: what was said, and a model to begin with.
namespace quern::sim {

struct Step {
  Time now;
  sched::Event event;
  std::vector<sched::Action> actions;
};

/// Keeps everything.
class Recorder : public Observer {
 public:
  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
               const sched::Scheduler&) override {
    steps.push_back({now, event, {actions.begin(), actions.end()}});
  }
  void on_restart(Time) override { restarts.push_back(steps.size()); }
  void on_end(Time, bool was_drained, const sched::Scheduler&) override { ++ends, drained = was_drained; }

  template <class E>
  std::vector<std::pair<Time, E>> events() const {
    std::vector<std::pair<Time, E>> found;
    for (const Step& step : steps)
      if (const E* event = std::get_if<E>(&step.event)) found.emplace_back(step.now, *event);
    return found;
  }
  template <class A>
  std::vector<std::pair<Time, A>> actions() const {
    std::vector<std::pair<Time, A>> found;
    for (const Step& step : steps)
      for (const sched::Action& action : step.actions)
        if (const A* one = std::get_if<A>(&action)) found.emplace_back(step.now, *one);
    return found;
  }
  std::string text() const {
    std::string all;
    for (const Step& step : steps) {
      all += sched::to_text(step.now) + " " + sched::to_text(step.event) + "\n";
      for (const sched::Action& action : step.actions) all += "  > " + sched::to_text(action) + "\n";
    }
    return all;
  }

  std::vector<Step> steps;
  std::vector<size_t> restarts;  ///< how many steps came before each
  int ends = 0;
  bool drained = false;
};

/// One device, one tenant, one function of 10 ms, one caller.
inline Model small_model() {
  Model model;
  DeviceModel device;
  device.memory_bytes = 8 * kGiB;
  device.context = Duration::millis(100);
  model.devices = {device};
  TenantModel tenant;
  tenant.name = "one";
  model.tenants = {tenant};
  FunctionModel function;
  function.name = "work";
  function.device_time = Duration::millis(10);
  model.functions = {function};
  model.loads = {LoadModel{}};
  model.length = Duration::seconds(1);
  return model;
}

inline World::Outcome run(const Model& model, uint64_t seed, Recorder& recorder) {
  World world(model, seed);
  world.observe(recorder);
  return world.run();
}

}  // namespace quern::sim
