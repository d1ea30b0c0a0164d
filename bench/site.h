// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/layers.h"
#include "daemon/config.h"
#include "daemon/daemon.h"

namespace quern::bench {

/// One device for each core that we may use, at most four: the second layout. What runs on the host shares their cores.
std::vector<daemon::DeviceConfig> device_per_core(uint64_t memory_bytes, uint64_t context_bytes, bool in_place);
/// One device over all of them.
daemon::DeviceConfig device_of_all_cores(uint64_t memory_bytes, uint64_t context_bytes, bool in_place);
/// "a device per core (0, 1) …": Report::layout.
std::string second_layout_text(bool in_place);

/// What a preset of sched/policy/table.h comes to.
daemon::PolicyConfig policy_of(std::string_view preset);
/// t1, t2, …: with a domain each, or one for all.
std::vector<daemon::TenantConfig> tenants_of(size_t count, bool one_domain);

/// A daemon in this process: many tenants, devices and a policy of choice. What was deployed in its state folder before
/// is there again, so that one policy after another can be tried over the same functions.
class Site {
 public:
  /// `config.tenants` are those of tenants_of.
  static Result<std::unique_ptr<Site>> create(daemon::Config config);
  ~Site();

  /// Tenants count from 0. One thread at a time.
  Result<daemon::FunctionRef> deploy(size_t tenant, const Layers& layers);
  Result<daemon::FunctionRef> deploy(size_t tenant, const std::string& name, Bytes tar);
  Result<daemon::FunctionRef> find(size_t tenant, const std::string& name) const;

  /// What is called, by whom.
  struct Work {
    size_t tenant = 0;
    daemon::FunctionRef function;
    CallSpec spec;
  };
  struct Ended {
    std::unique_ptr<daemon::Call> call;  ///< with its error, if it has one
    double micros = 0;                   ///< prepare, submit and the way back
  };
  /// Any thread. An error if the daemon does not even take it.
  Status submit(const Work& work, std::function<void(Ended)> done);
  /// Any thread; waits. An error also if the call ended with one.
  Result<Ended> call(const Work& work);

  daemon::Counters counters() const { return daemon_->counters(); }

 private:
  Site() = default;
  std::unique_ptr<daemon::Daemon> daemon_;
  std::vector<const daemon::Tenant*> tenants_;
};

/// How many calls went.
struct Served {
  std::vector<double> micros;  ///< of those that ended well
  uint64_t out_of_memory = 0;  ///< answered so, or refused for it
  uint64_t late = 0;           ///< past their deadline
  double seconds = 0;          ///< from the first call to the last answer

  double per_second() const { return seconds > 0 ? static_cast<double>(micros.size()) / seconds : 0; }
  /// In milliseconds; 0 if there is none.
  double percentile_ms(double part) const;
};

/// A caller for each list, who calls what is in it in turn, each time waiting for the answer. The i-th begins with its
/// i-th. An error if a call ends other than well, out of memory or late.
Result<Served> call_in_turn(Site& site, std::span<const std::vector<Site::Work>> callers, Duration length);

struct Arrival {
  Duration at;  ///< since the beginning
  size_t work = 0;
};
/// Calls that come when they come, whatever is under way; `arrivals` in order. Waits for all answers, as above.
Result<Served> play(Site& site, std::span<const Site::Work> works, std::span<const Arrival> arrivals);

/// How fast things go here, to make functions of a wanted size.
struct Rates {
  double load_bytes = 0, fetch_bytes = 0;  ///< per second, to a device and from disk
  double launch_ns = 0, iteration_ns = 0;  ///< of LayersCall, for each kernel
  double start_us = 0;                     ///< of an executor, as a first call sees it
  double answer_us = 0;                    ///< what a warm call takes beside its time on the device

  /// So that a run takes this long, with kernels in proportion to `launches`.
  int64_t iterations_for(double run_us, int64_t launches) const;
};
/// Deploys and calls for some seconds, as the tenant 0 of a site of its own whose devices are like those of `like`;
/// its folder is not used afterwards.
Result<Rates> measure_rates(daemon::Config like, const std::string& folder);

}  // namespace quern::bench
