// SPDX-License-Identifier: Apache-2.0
#include "sim/shrink.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "sim/faults.h"

namespace quern::sim {

namespace {

class Shrinker {
 public:
  Shrinker(const Model& model, uint64_t seed, const Violation& violation, uint32_t most_runs)
      : seed_(seed), most_runs_(most_runs) {
    best_.model = model;
    best_.violation = violation;
  }

  Shrunk run() {
    bool smaller = true;
    while (smaller && !spent()) {
      smaller = false;
      smaller |= fewer_requests();
      smaller |= drop_faults();
      smaller |= drop_each(&Model::loads, [](Model& model, size_t i) { erase_at(model.loads, i); });
      drop_unused_functions();
      smaller |= drop_each(&Model::devices, [](Model& model, size_t i) { erase_at(model.devices, i); });
      smaller |= drop_host();
      smaller |= drop_programs();
      smaller |= drop_kernels();
      smaller |= simplify();
    }
    drop_unused_tenants_and_objects();
    Trail trail;
    const Trial trial = try_model(best_.model, seed_, nullptr, &trail);
    if (trial.violation) best_.violation = *trial.violation;
    best_.trail = trail.to_text();
    return std::move(best_);
  }

 private:
  template <class T>
  static void erase_at(std::vector<T>& list, size_t i) {
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
  }
  bool spent() const { return best_.runs >= most_runs_; }

  /// Takes the candidate if the same checker still fails.
  bool keep_if_fails(Model candidate) {
    if (spent()) return false;
    ++best_.runs;
    const Trial trial = try_model(candidate, seed_);
    if (!trial.violation || trial.violation->checker != best_.violation.checker) return false;
    best_.model = std::move(candidate);
    best_.violation = *trial.violation;
    return true;
  }

  bool fewer_requests() {
    bool smaller = false;
    for (const uint64_t divisor : {uint64_t{8}, uint64_t{2}, uint64_t{2}}) {
      Model candidate = best_.model;
      candidate.most_requests = candidate.most_requests / divisor;
      if (candidate.most_requests > 0) smaller |= keep_if_fails(std::move(candidate));
    }
    Model candidate = best_.model;
    candidate.length = {candidate.length.ns / 2};
    candidate.faults.until = std::min(candidate.faults.until, candidate.length);
    if (candidate.length.ns > 1000) smaller |= keep_if_fails(std::move(candidate));
    return smaller;
  }

  bool drop_faults() {
    bool smaller = false;
    Model none = best_.model;
    none.faults = {};
    const FaultModel& faults = best_.model.faults;
    const bool has_any = std::ranges::any_of(fault_rows(), [&](const FaultRow& row) { return faults.*row.rate > 0; });
    if (has_any && keep_if_fails(std::move(none))) return true;
    for (const FaultRow& row : fault_rows()) {
      Model candidate = best_.model;
      if (std::exchange(candidate.faults.*row.rate, 0) > 0) smaller |= keep_if_fails(std::move(candidate));
    }
    return smaller;
  }

  template <class T, class Drop>
  bool drop_each(std::vector<T> Model::*list, Drop drop) {
    bool smaller = false;
    for (size_t i = (best_.model.*list).size(); i-- > 0;) {
      if ((best_.model.*list).size() == 1) break;
      Model candidate = best_.model;
      drop(candidate, i);
      smaller |= keep_if_fails(std::move(candidate));
    }
    return smaller;
  }

  /// Functions that nobody calls change little; the ids of those that stay may, so it is a try like others.
  void drop_unused_functions() {
    Model candidate = best_.model;
    for (size_t i = candidate.functions.size(); i-- > 0;) {
      const bool used = std::ranges::any_of(candidate.loads, [&](const LoadModel& l) { return l.function == i; });
      if (used) continue;
      erase_at(candidate.functions, i);
      for (LoadModel& load : candidate.loads) load.function -= load.function > i;
    }
    if (candidate.functions.size() < best_.model.functions.size()) keep_if_fails(std::move(candidate));
  }

  void drop_unused_tenants_and_objects() {
    Model candidate = best_.model;
    for (size_t i = candidate.tenants.size(); i-- > 0;) {
      if (std::ranges::any_of(candidate.functions, [&](const FunctionModel& f) { return f.tenant == i; })) continue;
      erase_at(candidate.tenants, i);
      for (FunctionModel& function : candidate.functions) function.tenant -= function.tenant > i;
    }
    for (size_t i = candidate.objects.size(); i-- > 0;) {
      const auto needs = [&](const FunctionModel& f) { return std::ranges::count(f.objects, i) > 0; };
      if (std::ranges::any_of(candidate.functions, needs)) continue;
      erase_at(candidate.objects, i);
      for (FunctionModel& function : candidate.functions)
        for (uint32_t& object : function.objects) object -= object > i;
    }
    keep_if_fails(std::move(candidate));
  }

