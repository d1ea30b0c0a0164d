// SPDX-License-Identifier: Apache-2.0
#include "bench/site.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <semaphore>
#include <thread>

#include "base/hash.h"
#include "base/units.h"
#include "bench/report.h"
#include "bench/stage.h"
#include "daemon/daemon_waits.h"
#include "os/clock.h"
#include "os/guarded.h"
#include "os/thread.h"
#include "sched/policy/table.h"

namespace quern::bench {
namespace {

constexpr size_t kMostDevices = 4;
constexpr size_t kProbes = 3, kWarmCalls = 15;
constexpr uint64_t kProbeBytes = 48 * kMiB;

std::string tenant_name(size_t tenant) { return fmt::format("t{}", tenant + 1); }

std::vector<int> device_cores() {
  std::vector<int> cores = os::allowed_cores();
  if (cores.size() > kMostDevices) cores.resize(kMostDevices);
  return cores;
}

daemon::DeviceConfig device_of(std::string name, std::vector<int> cores, uint64_t memory_bytes, uint64_t context_bytes,
                               bool in_place) {
  daemon::DeviceConfig device;
  device.name = std::move(name);
  device.cores = std::move(cores);
  device.memory_bytes = memory_bytes;
  device.context_bytes = context_bytes;
  device.in_place = in_place;
  return device;
}

/// What became of a call, in the books; an error if it should not have happened.
Status note(const Error& error, Served& served) {
  if (error.code == ErrorCode::kDeadline) {
    ++served.late;
  } else if (error.code == ErrorCode::kExhausted || error.text.find("memory") != error.text.npos) {
    ++served.out_of_memory;
  } else {
    return error;
  }
  return {};
}

}  // namespace

std::vector<daemon::DeviceConfig> device_per_core(uint64_t memory_bytes, uint64_t context_bytes, bool in_place) {
  std::vector<daemon::DeviceConfig> devices;
  for (const int core : device_cores())
    devices.push_back(device_of(fmt::format("cpu{}", devices.size()), {core}, memory_bytes, context_bytes, in_place));
  return devices;
}

daemon::DeviceConfig device_of_all_cores(uint64_t memory_bytes, uint64_t context_bytes, bool in_place) {
  return device_of("cpu0", device_cores(), memory_bytes, context_bytes, in_place);
}

std::string second_layout_text(bool in_place) {
  return fmt::format("a device per core ({}), {}; daemon and callers share the cores", fmt::join(device_cores(), ", "),
                     in_place ? "objects in place" : "in_place: false");
}

daemon::PolicyConfig policy_of(std::string_view preset) {
  const sched::Policy policy = *sched::preset(preset);
  return {policy.fairness, policy.placement, policy.eviction, policy.setup, policy.exit, policy.dispatch};
}

std::vector<daemon::TenantConfig> tenants_of(size_t count, bool one_domain) {
  std::vector<daemon::TenantConfig> tenants;
  for (size_t i = 0; i < count; ++i)
    tenants.push_back({tenant_name(i), sha256(tenant_name(i)), one_domain ? "all" : "", 1, {}});
  return tenants;
}

Result<std::unique_ptr<Site>> Site::create(daemon::Config config) {
  const size_t tenants = config.tenants.size();
  std::unique_ptr<Site> site(new Site);
  QUERN_TRY(site->daemon_, daemon::Daemon::create(std::move(config)));
  for (size_t i = 0; i < tenants; ++i) {
    QUERN_TRY(const daemon::Tenant* tenant, site->daemon_->authenticate(tenant_name(i)));
    site->tenants_.push_back(tenant);
  }
  return site;
}

Site::~Site() {
  if (daemon_) daemon_->stop(Duration::seconds(5));
}

Result<daemon::FunctionRef> Site::deploy(size_t tenant, const Layers& layers) {
  QUERN_TRY(Bytes tar, layers.tar());
  return deploy(tenant, layers.name, std::move(tar));
}

Result<daemon::FunctionRef> Site::deploy(size_t tenant, const std::string& name, Bytes tar) {
  QUERN_TRY(const auto deployed, daemon::deploy_and_wait(*daemon_, *tenants_.at(tenant), name, std::move(tar)));
  return deployed.function;
}

Result<daemon::FunctionRef> Site::find(size_t tenant, const std::string& name) const {
  return daemon_->find(*tenants_.at(tenant), name, "");
}

Status Site::submit(const Work& work, std::function<void(Ended)> done) {
  const Time from = os::now();
  QUERN_TRY(auto call, daemon_->prepare(*tenants_.at(work.tenant), work.function, work.spec, {}));
  const Time prepared = os::now();
  for (const daemon::CallTensor& input : call->inputs) std::memset(input.bytes.data(), 1, input.bytes.size());
  // Writing the input is the caller's, and not in the time of the call.
  const Time filled = os::now();
  daemon_->submit(std::move(call),
                  [done = std::move(done), from, prepared, filled](std::unique_ptr<daemon::Call> ended) {
                    const double micros = micros_between(from, prepared) + micros_between(filled, os::now());
                    done({std::move(ended), micros});
                  });
  return {};
}

Result<Site::Ended> Site::call(const Work& work) {
  Ended ended;
  std::binary_semaphore done{0};
  QUERN_TRY(submit(work, [&](Ended back) {
    ended = std::move(back);
    done.release();
  }));
  done.acquire();
  if (ended.call->error) return *ended.call->error;
  return ended;
}

double Served::percentile_ms(double part) const {
  if (micros.empty()) return 0;
  std::vector<double> sorted = micros;
  const auto at = std::min(sorted.size() - 1, static_cast<size_t>(part * static_cast<double>(sorted.size())));
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(at), sorted.end());
  return sorted[at] / 1e3;
}

