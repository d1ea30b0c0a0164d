// SPDX-License-Identifier: Apache-2.0
//
// A call from its request to the room that its tensors have.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "daemon/live_daemon.h"
#include "os/clock.h"

namespace quern::daemon {

Status LiveDaemon::check_fits(const DeployedFunction& function, const Settings& settings, const LiveCall& call) const {
  const Plan& plan = call.plan->plan;
  uint64_t bytes = call.plan->run_bytes + function.object_bytes();
  for (const PlannedBuffer& buffer : plan.buffers) bytes += buffer.passed ? buffer.size_bytes : 0;
  const auto& limit = settings.memory_bytes;
  if (limit && bytes > *limit)
    return invalid(fmt::format("function {}: this call needs {} and limits.memory is {}", function.name,
                               show_bytes(bytes), show_bytes(*limit)));
  uint64_t most = 0, most_at_once = 0;
  for (const auto& device : runner_->devices()) {
    most = std::max(most, device->usable_bytes());
    most_at_once = std::max(most_at_once, device->caps.max_allocation_bytes);
  }
  if (bytes > most)
    return invalid(fmt::format("function {}: this call needs {} of device memory, and the largest device has {}",
                               function.name, show_bytes(bytes), show_bytes(most)));
  for (const PlannedBuffer& buffer : plan.buffers)
    if (buffer.size_bytes > most_at_once)
      return invalid(fmt::format("function {}: a buffer of {} is more than any device allocates at once ({})",
                                 function.name, show_bytes(buffer.size_bytes), show_bytes(most_at_once)));
  return {};
}

Result<std::unique_ptr<Call>> LiveDaemon::prepare(const Tenant& tenant, const FunctionRef& function,
                                                  const CallSpec& spec, const CallOptions& options) {
  auto deployed = std::static_pointer_cast<const DeployedFunction>(function);
  const Manifest& manifest = deployed->manifest;
  QUERN_TRY(const Binding binding, bind(manifest, spec));
  auto call = std::make_unique<LiveCall>();
  QUERN_TRY(call->plan, deployed->plan_for(binding));
  std::vector<uint32_t> passed;
  if (has_own_memory_) passed = passed_inputs(manifest, call->plan->plan, spec, options);
  if (!passed.empty()) {
    QUERN_TRY(call->plan, deployed->plan_for(binding, passed));
  }
  const Settings settings = deployed->settings();
  QUERN_TRY(check_fits(*deployed, settings, *call));
  QUERN_TRY(call->scalars, scalars_of(manifest, call->plan->plan, binding));
  call->request = next_request_.fetch_add(1);
  call->id = fmt::format("{}-{}", id_prefix_, call->request);
  call->tenant = &tenant;
  call->timeout = std::min(options.timeout.value_or(settings.timeout), settings.timeout);
  call->device_time = settings.device_time.value_or(call->timeout);
  call->priority = options.priority.value_or(settings.priority);
  call->quota = quota_of(settings);
  call->profile = options.profile;

  QUERN_TRY(give_room(*call, spec, options, manifest));
  call->function = std::move(deployed);
  return std::unique_ptr<Call>(std::move(call));
}

// Inputs that are objects have their memory already.
Status LiveDaemon::give_room(LiveCall& call, const CallSpec& spec, const CallOptions& options,
                             const Manifest& manifest) {
  // What leases that are over still hold is the arena's again.
  objects_->sweep(os::now());
  const DomainArenas& arenas = domains_.at(call.tenant->domain);
  const Plan& plan = call.plan->plan;
  call.blocks = std::make_shared<std::vector<ipc::Block>>();
  call.inputs.resize(spec.inputs.size());
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlannedBuffer& buffer = plan.buffers[i];
    if (buffer.role != Role::kInput && buffer.role != Role::kOutput) continue;
    const std::string& name = manifest.buffers[i].name;
    CallTensor tensor{name, buffer.dtype, buffer.shape, {}};
    ipc::Block block;
    if (buffer.role == Role::kInput) {
      const auto found =
          std::find_if(spec.inputs.begin(), spec.inputs.end(), [&](auto& in) { return in.name == name; });
      QUERN_CHECK(found != spec.inputs.end(), "bind let a call without one of its inputs pass");
      const auto at = static_cast<size_t>(found - spec.inputs.begin());
      if (at < options.objects.size() && options.objects[at]) {
        const auto object = std::static_pointer_cast<const MappedObject>(options.objects[at]);
        QUERN_CHECK(object->tenant == call.tenant->name, "an object of another tenant");
        if (object->bytes.size() != buffer.size_bytes)
          return invalid(fmt::format("input {}: object {} has {} bytes, but {} of shape {} takes {}", name, object->id,
                                     object->bytes.size(), protocol_name_of(buffer.dtype), show_shape(buffer.shape),
                                     buffer.size_bytes));
        block = block_of(object);
        call.borrowed.push_back(static_cast<uint32_t>(call.blocks->size()));
        if (buffer.passed) call.pass(object->number, buffer.size_bytes, object->id.substr(0, 12));
      } else {
        QUERN_TRY(block, arenas.input->take(buffer.size_bytes));
        if (buffer.passed) call.pass(runner_->new_passing(), buffer.size_bytes, name);
      }
      tensor.bytes = block.bytes();
      call.inputs[at] = std::move(tensor);
    } else {
      QUERN_TRY(block, arenas.output->take(buffer.size_bytes));
      tensor.bytes = block.bytes();
      if (const auto kept = options.kept.find(name); kept != options.kept.end()) {
        QUERN_TRY(block, keep_later(call, tensor, std::move(block), kept->second));
      }
      call.outputs.push_back(std::move(tensor));
    }
    call.blocks->push_back(std::move(block));
  }
  return {};
}

// The lease owns the memory and the call borrows it, so that either may end first.
Result<ipc::Block> LiveDaemon::keep_later(LiveCall& call, CallTensor& output, ipc::Block block, Duration lease) {
  const auto owned = std::make_shared<const ipc::Block>(std::move(block));
  QUERN_TRY(LeaseRef made, objects_->reserve(call.tenant->name, owned, lease, os::now()));
  output.object = made->id;
  output.lease = lease;
  if (made->number && owned->size() > 0)
    call.leaves.push_back({made->number, static_cast<uint32_t>(call.blocks->size()), made->id.substr(0, 12), lease});
  call.kept.push_back(std::move(made));
  return ipc::Block::borrow(owned->segment(), owned->offset(), owned->size(), owned);
}

}  // namespace quern::daemon
