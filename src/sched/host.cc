// SPDX-License-Identifier: Apache-2.0
//
// The host tier: objects on their way from disk to devices, and those that devices read in place. It has a ledger of
// its own with the same rules. An object is pinned there for a run until its device has a copy; where devices read it
// in place, until the run is over, and it can leave only when no executor has it mapped.
#include <algorithm>

#include "sched/core.h"
#include "sched/mutant.h"

namespace quern::sched {

void Scheduler::Impl::on(const HostUp& event) {
  if (!has_host_) host_.set_policy(*eviction_);
  has_host_ = true;
  host_.set_memory(event.memory_bytes);
  host_known_bytes_ = std::max(host_known_bytes_, event.memory_bytes);
  make_room_on_host(std::nullopt);
}

bool Scheduler::Impl::is_on_host(ObjectId object) const {
  const Ledger::Item* item = host_.find(host_key(object));
  return item && item->state == Ledger::State::kResident;
}

bool Scheduler::Impl::is_behind_host(const ObjectNeed& need) const {
  return has_host_ && (!need.passing || QUERN_MUTANT(74)) && !is_on_host(need.object);
}

void Scheduler::Impl::serve_host() {
  while (!host_waiting_.empty()) {
    RunRecord& run = runs_.at(*host_waiting_.begin());
    Device& device = *devices_.find(run.device);
    uint64_t more = 0;
    std::vector<const ObjectNeed*> needs;
    for (const ObjectNeed& need : run.objects) {
      const Ledger::Item* there = device.ledger.find({run.executor, need.object});
      const bool on_device = there && there->state == Ledger::State::kResident;
      if (need.passing || (on_device && !device.in_place)) continue;
      needs.push_back(&need);
      const Ledger::Item* item = host_.find(host_key(need.object));
      if (!item || item->pins == 0) more += need.bytes;
      if (!item || item->state != Ledger::State::kResident) fetch_waiters_[need.object].insert(device.id);
    }
    if (!host_.could_promise(more)) return;
    for (const ObjectNeed* need : needs) {
      host_.pin(host_key(need->object), need->bytes, use_of(run.function, prices_.fetch_ns(need->bytes)));
      run.host_pins.insert(need->object);
    }
    run.waits_for_host = false;
    host_waiting_.erase(host_waiting_.begin());
    touched_.insert(device.id);
    make_room_on_host(run.request);
  }
}

void Scheduler::Impl::make_room_on_host(std::optional<RequestId> request) {
  while (host_.shortage(0) > 0) {
    const auto victim = host_.choose([&](FunctionId function) { return tenants_.size_of(function) > 0; });
    if (!victim) return;
    ++evictions_;
    host_.raise_floor(*victim);
    leave_host(victim->second, Room{.request = request});
  }
}

void Scheduler::Impl::leave_host(ObjectId object, std::optional<Room> room) {
  const Ledger::Key key = host_key(object);
  host_.leaving(key);
  if (host_.find(key)->underway) return;  // it leaves when it came
  const auto holders = mapped_.find(object);
  if (holders == mapped_.end() || QUERN_MUTANT(33)) return gone_from_host(object, room);
  const auto copy = holders->second;
  for (const auto& [executor, device_id] : copy) {
    Device& device = *devices_.find(device_id);
    const Ledger::Item* item = device.ledger.find({executor, object});
    if (item && (item->state == Ledger::State::kResident || item->state == Ledger::State::kLoading))
      leave(device, {executor, object}, room);
  }
}

void Scheduler::Impl::gone_from_host(ObjectId object, std::optional<Room> room) {
  const Ledger::Key key = host_key(object);
  Ledger::Item& item = *host_.find(key);
  if (room) room->bytes = item.bytes;
  if (item.exit_at != Time::never()) exits_.erase({item.exit_at, {DeviceId{0}, key}});
  item.exit_at = item.until = Time::never();
  host_.absent(key);
  act(Forget{.object = object, .room = room});
  // Someone may wait for it to come back, and others for the room.
  if (const auto waiters = fetch_waiters_.find(object); waiters != fetch_waiters_.end())
    touched_.insert(waiters->second.begin(), waiters->second.end());
  touched_.insert(host_hungry_.begin(), host_hungry_.end());
  host_hungry_.clear();
}

void Scheduler::Impl::unmapped(Ledger::Key key) {
  const auto holders = mapped_.find(key.second);
  if (holders == mapped_.end() || holders->second.erase(key.first) == 0 || !holders->second.empty()) return;
  mapped_.erase(holders);
  const Ledger::Item* item = host_.find(host_key(key.second));
  if (item && item->state == Ledger::State::kLeaving && !item->underway) gone_from_host(key.second);
}

void Scheduler::Impl::begin_fetch(const ObjectNeed& need, DeviceId for_device) {
  fetch_waiters_[need.object].insert(for_device);
  const Ledger::Key key = host_key(need.object);
  Ledger::Item* item = host_.find(key);
  if (!item || item->state != Ledger::State::kPromised) return;  // on its way, in or out
  if (!host_.has_now(item->bytes) && !QUERN_MUTANT(39)) {
    host_hungry_.insert(for_device);
    return;
  }
  host_.begin(key, now_);
  item->underway = true;
  act(Fetch{.object = need.object, .bytes = need.bytes});
}

void Scheduler::Impl::on(const Fetched& event) {
  const Ledger::Key key = host_key(event.object);
  Ledger::Item* item = host_.find(key);
  if (!item || !item->underway) return;
  item->underway = false;
  if (item->state == Ledger::State::kLeaving) return gone_from_host(event.object);
  const auto waiters = fetch_waiters_.extract(event.object);
  const std::set<DeviceId> devices = waiters ? waiters.mapped() : std::set<DeviceId>();
  for (const DeviceId id : devices) touched_.insert(id);
  if (!event.failed) {
    prices_.fetched(item->bytes, now_ - std::max(item->since, last_fetched_));
    last_fetched_ = now_;
    host_.loaded(key, now_);
    return;
  }
  if (item->exit_at != Time::never()) exits_.erase({item->exit_at, {DeviceId{0}, key}});
  host_.absent(key);
  touched_.insert(host_hungry_.begin(), host_hungry_.end());
  host_hungry_.clear();
  for (const DeviceId id : devices) {
    Device& device = *devices_.find(id);
    std::vector<RunRecord*> runs;
    for (const ExecutorId executor : device.serving_executors())
      for (const auto& [run_id, run] : devices_.find(executor)->runs) runs.push_back(run);
    for (RunRecord* run : runs) {
      if (run->host_pins.erase(event.object) == 0 || run->sent) continue;
      Request& request = requests_.at(run->request);
      erase(*run);
      give_back(request);
    }
  }
}

void Scheduler::Impl::release_host(RunRecord& run, ObjectId object) {
  if (run.host_pins.erase(object) > 0) unpin_on_host(object);
}

void Scheduler::Impl::unpin_on_host(ObjectId object) {
  const Ledger::Key key = host_key(object);
  host_.unpin(key, now_);
  if (!host_.find(key))
    fetch_waiters_.erase(object);
  else
    arm_exit({0}, host_, key);
}

}  // namespace quern::sched
