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
const Shadow::Lane* Shadow::find(LaneKey key) const { return look_up(lanes_, key); }
const Shadow::Object* Shadow::find(sched::ObjectId id) const { return host_ ? look_up(host_->objects, id) : nullptr; }
const Shadow::Run* Shadow::find(sched::RunId id) const { return look_up(runs_, id); }
const Shadow::Request* Shadow::find(sched::RequestId id) const { return look_up(requests_, id); }
const Shadow::Program* Shadow::find(sched::LauncherId id) const { return look_up(programs_, id); }
Time Shadow::kept_until(sched::FunctionId function, sched::Stage stage) const {
  const auto found = keeps_.find(function);
  return found == keeps_.end() ? Time{0} : found->second[static_cast<size_t>(stage)];
}

const sched::Grant* Shadow::grant_of(sched::LauncherId launcher) const { return look_up(grants_, launcher); }

const Shadow::Run* Shadow::run_in(sched::LauncherId lane) const {
  const sched::RunId* run = look_up(in_lane_, lane);
  return run ? find(*run) : nullptr;
}
sched::RunId Shadow::id_in(sched::LauncherId lane) const {
  const sched::RunId* run = look_up(in_lane_, lane);
  return run ? *run : sched::RunId{0};
}
Shadow::Run* Shadow::find_in(sched::LauncherId lane) {
  const auto in_lane = in_lane_.find(lane);
  const auto run = in_lane == in_lane_.end() ? runs_.end() : runs_.find(in_lane->second);
  return run == runs_.end() ? nullptr : &run->second;
}

bool Shadow::has_all(const Run& run) const {
  return run.is_ready ||
         std::all_of(run.submit->objects.begin(), run.submit->objects.end(), [&](const sched::ObjectNeed& need) {
           const Object* object = find(ObjectKey{run.executor, need.object});
           return object && object->state == State::kResident;
         });
}

uint64_t Shadow::round_up(uint64_t bytes) const { return (bytes + granularity_ - 1) / granularity_ * granularity_; }

uint64_t Shadow::bytes_of(const sched::Submit& submit) const {
  uint64_t bytes = round_up(submit.memory_bytes);
  for (const sched::ObjectNeed& need : submit.objects) bytes += round_up(need.bytes);
  for (const sched::Made& made : submit.makes) bytes += round_up(made.bytes);
  return bytes;
}

bool Shadow::fits_host(const sched::Submit& submit) const {
  uint64_t bytes = 0;
  for (const sched::ObjectNeed& need : submit.objects) bytes += need.passing ? 0 : need.bytes;
  return !host_ || bytes <= host_->memory_bytes;
}

bool Shadow::needs(const sched::Submit& submit, sched::ObjectId object) {
  return std::any_of(submit.objects.begin(), submit.objects.end(),
                     [&](const sched::ObjectNeed& need) { return need.object == object; }) ||
         std::any_of(submit.makes.begin(), submit.makes.end(),
                     [&](const sched::Made& made) { return made.object == object; });
}

void Shadow::happened(Time now, const sched::Event& event) {
  ended_.clear();
  touched_.clear();
  std::visit([&](const auto& what) { on(now, what); }, event);
}

void Shadow::carry_out(Time now, const sched::Action& action) {
  std::visit([&](const auto& what) { on(now, what); }, action);
}

bool Shadow::Device::is_doubted(Time now, Duration room_back) const {
  return std::any_of(agreed.begin(), agreed.end(),
                     [&](const auto& one) { return one.second < room_back && now < one.first + room_back; });
}

bool Shadow::Device::is_claimed(sched::DomainId domain, Time now, Duration room_back) const {
  const Time* claimed = look_up(claims, domain);
  return claimed && now < *claimed + room_back;
}

void Shadow::claim(Time now, Device& device, sched::DomainId domain) {
  device.claims[domain] = now;
  for (const auto& [other, at] : device.claims) {
    if (other == domain) continue;
    while (!device.agreed.empty() && device.agreed.back().second >= now - at) device.agreed.pop_back();
    device.agreed.emplace_back(now, now - at);
  }
}

void Shadow::on(Time, const sched::DeviceUp& event) {
  Device& device = devices_[event.device];
  touched_.insert(event.device);
  if (device.is_up) return;
  device = {.memory_bytes = event.memory_bytes,
            .context_bytes = round_up(event.context_bytes),
            .is_up = true,
            .in_place = event.in_place,
            .classes = event.classes,
            .shares_time = event.shares_time,
            .units = {std::max(1U, event.units.count), event.units.in_halves},
            .claims = device.claims,
            .agreed = device.agreed};
}

