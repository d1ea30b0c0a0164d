// SPDX-License-Identifier: Apache-2.0
//
// Tensors that devices with memory of their own have as objects: inputs that come as objects, large ones that travel
// ahead of their run, and outputs that stay. The host has all of them as long as someone may name them, so that what a
// device lost is only brought again.
#include <fmt/format.h>

#include <algorithm>

#include "daemon/runner.h"
#include "os/log.h"

namespace quern::daemon {

PassingRef Runner::new_passing() const {
  return PassingRef(new uint64_t(new_object_number()), [gone = passing_gone_](const uint64_t* number) {
    gone->add(*number);
    os::log_debug("tensor {}: nobody names it any more", *number);
    delete number;
  });
}

// Nobody is woken up for it: what wants the room wakes the strand.
void Runner::forget_objects() {
  for (const uint64_t number : passing_gone_->take()) {
    feed(sched::ObjectGone{{number}});
    passing_names_.erase(number);
    load_errors_.erase(number);
  }
}

void Runner::take_tensors(const LiveCall& call, sched::Submit& event) {
  for (const sched::ObjectNeed& need : call.passing) event.objects.push_back(need);
  for (const PassingTensor& tensor : call.passes) {
    const ipc::Block& block = (*call.blocks)[tensor.block];
    Passing& passing = passing_[*tensor.number];
    passing.segment = block.segment();
    passing.offset = block.offset();
    passing.size_bytes = block.size();
    ++passing.calls;
    passing_names_[*tensor.number] = tensor.name;
  }
  for (const PassingTensor& tensor : call.leaves) {
    event.makes.push_back({{*tensor.number}, (*call.blocks)[tensor.block].size(), tensor.lease});
    passing_names_[*tensor.number] = tensor.name;
  }
}

void Runner::release_tensors(const LiveCall& call) {
  for (const PassingTensor& tensor : call.passes) {
    const auto passing = passing_.find(*tensor.number);
    if (passing != passing_.end() && --passing->second.calls == 0) passing_.erase(passing);
  }
}

std::optional<ExecutorProcess::ObjectBytes> Runner::bytes_of(uint64_t object) const {
  if (const auto passing = passing_.find(object); passing != passing_.end()) {
    const Passing& one = passing->second;
    return ExecutorProcess::ObjectBytes{one.segment->fd.get(), one.segment->size_bytes, one.offset, one.size_bytes,
                                        one.segment};
  }
  const auto hosted = hosted_.find(object);
  if (hosted == hosted_.end() || !hosted->second.object) return std::nullopt;
  const HostObjectRef& one = hosted->second.object;
  return ExecutorProcess::ObjectBytes{one->fd.get(), one->size_bytes, 0, one->size_bytes, one};
}

Status Runner::bind(LiveRun& run, Executor& executor, ipc::RunCommand& command) {
  for (const ipc::Block& block : *run.blocks) command.bindings.push_back({block.segment()->id, block.offset(), 0});
  for (const PassingTensor& tensor : run.passes) {
    const uint64_t id = executor.process->id_of(*tensor.number);
    if (id == 0) return internal(fmt::format("object {}: is not loaded", *tensor.number));
    command.bindings[tensor.block] = {0, 0, id};
  }
  run.made.clear();
  for (const PassingTensor& tensor : run.leaves)
    run.made.push_back(command.bindings[tensor.block].object = executor.process->new_id());
  return {};
}

}  // namespace quern::daemon
