// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/hash.h"
#include "daemon/profile_view.h"
#include "server/http/handlers.h"

namespace quern::server {
namespace {

namespace json = boost::json;

// As text: not every reader of JSON keeps whole numbers of 64 bits.
std::string identity_of(uint64_t kernel) { return fmt::format("{:016x}", kernel); }

double ns_of(double ps) { return ps / 1000; }

json::object kernel_json(const daemon::KernelProfile& kernel) {
  json::object out = {{"entry", kernel.entry},         {"identity", identity_of(kernel.identity)},
                      {"groups", kernel.groups},       {"samples", kernel.samples},
                      {"sliceable", kernel.sliceable}, {"delays_urgent", kernel.delays_urgent}};
  if (!kernel.reason.empty()) out["reason"] = kernel.reason;
  if (kernel.samples == 0 && !kernel.is_rough) return out;
  out["rough"] = kernel.is_rough;
  out["device"] = kernel.device;
  out["launch_ns"] = kernel.launch_ns;
  out["group_ns"] = json::object{{"mean", ns_of(kernel.mean_ps)},
                                 {"spread", ns_of(kernel.spread_ps)},
                                 {"p10", ns_of(static_cast<double>(kernel.p10_ps))},
                                 {"p50", ns_of(static_cast<double>(kernel.p50_ps))},
                                 {"p90", ns_of(static_cast<double>(kernel.p90_ps))}};
  out["age_ns"] = kernel.age.ns;
  return out;
}

json::object gap_json(const daemon::GapProfile& gap) {
  json::object out = {{"device", gap.device},   {"between_runs", gap.is_between_runs},
                      {"samples", gap.samples}, {"mean_ns", gap.mean.ns},
                      {"p10_ns", gap.p10.ns},   {"p50_ns", gap.p50.ns},
                      {"p90_ns", gap.p90.ns},   {"known", gap.is_known},
                      {"stable", gap.is_stable}};
  if (gap.is_between_runs) return out;
  out["after"] = gap.after;
  out["after_identity"] = identity_of(gap.after_kernel);
  return out;
}

json::object profile_json(const daemon::FunctionProfile& profile) {
  json::array kernels, gaps;
  for (const daemon::KernelProfile& kernel : profile.kernels) kernels.push_back(kernel_json(kernel));
  for (const daemon::GapProfile& gap : profile.gaps) gaps.push_back(gap_json(gap));
  return {{"function", profile.function},
          {"version", short_version(profile.version)},
          {"bound_ns", profile.bound.ns},
          {"kernels", std::move(kernels)},
          {"gaps", std::move(gaps)}};
}

}  // namespace

Task<Then> show_profile(Connection& connection) {
  const Route& route = connection.route();
  co_return co_await connection.ask_and_answer<Result<daemon::FunctionProfile>>(
      [&](auto done) { connection.daemon().profile(connection.tenant(), route.name, route.version, std::move(done)); },
      [](const daemon::FunctionProfile& profile) { return answer_of(profile_json(profile)); });
}

}  // namespace quern::server