void Shadow::on(Time, const sched::HostUp& event) {
  if (!host_) host_.emplace();
  host_->memory_bytes = event.memory_bytes;
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
  asked_.erase(event.device);
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
  const auto tenant = tenants_.find(event.tenant);
  const uint8_t most_urgent = tenant == tenants_.end() ? uint8_t{0} : tenant->second.limits.priority;
  requests_[event.request] = {.submit = std::make_shared<const sched::Submit>(event),
                              .since = now,
                              .level = std::min(std::max(event.priority, most_urgent), sched::kLeastUrgent),
                              .last_run = {},
                              .attempts = 0};
  for (const sched::ObjectNeed& need : event.objects)
    if (need.passing) passing_.insert(need.object);
  for (const sched::Made& made : event.makes) passing_.insert(made.object);
}

void Shadow::on(Time, const sched::ObjectGone& event) {
  gone_.insert(event.object);
  for (const auto& [key, object] : objects_)
    if (key.second == event.object) touched_.insert(executors_.at(key.first).device);
}

void Shadow::on(Time, const sched::Tick&) { wake_ = Time::never(); }
void Shadow::on(Time, const sched::WakeAt& action) { wake_ = action.time; }

// A lease is on top of what was said before, and the longer holds; without an end it is said anew.
void Shadow::on(Time, const sched::Keep& event) {
  if (event.until == Time::never() || event.stage == sched::Stage::kNothing) keeps_.erase(event.function);
  if (event.stage == sched::Stage::kNothing) return;
  auto& until = keeps_[event.function];
  for (size_t stage = 1; stage <= static_cast<size_t>(event.stage); ++stage)
    until[stage] = std::max(until[stage], event.until);
}

void Shadow::on(Time, const sched::FunctionGone& event) { keeps_.erase(event.function); }

void Shadow::on(Time, const sched::Fetched& event) {
  if (!host_) return;
  const auto object = host_->objects.find(event.object);
  if (object == host_->objects.end() || object->second.state != State::kLoading) return;
  object->second.state = State::kResident;
  if (!event.failed) return;
  host_->held_bytes -= object->second.bytes;
  host_->objects.erase(object);
}

void Shadow::on(Time, const sched::Fetch& action) {
  if (host_ && host_->objects.try_emplace(action.object, Object{.bytes = action.bytes}).second)
    host_->held_bytes += action.bytes;
}

void Shadow::on(Time, const sched::Forget& action) {
  if (!host_) return;
  const auto object = host_->objects.find(action.object);
  if (object == host_->objects.end()) return;
  host_->held_bytes -= object->second.bytes;
  host_->objects.erase(object);
}

