// SPDX-License-Identifier: Apache-2.0
#include "daemon/registry.h"

#include <fmt/format.h>

#include <algorithm>

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
  if (CachedPlanRef known = plans_.find(key)) return known;
  QUERN_TRY(Plan plan, make_plan(manifest, binding, limits));
  if (!passed.empty()) pass_inputs(plan, limits, passed);
  auto made = std::make_shared<CachedPlan>();
  made->id = next_plan.fetch_add(1);
  made->run_bytes = plan.memory_bytes;
  for (const PlannedBuffer& buffer : plan.buffers)
    if (buffer.role == Role::kConstant) made->run_bytes -= buffer.size_bytes;
  made->plan = std::move(plan);
  return plans_.put(std::move(key), std::move(made));
}

std::vector<VersionSlot> Registry::put(DeployedRef function) {
  return tables_.with([&](Tables& tables) {
    std::vector<VersionSlot>& slots = tables.by_tenant[function->tenant][function->name];
    std::erase_if(slots, [&](const VersionSlot& other) { return other.version == function->version; });
    VersionSlot slot{function->version, function->created_at, function->order, ++tables.last_turn, function, {}};
    slots.insert(slots.begin(), std::move(slot));
    std::vector<VersionSlot> past;
    while (slots.size() > kMostVersions) past.push_back(std::move(slots.back())), slots.pop_back();
    return past;
  });
}

void Registry::announce(const std::string& tenant, const std::string& name, VersionSlot slot) {
  tables_.with([&](Tables& tables) {
    std::vector<VersionSlot>& slots = tables.by_tenant[tenant][name];
    tables.last_turn = std::max(tables.last_turn, slot.turn);
    const auto place =
        std::find_if(slots.begin(), slots.end(), [&](const VersionSlot& other) { return other.turn < slot.turn; });
    slots.insert(place, std::move(slot));
  });
}

void Registry::restore(DeployedRef function) {
  tables_.with([&](Tables& tables) {
    const auto names = tables.by_tenant.find(function->tenant);
    if (names == tables.by_tenant.end()) return;
    const auto slots = names->second.find(function->name);
    if (slots == names->second.end()) return;
    for (VersionSlot& slot : slots->second) {
      // Who deployed the same meanwhile was faster.
      if (slot.version != function->version || slot.function) continue;
      slot.function = function;
      slot.problem.reset();
    }
  });
}

void Registry::fail(const std::string& tenant, const std::string& name, const std::string& version, Error problem) {
  tables_.with([&](Tables& tables) {
    for (VersionSlot& slot : tables.by_tenant[tenant][name])
      if (slot.version == version && !slot.function) slot.problem = std::move(problem);
  });
}

std::vector<DeployedRef> Registry::remove(const std::string& tenant, std::string_view name) {
  return tables_.with([&](Tables& tables) {
    std::vector<DeployedRef> removed;
    Names& names = tables.by_tenant[tenant];
    const auto it = names.find(name);
    if (it == names.end()) return removed;
    for (VersionSlot& slot : it->second)
      if (slot.function) removed.push_back(std::move(slot.function));
    names.erase(it);
    return removed;
  });
}

std::vector<VersionSlot> Registry::slots(const std::string& tenant, std::string_view name) const {
  return tables_.with([&](const Tables& tables) -> std::vector<VersionSlot> {
    const auto names = tables.by_tenant.find(tenant);
    if (names == tables.by_tenant.end()) return {};
    const auto it = names->second.find(name);
    return it == names->second.end() ? std::vector<VersionSlot>() : it->second;
  });
}

std::vector<DeployedRef> Registry::versions(const std::string& tenant, std::string_view name) const {
  std::vector<DeployedRef> ready;
  for (VersionSlot& slot : slots(tenant, name))
    if (slot.function) ready.push_back(std::move(slot.function));
  return ready;
}

DeployedRef Registry::current(const std::string& tenant, std::string_view name) const {
  return tables_.with([&](const Tables& tables) -> DeployedRef {
    const auto names = tables.by_tenant.find(tenant);
    if (names == tables.by_tenant.end()) return nullptr;
    const auto it = names->second.find(name);
    return it == names->second.end() || it->second.empty() ? nullptr : it->second.front().function;
  });
}

Result<DeployedRef> Registry::find(const std::string& tenant, std::string_view name, std::string_view version) const {
  constexpr size_t kFewestDigits = 6;
  // The usual case, of every call: nothing is copied but one reference.
  if (version.empty())
    if (DeployedRef function = current(tenant, name)) return function;
  const std::vector<VersionSlot> all = slots(tenant, name);
  if (all.empty()) {
    std::vector<std::string> names;
    for (const DeployedRef& other : list(tenant)) names.push_back(other->name);
    return not_found(fmt::format("function {}: is not deployed{}", name, did_you_mean(name, names)));
  }
  std::string stored;
  for (const VersionSlot& slot : all) {
    const bool is_meant =
        version.empty() || (version.size() >= kFewestDigits && std::string_view(slot.version).starts_with(version));
    if (is_meant) return slot.function ? Result<DeployedRef>(slot.function) : Result<DeployedRef>(*slot.problem);
    stored += (stored.empty() ? "" : ", ") + short_version(slot.version);
  }
  return not_found(fmt::format("function {}: has no version {}; stored are {}", name, version, stored));
}

std::vector<DeployedRef> Registry::list(const std::string& tenant) const {
  return tables_.with([&](const Tables& tables) {
    std::vector<DeployedRef> functions;
    if (const auto names = tables.by_tenant.find(tenant); names != tables.by_tenant.end())
      for (const auto& [name, slots] : names->second)
        if (!slots.empty() && slots.front().function) functions.push_back(slots.front().function);
    return functions;
  });
}

std::vector<FunctionProblem> Registry::problems(const std::string& tenant) const {
  return tables_.with([&](const Tables& tables) {
    std::vector<FunctionProblem> problems;
    if (const auto names = tables.by_tenant.find(tenant); names != tables.by_tenant.end())
      for (const auto& [name, slots] : names->second) {
        if (slots.empty() || slots.front().function) continue;
        const VersionSlot& slot = slots.front();
        problems.push_back(
            {name, slot.version, slot.created_at, slot.problem->code == ErrorCode::kUnavailable, *slot.problem});
      }
    return problems;
  });
}

}  // namespace quern::daemon
