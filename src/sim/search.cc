// SPDX-License-Identifier: Apache-2.0
#include "sim/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/prng.h"
#include "sched/policy/table.h"
#include "sim/faults.h"
#include "sim/shrink.h"

namespace quern::sim {

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint32_t kMostTries = 8;

std::vector<double*> rates_of(FaultModel& faults) {
  std::vector<double*> rates;
  for (const FaultRow& row : fault_rows()) rates.push_back(&(faults.*row.rate));
  return rates;
}

/// Draws what a model is made of. The order of draws is part of what a seed means.
class Maker {
 public:
  explicit Maker(uint64_t seed) : prng_(seed * 0x9e3779b97f4a7c15 + 1) {}

  Model make() {
    make_config();
    make_devices();
    make_tenants();
    make_objects();
    make_functions();
    make_host();
    make_loads();
    make_faults();
    make_gates();
    make_programs();
    if (chance(0.55)) make_kernels();
    if (chance(0.55)) make_quotas();
    make_spares();
    if (chance(0.5)) make_tensors();
    if (chance(0.3)) make_shortage();
    make_breakages();
    return std::move(model_);
  }

 private:
  bool chance(double part) { return prng_.uniform() < part; }
  uint64_t between(uint64_t low, uint64_t high) { return low + prng_.below(high - low + 1); }
  uint32_t small(uint32_t low, uint32_t high) { return static_cast<uint32_t>(between(low, high)); }
  Duration micros(uint64_t low, uint64_t high) { return Duration::micros(static_cast<int64_t>(between(low, high))); }
  template <class Rows>
  std::string any_of(const Rows& rows) {
    return std::string(rows[prng_.below(rows.size())].name);
  }
  /// Each power of two between them is as likely as another.
  uint64_t scale(uint64_t low, uint64_t high) {
    uint64_t top = low;
    for (uint64_t doublings = 0; top * 2 <= high && doublings < 40; ++doublings)
      if (chance(0.5)) top *= 2;
    return between(low, std::max(low, std::min(high, top * 2)));
  }

