// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/daemon.h"
#include "daemon/host_object.h"
#include "daemon/plan_cache.h"
#include "function/plan.h"
#include "os/guarded.h"
#include "sched/types.h"

namespace quern::daemon {

/// A program as one kind of device runs it.
struct CompiledProgram {
  HostObjectRef object;
  ProgramSignatures signatures;  ///< in the order of the program's entries
};

/// All programs of a function as one kind of device runs them.
struct Binary {
  std::vector<CompiledProgram> programs;  ///< in the order of Graph::program_names
  /// Per kernel of the manifest: why it is launched whole; empty: it may be cut into slices.
  std::vector<std::string> unsliceable;
};

/// A deployed version with all that running it takes.
struct DeployedFunction : Function {
  std::map<std::string, Binary> binaries;  ///< by build key of the device
  std::vector<ConstantRef> constants;      ///< per buffer of the manifest; null where it is none, or empty
  std::vector<sched::ObjectNeed> objects;  ///< the constants as the core sees them, each once
  PlanLimits limits;                       ///< of all devices together
  int64_t order = 0;                       ///< of deploys: which of two versions is the older one

  uint64_t object_bytes() const;
  /// The plan of a request, of which these inputs (by buffer) come as objects; made once per key, and kept for a while.
  Result<CachedPlanRef> plan_for(const Binding& binding, std::span<const uint32_t> passed = {}) const;

 private:
  mutable PlanCache plans_;
};
using DeployedRef = std::shared_ptr<const DeployedFunction>;

/// A stored version, ready or not.
struct VersionSlot {
  std::string version, created_at;
  int64_t order = 0;             ///< as DeployedFunction::order
  int64_t turn = 0;              ///< the highest of a name is current
  DeployedRef function;          ///< null: it cannot be called, and `problem` says why
  std::optional<Error> problem;  ///< kUnavailable while it is being made ready
};

/// What is deployed, by tenant and name. Any thread.
class Registry {
 public:
  /// Makes it the current version; an earlier one of the same content leaves. Those past kMostVersions leave too, and
  /// are returned.
  std::vector<VersionSlot> put(DeployedRef function);
  /// A version that is stored and not ready, in its turn.
  void announce(const std::string& tenant, const std::string& name, VersionSlot slot);
  /// One that was announced is ready; if it is still there.
  void restore(DeployedRef function);
  /// One that was announced will not be.
  void fail(const std::string& tenant, const std::string& name, const std::string& version, Error problem);
  /// All versions that were ready; none if there was none.
  std::vector<DeployedRef> remove(const std::string& tenant, std::string_view name);
  /// Null if there is none, or it is not ready.
  DeployedRef current(const std::string& tenant, std::string_view name) const;
  /// All that are stored, the current one first, then those that were current before it, the latest first.
  std::vector<VersionSlot> slots(const std::string& tenant, std::string_view name) const;
  /// Those that are ready, in the same order.
  std::vector<DeployedRef> versions(const std::string& tenant, std::string_view name) const;
  /// kNotFound with "did you mean", or the problem of one that is not ready; see Daemon::find.
  Result<DeployedRef> find(const std::string& tenant, std::string_view name, std::string_view version) const;
  /// The current versions that are ready.
  std::vector<DeployedRef> list(const std::string& tenant) const;
  /// The current versions that are not.
  std::vector<FunctionProblem> problems(const std::string& tenant) const;

  /// Enough to go back after a bad week; each costs its files on disk and its programs in memory.
  static constexpr size_t kMostVersions = 8;

 private:
  using Names = std::map<std::string, std::vector<VersionSlot>, std::less<>>;
  struct Tables {
    std::map<std::string, Names> by_tenant;
    int64_t last_turn = 0;
  };
  os::Guarded<Tables> tables_;
};

}  // namespace quern::daemon