  /// The host tier, blank executors, sizes that are rounded, objects in place, and functions kept warm.
  bool drop_host() {
    bool smaller = false;
    const auto try_without = [&](auto&& change) {
      Model candidate = best_.model;
      if (change(candidate)) smaller |= keep_if_fails(std::move(candidate));
    };
    try_without([](Model& model) { return std::exchange(model.host, {}).memory_bytes > 0; });
    try_without([](Model& model) { return std::exchange(model.pool, 0) > 0; });
    try_without([](Model& model) { return std::exchange(model.config.granularity_bytes, 1) > 1; });
    try_without([](Model& model) {
      bool any = false;
      for (DeviceModel& device : model.devices) any |= std::exchange(device.in_place, false);
      return any;
    });
    try_without([](Model& model) {
      bool any = false;
      for (FunctionModel& function : model.functions)
        any |= std::exchange(function.keep_warm, sched::Stage::kNothing) != sched::Stage::kNothing;
      return any;
    });
    return smaller;
  }

  /// Programs, then all that makes one more urgent than another.
  bool drop_programs() {
    bool smaller = false;
    for (size_t i = best_.model.programs.size(); i-- > 0;) {
      Model candidate = best_.model;
      erase_at(candidate.programs, i);
      smaller |= keep_if_fails(std::move(candidate));
    }
    Model flat = best_.model;
    bool differ = false;
    for (FunctionModel& function : flat.functions) differ |= std::exchange(function.priority, 5) != 5;
    for (TenantModel& tenant : flat.tenants) differ |= std::exchange(tenant.limits.priority, 0) != 0;
    if (differ) smaller |= keep_if_fails(std::move(flat));
    Model usual = best_.model;
    const sched::Config normal;
    differ = std::exchange(usual.config.policy.dispatch, normal.policy.dispatch) != normal.policy.dispatch;
    differ |= std::exchange(usual.config.levels_in_flight, normal.levels_in_flight) != normal.levels_in_flight;
    differ |= std::exchange(usual.config.spare_lanes, normal.spare_lanes) != normal.spare_lanes;
    differ |= std::exchange(usual.config.spare_levels, normal.spare_levels) != normal.spare_levels;
    differ |= std::exchange(usual.config.least_share, normal.least_share) != normal.least_share;
    if (differ) smaller |= keep_if_fails(std::move(usual));
    return smaller;
  }

  /// Quotas, then what devices know of kernels.
  bool drop_kernels() {
    bool smaller = false;
    const auto try_without = [&](auto&& change) {
      Model candidate = best_.model;
      if (change(candidate)) smaller |= keep_if_fails(std::move(candidate));
    };
    const sched::Quota none;
    for (size_t i = 0; i < best_.model.functions.size(); ++i)
      try_without([&](Model& model) { return std::exchange(model.functions[i].quota, none) != none; });
    for (size_t i = 0; i < best_.model.programs.size(); ++i)
      try_without([&](Model& model) { return std::exchange(model.programs[i].quota, none) != none; });
    for (size_t i = 0; i < best_.model.devices.size(); ++i) {
      try_without([&](Model& model) {
        return std::exchange(model.devices[i].sharing, DeviceModel::Sharing::kTurns) != DeviceModel::Sharing::kTurns;
      });
      try_without([&](Model& model) { return std::exchange(model.devices[i].units, 1) > 1; });
      try_without([&](Model& model) { return !std::exchange(model.devices[i].classes, true); });
      try_without([&](Model& model) { return std::exchange(model.devices[i].in_halves, false); });
      try_without([&](Model& model) { return std::exchange(model.devices[i].drift, 0) != 0; });
      try_without([&](Model& model) { return std::exchange(model.devices[i].interference, 0) != 0; });
      try_without([&](Model& model) { return std::exchange(model.devices[i].gate, {0}).ns != 0; });
    }
    for (size_t i = 0; i < best_.model.functions.size(); ++i) {
      try_without([&](Model& model) { return std::exchange(model.functions[i].passes_bytes, 0) > 0; });
      try_without([&](Model& model) { return std::exchange(model.functions[i].leaves_bytes, 0) > 0; });
      try_without([&](Model& model) { return !std::exchange(model.functions[i].kernels, {}).empty(); });
      try_without([&](Model& model) { return !std::exchange(model.functions[i].speeds, {}).empty(); });
    }
    return smaller;
  }