  void make_config() {
    sched::Config& config = model_.config;
    config.lanes = chance(0.9) ? small(1, 3) : small(4, 6);
    config.runs_in_flight = chance(0.9) ? small(1, 2) : small(3, 5);
    if (chance(0.3)) config.most_queued = small(3, 40);
    if (chance(0.3)) config.most_queued_per_tenant = small(2, 15);
    if (chance(0.3)) config.most_queued_per_function = small(1, 10);
    config.most_attempts = small(1, 3);
    config.own_executor_runs = small(1, 20);
    config.quarantine_after = chance(0.7) ? small(1, 4) : 20;
    config.quarantine = micros(5'000, 200'000);
    config.stop_grace = micros(500, 10'000);
    config.prepare_grace = micros(20'000, 1'000'000);
    config.flight_sample = {config.stop_grace.ns / 8};
    config.locality = chance(0.2) ? Duration{0} : micros(100, 50'000);
    config.first_estimate = micros(50, 5'000);
    if (chance(0.5)) config.granularity_bytes = uint64_t{1} << between(8, 24);
    // Short enough that what nobody needs leaves while others still call.
    config.rent_second = micros(100'000, 20'000'000);
    config.keep_alive = micros(1'000, 200'000);
    config.room_back = micros(1'000, 100'000);
    if (chance(0.4)) model_.pool = small(1, 2);
    if (chance(0.4)) config.policy.eviction = any_of(sched::evictions());
    if (chance(0.4)) config.policy.setup = any_of(sched::setups());
    if (chance(0.5)) config.policy.exit = any_of(sched::exits());
    if (chance(0.75)) return;
    static constexpr const char* kPolicies[][2] = {
        {"fifo", "fifo"}, {"fifo", "sticky"}, {"vtime", "fifo"}, {"kaas", "fifo"}, {"fifo", "exclusive"}};
    const auto& policy = kPolicies[prng_.below(std::size(kPolicies))];
    config.policy.fairness = policy[0];
    config.policy.placement = policy[1];
  }

  void make_devices() {
    const uint32_t kinds = small(1, 3);
    uint32_t left = std::max(kinds, small(1, 6));
    for (uint32_t kind = 0; kind < kinds; ++kind) {
      DeviceModel device;
      device.name = fmt::format("kind{}", kind);
      device.count = kind + 1 == kinds ? left : small(1, left - (kinds - kind - 1));
      left -= device.count;
      devices_ += device.count;
      device.memory_bytes = between(256, 4096) * kMiB;
      // At times so much that it does not fit any more where memory was lost.
      const bool is_large = chance(0.1) && model_.pool == 0;
      device.context_bytes = chance(0.3) ? 0 : device.memory_bytes / (is_large ? between(2, 4) : between(8, 64));
      device.copy_bytes_per_second = between(20, 400) * 1024 * kMiB;
      device.context = micros(100, 20'000);
      if (chance(0.2)) device.framework = micros(100, 20'000);
      device.load_latency = micros(0, 300);
      device.launch = micros(0, 50);
      device.answer = micros(0, 50);
      device.speed = chance(0.6) ? 1 : chance(0.5) ? 0.5 : 2;
      device.in_place = chance(0.25);
      const uint64_t usable = device.memory_bytes - (1 + model_.pool) * device.context_bytes;
      largest_ = std::max(largest_, usable);
      smallest_ = std::min(smallest_, usable);
      speed_ += device.speed * device.count;
      model_.devices.push_back(device);
    }
  }

  void make_tenants() {
    const uint32_t tenants = small(1, 8);
    for (uint32_t i = 0; i < tenants; ++i) {
      TenantModel tenant;
      tenant.name = fmt::format("tenant{}", i);
      tenant.domain = chance(0.4) ? between(1, 3) : 0;
      tenant.weight = chance(0.5) ? 1 : small(1, 8);
      if (chance(0.3)) tenant.limits.in_flight = small(1, 4);
      if (chance(0.2)) tenant.limits.queued = small(1, 20);
      if (chance(0.25)) tenant.limits.memory_bytes = between(smallest_ / 4, 2 * largest_);
      model_.tenants.push_back(tenant);
    }
  }

  void make_objects() {
    const uint32_t objects = small(1, 20);
    // Together often more than a device holds, alone seldom.
    const uint64_t most = std::max<uint64_t>(smallest_ / between(2, 12), 2);
    for (uint32_t i = 0; i < objects; ++i)
      model_.objects.push_back({.name = fmt::format("object{}", i), .bytes = between(most / 8 + 1, most)});
  }

  void make_functions() {
    const uint32_t functions = small(2, 20);
    const uint64_t usual_us = scale(500, 12'000);
    for (uint32_t i = 0; i < functions; ++i) {
      FunctionModel function;
      function.name = fmt::format("function{}", i);
      function.tenant = i < model_.tenants.size() ? i : small(0, static_cast<uint32_t>(model_.tenants.size()) - 1);
      function.device_time = micros(usual_us / 4 + 10, usual_us * 2);
      function.spread = chance(0.3) ? 0 : 0.5 * prng_.uniform();
      function.memory_bytes = memory_of_run();
      const uint64_t needs = chance(0.25) ? 0 : between(1, 4);
      for (uint64_t need = 0; need < needs; ++need) {
        const uint32_t object = small(0, static_cast<uint32_t>(model_.objects.size()) - 1);
        if (std::find(function.objects.begin(), function.objects.end(), object) == function.objects.end())
          function.objects.push_back(object);
      }
      // Every run ends some time, or a hang would rightly last for ever.
      const double length = static_cast<double>(function.device_time.ns);
      function.timeout = {static_cast<int64_t>(length * (chance(0.5) ? 5 + 40 * prng_.uniform() : 2000)) + 1'000'000};
      if (chance(0.5)) function.device_limit = {static_cast<int64_t>(length * (1.1 + 4 * prng_.uniform()))};
      function.priority = static_cast<uint8_t>(between(0, 9));
      if (chance(0.1)) function.keep_warm = static_cast<sched::Stage>(between(1, 3));
      work_ns_ += length;
      model_.functions.push_back(function);
    }
    work_ns_ /= functions;
  }

  /// Holds what any function needs, and at times all there is.
  void make_host() {
    if (chance(0.3)) return;
    uint64_t least = 1, all = 0;
    for (const FunctionModel& function : model_.functions) {
      uint64_t bytes = 0;
      for (const uint32_t object : function.objects) bytes += model_.objects[object].bytes;
      least = std::max(least, bytes);
    }
    for (const ObjectModel& object : model_.objects) all += object.bytes;
    model_.host.memory_bytes = between(least, std::max(least, all + all / 4));
    model_.host.disk_bytes_per_second = between(10, 200) * 1024 * kMiB;
    model_.host.disk_latency = micros(0, 500);
  }

  uint64_t memory_of_run() {
    if (chance(0.2)) return 0;
    if (chance(0.01)) return largest_ + largest_ / 8;  // fits nowhere
    if (chance(0.1)) return between(smallest_, largest_) - smallest_ / 8;
    return between(0, smallest_ / (chance(0.3) ? 2 : 6));
  }

  /// Refused whenever it comes.
  bool is_hopeless(const FunctionModel& function) const {
    const uint64_t step = model_.config.granularity_bytes;
    const auto rounded = [&](uint64_t bytes) { return (bytes + step - 1) / step * step; };
    uint64_t bytes = rounded(function.memory_bytes);
    for (const uint32_t object : function.objects) bytes += rounded(model_.objects[object].bytes);
    const uint64_t most = model_.tenants[function.tenant].limits.memory_bytes;
    return bytes > largest_ || (most > 0 && bytes > most);
  }

  void make_loads() {
    const double capacity = 1e9 * speed_ / work_ns_;  // calls per second
    const double pressure = 0.3 + 1.2 * prng_.uniform();
    const size_t functions = model_.functions.size();
    for (uint32_t i = 0; i < functions; ++i) {
      LoadModel load;
      load.function = i;
      const double kind = prng_.uniform();
      load.kind = kind < 0.45   ? LoadModel::Kind::kClosed
                  : kind < 0.65 ? LoadModel::Kind::kPoisson
                  : kind < 0.75 ? LoadModel::Kind::kUniform
                                : LoadModel::Kind::kBurst;
      load.clients = small(1, chance(0.2) ? 12 : 3);
      load.think = micros(20, 2'000);
      load.per_second = capacity * pressure / static_cast<double>(functions) * (0.2 + 1.6 * prng_.uniform());
      load.burst = small(2, 25);
      if (is_hopeless(model_.functions[i])) {
        // A few will do: each is refused at once.
        load.clients = 1;
        load.think = micros(50'000, 100'000);
        load.per_second /= 20;
      }
      model_.loads.push_back(load);
    }
    model_.most_requests = between(800, 1400);
    seconds_ = static_cast<double>(model_.most_requests) / capacity;
    model_.length = {static_cast<int64_t>(seconds_ * 2e9)};
  }

  void make_faults() {
    const auto rates = rates_of(model_.faults);
    const double part = 0.3 + 0.6 * prng_.uniform(), often = static_cast<double>(scale(2, 16));
    for (double* rate : rates) {
      if (rate == &model_.faults.failed_launch || rate == &model_.faults.unclear_loss) continue;  // make_breakages
      if (chance(part)) *rate = often * (0.5 + prng_.uniform()) / seconds_;
    }
    // A restart begins everything anew: more than a few leave nothing to look at.
    model_.faults.restart = std::min(model_.faults.restart, 1.5 / seconds_);
    *rates[prng_.below(3)] += 2 / seconds_;
    *rates[3 + prng_.below(3)] += 2 / seconds_;
    *rates[6 + prng_.below(3)] += 2 / seconds_;
    *rates[13 + prng_.below(5)] += 2 / seconds_;
    model_.faults.cancel += 2 / seconds_;
    model_.faults.until = model_.length;
  }

  /// Executors that break with a launch of one of their runs. Drawn last, so that a seed means what it always meant.
  void make_breakages() {
    for (double* rate : {&model_.faults.failed_launch, &model_.faults.unclear_loss})
      if (chance(0.4)) *rate = static_cast<double>(scale(1, 8)) / seconds_;
  }

  /// How urgent whoever is, and what follows from it.
  void make_gates() {
    sched::Config& config = model_.config;
    if (chance(0.5)) config.policy.dispatch = any_of(sched::dispatches());
    if (chance(0.6)) config.levels_in_flight = small(1, 4);
    if (chance(0.5)) config.least_share = chance(0.3) ? 0 : small(1, 300);
    for (TenantModel& tenant : model_.tenants)
      if (chance(0.15)) tenant.limits.priority = static_cast<uint8_t>(between(0, 9));
    // Where all are of different levels nobody competes with anybody.
    const uint32_t levels = chance(0.4) ? 1 : chance(0.7) ? small(2, 3) : sched::kLeastUrgent + 1;
    const auto first = static_cast<uint8_t>(between(0, sched::kLeastUrgent + 1 - levels));
    for (FunctionModel& function : model_.functions)
      function.priority = static_cast<uint8_t>(first + function.priority % levels);
    if (chance(0.4)) config.best_effort = static_cast<uint32_t>(between(1, sched::kLeastUrgent));
    for (DeviceModel& device : model_.devices) device.classes = chance(0.8);
  }

  void make_programs() {
    const uint32_t programs = chance(0.4) ? small(1, 2) : 0;
    for (uint32_t i = 0; i < programs; ++i) {
      ProgramModel program;
      program.name = fmt::format("program{}", i);
      program.device = small(0, devices_ - 1);
      program.priority = static_cast<uint8_t>(between(0, sched::kLeastUrgent));
      // Some hundreds of gaps in all: what they say is not to drown what the runs do.
      const uint64_t cycle_us =
          std::max<uint64_t>(200, static_cast<uint64_t>(model_.length.ns) / 1000 / between(50, 500));
      const uint64_t work_us = std::max<uint64_t>(1, cycle_us * between(3, 60) / 100);
      program.kernels = small(1, 4);
      program.kernel = Duration::micros(static_cast<int64_t>(work_us / program.kernels + 1));
      program.gap = Duration::micros(static_cast<int64_t>(cycle_us - work_us));
      program.jitter = chance(0.5) ? 0 : 0.8 * prng_.uniform();
      program.sliceable = chance(0.7);
      model_.programs.push_back(program);
    }
  }

  /// Devices that know kernels, and who is hard on them: kernels that are many or cannot be cut, callers that never
  /// stop.
  void make_kernels() {
    for (DeviceModel& device : model_.devices) {
      if (chance(0.3)) continue;
      device.sharing = chance(0.75) ? DeviceModel::Sharing::kQueue : DeviceModel::Sharing::kSlices;
      device.units = chance(0.4) ? 1 : small(2, 8);
      device.time_slice = micros(200, 4'000);
      if (chance(0.3)) device.interference = 0.4 * prng_.uniform();
      if (chance(0.6)) device.gate = micros(1, 20);
      if (chance(0.3)) device.drift = 0.004 * prng_.uniform() - 0.002;
    }
    for (FunctionModel& function : model_.functions) {
      const uint32_t kernels = chance(0.3) ? 0 : small(1, 8);
      for (uint32_t i = 0; i < kernels; ++i) function.kernels.push_back(micros(1, 100));
      function.sliceable = chance(0.75);
      if (chance(0.3)) function.speeds = {{0.05 + 0.4 * prng_.uniform(), 0.3 + 0.6 * prng_.uniform()}, {1, 1}};
    }
    for (ProgramModel& program : model_.programs)
      if (chance(0.5)) make_sequence(program);
    LoadModel& hard = model_.loads.back();
    FunctionModel& called = model_.functions.back();
    const double which = prng_.uniform();
    if (which < 0.08) {
      // One kernel that takes as long as the rest of the world.
      called.device_time = Duration::seconds(1);
      called.kernels.clear();
      called.sliceable = false;
      called.priority = sched::kLeastUrgent;
      hard.kind = LoadModel::Kind::kClosed;
      hard.clients = 1;
      hard.think = micros(50'000, 500'000);
    } else if (which < 0.2) {
      called.priority = 0;
      called.device_limit = Duration::forever();
      hard.kind = LoadModel::Kind::kClosed;
      hard.clients = small(2, 6);
      hard.think = micros(1, 10);
    } else if (which < 0.3 && !model_.programs.empty()) {
      ProgramModel& storm = model_.programs.back();
      storm.sequence.clear();
      storm.kernel = Duration::micros(10);
      storm.kernels = small(20, 400);
      storm.gap = Duration{storm.gap.ns / 4 + 1000};
    }
  }

  void make_sequence(ProgramModel& program) {
    const uint32_t kernels = small(1, 6);
    const int64_t work_ns = program.kernel.ns * program.kernels / kernels + 1, gap_ns = program.gap.ns / kernels + 1;
    for (uint32_t i = 0; i < kernels; ++i)
      program.sequence.push_back({{work_ns}, chance(0.4) ? Duration{gap_ns} : Duration{0}});
    program.think = {gap_ns};
    if (chance(0.3)) program.speeds = {{0.3, 0.8}, {1, 1}};
  }

  /// Often more is asked for than there is.
  void make_quotas() {
    sched::Config& config = model_.config;
    if (chance(0.8)) config.window = micros(2'000, 60'000);
    if (chance(0.7)) config.unit_turn = micros(500, 15'000);
    const double part = 0.15 + 0.6 * prng_.uniform();
    for (FunctionModel& function : model_.functions)
      if (chance(part)) function.quota = draw_quota();
    for (ProgramModel& program : model_.programs)
      if (chance(part)) program.quota = draw_quota();
  }

  /// Inputs that are objects, and outputs that stay.
  void make_tensors() {
    for (FunctionModel& function : model_.functions) {
      if (chance(0.4)) function.passes_bytes = between(1, std::max<uint64_t>(smallest_ / 8, 1));
      if (chance(0.4)) function.leaves_bytes = between(1, std::max<uint64_t>(smallest_ / 8, 1));
    }
  }

  /// Units are short all the time: there is one device, no two functions fit beside each other, some never stop, and
  /// others come now and then.
  void make_shortage() {
    model_.devices.resize(1);
    DeviceModel& device = model_.devices.front();
    device.count = 1;
    device.sharing = DeviceModel::Sharing::kQueue;
    device.units = small(2, 8);
    device.in_halves = false;
    // Longer than the turns of the least share, which come between.
    model_.config.unit_turn = micros(2'000, 3'000);
    largest_ = device.memory_bytes - (1 + model_.pool) * device.context_bytes;
    for (size_t i = 0; i < model_.functions.size(); ++i) {
      FunctionModel& function = model_.functions[i];
      function.priority = 5;
      function.quota = {.units = small(510, 900)};
      LoadModel& load = model_.loads[i];
      load.kind = LoadModel::Kind::kClosed;
      load.clients = small(1, 2);
      load.think = i % 2 == 0 && !is_hopeless(function) ? micros(1, 20) : micros(5'000, 50'000);
      // Who comes now and then has work for many turns.
      if (i % 2 == 0) continue;
      function.device_time = micros(60'000, 150'000);
      function.device_limit = Duration::forever();
      function.timeout = Duration::seconds(60);
    }
  }

  void make_spares() {
    if (chance(0.4)) model_.config.spare_lanes = small(0, 2);
    if (chance(0.4)) model_.config.spare_levels = small(0, 2);
    for (DeviceModel& device : model_.devices) device.in_halves = chance(0.5);
  }

  sched::Quota draw_quota() {
    sched::Quota quota;
    if (chance(0.6)) quota.limit = small(50, 950);
    if (chance(0.5)) quota.request = small(10, std::max(10U, quota.limit * 6 / 10));
    if (chance(0.6)) quota.units = small(50, 1000);
    return quota;
  }

  Prng prng_;
  Model model_;
  uint32_t devices_ = 0;
  uint64_t largest_ = 0, smallest_ = UINT64_MAX;  // memory of a device without contexts
  double speed_ = 0;                              // of all devices
  double work_ns_ = 0;                            // of a call, in the mean
  double seconds_ = 0;                            // that all calls take, about
};

}  // namespace

Model random_model(uint64_t seed) { return Maker(seed).make(); }

SeedResult run_seed(uint64_t seed, Coverage* coverage, std::string_view only) {
  SeedResult result{.seed = seed, .model = random_model(seed), .outcome = {}, .violation = {}};
  while (true) {
    ++result.tries;
    Trial trial = try_model(result.model, seed, coverage, nullptr, only);
    result.outcome = std::move(trial.outcome);
    result.violation = std::move(trial.violation);
    result.fault_kinds = static_cast<uint64_t>(std::count_if(result.outcome.faults.begin(), result.outcome.faults.end(),
                                                             [](const auto& f) { return f.second > 0; }));
    const bool enough = result.outcome.steps >= kLeastSteps && result.fault_kinds >= kLeastFaultKinds;
    if (result.violation || enough) return result;
    if (result.tries == kMostTries) {
      result.violation = Violation{"search", fmt::format("search: {} steps with {} kinds of faults are not enough",
                                                         result.outcome.steps, result.fault_kinds)};
      return result;
    }
    // Longer, with as many faults over all as before: they may be what keeps callers away.
    result.model.length = result.model.length + result.model.length;
    result.model.faults.until = result.model.length;
    result.model.most_requests *= 2;
    if (result.fault_kinds >= kLeastFaultKinds)
      for (double* rate : rates_of(result.model.faults)) *rate /= 2;
  }
}

std::string tell_failure(const SeedResult& result, const std::string& options) {
  std::string text = fmt::format("seed {}: {}\n", result.seed, result.violation->text);
  text += fmt::format("again: quern simulate --search --seeds 1 --first-seed {}{}\n", result.seed,
                      options.empty() ? "" : " " + options);
  if (result.violation->checker == "search") return text;
  const Shrunk shrunk = shrink(result.model, result.seed, *result.violation);
  text += fmt::format("the smallest model found in {} runs that shows it:\n{}", shrunk.runs, to_text(shrunk.model));
  text += fmt::format("its last steps:\n{}{}\n", shrunk.trail, shrunk.violation.text);
  return text;
}

}  // namespace quern::sim
