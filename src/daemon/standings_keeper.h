// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "daemon/deployer.h"
#include "daemon/runner.h"
#include "os/event.h"
#include "os/guarded.h"
#include "os/thread.h"

namespace quern::daemon {

/// Stores where the tenants stand in virtual time, so that a restart gives nobody a fresh start: once a second while
/// anything happens, and at the end. A thread of its own, since the strand waits for no disk.
class StandingsKeeper {
 public:
  /// `names` are those of the tenants 1, 2, ...; runner and deployer outlive this.
  static Result<std::unique_ptr<StandingsKeeper>> create(Runner& runner, Deployer& deployer,
                                                         std::vector<std::string> names);
  ~StandingsKeeper() { stop(); }

  void start();
  /// Once the runner has stopped: what it came to is stored too.
  void stop();

 private:
  using Standings = std::vector<sched::Scheduler::Standing>;
  /// What the strand tells: it may come after this thread has given up on it.
  struct Told {
    explicit Told(os::Event e) : event(std::move(e)) {}
    os::Event event;
    os::Guarded<Standings> standings;
  };

  StandingsKeeper(Runner& runner, Deployer& deployer, std::vector<std::string> names, os::Event stop, os::Event told);
  void work();
  void save(const Standings& standings);

  // Constant after construction.
  Runner& runner_;
  Deployer& deployer_;
  std::vector<std::string> names_;
  os::Event stop_;
  std::shared_ptr<Told> told_;
  // Its thread only; after that, who stops it.
  std::map<std::string, int64_t> stored_;
  os::Thread thread_;
};

}  // namespace quern::daemon
