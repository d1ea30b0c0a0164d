// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "daemon/binary_cache.h"
#include "daemon/daemon.h"
#include "daemon/registry.h"
#include "daemon/runner.h"
#include "daemon/state.h"
#include "os/event.h"
#include "os/guarded.h"
#include "os/thread.h"
#include "os/work_queue.h"

namespace quern::daemon {

/// Turns uploaded folders into deployed functions: checks, compiles in builders, stores, registers; and brings back
/// what was stored. Two threads of its own, so that one tenant's slow compile does not hold up all others.
class Deployer {
 public:
  /// Told when nobody holds a version any more: neither the registry nor a call.
  using Gone = std::function<void(uint64_t function)>;

  /// `targets`: one record per kind of device, distinct by build key; they outlive this.
  Deployer(const Config& config, std::string run_folder, std::vector<const DeviceRecord*> targets,
           std::unique_ptr<State> state, os::Event stop, Registry& registry, std::shared_ptr<const Gone> gone);
  ~Deployer();

  /// Makes stored functions current again, building what is missing for the devices of today. Before start(). A
  /// function that cannot come back is logged as an error and left stored.
  Status recover();
  void start();
  void stop();

  using Done = std::function<void(Result<Deployed>)>;
  /// Any thread; `done` comes from one of ours. kExhausted if too many wait.
  void deploy(const std::string& tenant, std::string name, Bytes tar, Done done);
  // Any thread; see Daemon.
  /// The versions that were removed.
  Result<std::vector<DeployedRef>> remove(const std::string& tenant, std::string_view name);
  Result<DeployedRef> rollback(const std::string& tenant, std::string_view name, std::string_view version);
  Result<DeployedRef> set(const std::string& tenant, std::string_view name,
                          const std::map<std::string, std::string>& changes);
  Result<History> history(const std::string& tenant, std::string_view name) const;

  /// Any thread: see State. On disk when it returns.
  Status save_vtimes(const std::map<std::string, int64_t>& vtimes);

  uint64_t builds() const { return builds_.load(); }

 private:
  struct Job {
    std::string tenant, name;
    Bytes tar;
    Done done;
  };

  void work();
  Result<Deployed> deploy_now(const Job& job);
  Result<std::shared_ptr<DeployedFunction>> assemble(const std::string& tenant, Manifest manifest, const Files& files,
                                                     std::vector<std::string>& warnings);
  Status check_fits(const DeployedFunction& function, std::vector<std::string>& warnings) const;
  Status check_groups(const DeployedFunction& function, const Plan& plan) const;
  Result<Binary> binary_for(const DeviceRecord& device, const ProgramDecl& program, const Manifest& manifest,
                            const Files& files);
  Result<BinaryContent> build(const DeviceRecord& device, const Manifest& manifest, ipc::BuildFrame frame);
  Result<HostObjectRef> hold(std::span<const std::byte> bytes);
  Result<int64_t> store(const DeployedFunction& function, const Files& files);
  void make_current(DeployedRef function);
  void collect();

  // Constant after construction.
  Config config_;
  std::string run_folder_;
  std::vector<const DeviceRecord*> targets_;
  os::Event stop_;
  Registry& registry_;
  std::shared_ptr<const Gone> gone_;
  BinaryCache cache_;
  // Any thread.
  std::atomic<uint64_t> builds_{0};
  os::WorkQueue<Job> jobs_;
  mutable os::Guarded<std::unique_ptr<State>> state_;
  /// Held while what is current changes, so that registry and state agree whoever comes second.
  os::Guarded<bool> changing_;
  struct Held {
    uint64_t number = 0;
    std::weak_ptr<const HostObject> object;
  };
  os::Guarded<std::map<std::string, Held>> held_;  ///< by hash; at most kMostRemembered of those nobody holds
  std::vector<os::Thread> threads_;
};

}  // namespace quern::daemon
