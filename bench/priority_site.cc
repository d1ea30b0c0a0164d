// SPDX-License-Identifier: Apache-2.0
#include "bench/priority_site.h"

#include <fmt/format.h>

#include <cstring>
#include <semaphore>

#include "base/units.h"
#include "bench/site.h"
#include "daemon/daemon_waits.h"
#include "function/tar.h"
#include "os/file.h"

namespace quern::bench {
namespace {

constexpr uint8_t kMostUrgent = 0, kLeastUrgent = 9;

uint8_t priority_of(size_t tenant) { return tenant == PrioritySite::kUrgent ? kMostUrgent : kLeastUrgent; }

/// A manifest in which this stands once.
Status change(std::string& text, std::string_view from, const std::string& to) {
  const size_t at = text.find(from);
  if (at == text.npos || text.find(from, at + 1) != text.npos)
    return invalid(
        fmt::format("bench/functions/grind: '{}' does not stand there once; bench/priority_site.cc changes it", from));
  text.replace(at, from.size(), to);
  return {};
}

Result<Bytes> tar_of(const std::string& manifest, const std::string& name, uint8_t priority) {
  QUERN_TRY(const std::string functions, functions_folder());
  const std::string folder = functions + "/grind/";
  QUERN_TRY(const Bytes given, os::read_file(folder + manifest, kMiB));
  std::string text(as_text(given));
  QUERN_TRY(change(text, "name: grind", "name: " + name));
  QUERN_TRY(change(text, "priority: 5", fmt::format("priority: {}", priority)));
  Files files;
  QUERN_TRY(files["grind.cl"], os::read_file(folder + "grind.cl", kMiB));
  files["function.yaml"] = bytes_of(text);
  return write_tar(files);
}

}  // namespace

Result<std::unique_ptr<PrioritySite>> PrioritySite::create(const Layout& layout, const std::string& folder,
                                                           const Mode& mode, bool one_domain) {
  daemon::Config config;
  config.devices = {layout.device_config()};
  config.tenants = tenants_of(1 + kMostFillers, one_domain);
  config.state_folder = fmt::format("{}/state-{}{}", folder, mode.name, one_domain ? "-together" : "");
  config.binary_cache = folder + "/binaries";
  config.host_cores = {layout.host};
  config.pool = 0;  // what nobody called for would only be in the way
  config.policy.dispatch = mode.dispatch;
  config.classes = mode.classes;
  QUERN_TRY(os::make_folders(config.binary_cache));
  std::unique_ptr<PrioritySite> site(new PrioritySite);
  site->device_ = config.devices.front().name;
  const size_t tenants = config.tenants.size();
  QUERN_TRY(site->daemon_, daemon::Daemon::create(std::move(config)));
  for (size_t i = 0; i < tenants; ++i) {
    QUERN_TRY(const daemon::Tenant* tenant, site->daemon_->authenticate(fmt::format("t{}", i + 1)));
    site->tenants_.push_back(tenant);
  }
  QUERN_TRY(site->deploy(kUrgent, "urgent", "function.yaml"));
  QUERN_TRY(site->deploy(kUrgent, "until", "until.yaml"));
  for (size_t i = 1; i < tenants; ++i) QUERN_TRY(site->deploy(i, "filler", "function.yaml"));
  // Their executors start by themselves, which would be in the way of what is measured next.
  constexpr uint32_t kGroups = 64, kIterations = 1000;
  for (size_t i = 0; i < tenants; ++i) {
    QUERN_TRY(const Work first, site->work(i, kGroups, kIterations));
    QUERN_TRY(site->call(first));
  }
  return site;
}

PrioritySite::~PrioritySite() {
  if (daemon_) daemon_->stop(Duration::seconds(5));
}

Status PrioritySite::deploy(size_t tenant, const std::string& name, const std::string& manifest) {
  QUERN_TRY(Bytes tar, tar_of(manifest, name, priority_of(tenant)));
  QUERN_TRY(daemon::deploy_and_wait(*daemon_, *tenants_.at(tenant), name, std::move(tar)));
  return {};
}

Result<daemon::ProgramLink> PrioritySite::join(size_t tenant, const std::string& name) {
  daemon::ProgramSpec spec;
  spec.name = name;
  spec.device = device_;
  spec.priority = priority_of(tenant);
  return daemon_->join(*tenants_.at(tenant), spec);
}

Result<PrioritySite::Work> PrioritySite::work(size_t tenant, uint32_t groups, uint32_t iterations,
                                              uint32_t steps) const {
  Work made;
  made.tenant = tenant;
  const char* name = tenant != kUrgent ? "filler" : steps > 0 ? "until" : "urgent";
  QUERN_TRY(made.function, daemon_->find(*tenants_.at(tenant), name, ""));
  made.spec.parameters["groups"] = int64_t{groups};
  made.spec.parameters["iterations"] = int64_t{iterations};
  if (steps > 0) made.spec.parameters["steps"] = int64_t{steps};
  return made;
}

Result<std::unique_ptr<daemon::Call>> PrioritySite::prepare(const Work& work) {
  QUERN_TRY(auto call, daemon_->prepare(*tenants_.at(work.tenant), work.function, work.spec, {}));
  if (call->outputs.size() != 1) return internal("bench/functions/grind: has more than its marks");
  std::memset(call->outputs[0].bytes.data(), 0, call->outputs[0].bytes.size());
  return call;
}

void PrioritySite::submit(std::unique_ptr<daemon::Call> call, std::function<void(std::unique_ptr<daemon::Call>)> done) {
  daemon_->submit(std::move(call), std::move(done));
}

Result<std::unique_ptr<daemon::Call>> PrioritySite::call(const Work& work) {
  QUERN_TRY(auto call, prepare(work));
  std::binary_semaphore done{0};
  std::unique_ptr<daemon::Call> back;
  submit(std::move(call), [&](std::unique_ptr<daemon::Call> ended) {
    back = std::move(ended);
    done.release();
  });
  done.acquire();
  if (back->error) return *back->error;
  return back;
}

}  // namespace quern::bench
