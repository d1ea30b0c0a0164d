// SPDX-License-Identifier: Apache-2.0
//
// What a tenant's functions may ask for of devices is the operator's to say: shares that were asked for are there for
// nobody else while there is work for them. It is held against the versions that are current.
#include <fmt/format.h>

#include <algorithm>

#include "daemon/deployer.h"

namespace quern::daemon {
namespace {

constexpr double kRounding = 1e-9;  // of sums of shares

}  // namespace

Status Deployer::check_quota(const std::string& tenant, std::string_view name, const Settings& settings) const {
  const auto found = std::find_if(config_.tenants.begin(), config_.tenants.end(),
                                  [&](const TenantConfig& one) { return one.name == tenant; });
  if (found == config_.tenants.end()) return {};
  const TenantLimits& limits = found->limits;
  const double wanted = settings.time_request.value_or(0);
  // Who asks for time and names no units asks for that time of all of them.
  const double units = settings.units.value_or(wanted > 0 ? 1 : 0);
  if (limits.quota_units && units > *limits.quota_units + kRounding)
    return denied(
        fmt::format("function {}: asks for {:g} % of a device's units{}, and a function of tenant {} may have "
                    "{:g} %; {} quota.units",
                    name, units * 100, settings.units ? "" : ", as all who ask for time and say nothing else", tenant,
                    *limits.quota_units * 100, settings.units ? "lower" : "set"));
  if (!limits.quota_time || wanted == 0) return {};
  // The sum needs the settings of all current versions, and those of a version that is not ready are not known: they
  // are in a manifest that nobody has read yet, or that is damaged. It may become ready with the next start.
  for (const FunctionProblem& other : registry_.problems(tenant)) {
    if (other.name == name) continue;
    return unavailable(fmt::format(
        "function {}: asks for {:g} % of a device's time, and what function {} asks for is not known while it is {}",
        name, wanted * 100, other.name,
        other.is_starting ? "being made ready; retry in a moment"
                          : "damaged; deploy that function again, or remove it"));
  }
  double others = 0;
  for (const DeployedRef& other : registry_.list(tenant))
    if (other->name != name) others += other->settings().time_request.value_or(0);
  if (wanted + others <= *limits.quota_time + kRounding) return {};
  return denied(
      fmt::format("function {}: asks for {:g} % of a device's time, and others of tenant {} for {:g} %; {:g} % "
                  "is what it may ask for in all; lower quota.time.request, or that of others",
                  name, wanted * 100, tenant, others * 100, *limits.quota_time * 100));
}

}  // namespace quern::daemon
