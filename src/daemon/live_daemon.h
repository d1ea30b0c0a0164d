// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/daemon.h"
#include "daemon/deployer.h"
#include "daemon/live_call.h"
#include "daemon/profile_keeper.h"
#include "daemon/registry.h"
#include "daemon/runner.h"
#include "daemon/standings_keeper.h"
#include "daemon/tenant_objects.h"
#include "ipc/arena.h"
#include "os/clock.h"

namespace quern::daemon {

/// The tensors of the tenants of one domain on their way.
struct DomainArenas {
  uint64_t id = 0;
  std::shared_ptr<ipc::Arena> input, output;
};

class LiveDaemon final : public Daemon {
 public:
  static Result<std::unique_ptr<Daemon>> create(Config config);
  ~LiveDaemon() override { stop(Duration{0}); }

  void stop(Duration limit) override;
  Result<const Tenant*> authenticate(std::string_view key) const override;
  Result<FunctionRef> find(const Tenant& tenant, std::string_view name, std::string_view version) const override;
  std::vector<FunctionRef> functions(const Tenant& tenant) const override;
  std::vector<DeviceStatus> devices() const override;
  Counters counters() const override { return counters_.read(); }
  bool is_ready() const override;
  void stop_deploys() override { deployer_->stop_deploys(); }
  std::vector<FunctionProblem> problems(const Tenant& tenant) const override { return registry_.problems(tenant.name); }
  std::vector<FunctionRef> versions(const Tenant& tenant, std::string_view name) const override;
  Result<std::unique_ptr<Upload>> begin_deploy(const Tenant& tenant, uint64_t size_bytes) override {
    return deployer_->begin_deploy(tenant.name, size_bytes);
  }
  void deploy(const Tenant& tenant, std::string id, std::string name, std::unique_ptr<Upload> tar,
              std::function<void(Result<Deployed>)> done) override;
  void abandon_deploy(const std::string& id) override { deployer_->abandon(id); }
  void remove(const Tenant& tenant, std::string name, std::function<void(Status)> done) override;
  void history(const Tenant& tenant, std::string name, std::function<void(Result<History>)> done) override {
    deployer_->history(tenant.name, std::move(name), std::move(done));
  }
  void rollback(const Tenant& tenant, std::string name, std::string version,
                std::function<void(Result<FunctionRef>)> done) override;
  void set(const Tenant& tenant, std::string name, std::map<std::string, std::string> changes,
           std::function<void(Result<FunctionRef>)> done) override;
  Status admits(const Tenant& tenant, Duration* retry_after) const override;
  Result<std::unique_ptr<Call>> prepare(const Tenant& tenant, const FunctionRef& function, const CallSpec& spec,
                                        const CallOptions& options) override;
  void submit(std::unique_ptr<Call> call, std::function<void(std::unique_ptr<Call>)> done) override;
  void cancel(const std::string& call_id) override;
  Result<ProgramLink> join(const Tenant& tenant, const ProgramSpec& spec) override;
  void leave(uint64_t program) override;
  void trace(const Tenant& tenant, std::string id, Duration length, std::function<void(Result<Trace>)> done) override;
  void end_trace(const std::string& id) override { (void)runner_->post(EndTraceMessage{id, nullptr, {}}); }
  void end_trace(const Tenant& tenant, std::function<void(Status)> done) override;
  void requests(const Tenant& tenant, std::function<void(Result<std::vector<RequestStatus>>)> done) override;
  void cancel(const Tenant& tenant, const std::string& call_id, std::function<void(Status)> done) override;
  void why(const Tenant& tenant, const std::string& call_id, std::function<void(Result<Story>)> done) override;
  void memory(const Tenant& tenant, std::function<void(Result<std::vector<MemoryPlace>>)> done) override;
  void accounts(const Tenant& tenant, AccountBy by, std::function<void(Result<AccountTable>)> done) override;
  void profile(const Tenant& tenant, std::string_view name, std::string_view version,
               std::function<void(Result<FunctionProfile>)> done) override;
  Status keep(const Tenant& tenant, std::string_view name, KeepWarm stage, Duration lease) override;
  Result<std::unique_ptr<Upload>> begin_object(const Tenant& tenant, uint64_t size_bytes) override {
    return deployer_->begin_object(tenant.name, size_bytes);
  }
  void put_object(const Tenant& tenant, std::unique_ptr<Upload> upload,
                  std::function<void(Result<ObjectStatus>)> done) override {
    objects_->put(tenant.name, std::move(upload), std::move(done));
  }
  void open_objects(const Tenant& tenant, std::vector<std::string> ids,
                    std::function<void(Result<std::vector<ObjectRef>>)> done) override {
    objects_->open(tenant.name, std::move(ids), os::now(), std::move(done));
  }
  void read_object(const Tenant& tenant, std::string id, bool keep,
                   std::function<void(Result<ObjectRef>)> done) override {
    objects_->read(tenant.name, std::move(id), keep, os::now(), std::move(done));
  }
  void unread_object(const ObjectRef& object) override { objects_->unread(object, os::now()); }
  void remove_object(const Tenant& tenant, std::string id, std::function<void(Status)> done) override {
    objects_->remove(tenant.name, std::move(id), os::now(), std::move(done));
  }
  void objects(const Tenant& tenant, std::function<void(Result<std::vector<ObjectStatus>>)> done) override {
    objects_->list(tenant.name, os::now(), std::move(done));
  }
  void keep_outputs(Call& call) override;
  void count_copied(uint64_t bytes) override { counters_.copied_bytes += bytes; }

 private:
  explicit LiveDaemon(Config config);
  /// Its settings say how far the current version stays ready; those before it do not.
  void keep_as_set(const Tenant& tenant, std::string_view name);
  std::vector<sched::TenantSet> tenant_sets(const std::map<std::string, int64_t>& vtimes) const;
  Status check_fits(const DeployedFunction& function, const Settings& settings, const LiveCall& call) const;
  Status give_room(LiveCall& call, const CallSpec& spec, const CallOptions& options, const Manifest& manifest);
  Result<ipc::Block> keep_later(LiveCall& call, CallTensor& output, ipc::Block block, Duration lease);
  /// The number in an id of ours; 0 if it is none.
  uint64_t request_of(const std::string& call_id) const;

  // Constant after create().
  Config config_;
  std::string run_folder_;
  os::Fd run_lock_;
  std::deque<Tenant> tenants_;
  std::map<std::string, const Tenant*, std::less<>> by_key_;  ///< by SHA-256 of the key
  std::map<std::string, DomainArenas> domains_;
  std::string id_prefix_;
  // Any thread.
  Registry registry_;
  std::atomic<uint64_t> next_request_{1};
  LiveCounters counters_;
  std::atomic<bool> stopped_{false};
  std::shared_ptr<Deployer::Gone> gone_ = std::make_shared<Deployer::Gone>();
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<HostTier> tier_;  ///< hands over to the runner
  std::unique_ptr<Deployer> deployer_;
  std::unique_ptr<TenantObjects> objects_;
  bool has_own_memory_ = false;  ///< some device has
  std::unique_ptr<StandingsKeeper> standings_;
  std::unique_ptr<ProfileKeeper> profiles_;
};

}  // namespace quern::daemon
