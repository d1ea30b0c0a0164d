// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/priority_rows.h"
#include "bench/stage.h"
#include "daemon/daemon.h"

namespace quern::bench {

/// A daemon in this process, for one mode. Each of its tenants trusts nobody: the first is in a hurry and has the
/// functions `urgent` and `until`; the others are not, and have a `filler` each. All are bench/functions/grind.
class PrioritySite {
 public:
  static constexpr size_t kUrgent = 0;  ///< a tenant; those of fillers are 1 … kMostFillers

  /// Everything is built, and all executors are up, when it returns. `folder` is shared by the sites of all modes, so
  /// that it is built once. `one_domain`: they trust each other after all, and are in one executor.
  static Result<std::unique_ptr<PrioritySite>> create(const Layout& layout, const std::string& folder, const Mode& mode,
                                                      bool one_domain = false);
  ~PrioritySite();

  /// A program of a tenant comes to the device, as urgent as the tenant is. Gaps of programs of one name are alike.
  Result<daemon::ProgramLink> join(size_t tenant, const std::string& name);
  void leave(uint64_t program) { daemon_->leave(program); }

  struct Work {
    size_t tenant = kUrgent;
    daemon::FunctionRef function;
    CallSpec spec;
  };
  /// A kernel of `groups` groups; with `steps`, so many of them in one run.
  Result<Work> work(size_t tenant, uint32_t groups, uint32_t iterations, uint32_t steps = 0) const;

  /// Any thread. The marks of a call are its only output, and zero until its groups are done, which can be looked at
  /// meanwhile.
  Result<std::unique_ptr<daemon::Call>> prepare(const Work& work);
  void submit(std::unique_ptr<daemon::Call> call, std::function<void(std::unique_ptr<daemon::Call>)> done);
  /// Both, and waits. An error also if it ended with one.
  Result<std::unique_ptr<daemon::Call>> call(const Work& work);

 private:
  PrioritySite() = default;
  Status deploy(size_t tenant, const std::string& name, const std::string& manifest);

  // Constant after construction.
  std::string device_;
  std::unique_ptr<daemon::Daemon> daemon_;
  std::vector<const daemon::Tenant*> tenants_;
};

}  // namespace quern::bench