  bool simplify() {
    bool smaller = false;
    for (size_t i = 0; i < best_.model.devices.size(); ++i) {
      while (best_.model.devices[i].count > 1) {
        Model candidate = best_.model;
        --candidate.devices[i].count;
        if (!keep_if_fails(std::move(candidate))) break;
        smaller = true;
      }
    }
    for (size_t i = 0; i < best_.model.loads.size(); ++i) {
      Model candidate = best_.model;
      LoadModel& load = candidate.loads[i];
      if (std::exchange(load.clients, 1) > 1 && load.kind == LoadModel::Kind::kClosed)
        smaller |= keep_if_fails(std::move(candidate));
    }
    for (size_t i = 0; i < best_.model.tenants.size(); ++i) {
      Model candidate = best_.model;
      const uint8_t priority = candidate.tenants[i].limits.priority;
      const sched::Limits none{.priority = priority};
      if (std::exchange(candidate.tenants[i].limits, none) != none) smaller |= keep_if_fails(std::move(candidate));
    }
    for (size_t i = 0; i < best_.model.functions.size(); ++i) {
      for (size_t j = best_.model.functions[i].objects.size(); j-- > 0;) {
        Model candidate = best_.model;
        erase_at(candidate.functions[i].objects, j);
        smaller |= keep_if_fails(std::move(candidate));
      }
      Model candidate = best_.model;
      if (std::exchange(candidate.functions[i].spread, 0) > 0) smaller |= keep_if_fails(std::move(candidate));
    }
    return smaller;
  }

