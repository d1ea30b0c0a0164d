// SPDX-License-Identifier: Apache-2.0
//
// A run that got a slot needs an executor, objects, and memory in its lane. All of it is pinned or promised at once,
// and what stands in its way begins to leave; then each part is asked for as soon as its memory is really there. Since
// no more is promised than there will be, everything promised comes, whatever the order.
#include <algorithm>
#include <utility>

#include "sched/core.h"
#include "sched/mutant.h"

namespace quern::sched {

uint64_t Scheduler::Impl::round_up(uint64_t bytes) const {
  const uint64_t step = std::max<uint64_t>(1, config_.granularity_bytes);
  return (bytes + step - 1) / step * step;
}

int64_t Scheduler::Impl::reload_ns(const Device& device, const ObjectNeed& need) const {
  const int64_t from_disk = is_behind_host(need) ? prices_.fetch_ns(need.bytes) : 0;
  return prices_.load_ns(device.id, need.bytes) + from_disk;
}

void Scheduler::Impl::on(const DeviceMemory& event) {
  Device* device = devices_.find(event.device);
  if (!device) return;
  devices_.tell(*device, event.memory_bytes);
  if (device->believed_at != Time::never() && event.memory_bytes > device->memory_bytes) return;  // not yet
  set_memory(*device, event.memory_bytes);
}

void Scheduler::Impl::set_memory(Device& device, uint64_t memory_bytes) {
  if (device.memory_bytes == memory_bytes) return;
  tenants_.remove_size(device.usable_bytes());
  devices_.set_memory(device, memory_bytes);
  tenants_.add_size(device.usable_bytes());
  if (!device.up) return;
  bring_unplaced();
  make_room(device, std::nullopt);
  touched_.insert(device.id);
  // What was promised and cannot be kept is taken back, the newest first.
  while (device.ledger.shortage(0) > 0) {
    RunRecord* newest = nullptr;
    for (const ExecutorId id : device.serving_executors())
      for (const auto& [run_id, run] : devices_.find(id)->runs)
        if (!run->sent && (!newest || run_id > newest->id)) newest = run;
    if (!newest) break;
    withdraw(*newest);
    make_room(device, std::nullopt);
  }
}

void Scheduler::Impl::on(const Loaded& event) {
  Executor* executor = devices_.find(event.executor);
  if (!executor) return;
  Device& device = *devices_.find(executor->device);
  const Ledger::Key key{event.executor, event.object};
  Ledger::Item* item = device.ledger.find(key);
  if (event.failed && executor->state == Executor::State::kEnding)
    for (const auto& [id, run] : executor->runs)  // what was on its way out failed for that
      run->broken |= std::any_of(run->objects.begin(), run->objects.end(),
                                 [&](const ObjectNeed& need) { return need.object == event.object; });
  if (!item || item->state != Ledger::State::kLoading) return;
  touched_.insert(device.id);
  const uint64_t bytes = item->bytes;
  if (!event.failed) {
    // Loads of a device come one after another: this one had it since the one before.
    prices_.loaded(device.id, bytes, now_ - std::max(item->since, device.last_loaded));
    device.last_loaded = now_;
    could_give(device, executor->group.domain, bytes);
    if (std::exchange(item->from_host, false)) unpin_on_host(event.object);
    device.ledger.loaded(key, now_);
    if (!device.in_place)
      for (const auto& [id, run] : executor->runs) release_host(*run, event.object);
    // One that is broken waits for nothing any more, and will launch nothing.
    for (const auto& [id, run] : executor->runs)
      if (run->sent && !run->broken && has_all_objects(*run))
        dispatch_.run_ready(lane_of(run->executor, run->lane), now_);
    return;
  }
  std::vector<RunId> without;
  for (const auto& [id, run] : executor->runs) {
    if (std::erase_if(run->objects, [&](const ObjectNeed& need) { return need.object == event.object; }) == 0) continue;
    release_host(*run, event.object);
    run->broken = true;
    run->no_room |= event.no_room;
    without.push_back(id);
  }
  gone(device, key);
  if (event.no_room) could_not_give(device, executor->group.domain, bytes);
  for (const RunId id : without) {
    RunRecord* run = find_run(id);  // it may have been taken back meanwhile
    if (run && !run->sent) come_back(*run);
  }
}

void Scheduler::Impl::come_back(RunRecord& run) {
  Request* request = find_request(run.request);
  const bool no_room = run.no_room;
  erase(run);
  if (!request) return;
  if (no_room)
    enqueue(*request);
  else
    give_back(*request);
}

void Scheduler::Impl::on(const Unloaded& event) {
  const Executor* executor = devices_.find(event.executor);
  if (!executor) return;
  Device& device = *devices_.find(executor->device);
  const Ledger::Key key{event.executor, event.object};
  const Ledger::Item* item = device.ledger.find(key);
  if (!item || item->state != Ledger::State::kLeaving) return;
  gone(device, key);
  touched_.insert(device.id);
}

void Scheduler::Impl::on(const Trimmed& event) {
  const Executor* executor = devices_.find(event.executor);
  if (!executor) return;
  Device& device = *devices_.find(executor->device);
  const Ledger::Key key{event.executor, Ledger::lane_id(event.lane)};
  const Ledger::Item* item = device.ledger.find(key);
  if (!item || item->state != Ledger::State::kLeaving || QUERN_MUTANT(24)) return;
  gone(device, key);
  touched_.insert(device.id);
}

void Scheduler::Impl::gone(Device& device, Ledger::Key key) {
  Ledger::Item* item = device.ledger.find(key);
  if (item->exit_at != Time::never()) exits_.erase({item->exit_at, {device.id, key}});
  item->exit_at = item->until = Time::never();
  if (std::exchange(item->from_host, false)) unpin_on_host(key.second);
  device.ledger.absent(key);
  unmapped(key);
}

void Scheduler::Impl::reserve(Device& device, Executor& executor, RunRecord& run) {
  Ledger& ledger = device.ledger;
  if (!(QUERN_MUTANT(30) && executor.state == Executor::State::kUp))
    ledger.pin({executor.id, Ledger::kContext}, device.context_bytes,
               use_of(run.function, prices_.start_ns(device.id)));
  for (const ObjectNeed& need : run.objects) {
    const bool hit =
        ledger.pin({executor.id, need.object}, round_up(need.bytes), use_of(run.function, reload_ns(device, need)));
    ++(hit ? hits_ : misses_);
    if (need.passing) holders_[need.object].insert({device.id, executor.id});
  }
  for (const Made& made : run.makes) {
    // It is on the host as well: bringing it back is a load.
    ledger.pin({executor.id, made.object}, round_up(made.bytes),
               use_of(run.function, prices_.load_ns(device.id, made.bytes)));
    holders_[made.object].insert({device.id, executor.id});
  }
  // One that needs no memory leaves that of its lane alone, and nobody takes it from under it.
  const Ledger::Key lane{executor.id, Ledger::lane_id(run.lane)};
  const Ledger::Item* kept = ledger.find(lane);
  const uint64_t needed = round_up(run.memory_bytes);
  // A lane may have more than this run needs, and the device too little for both: then it begins anew.
  if (kept && kept->rank && kept->bytes > needed && !ledger.could_promise(kept->bytes)) leave(device, lane);
  run.has_lane = run.memory_bytes > 0 || (kept && kept->state == Ledger::State::kResident);
  if (run.has_lane) ledger.pin(lane, needed, use_of(run.function, 0));
  make_room(device, run.request);
  if (has_host_) {
    run.waits_for_host = true;
    host_waiting_.insert(run.id);
    serve_host();
  }
}

void Scheduler::Impl::make_room(Device& device, std::optional<RequestId> request) {
  Ledger& ledger = device.ledger;
  while (ledger.shortage(0) > 0) {
    const auto victim = ledger.choose([&](FunctionId function) { return tenants_.size_of(function) > 0; });
    if (!victim) return;
    ++evictions_;
    ledger.raise_floor(*victim);
    leave(device, *victim, Room{.request = request});
  }
}

std::optional<RequestId> Scheduler::Impl::first_waiting(const Device& device) const {
  const RunRecord* first = nullptr;
  for (const ExecutorId id : device.serving_executors())
    for (const auto& [run_id, run] : devices_.find(id)->runs)
      if (!run->sent && (!first || run_id < first->id)) first = run;
  return first ? std::optional(first->request) : std::nullopt;
}

void Scheduler::Impl::leave(Device& device, Ledger::Key key, std::optional<Room> room) {
  const Ledger::Kind kind = Ledger::kind_of(key.second);
  if (room)
    room->bytes = kind == Ledger::Kind::kContext ? device.ledger.bytes_of(key.first) : device.ledger.find(key)->bytes;
  switch (kind) {
    case Ledger::Kind::kContext:
      return kill(*devices_.find(key.first), std::nullopt, room);
    case Ledger::Kind::kLane:
      device.ledger.leaving(key);
      return act(
          Trim{.executor = key.first, .lane = static_cast<uint32_t>(UINT64_MAX - 1 - key.second.value), .room = room});
    case Ledger::Kind::kObject:
      device.ledger.leaving(key);
      return act(Unload{.executor = key.first, .object = key.second, .room = room});
  }
}

void Scheduler::Impl::advance(Device& device) {
  for (const ExecutorId id : device.serving_executors()) {
    Executor& executor = *devices_.find(id);
    for (const auto& [run_id, run] : executor.runs)
      if (!run->sent) advance(device, executor, *run);
  }
}

void Scheduler::Impl::advance(Device& device, Executor& executor, RunRecord& run) {
  Ledger& ledger = device.ledger;
  const Ledger::Key context{executor.id, Ledger::kContext};
  const bool is_alone = !placement_->wants_device_alone() || devices_.executors_of(device.id).size() == 1;
  if (executor.state == Executor::State::kPlanned && is_alone && ledger.has_now(ledger.missing(context))) {
    ledger.begin(context, now_);
    executor.state = Executor::State::kStarting;
    executor.asked = now_;
    act(StartExecutor{.executor = executor.id,
                      .device = device.id,
                      .domain = executor.group.domain,
                      .own_function = executor.group.own_function});
  }
  if (executor.state == Executor::State::kEnding) return;
  if (run.waits_for_host || (!setup_->overlap && executor.state != Executor::State::kUp)) return;
  bool has_all = true;
  for (const ObjectNeed& need : run.objects) {
    const Ledger::Key key{executor.id, need.object};
    if (ledger.find(key)->state == Ledger::State::kPromised) (void)begin_load(device, executor, need);
    const Ledger::State state = ledger.find(key)->state;
    const bool is_there = state == Ledger::State::kResident || (setup_->overlap && state == Ledger::State::kLoading) ||
                          (QUERN_MUTANT(27) && state == Ledger::State::kPromised);
    has_all = has_all && is_there;
    if (!is_there && !setup_->overlap) break;
  }
  if (executor.state != Executor::State::kUp || !has_all) return;
  const Ledger::Key lane{executor.id, Ledger::lane_id(run.lane)};
  uint64_t bytes = 0;
  if (run.has_lane) {
    if (ledger.find(lane)->state == Ledger::State::kLeaving) return;
    bytes = ledger.missing(lane);
  }
  for (const Made& made : run.makes) bytes += ledger.missing({executor.id, made.object});
  if (bytes > 0 && !ledger.has_now(bytes)) return;
  if (run.has_lane) ledger.begin(lane, now_);
  if (run.has_lane && QUERN_MUTANT(38)) ledger.unpin(lane, now_);
  for (const Made& made : run.makes) ledger.begin({executor.id, made.object}, now_);
  send(run);
}

void Scheduler::Impl::settle_made(RunRecord& run, bool is_there) {
  Device& device = *devices_.find(run.device);
  std::erase_if(run.makes, [&](const Made& made) {
    const Ledger::Key key{run.executor, made.object};
    const Ledger::Item* item = device.ledger.find(key);
    if (!item || item->state != Ledger::State::kLoading) return false;  // it went with its executor, or will
    if (is_there)
      device.ledger.loaded(key, now_);
    else if (!QUERN_MUTANT(71))
      gone(device, key);
    return !is_there;
  });
}

void Scheduler::Impl::on(const ObjectGone& event) {
  const auto holders = holders_.extract(event.object);
  if (!holders) return;
  for (const auto& [device_id, executor] : holders.mapped()) {
    Device& device = *devices_.find(device_id);
    const Ledger::Key key{executor, event.object};
    Ledger::Item* item = device.ledger.find(key);
    if (!item) continue;
    item->unwanted = !QUERN_MUTANT(72);
    if (!item->rank) continue;
    leave(device, key);
    touched_.insert(device_id);
  }
}

// True if the load was asked for. On its way there is the host: what is not there is fetched first.
bool Scheduler::Impl::begin_load(Device& device, Executor& executor, const ObjectNeed& need) {
  Ledger& ledger = device.ledger;
  const Ledger::Key key{executor.id, need.object};
  if (is_behind_host(need)) {
    begin_fetch(need, device.id);
    if (!QUERN_MUTANT(32)) return false;
  }
  if (executor.state != Executor::State::kUp) return false;
  if (!ledger.has_now(ledger.missing(key)) && !QUERN_MUTANT(26)) return false;
  ledger.begin(key, now_);
  if (has_host_ && device.in_place && !need.passing) mapped_[need.object][executor.id] = device.id;
  act(Load{.executor = executor.id, .object = need.object, .bytes = ledger.find(key)->bytes});
  return true;
}

bool Scheduler::Impl::fits_beside(const Device& device, const Request& request) const {
  const auto known = device.executors.find(request.group);
  const Executor* executor = known == device.executors.end() ? nullptr : devices_.find(known->second);
  const auto find = [&](ObjectId id) { return executor ? device.ledger.find({executor->id, id}) : nullptr; };
  const auto is_pinned = [&](ObjectId id) {
    const Ledger::Item* item = find(id);
    return item && item->pins > 0;
  };
  uint64_t more = is_pinned(Ledger::kContext) ? 0 : device.context_bytes;
  for (const ObjectNeed& need : request.submit.objects)
    if (!is_pinned(need.object)) more += round_up(need.bytes);
  for (const Made& made : request.submit.makes) more += QUERN_MUTANT(73) ? 0 : round_up(made.bytes);
  if (request.submit.memory_bytes > 0) {
    const Ledger::Item* item = find(Ledger::lane_id(executor ? executor->free_lane() : 0));
    more += std::max(round_up(request.submit.memory_bytes), item ? item->bytes : 0);
  }
  return device.ledger.could_promise(more);
}

}  // namespace quern::sched
