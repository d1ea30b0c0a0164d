// SPDX-License-Identifier: Apache-2.0
#include "sim/shadow.h"

#include <algorithm>

namespace quern::sim {

namespace {

template <class Map, class Key>
const typename Map::mapped_type* look_up(const Map& map, const Key& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

}  // namespace

const Shadow::Device* Shadow::find(sched::DeviceId id) const { return look_up(devices_, id); }
const Shadow::Executor* Shadow::find(sched::ExecutorId id) const { return look_up(executors_, id); }
const Shadow::Object* Shadow::find(ObjectKey key) const { return look_up(objects_, key); }
const Shadow::Run* Shadow::find(sched::RunId id) const { return look_up(runs_, id); }
const Shadow::Request* Shadow::find(sched::RequestId id) const { return look_up(requests_, id); }

uint64_t Shadow::bytes_of(const sched::Submit& submit) {
  uint64_t bytes = submit.memory_bytes;
  for (const sched::ObjectNeed& need : submit.objects) bytes += need.bytes;
  return bytes;
}

bool Shadow::needs(const sched::Submit& submit, sched::ObjectId object) {
  return std::any_of(submit.objects.begin(), submit.objects.end(),
                     [&](const sched::ObjectNeed& need) { return need.object == object; });
}

void Shadow::happened(Time now, const sched::Event& event) {
  ended_.clear();
  touched_.clear();
  std::visit([&](const auto& what) { on(now, what); }, event);
}

void Shadow::carry_out(Time now, const sched::Action& action) {
  std::visit([&](const auto& what) { on(now, what); }, action);
}

void Shadow::on(Time, const sched::DeviceUp& event) {
  Device& device = devices_[event.device];
  touched_.insert(event.device);
  if (device.is_up) return;
  device = {.memory_bytes = event.memory_bytes, .context_bytes = event.context_bytes, .is_up = true};
}

void Shadow::on(Time, const sched::DeviceMemory& event) {
  const auto device = devices_.find(event.device);
  if (device == devices_.end()) return;
  touched_.insert(event.device);
  device->second.memory_bytes = event.memory_bytes;
}

void Shadow::on(Time, const sched::DeviceDown& event) {
  const auto device = devices_.find(event.device);
  if (device == devices_.end() || !device->second.is_up) return;
  touched_.insert(event.device);
  for (auto it = executors_.begin(); it != executors_.end();) {
    const auto executor = it++;
    if (executor->second.device == event.device) lose(executor);
  }
  device->second.is_up = false;
}

void Shadow::on(Time, const sched::ExecutorUp& event) {
  const auto executor = executors_.find(event.executor);
  if (executor == executors_.end()) return;
  touched_.insert(executor->second.device);
  if (!executor->second.is_killed) executor->second.is_up = true;
}

void Shadow::on(Time, const sched::ExecutorLost& event) {
  if (const auto executor = executors_.find(event.executor); executor != executors_.end()) lose(executor);
}

void Shadow::on(Time, const sched::TenantSet& event) { tenants_[event.tenant] = event; }

void Shadow::on(Time now, const sched::Submit& event) {
  requests_[event.request] = {
      .submit = std::make_shared<const sched::Submit>(event), .since = now, .last_run = {}, .attempts = 0};
}

void Shadow::on(Time, const sched::Tick&) { wake_ = Time::never(); }
void Shadow::on(Time, const sched::WakeAt& action) { wake_ = action.time; }

void Shadow::on(Time, const sched::Loaded& event) {
  const auto object = objects_.find({event.executor, event.object});
  if (object == objects_.end() || object->second.state != State::kLoading) return;
  const Executor& executor = executors_.at(event.executor);
  touched_.insert(executor.device);
  // A killed executor takes all with it when it is gone, and not before.
  if (executor.is_killed) return;
  if (event.failed) {
    remove(object);
  } else {
    object->second.state = State::kResident;
  }
}

void Shadow::on(Time, const sched::Unloaded& event) {
  const auto object = objects_.find({event.executor, event.object});
  if (object == objects_.end() || object->second.state != State::kLeaving) return;
  touched_.insert(executors_.at(event.executor).device);
  remove(object);
}

void Shadow::on(Time now, const sched::Started& event) {
  const auto run = runs_.find(event.run);
  if (run != runs_.end() && run->second.started == Time::never()) run->second.started = now;
}

void Shadow::on(Time, const sched::Finished& event) {
  if (const auto run = runs_.find(event.run); run != runs_.end()) end(run);
}

void Shadow::on(Time, const sched::StartExecutor& action) {
  Device& device = devices_[action.device];
  touched_.insert(action.device);
  device.held_bytes += device.context_bytes;
  executors_[action.executor] = {.device = action.device,
                                 .domain = action.domain,
                                 .own_function = action.own_function,
                                 .killed_because = {},
                                 .context_bytes = device.context_bytes};
}

void Shadow::on(Time, const sched::KillExecutor& action) {
  const auto found = executors_.find(action.executor);
  if (found == executors_.end() || found->second.is_killed) return;
  Executor& executor = found->second;
  touched_.insert(executor.device);
  executor.is_killed = true;
  executor.killed_because = action.because;
  Device& device = devices_[executor.device];
  device.leaving_bytes += executor.context_bytes;
  for (auto it = objects_.lower_bound({action.executor, {0}});
       it != objects_.end() && it->first.first == action.executor; ++it)
    if (it->second.state != State::kLeaving) device.leaving_bytes += it->second.bytes;
}

void Shadow::on(Time, const sched::Load& action) {
  const auto executor = executors_.find(action.executor);
  if (executor == executors_.end()) return;
  touched_.insert(executor->second.device);
  if (objects_.try_emplace({action.executor, action.object}, Object{.bytes = action.bytes}).second)
    devices_[executor->second.device].held_bytes += action.bytes;
}

void Shadow::on(Time, const sched::Unload& action) {
  const auto object = objects_.find({action.executor, action.object});
  if (object == objects_.end() || object->second.state == State::kLeaving) return;
  const Executor& executor = executors_.at(action.executor);
  touched_.insert(executor.device);
  object->second.state = State::kLeaving;
  if (!executor.is_killed) devices_[executor.device].leaving_bytes += object->second.bytes;
}

void Shadow::on(Time, const sched::Run& action) {
  const auto request = requests_.find(action.request);
  const auto executor = executors_.find(action.executor);
  if (request == requests_.end() || executor == executors_.end()) return;
  Run run{.submit = request->second.submit,
          .executor = action.executor,
          .device = executor->second.device,
          .lane = action.lane,
          .attempt = ++request->second.attempts};
  request->second.last_run = action.run;
  touched_.insert(run.device);
  Device& device = devices_[run.device];
  device.held_bytes += run.submit->memory_bytes;
  ++device.runs;
  runs_.emplace(action.run, std::move(run));
}

void Shadow::on(Time now, const sched::StopRun& action) {
  const auto run = runs_.find(action.run);
  if (run == runs_.end()) return;
  run->second.stopped = now;
  run->second.passed_limit = requests_.contains(run->second.submit->request);
}

void Shadow::on(Time, const sched::Answer& action) { requests_.erase(action.request); }

void Shadow::end(std::map<sched::RunId, Run>::iterator run) {
  touched_.insert(run->second.device);
  Device& device = devices_[run->second.device];
  device.held_bytes -= run->second.submit->memory_bytes;
  --device.runs;
  ended_.insert(runs_.extract(run));
}

void Shadow::remove(std::map<ObjectKey, Object>::iterator object) {
  const Executor& executor = executors_.at(object->first.first);
  Device& device = devices_[executor.device];
  device.held_bytes -= object->second.bytes;
  if (executor.is_killed || object->second.state == State::kLeaving) device.leaving_bytes -= object->second.bytes;
  objects_.erase(object);
}

void Shadow::lose(std::map<sched::ExecutorId, Executor>::iterator executor) {
  const auto [id, was] = *executor;
  touched_.insert(was.device);
  for (auto it = objects_.lower_bound({id, {0}}); it != objects_.end() && it->first.first == id;) remove(it++);
  for (auto it = runs_.begin(); it != runs_.end();) {
    const auto run = it++;
    if (run->second.executor == id) end(run);
  }
  Device& device = devices_[was.device];
  device.held_bytes -= was.context_bytes;
  if (was.is_killed) device.leaving_bytes -= was.context_bytes;
  executors_.erase(executor);
}

}  // namespace quern::sim
