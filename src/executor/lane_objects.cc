// SPDX-License-Identifier: Apache-2.0
//
// Tensors that pass from run to run without leaving the device. An input that is an object is used where it is. An
// output that is to stay is copied to memory of its own when the kernels are done, since the lane's memory is the next
// run's; it goes to the host as well, so that nothing is lost with this process, and this copy may leave at any time.
#include <fmt/format.h>

#include "executor/lane.h"

namespace quern::executor {

Status Lane::bind_object(Ready& ready, size_t buffer) {
  const uint64_t size = ready.plan().buffers[buffer].size_bytes;
  objects_[buffer] = holdings_.object(bindings_[buffer]->object, size);
  if (objects_[buffer]->size_bytes() != size)
    return internal(fmt::format("object {}: has another size than its tensor", bindings_[buffer]->object));
  const bool is_there = objects_[buffer]->state() == DeviceObject::State::kReady;
  bound_[buffer] = is_there ? objects_[buffer]->buffer().get() : nullptr;
  has_constants_ = has_constants_ && is_there;
  return {};
}

// Every byte of it is overwritten before anyone may read it: fresh memory needs no zeros.
Status Lane::make_objects(Ready& ready) {
  if (holdings_.in_place()) return {};
  const auto& buffers = ready.plan().buffers;
  made_.assign(buffers.size(), nullptr);
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].role != Role::kOutput || bindings_[i]->object == 0) continue;
    auto made = holdings_.device().allocate(buffers[i].size_bytes);
    if (!made.ok())
      return Error{made.error().code,
                   fmt::format("device {}: has no room for {} bytes that a run leaves there; {}",
                               holdings_.device().caps().name, buffers[i].size_bytes, made.error().text)};
    made_[i] = *std::move(made);
  }
  return {};
}

Status Lane::fill_objects(Ready& ready) {
  const auto& buffers = ready.plan().buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!made_[i]) continue;
    QUERN_TRY(const uint64_t point, queue_->copy(*bound_[names_[i]], 0, *made_[i], 0, buffers[i].size_bytes));
    in_flight_.push_back({.point = point, .launch = ipc::kNoLaunch});
  }
  return {};
}

// Where tensors are used in place the host's copy is the only one there is: it is read where the run wrote it.
void Lane::leave_objects(Ready& ready) {
  const auto& buffers = ready.plan().buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].role != Role::kOutput || bindings_[i]->object == 0) continue;
    if (!holdings_.in_place()) {
      holdings_.add_object(bindings_[i]->object, std::move(made_[i]), nullptr);
      continue;
    }
    const auto imported = imports_.find({bindings_[i]->segment, bindings_[i]->offset, buffers[i].size_bytes});
    if (imported != imports_.end())
      holdings_.add_object(bindings_[i]->object, imported->second.buffer, imported->second.segment);
  }
}

}  // namespace quern::executor
