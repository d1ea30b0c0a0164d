// SPDX-License-Identifier: Apache-2.0
#include "daemon/plan_binding.h"

#include <utility>

#include "base/hash.h"

namespace quern::daemon {
namespace {

// What is launched and how large it is, not where it stands in a plan: launches that are alike take as long.
uint64_t identity_of(const PlannedLaunch& launch, const Plan& plan, Fnv1a hash) {
  hash.add(launch.entry).add(uint64_t{launch.dimensions});
  for (size_t i = 0; i < 3; ++i) hash.add(launch.global[i]).add(launch.local[i]);
  for (const PlannedArgument& argument : launch.arguments)
    if (argument.kind == ArgumentDecl::Kind::kBuffer)
      hash.add(argument.is_view ? argument.size_bytes : plan.buffers[argument.buffer].size_bytes);
  return hash.value() ? hash.value() : 1;  // 0 is that of no kernel
}

}  // namespace

ipc::PlanBinding bind_plan(const DeployedFunction& function, const Plan& plan, const Binary& binary, bool in_place,
                           std::vector<uint64_t> programs, const std::map<std::string, uint64_t>& object_ids) {
  ipc::PlanBinding binding;
  binding.programs = std::move(programs);
  binding.placement = in_place ? plan.in_place : plan.own;
  binding.objects.resize(plan.buffers.size());
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].role == Role::kConstant && plan.buffers[i].size_bytes > 0)
      binding.objects[i] = object_ids.at(function.constants[i]->hash);
  std::vector<Fnv1a> hashes(binary.programs.size());
  for (size_t i = 0; i < hashes.size(); ++i) hashes[i].add(binary.programs[i].object->hash);
  binding.launches.reserve(plan.launches.size());
  for (const PlannedLaunch& launch : plan.launches) {
    const bool is_sliceable = launch.kernel < binary.unsliceable.size() && binary.unsliceable[launch.kernel].empty();
    binding.launches.push_back(
        {identity_of(launch, plan, hashes[launch.program]), is_sliceable && most_groups(launch) > 1, 0});
  }
  return binding;
}

}  // namespace quern::daemon
