// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "daemon/deployer.h"
#include "daemon/profile_records.h"
#include "daemon/runner.h"
#include "os/event.h"
#include "os/guarded.h"
#include "os/thread.h"

namespace quern::daemon {

/// Stores what was learned of kernels and gaps, so that a restart begins with it: a second after something is new, then
/// twice as seldom each time while there always is, at least every 30 seconds; and the rest at the end. A thread of its
/// own, since the strand waits for no disk. What a server that is killed had not stored it learns again.
class ProfileKeeper {
 public:
  /// Runner and deployer outlive this.
  static Result<std::unique_ptr<ProfileKeeper>> create(Runner& runner, Deployer& deployer);
  ~ProfileKeeper() { stop(); }

  void start();
  /// Once the runner has stopped.
  void stop();

 private:
  /// What the strand tells: it may come after this thread has given up on it.
  struct Told {
    explicit Told(os::Event e) : event(std::move(e)) {}
    os::Event event;
    os::Guarded<ProfileRecords> records;
  };

  ProfileKeeper(Runner& runner, Deployer& deployer, os::Event stop, os::Event told);
  void work();
  /// A piece of what changed; empty if there is no more, or the strand is too busy to tell.
  ProfileRecords ask();
  /// False if it could not be stored.
  bool save(const ProfileRecords& records);

  // Constant after construction.
  Runner& runner_;
  Deployer& deployer_;
  os::Event stop_;
  std::shared_ptr<Told> told_;

  os::Thread thread_;
};

}  // namespace quern::daemon