  const uint64_t seed_;
  const uint32_t most_runs_;
  Shrunk best_;
};

std::string show(Duration duration) { return duration == Duration::forever() ? "forever" : to_string(duration); }

std::string show(const sched::Quota& quota) {
  if (quota == sched::Quota{}) return "";
  return fmt::format(" quota={}/{}/{}", quota.request, quota.limit, quota.units);
}

std::string show(const std::vector<SpeedAt>& speeds) {
  std::string text;
  for (const SpeedAt& point : speeds) text += fmt::format(" {:.3f}:{:.3f}", point.share, point.speed);
  return text.empty() ? "" : " speeds=[" + text.substr(1) + "]";
}

std::string show_kernels(const DeviceModel& device) {
  if (!device.has_kernels()) return "";
  const bool has_slices = device.sharing == DeviceModel::Sharing::kSlices;
  return fmt::format(
      " {}={} interference={:.3f} gate={} drift={:.5f}", has_slices ? "slices" : "queue",
      has_slices ? show(device.time_slice) : fmt::format("{}{}", device.units, device.in_halves ? "h" : ""),
      device.interference, show(device.gate), device.drift);
}

std::string show(const DeviceModel& device) {
  return fmt::format(
      "device {} count={} memory={} context_bytes={} copy={}/s context={} framework={} load_latency={} launch={} "
      "answer={} speed={}{}{}{}\n",
      device.name, device.count, device.memory_bytes, device.context_bytes, device.copy_bytes_per_second,
      show(device.context), show(device.framework), show(device.load_latency), show(device.launch), show(device.answer),
      device.speed, device.in_place ? " in_place" : "", device.classes ? "" : " no_classes", show_kernels(device));
}

std::string show(const LoadModel& load) {
  static constexpr const char* kKinds[] = {"closed", "poisson", "uniform", "burst", "trace"};
  const std::string head = fmt::format("load {} function={}", kKinds[static_cast<size_t>(load.kind)], load.function);
  switch (load.kind) {
    case LoadModel::Kind::kClosed:
      return head + fmt::format(" clients={} think={}\n", load.clients, show(load.think));
    case LoadModel::Kind::kBurst:
      return head + fmt::format(" per_second={:.1f} burst={}\n", load.per_second, load.burst);
    case LoadModel::Kind::kTrace:
      return head + fmt::format(" times={}\n", load.times.size());
    default:
      return head + fmt::format(" per_second={:.1f}\n", load.per_second);
  }
}

}  // namespace

Shrunk shrink(const Model& model, uint64_t seed, const Violation& violation, uint32_t most_runs) {
  return Shrinker(model, seed, violation, most_runs).run();
}

std::string to_text(const Model& model) {
  const sched::Config &config = model.config, usual;
  std::string text =
      fmt::format("policy {} {} {} {} {} {}\n", config.policy.fairness, config.policy.placement, config.policy.eviction,
                  config.policy.setup, config.policy.exit, config.policy.dispatch);
  text += "config";
  const auto number = [&](const char* name, uint64_t value, uint64_t normal) {
    if (value != normal) text += fmt::format(" {}={}", name, value);
  };
  const auto time = [&](const char* name, Duration value, Duration normal) {
    if (value != normal) text += fmt::format(" {}={}", name, show(value));
  };
  number("lanes", config.lanes, usual.lanes);
  number("runs_in_flight", config.runs_in_flight, usual.runs_in_flight);
  number("levels_in_flight", config.levels_in_flight, usual.levels_in_flight);
  number("spare_lanes", config.spare_lanes, usual.spare_lanes);
  number("spare_levels", config.spare_levels, usual.spare_levels);
  number("most_queued", config.most_queued, usual.most_queued);
  number("most_queued_per_tenant", config.most_queued_per_tenant, usual.most_queued_per_tenant);
  number("most_queued_per_function", config.most_queued_per_function, usual.most_queued_per_function);
  number("most_attempts", config.most_attempts, usual.most_attempts);
  number("own_executor_runs", config.own_executor_runs, usual.own_executor_runs);
  number("quarantine_after", config.quarantine_after, usual.quarantine_after);
  time("quarantine", config.quarantine, usual.quarantine);
  time("stop_grace", config.stop_grace, usual.stop_grace);
  time("prepare_grace", config.prepare_grace, usual.prepare_grace);
  time("flight_sample", config.flight_sample, usual.flight_sample);
  time("locality", config.locality, usual.locality);
  time("first_estimate", config.first_estimate, usual.first_estimate);
  number("granularity_bytes", config.granularity_bytes, usual.granularity_bytes);
  time("rent_second", config.rent_second, usual.rent_second);
  time("keep_alive", config.keep_alive, usual.keep_alive);
  time("room_back", config.room_back, usual.room_back);
  number("least_share", config.least_share, usual.least_share);
  number("best_effort", config.best_effort, usual.best_effort);
  time("window", config.window, usual.window);
  time("unit_turn", config.unit_turn, usual.unit_turn);
  text += "\n";
  if (model.host.memory_bytes > 0)
    text += fmt::format("host memory={} disk={}/s latency={}\n", model.host.memory_bytes,
                        model.host.disk_bytes_per_second, show(model.host.disk_latency));
  if (model.pool > 0) text += fmt::format("pool {}\n", model.pool);
  for (const DeviceModel& device : model.devices) text += show(device);
  for (size_t i = 0; i < model.tenants.size(); ++i) {
    const TenantModel& tenant = model.tenants[i];
    text += fmt::format("tenant {}: weight={} domain={} in_flight={} queued={} memory={} priority={}\n", i,
                        tenant.weight, tenant.domain, tenant.limits.in_flight, tenant.limits.queued,
                        tenant.limits.memory_bytes, tenant.limits.priority);
  }
  for (size_t i = 0; i < model.objects.size(); ++i) text += fmt::format("object {}: {}\n", i, model.objects[i].bytes);
  for (size_t i = 0; i < model.functions.size(); ++i) {
    const FunctionModel& function = model.functions[i];
    text += fmt::format(
        "function {}: tenant={} priority={} device_time={} spread={:.2f} memory={} objects=[{}] timeout={} "
        "limit={}",
        i, function.tenant, function.priority, show(function.device_time), function.spread, function.memory_bytes,
        fmt::join(function.objects, ","), show(function.timeout), show(function.device_limit));
    if (function.passes_bytes > 0) text += fmt::format(" passes={}", function.passes_bytes);
    if (function.leaves_bytes > 0) text += fmt::format(" leaves={}", function.leaves_bytes);
    if (function.keep_warm != sched::Stage::kNothing)
      text += fmt::format(" keep_warm={}", sched::name_of(function.keep_warm));
    text += show(function.quota) + show(function.speeds) + (function.sliceable ? "" : " whole");
    for (const Duration kernel : function.kernels) text += " " + show(kernel);
    text += "\n";
  }
  for (const LoadModel& load : model.loads) text += show(load);
  for (const ProgramModel& program : model.programs) {
    text += fmt::format("program {}: device={} priority={} kernels={} kernel={} gap={} think={} jitter={:.2f}{}{}{}",
                        program.name, program.device, program.priority, program.kernels, show(program.kernel),
                        show(program.gap), show(program.think), program.jitter, program.sliceable ? " sliceable" : "",
                        show(program.quota), show(program.speeds));
    for (const KernelModel& kernel : program.sequence)
      text += fmt::format(" {}+{}", show(kernel.time), show(kernel.gap));
    text += "\n";
  }
  for (const FaultRow& row : fault_rows())
    if (model.faults.*row.rate > 0)
      text += fmt::format("fault {} per_second={:.2f}\n", row.name, model.faults.*row.rate);
  text += fmt::format("length {} until {} most_requests {}\n", show(model.length), show(model.faults.until),
                      model.most_requests);
  return text;
}

}  // namespace quern::sim