Result<Served> call_in_turn(Site& site, std::span<const std::vector<Site::Work>> callers, Duration length) {
  std::vector<Served> each(callers.size());
  std::vector<Status> ends(callers.size());
  const Time from = os::now(), until = from + length;
  {
    std::vector<os::Thread> threads;
    for (size_t i = 0; i < callers.size(); ++i)
      threads.emplace_back("bench-caller", [&, i] {
        for (size_t turn = i; ends[i].ok() && os::now() < until; ++turn) {
          const auto ended = site.call(callers[i][turn % callers[i].size()]);
          if (ended.ok())
            each[i].micros.push_back(ended->micros);
          else
            ends[i] = note(ended.error(), each[i]);
        }
      });
  }
  Served all;
  all.seconds = micros_between(from, os::now()) / 1e6;
  for (Status& end : ends) QUERN_TRY(std::move(end));
  for (const Served& one : each) {
    all.micros.insert(all.micros.end(), one.micros.begin(), one.micros.end());
    all.out_of_memory += one.out_of_memory;
    all.late += one.late;
  }
  return all;
}

Result<Served> play(Site& site, std::span<const Site::Work> works, std::span<const Arrival> arrivals) {
  struct Books {
    Served served;
    Status status;
  };
  os::Guarded<Books> books;
  std::counting_semaphore<> ended{0};
  const auto add = [&](const std::optional<Error>& error, double micros) {
    books.with([&](Books& all) {
      if (!error)
        all.served.micros.push_back(micros);
      else if (Status wrong = note(*error, all.served); !wrong.ok())
        all.status = std::move(wrong);
    });
    ended.release();
  };
  const Time from = os::now();
  for (const Arrival& arrival : arrivals) {
    const Duration left = from + arrival.at - os::now();
    if (left.ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(left.ns));
    const Status taken = site.submit(works[arrival.work], [&](Site::Ended end) { add(end.call->error, end.micros); });
    if (!taken.ok()) add(taken.error(), 0);
  }
  // Each is answered by its deadline at the latest.
  for (size_t i = 0; i < arrivals.size(); ++i) ended.acquire();
  const double seconds = micros_between(from, os::now()) / 1e6;
  Books all = books.with([](Books& done) { return std::move(done); });
  QUERN_TRY(std::move(all.status));
  all.served.seconds = seconds;
  return std::move(all.served);
}

int64_t Rates::iterations_for(double run_us, int64_t launches) const {
  const double each_ns = run_us * 1e3 / static_cast<double>(launches + 1) - launch_ns;
  return std::max<int64_t>(1, static_cast<int64_t>(each_ns / std::max(iteration_ns, 1e-3)));
}

Result<Rates> measure_rates(daemon::Config like, const std::string& folder) {
  like.state_folder = folder;
  like.tenants = tenants_of(1, true);
  like.policy = policy_of("quern");
  like.pool = 0;
  QUERN_TRY(auto site, Site::create(std::move(like)));
  std::vector<double> loads, fetches;
  Rates rates;
  Site::Work work;
  for (size_t i = 0; i < kProbes; ++i) {
    QUERN_TRY(
        work.function,
        site->deploy(0, {.name = fmt::format("probe{}", i), .head_bytes = kProbeBytes, .head_content = 1'000'000 + i}));
    work.spec = LayersCall().spec();
    QUERN_TRY(const auto cold, site->call(work));
    for (const daemon::Phase& phase : cold.call->setup) {
      const double us = micros_between(phase.from, phase.to);
      if (phase.name == "load") loads.push_back(kProbeBytes / std::max(1.0, us) * 1e6);
      if (phase.name == "fetch") fetches.push_back(kProbeBytes / std::max(1.0, us) * 1e6);
      if (phase.name == "executor" && i == 0) rates.start_us = us;
    }
  }
  if (loads.empty() || fetches.empty()) return internal("bench: a cold call tells of no load; its set-up is not timed");
  rates.load_bytes = middle_of(loads).median;
  rates.fetch_bytes = middle_of(fetches).median;

  std::vector<double> answers;
  const auto device_ns = [&](int64_t launches, int64_t iterations) -> Result<double> {
    work.spec = LayersCall{.launches = launches, .iterations = iterations}.spec();
    std::vector<double> taken;
    for (size_t i = 0; i < kWarmCalls; ++i) {
      QUERN_TRY(const auto ended, site->call(work));
      const double us = micros_between(ended.call->times.started, ended.call->times.finished);
      taken.push_back(us * 1e3);
      answers.push_back(ended.micros - us);
    }
    return middle_of(taken).median;
  };
  constexpr int64_t kFew = 15, kMany = 127, kShort = 100, kLong = 20000;
  QUERN_TRY(const double little, device_ns(kFew, kShort));
  QUERN_TRY(const double longer, device_ns(kFew, kLong));
  QUERN_TRY(const double more, device_ns(kMany, kShort));
  rates.iteration_ns = (longer - little) / static_cast<double>((kLong - kShort) * (kFew + 1));
  rates.launch_ns = std::max(0.0, (more - little) / (kMany - kFew) - kShort * rates.iteration_ns);
  rates.answer_us = middle_of(answers).median;
  return rates;
}

}  // namespace quern::bench
