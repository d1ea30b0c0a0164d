// SPDX-License-Identifier: Apache-2.0
#include "daemon/live_call.h"

#include "base/units.h"

namespace quern::daemon {
namespace {

// An input of this many bytes takes longer to copy than a load of its own costs.
constexpr uint64_t kLeastAhead = 4 * kMiB;

}  // namespace

void LiveCall::pass(PassingRef number, uint64_t size_bytes, std::string name) {
  const sched::ObjectNeed need{{*number}, size_bytes, true};
  if (std::find(passing.begin(), passing.end(), need) == passing.end()) passing.push_back(need);
  passes.push_back({std::move(number), static_cast<uint32_t>(blocks->size()), std::move(name)});
}

void LiveCall::release_objects() {
  for (const uint32_t block : borrowed) (*blocks)[block] = {};
  borrowed.clear();
}

// What is large travels as an object: ahead of its run, beside kernels of others. What is small is there sooner if its
// run brings it along.
std::vector<uint32_t> passed_inputs(const Manifest& manifest, const Plan& plan, const CallSpec& spec,
                                    const CallOptions& options) {
  std::vector<uint32_t> passed;
  for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
    const PlannedBuffer& buffer = plan.buffers[i];
    if (buffer.role != Role::kInput || buffer.size_bytes == 0) continue;
    const auto found = std::find_if(spec.inputs.begin(), spec.inputs.end(),
                                    [&](auto& in) { return in.name == manifest.buffers[i].name; });
    const auto at = static_cast<size_t>(found - spec.inputs.begin());
    const bool is_object = at < options.objects.size() && options.objects[at];
    if (is_object || buffer.size_bytes >= kLeastAhead) passed.push_back(i);
  }
  return passed;
}

}  // namespace quern::daemon
