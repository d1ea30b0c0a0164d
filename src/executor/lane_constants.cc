// SPDX-License-Identifier: Apache-2.0
//
// A run may begin while its constants, and inputs that are objects, are still being loaded: each launch waits for its
// own, and those before it run meanwhile. A run that has all of them never comes here.
#include "executor/lane.h"
#include "os/clock.h"

namespace quern::executor {

using State = DeviceObject::State;

Status Lane::bind_constants(Ready& ready) {
  const auto& buffers = ready.plan().buffers;
  has_constants_ = true;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].role != Role::kConstant) continue;
    if (buffers[i].size_bytes == 0) {
      QUERN_TRY(bound_[i], nothing());
      continue;
    }
    objects_[i] = ready.prepared->constants[i];
    const DeviceObject* object = objects_[i].get();
    if (object && object->state() == State::kReady)
      bound_[i] = object->buffer().get();
    else
      has_constants_ = false;
  }
  return {};
}

Result<bool> Lane::await_constant(uint64_t run, uint32_t buffer) {
  const std::shared_ptr<DeviceObject> object = objects_[buffer];
  Result<bool> goes_on = true;
  if (object && object->state() == State::kLoading) {
    // What was enqueued has to go on.
    QUERN_TRY(queue_->flush());
    const Time began = os::now();
    // Signalled by the loader, and by the daemon when it stops the run.
    object->watch(links_.wake);
    while (goes_on.ok() && *goes_on && object->state() == State::kLoading) {
      if (commands_.empty()) links_.wake.wait(Duration::forever());
      links_.wake.drain();
      goes_on = heed(run);
    }
    object->unwatch(links_.wake);
    waited_ns_ += (os::now() - began).ns;
    if (!goes_on.ok() || !*goes_on) return goes_on;
  }
  if (!object || object->state() == State::kFailed)
    return unavailable("run: a constant or input that it needs could not be loaded; run it again");
  bound_[buffer] = object->buffer().get();
  return true;
}

Result<bool> Lane::await_constants(uint64_t run, const PlannedLaunch& launch) {
  for (const auto& argument : launch.arguments) {
    if (argument.kind != ArgumentDecl::Kind::kBuffer) continue;
    const uint32_t buffer = names_[argument.buffer];
    if (bound_[buffer]) continue;
    QUERN_TRY(const bool goes_on, await_constant(run, buffer));
    if (!goes_on) return false;
  }
  return true;
}

Result<bool> Lane::await_constants(Ready& ready, uint64_t run) {
  const auto& buffers = ready.plan().buffers;
  for (uint32_t i = 0; !has_constants_ && i < buffers.size(); ++i) {
    const bool is_object = buffers[i].role == Role::kConstant || objects_[i];
    if (!is_object || bound_[i]) continue;
    QUERN_TRY(const bool goes_on, await_constant(run, i));
    if (!goes_on) return false;
  }
  return has_constants_ = true;
}

}  // namespace quern::executor