void Shadow::on(Time now, const sched::Loaded& event) {
  const auto object = objects_.find({event.executor, event.object});
  if (object == objects_.end() || object->second.state != State::kLoading) return;
  const Executor& executor = executors_.at(event.executor);
  touched_.insert(executor.device);
  if (event.no_room) claim(now, devices_[executor.device], executor.domain);
  if (event.failed) {
    for (auto& [id, run] : runs_) {
      if (run.executor != event.executor || !needs(*run.submit, event.object)) continue;
      run.is_doomed = true;
      run.no_room |= event.no_room;
      if (!executor.is_killed) run.lost.insert(event.object);
    }
  }
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

void Shadow::on(Time, const sched::Trimmed& event) {
  const auto lane = lanes_.find({event.executor, event.lane});
  if (lane == lanes_.end() || !lane->second.is_leaving) return;
  touched_.insert(executors_.at(event.executor).device);
  remove(lane);
}

void Shadow::on(Time now, const sched::Started& event) {
  const auto found = runs_.find(event.run);
  if (found == runs_.end() || found->second.started != Time::never()) return;
  Run& run = found->second;
  run.started = now;
  run.is_ready = true;
}

void Shadow::on(Time, const sched::LauncherUp& event) {
  const Device* device = find(event.device);
  if (!device || !device->is_up) return;
  programs_.try_emplace(event.launcher, Program{.device = event.device,
                                                .function = event.function,
                                                .level = std::min(event.priority, sched::kLeastUrgent),
                                                .quota = event.quota});
}

void Shadow::on(Time, const sched::LauncherGone& event) {
  if (programs_.erase(event.launcher) > 0) grants_.erase(event.launcher);
}

void Shadow::on(Time, const sched::WorkReady& event) {
  if (const auto program = programs_.find(event.launcher); program != programs_.end()) program->second.has_work = true;
  if (Run* run = find_in(event.launcher)) run->is_pausing = false;
}

void Shadow::on(Time, const sched::GapBegun& event) {
  if (const auto program = programs_.find(event.launcher); program != programs_.end()) program->second.has_work = false;
  if (Run* run = find_in(event.launcher)) run->is_pausing = run->is_ready;
}

void Shadow::on(Time, const sched::Grant& action) {
  grants_[action.launcher] = action;
  if (const auto program = programs_.find(action.launcher); program != programs_.end() && !action.tells)
    program->second.has_work = false;  // it says so no longer
}

void Shadow::on(Time now, const sched::Flight& event) {
  asked_.erase(event.device);
  if (const auto device = devices_.find(event.device); device != devices_.end()) device->second.last_flight = now;
  for (auto& [id, run] : runs_)
    if (run.device == event.device) run.in_flight.reset();
  for (const sched::Flight::Launch& launch : event.launches)
    if (const auto run = runs_.find(launch.run); run != runs_.end()) {
      run->second.in_flight = launch;
      run->second.was_launched = true;
    }
}

void Shadow::on(Time now, const sched::Finished& event) {
  const auto found = runs_.find(event.run);
  if (found == runs_.end()) return;
  Run& run = found->second;
  if (const auto executor = executors_.find(run.executor);
      event.ends_executor && executor != executors_.end() && !executor->second.is_killed) {
    touched_.insert(executor->second.device);
    begin_end(executor);
  }
  if (event.failed && event.no_room && (run.submit->memory_bytes > 0 || !run.submit->makes.empty())) {
    run.is_doomed = run.no_room = true;
    claim(now, devices_[run.device], executors_.at(run.executor).domain);
    // A lane that could not grow has lost what it had.
    if (const auto lane = lanes_.find({run.executor, run.lane}); lane != lanes_.end()) remove(lane);
  }
  for (const sched::Made& made : run.submit->makes) {
    const auto object = objects_.find({run.executor, made.object});
    if (object == objects_.end() || executors_.at(run.executor).is_killed) continue;
    if (event.failed)
      remove(object);
    else
      object->second.state = State::kResident;
  }
  const auto request = requests_.find(run.submit->request);
  if (event.failed && run.no_room && request != requests_.end()) --request->second.attempts;
  end(found);
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
  executor.killed_because = action.because;
  begin_end(found);
}

void Shadow::begin_end(std::map<sched::ExecutorId, Executor>::iterator found) {
  Executor& executor = found->second;
  executor.is_killed = true;
  Device& device = devices_[executor.device];
  device.leaving_bytes += executor.context_bytes;
  for (auto it = objects_.lower_bound({found->first, {0}}); it != objects_.end() && it->first.first == found->first;
       ++it)
    if (it->second.state != State::kLeaving) device.leaving_bytes += it->second.bytes;
  for (auto it = lanes_.lower_bound({found->first, 0}); it != lanes_.end() && it->first.first == found->first; ++it)
    if (!it->second.is_leaving) device.leaving_bytes += it->second.bytes;
}

void Shadow::on(Time, const sched::Load& action) {
  const auto executor = executors_.find(action.executor);
  if (executor == executors_.end()) return;
  touched_.insert(executor->second.device);
  const uint64_t bytes = round_up(action.bytes);
  if (objects_.try_emplace({action.executor, action.object}, Object{.bytes = bytes}).second)
    devices_[executor->second.device].held_bytes += bytes;
}

void Shadow::on(Time, const sched::Unload& action) {
  const auto object = objects_.find({action.executor, action.object});
  if (object == objects_.end() || object->second.state == State::kLeaving) return;
  const Executor& executor = executors_.at(action.executor);
  touched_.insert(executor.device);
  object->second.state = State::kLeaving;
  if (!executor.is_killed) devices_[executor.device].leaving_bytes += object->second.bytes;
}

void Shadow::on(Time, const sched::Trim& action) {
  const auto lane = lanes_.find({action.executor, action.lane});
  if (lane == lanes_.end() || lane->second.is_leaving) return;
  const Executor& executor = executors_.at(action.executor);
  touched_.insert(executor.device);
  lane->second.is_leaving = true;
  if (!executor.is_killed) devices_[executor.device].leaving_bytes += lane->second.bytes;
}

void Shadow::on(Time now, const sched::Run& action) {
  const auto request = requests_.find(action.request);
  const auto executor = executors_.find(action.executor);
  if (request == requests_.end() || executor == executors_.end()) return;
  Run run{.submit = request->second.submit,
          .executor = action.executor,
          .device = executor->second.device,
          .lane = action.lane,
          .level = action.level,
          .units = action.units,
          .first_unit = action.first_unit,
          .attempt = ++request->second.attempts};
  request->second.last_run = action.run;
  run.is_ready = has_all(run);
  run.sent = now;
  in_lane_[sched::lane_of(action.executor, action.lane)] = action.run;
  touched_.insert(run.device);
  Device& device = devices_[run.device];
  if (action.lane_bytes > 0) {
    Lane& lane = lanes_[{action.executor, action.lane}];
    const uint64_t growth = action.lane_bytes - std::min(action.lane_bytes, lane.bytes);
    lane.bytes += growth;
    device.held_bytes += growth;
    if (executor->second.is_killed || lane.is_leaving) device.leaving_bytes += growth;
  }
  for (const sched::Made& made : run.submit->makes) {
    const uint64_t bytes = round_up(made.bytes);
    if (!objects_.try_emplace({action.executor, made.object}, Object{.bytes = bytes}).second) continue;
    device.held_bytes += bytes;
    if (executor->second.is_killed) device.leaving_bytes += bytes;
  }
  ++device.runs;
  runs_.emplace(action.run, std::move(run));
}

void Shadow::on(Time now, const sched::StopRun& action) {
  const auto run = runs_.find(action.run);
  if (run == runs_.end()) return;
  run->second.stopped = now;
  run->second.passed_limit = requests_.contains(run->second.submit->request);
}

// A run that goes on when its caller is told that it is late answers for nothing any more.
void Shadow::on(Time, const sched::Answer& action) {
  const bool is_late = action.end == sched::End::kDeadlineRunning || action.end == sched::End::kDeadlineQueued;
  if (const auto run = action.run ? runs_.find(*action.run) : runs_.end(); is_late && run != runs_.end())
    run->second.passed_limit = false;
  requests_.erase(action.request);
}

void Shadow::end(std::map<sched::RunId, Run>::iterator run) {
  touched_.insert(run->second.device);
  --devices_[run->second.device].runs;
  const auto in_lane = in_lane_.find(sched::lane_of(run->second.executor, run->second.lane));
  if (in_lane != in_lane_.end() && in_lane->second == run->first) in_lane_.erase(in_lane);
  ended_.insert(runs_.extract(run));
}

void Shadow::remove(std::map<ObjectKey, Object>::iterator object) {
  const Executor& executor = executors_.at(object->first.first);
  Device& device = devices_[executor.device];
  device.held_bytes -= object->second.bytes;
  if (executor.is_killed || object->second.state == State::kLeaving) device.leaving_bytes -= object->second.bytes;
  objects_.erase(object);
}

void Shadow::remove(std::map<LaneKey, Lane>::iterator lane) {
  const Executor& executor = executors_.at(lane->first.first);
  Device& device = devices_[executor.device];
  device.held_bytes -= lane->second.bytes;
  if (executor.is_killed || lane->second.is_leaving) device.leaving_bytes -= lane->second.bytes;
  lanes_.erase(lane);
}

void Shadow::lose(std::map<sched::ExecutorId, Executor>::iterator executor) {
  const auto [id, was] = *executor;
  touched_.insert(was.device);
  for (auto it = objects_.lower_bound({id, {0}}); it != objects_.end() && it->first.first == id;) remove(it++);
  for (auto it = lanes_.lower_bound({id, 0}); it != lanes_.end() && it->first.first == id;) remove(it++);
  for (auto it = runs_.begin(); it != runs_.end();) {
    const auto run = it++;
    if (run->second.executor == id) end(run);
  }
  for (auto it = grants_.lower_bound(sched::lane_of(id, 0)); it != grants_.end() && it->first.value >> 8 == id.value;)
    it = grants_.erase(it);
  Device& device = devices_[was.device];
  device.held_bytes -= was.context_bytes;
  if (was.is_killed) device.leaving_bytes -= was.context_bytes;
  executors_.erase(executor);
}

}  // namespace quern::sim
