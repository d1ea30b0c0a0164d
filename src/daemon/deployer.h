// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "daemon/binary_cache.h"
#include "daemon/daemon.h"
#include "daemon/host_tier.h"
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
///
/// The bytes of constants are objects on disk, and in memory only while they are deployed; the host tier knows them.
class Deployer {
 public:
  /// Told when nobody holds a version any more: neither the registry nor a call.
  using Gone = std::function<void(uint64_t function)>;

  /// `targets`: one record per kind of device, distinct by build key; they and the tier outlive this. Without a tier
  /// nobody is told where constants are.
  Deployer(const Config& config, std::string run_folder, std::vector<const DeviceRecord*> targets,
           std::unique_ptr<State> state, os::Event stop, Registry& registry, std::shared_ptr<const Gone> gone,
           HostTier* tier = nullptr);
  ~Deployer();

  /// Makes stored functions current again, building what is missing for the devices of today. Before start(). Constants
  /// are not read, only known. A function that cannot come back is logged as an error and left stored.
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

  // Objects of tenants; any thread, and each waits for the disk.
  /// The hash. On disk when it returns.
  Result<std::string> put_object(const std::string& tenant, std::span<const std::byte> bytes);
  /// kNotFound if the tenant has none, whoever else may: a hash is no key. kInternal if it is damaged.
  Result<Bytes> get_object(const std::string& tenant, std::string_view hash) const;
  /// kNotFound as above.
  Status drop_object(const std::string& tenant, std::string_view hash);
  /// The oldest first.
  Result<std::vector<TenantObject>> list_objects(const std::string& tenant) const;

  /// Any thread: see State. On disk when it returns.
  Status save_vtimes(const std::map<std::string, int64_t>& vtimes);
  Status save_profiles(const ProfileRecords& records);

  uint64_t builds() const { return builds_.load(); }

 private:
  struct Job {
    std::string tenant, name;
    Bytes tar;
    Done done;
  };

  /// An object on its way to the disk; its bytes live elsewhere.
  struct Piece {
    std::string hash;
    std::span<const std::byte> bytes;
  };
  /// What is stored of a folder.
  struct Content {
    std::map<std::string, std::string> files;         ///< as in FunctionRecord
    std::map<std::string, ConstantRecord> constants;  ///< as in FunctionRecord
    std::vector<Piece> pieces;  ///< the objects of both; they live in the files, and in the manifest wherever it moves
  };

  // deployer.cc: what is deployed.
  void work();
  Result<Deployed> deploy_now(const Job& job);
  Result<std::shared_ptr<DeployedFunction>> assemble(const std::string& tenant, Manifest manifest, std::string version,
                                                     const Files& files,
                                                     const std::map<std::string, ConstantRecord>& constants,
                                                     std::vector<std::string>& warnings);
  Status check_fits(const DeployedFunction& function, std::vector<std::string>& warnings) const;
  /// kDenied if with these settings its tenant's functions asked for more than the operator lets them.
  Status check_quota(const std::string& tenant, std::string_view name, const Settings& settings) const;
  Status check_groups(const DeployedFunction& function, const Plan& plan) const;
  Result<Binary> binary_for(const DeviceRecord& device, const ProgramDecl& program, const Manifest& manifest,
                            const Files& files);
  Result<BinaryContent> build(const DeviceRecord& device, const Manifest& manifest, ipc::BuildFrame frame);
  Result<HostObjectRef> hold(std::span<const std::byte> bytes);
  void make_current(DeployedRef function);
  Status bring_back(FunctionRecord record);

  // deployer_objects.cc: what is on disk.
  static Result<Content> content_of(const Manifest& manifest, const Files& files);
  Status name_constants(DeployedFunction& function, const std::map<std::string, ConstantRecord>& records);
  ConstantRef constant_of(const ConstantRecord& record);
  Status put_all(const std::vector<Piece>& pieces);
  template <class Record>
  auto put_and_record(const std::vector<Piece>& pieces, Record&& record);
  Status put_again(const Content& content);
  Result<int64_t> store(const DeployedFunction& function, const Content& content);
  Status take_constants_out(FunctionRecord& record, const Manifest& manifest, const Files& files);
  void leave(const std::vector<DeployedRef>& versions);
  void collect();

  // Constant after construction.
  Config config_;
  std::string run_folder_;
  std::vector<const DeviceRecord*> targets_;
  os::Event stop_;
  Registry& registry_;
  std::shared_ptr<const Gone> gone_;
  HostTier* tier_;
  BinaryCache cache_;
  // Any thread.
  ObjectStore objects_;  ///< the state's
  std::atomic<uint64_t> builds_{0};
  os::WorkQueue<Job> jobs_;
  mutable os::Guarded<std::unique_ptr<State>> state_;
  // Inside state_.with only: what a collection leaves alone although no record names it.
  std::multiset<std::string> writing_;                          ///< objects whose record comes once they are written
  std::vector<std::weak_ptr<const DeployedFunction>> leaving_;  ///< removed while calls held them
  // Any thread.
  /// Held while what is current changes, so that registry and state agree whoever comes second.
  os::Guarded<bool> changing_;
  os::Guarded<std::map<std::string, std::weak_ptr<const HostObject>>> programs_;  ///< by hash; those that someone holds
  struct Numbered {
    uint64_t number = 0;
    std::weak_ptr<const Constant> constant;
  };
  os::Guarded<std::map<std::string, Numbered>> constants_;  ///< by hash; at most kMostRemembered that no function has
  std::vector<os::Thread> threads_;
};

}  // namespace quern::daemon
