// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "daemon/binary_cache.h"
#include "daemon/daemon.h"
#include "daemon/fair_queue.h"
#include "daemon/host_tier.h"
#include "daemon/intake.h"
#include "daemon/registry.h"
#include "daemon/runner.h"
#include "daemon/state.h"
#include "daemon/state_thread.h"
#include "daemon/storage.h"
#include "ipc/frames.h"
#include "os/event.h"
#include "os/guarded.h"
#include "os/thread.h"

namespace quern::daemon {

/// Turns uploaded folders into deployed functions: checks, compiles in builders, stores, registers; and brings back
/// what was stored.
///
/// A deploy is checked, and waits for builders only if something has to be compiled; then it is checked again, and all
/// is there. Both are fair between tenants (FairQueue). What is current changes on the thread of the state alone, so
/// that registry and state agree whoever comes second.
///
/// The bytes of constants are objects on disk, and never all in memory; the host tier knows them.
class Deployer {
 public:
  /// Told when nobody holds a version any more: neither the registry nor a call.
  using Gone = std::function<void(uint64_t function)>;

  /// `targets`: one record per kind of device, distinct by build key; they and the tier outlive this. Without a tier
  /// nobody is told where constants are. `stop` ends builders.
  Deployer(const Config& config, std::string run_folder, std::vector<const DeviceRecord*> targets,
           std::unique_ptr<State> state, os::Event stop, Registry& registry, std::shared_ptr<const Gone> gone,
           HostTier* tier = nullptr);
  ~Deployer();

  /// What is stored is announced in the registry, as getting ready; before start().
  Status recover();
  /// Makes stored functions ready in the background, building what is missing for the devices of today. Constants are
  /// not read, only known. One that cannot come back is logged as an error, stays stored, and its calls are told why.
  /// `is_back` gets each that is, on a thread of ours.
  void start(std::function<void(const DeployedRef&)> is_back = {});
  /// Returns once all that was stored is ready, or known not to be. After start().
  void wait_recovered() const { is_recovered_.wait(false); }
  /// Answers deploys that wait, ends builders, and takes no more.
  void stop_deploys();
  void stop();

  // See Daemon: any thread, and none waits. `done` comes from one of ours, or before the method returns.
  template <class T>
  using Done = std::function<void(Result<T>)>;
  Result<std::unique_ptr<Upload>> begin_deploy(const std::string& tenant, uint64_t size_bytes);
  void deploy(const std::string& tenant, std::string id, std::string name, std::unique_ptr<Upload> tar,
              Done<Deployed> done);
  void abandon(const std::string& id);
  /// The versions that were removed.
  void remove(const std::string& tenant, std::string name, Done<std::vector<DeployedRef>> done);
  void rollback(const std::string& tenant, std::string name, std::string version, Done<DeployedRef> done);
  void set(const std::string& tenant, std::string name, std::map<std::string, std::string> changes,
           Done<DeployedRef> done);
  void history(const std::string& tenant, std::string name, Done<History> done);

  // Objects of tenants; any thread, and each waits for the disk, but for the first.
  Result<std::unique_ptr<Upload>> begin_object(const std::string& tenant, uint64_t size_bytes);
  /// Hash and size. On disk when it returns.
  Result<ConstantRecord> put_object(const std::string& tenant, std::unique_ptr<Upload> upload);
  /// Its size. kNotFound if the tenant has none, whoever else may: a hash is no key.
  Result<uint64_t> object_bytes(const std::string& tenant, std::string_view hash);
  /// An object whose size is known, as ObjectStore::copy_to. kInternal if it is damaged.
  Status copy_object(std::string_view hash, uint64_t size_bytes, const os::Fd& into);
  /// kNotFound as above.
  Status drop_object(const std::string& tenant, std::string_view hash);
  /// The oldest first.
  Result<std::vector<TenantObject>> list_objects(const std::string& tenant);

  /// Any thread: see State. On disk when it returns.
  Status save_vtimes(const std::map<std::string, int64_t>& vtimes);
  Status save_profiles(const ProfileRecords& records);

  uint64_t builds() const { return builds_.load(); }

 private:
  /// A program that has to be compiled.
  struct BuildOrder {
    const DeviceRecord* device = nullptr;
    std::string key;
    ipc::BuildFrame frame;
  };
  /// A deploy on its way.
  struct Job {
    std::string id, tenant, name;
    std::unique_ptr<FolderReceiver> folder;
    Done<Deployed> done;
    os::Event abandoned;  ///< nobody waits for it any more
    std::vector<BuildOrder> orders;
    bool was_built = false;
  };
  using JobRef = std::shared_ptr<Job>;

  /// An object on its way to the disk: bytes that live elsewhere, or what is written already.
  struct Piece {
    std::string hash;
    std::span<const std::byte> bytes = {};
    ObjectWriter* writer = nullptr;
  };
  /// What is stored of a folder.
  struct Content {
    std::map<std::string, std::string> files;         ///< as in FunctionRecord
    std::map<std::string, ConstantRecord> constants;  ///< as in FunctionRecord
    std::vector<Piece> pieces;  ///< the objects of both; they live in the files, and in the manifest wherever it moves
  };
  /// The files of a function, and where the elements of large ones are.
  struct Folder {
    const Files& files;
    const FolderReceiver* receiver = nullptr;
  };

