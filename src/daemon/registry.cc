// SPDX-License-Identifier: Apache-2.0
#include "daemon/registry.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "base/suggest.h"

namespace quern::daemon {
namespace {
std::atomic<uint64_t> next_plan{1};
}  // namespace

uint64_t DeployedFunction::object_bytes() const {
  uint64_t bytes = 0;
  for (const sched::ObjectNeed& need : objects) bytes += need.bytes;
  return bytes;
}

Result<CachedPlanRef> DeployedFunction::plan_for(const Binding& binding, std::span<const uint32_t> passed) const {
  std::string key = plan_key(manifest, binding);
  key.append(reinterpret_cast<const char*>(passed.data()), passed.size_bytes());
  CachedPlanRef known = plans_.with([&](auto& plans) {
    const auto it = plans.find(key);
    return it == plans.end() ? nullptr : it->second;
  });
  if (known) return known;
  QUERN_TRY(Plan plan, make_plan(manifest, binding, limits));
  if (!passed.empty()) pass_inputs(plan, limits, passed);
  auto made = std::make_shared<CachedPlan>();
  made->id = next_plan.fetch_add(1);
  made->run_bytes = plan.memory_bytes;
  for (const PlannedBuffer& buffer : plan.buffers)
    if (buffer.role == Role::kConstant) made->run_bytes -= buffer.size_bytes;
  made->plan = std::move(plan);
  return plans_.with([&](auto& plans) -> CachedPlanRef {
    // Full means that callers use ever new sizes: starting over costs each plan once more and keeps no order.
    if (plans.size() >= kMostPlans) plans.clear();
    return plans.emplace(key, std::move(made)).first->second;
  });
}

std::vector<DeployedRef> Registry::put(DeployedRef function) {
  return by_tenant_.with([&](auto& tenants) {
    std::vector<DeployedRef>& versions = tenants[function->tenant][function->name];
    std::erase_if(versions, [&](const DeployedRef& other) { return other->version == function->version; });
    versions.insert(versions.begin(), function);
    std::vector<DeployedRef> past;
    while (versions.size() > kMostVersions) past.push_back(std::move(versions.back())), versions.pop_back();
    return past;
  });
}

std::vector<DeployedRef> Registry::remove(const std::string& tenant, std::string_view name) {
  return by_tenant_.with([&](auto& tenants) -> std::vector<DeployedRef> {
    Names& names = tenants[tenant];
    const auto it = names.find(name);
    if (it == names.end()) return {};
    std::vector<DeployedRef> versions = std::move(it->second);
    names.erase(it);
    return versions;
  });
}

std::vector<DeployedRef> Registry::versions(const std::string& tenant, std::string_view name) const {
  return by_tenant_.with([&](const auto& tenants) -> std::vector<DeployedRef> {
    const auto names = tenants.find(tenant);
    if (names == tenants.end()) return {};
    const auto it = names->second.find(name);
    return it == names->second.end() ? std::vector<DeployedRef>() : it->second;
  });
}

DeployedRef Registry::current(const std::string& tenant, std::string_view name) const {
  return by_tenant_.with([&](const auto& tenants) -> DeployedRef {
    const auto names = tenants.find(tenant);
    if (names == tenants.end()) return nullptr;
    const auto it = names->second.find(name);
    return it == names->second.end() ? nullptr : it->second.front();
  });
}

Result<DeployedRef> Registry::find(const std::string& tenant, std::string_view name, std::string_view version) const {
  constexpr size_t kFewestDigits = 6;
  DeployedRef function = current(tenant, name);
  if (!function) {
    std::vector<std::string> names;
    for (const DeployedRef& other : list(tenant)) names.push_back(other->name);
    return not_found(fmt::format("function {}: is not deployed{}", name, did_you_mean(name, names)));
  }
  if (version.empty()) return function;
  std::string stored;
  for (const DeployedRef& one : versions(tenant, name)) {
    if (version.size() >= kFewestDigits && std::string_view(one->version).starts_with(version)) return one;
    stored += (stored.empty() ? "" : ", ") + short_version(one->version);
  }
  return not_found(fmt::format("function {}: has no version {}; stored are {}", name, version, stored));
}

std::vector<DeployedRef> Registry::list(const std::string& tenant) const {
  return by_tenant_.with([&](const auto& tenants) {
    std::vector<DeployedRef> functions;
    if (const auto names = tenants.find(tenant); names != tenants.end())
      for (const auto& [name, versions] : names->second) functions.push_back(versions.front());
    return functions;
  });
}

}  // namespace quern::daemon