  // deployer.cc: what is deployed.
  void check(const JobRef& job);
  void build_all(const JobRef& job);
  void end(const JobRef& job, Result<Deployed> deployed);
  static Error cancelled(const Job& job);
  /// Empty, with orders, if something has to be built first.
  Result<std::optional<Deployed>> deploy_now(Job& job);
  Result<Deployed> store_and_switch(const Job& job, std::shared_ptr<DeployedFunction> function, const Content& content,
                                    Deployed deployed);
  void make_current(State& state, DeployedRef function);
  Result<DeployedRef> rollback_now(State& state, const std::string& tenant, const std::string& name,
                                   const std::string& version);
  Result<DeployedRef> set_now(State& state, const std::string& tenant, const std::string& name,
                              const std::map<std::string, std::string>& changes);
  void bring_all_back();
  Status bring_back(FunctionRecord record);
  /// What a tenant may read of an error: not where the server keeps things.
  Error told(Error error) const;
  template <class T>
  Result<T> told(Result<T> result) const {
    return result.ok() ? std::move(result) : Result<T>(told(std::move(result).error()));
  }

  // deployer_assemble.cc: a function from its files.
  /// `orders`: what has to be built is put there, and the function is null. Null: the function was stored; what it
  /// needs is built now, and what an earlier Quern took is no mistake.
  Result<std::shared_ptr<DeployedFunction>> assemble(const std::string& tenant, Manifest manifest, std::string version,
                                                     const Files& files,
                                                     const std::map<std::string, ConstantRecord>& constants,
                                                     std::vector<std::string>& warnings,
                                                     std::vector<BuildOrder>* orders);
  Status check_fits(const DeployedFunction& function, std::vector<std::string>& warnings) const;
  /// kDenied if with these settings its tenant's functions asked for more than the operator lets them.
  Status check_quota(const std::string& tenant, std::string_view name, const Settings& settings) const;
  Status check_groups(const DeployedFunction& function, const Plan& plan) const;
  /// All programs of the function for a device. Nothing if it has none for that driver, or if some have to be built
  /// first: then there are orders.
  Result<std::optional<Binary>> binary_for(const DeviceRecord& device, const Graph& graph, const Files& files,
                                           std::vector<BuildOrder>* orders);
  Result<std::optional<CompiledProgram>> compiled(const DeviceRecord& device, const ProgramDecl& program,
                                                  const Graph& graph, const Files& files,
                                                  std::vector<BuildOrder>* orders);
  std::optional<BinaryContent> find_binary(const std::string& key);
  Status store_binary(const std::string& key, const BinaryContent& content);
  /// Compiles it and stores what comes of it.
  Result<BinaryContent> build(const std::string& name, BuildOrder order, const os::Event* abandoned);
  Result<HostObjectRef> hold(std::span<const std::byte> bytes);

  // deployer_objects.cc: what is on disk.
  static Result<Content> content_of(const Manifest& manifest, const Folder& folder);
  Status name_constants(DeployedFunction& function, const std::map<std::string, ConstantRecord>& records);
  ConstantRef constant_of(const ConstantRecord& record);
  Status put_all(const std::vector<Piece>& pieces);
  template <class Record>
  auto put_and_record(const std::string& tenant, const std::vector<Piece>& pieces, Record&& record);
  Status put_again(const std::string& tenant, const Content& content);
  Status take_constants_out(FunctionRecord& record, const Manifest& manifest, const Files& files);
  void leave(const std::vector<DeployedRef>& versions);
  enum class Collected : uint8_t { kReleased, kAll };
  void collect(State& state, Collected what);
  void tell_storage(State& state, const std::string& tenant);

  // Constant after construction.
  Config config_;
  std::string run_folder_;
  std::vector<const DeviceRecord*> targets_;
  os::Event stop_;
  Registry& registry_;
  std::shared_ptr<const Gone> gone_;
  HostTier* tier_;
  BinaryCache cache_;
  std::function<void(const DeployedRef&)> is_back_;
  // Any thread.
  ObjectStore objects_;  ///< the state's
  Storage storage_;
  std::atomic<uint64_t> builds_{0};
  std::atomic<bool> is_stopping_{false}, is_recovered_{false};
  os::Guarded<std::map<std::string, std::weak_ptr<Job>>> by_id_;                  ///< deploys on their way
  os::Guarded<std::map<std::string, std::weak_ptr<const HostObject>>> programs_;  ///< by hash; those that someone holds
  struct Numbered {
    uint64_t number = 0;
    std::weak_ptr<const Constant> constant;
  };
  os::Guarded<std::map<std::string, Numbered>> constants_;  ///< by hash; at most kMostRemembered that no function has
  // The state's thread only: what a collection leaves alone although no record names it.
  std::multiset<std::string> writing_;                          ///< objects whose record comes once they are written
  std::vector<std::weak_ptr<const DeployedFunction>> leaving_;  ///< removed while calls held them
  // Before start(), then of the thread that brings them back.
  std::vector<FunctionRecord> stored_;

  // Any thread. In the order in which they end, the last first: deploys need all others, and so do jobs of the state.
  Intake intake_;
  StateThread state_;
  FairQueue<JobRef> checks_, builds_queue_;
  std::vector<os::Thread> threads_;
};

// Objects first, then what names them. Writing takes as long as the disk does and holds up nobody: a collection
// meanwhile leaves them alone.
template <class Record>
auto Deployer::put_and_record(const std::string& tenant, const std::vector<Piece>& pieces, Record&& record) {
  state_.ask(tenant, [&](State&) {
    for (const Piece& piece : pieces) writing_.insert(piece.hash);
    return true;
  });
  const Status put = put_all(pieces);
  return state_.ask(tenant, [&](State& state) -> decltype(record(state)) {
    for (const Piece& piece : pieces) writing_.erase(writing_.find(piece.hash));
    auto recorded = put.ok() ? record(state) : decltype(record(state))(put.error());
    if (recorded.ok()) return recorded;
    // What was written for nothing is nobody's, and counts for nobody: it leaves the disk again.
    for (const Piece& piece : pieces) state.release(piece.hash);
    collect(state, Collected::kReleased);
    return recorded;
  });
}

}  // namespace quern::daemon
