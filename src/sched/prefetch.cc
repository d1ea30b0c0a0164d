// SPDX-License-Identifier: Apache-2.0
//
// While a device runs something, what the next requests in the queue need is brought there, and so is what someone
// wants kept: into memory that nobody has, and for what is kept also into what is held by things nobody waits for.
// Nothing of it is promised to anyone, and a run that needs the room may have it.
#include <algorithm>

#include "sched/core.h"
#include "sched/mutant.h"

namespace quern::sched {
namespace {

constexpr uint32_t kMostStarts = 3;
constexpr uint32_t kMostFetches = 3;
constexpr size_t kMostAhead = 2;                         // requests that are looked at
constexpr int kMostLeave = 4;                            // at a time, for one piece
constexpr Duration kAheadLease = Duration::seconds(30);  // how long it waits for its request

}  // namespace

void Scheduler::Impl::prefetch(Device& device) {
  if (!device.can_serve() || placement_->wants_device_alone()) return;
  // One that waits for room, or for what is on its way, is in nobody's way.
  for (auto it = device.aheads.begin(); it != device.aheads.end();) {
    const Keeps::Kept* kept = keeps_.find(it->function);
    const Stage stage = kept ? kept->highest(now_) : Stage::kNothing;
    if (stage != it->stage) it->stage = stage, it->next = 0;
    const bool is_over = stage == Stage::kNothing;
    it = is_over || bring(device, *it) ? device.aheads.erase(it) : it + 1;
  }
  if (!setup_->prefetch || device.is_idle()) return;
  if (device.ahead) {
    const Request* request = find_request(*device.ahead_of);
    if (!request || !request->queued || request->group != device.ahead->group || bring(device, *device.ahead))
      device.ahead.reset();
  }
  if (device.ahead) return;
  for (Request* request : tenants_.first_few(device.usable_bytes(), kMostAhead)) {
    if (request->ahead_on || request->attempt > 1 || devices_.has_all(device, *request)) continue;
    if (is_out(device, *request)) continue;
    request->ahead_on = device.id;
    device.ahead_of = request->submit.request;
    device.ahead =
        Ahead{.function = request->submit.function, .group = request->group, .objects = request->submit.objects};
    if (!bring(device, *device.ahead)) return;
    device.ahead.reset();
  }
}

bool Scheduler::Impl::bring(Device& device, Ahead& ahead) {
  Ledger& ledger = device.ledger;
  const Keeps::Kept* kept = keeps_.find(ahead.function);
  const bool is_kept = kept && kept->at(ahead.stage) > now_;
  // What is kept stays as long as that says. A tensor is of one call, and nobody keeps it.
  const auto lease = [&](DeviceId where, Ledger& in, Ledger::Key key, bool is_tensor = false) {
    stay(where, in, key, is_kept && !is_tensor ? now_ : now_ + kAheadLease);
  };
  // A function that killed its executor gets one of its own, and may share again later.
  ahead.group = group_of(ahead.function, ahead.group.domain);
  const auto existing = device.executors.find(ahead.group);
  Executor* executor = existing == device.executors.end() ? nullptr : devices_.find(existing->second);
  if (!executor) {
    // Where executors do not stay up nobody is helped by more of them: the first run will see.
    if (blame_.is_gone(ahead.function) || ahead.starts >= kMostStarts) return true;
    if (!make_room_ahead(device, device.context_bytes, is_kept)) return false;
    ++ahead.starts;
    executor = &devices_.plan_executor(ExecutorId{next_executor_++}, device.id, ahead.group);
    const Ledger::Key key{executor->id, Ledger::kContext};
    ledger.bring(key, device.context_bytes, use_of(ahead.function, prices_.start_ns(device.id)));
    lease(device.id, ledger, key);
    executor->state = Executor::State::kStarting;
    executor->asked = now_;
    ++prefetches_;
    act(StartExecutor{.executor = executor->id,
                      .device = device.id,
                      .domain = ahead.group.domain,
                      .own_function = ahead.group.own_function});
  }
  for (; ahead.stage >= Stage::kHost && ahead.next < ahead.objects.size(); ++ahead.next, ahead.fetches = 0) {
    const ObjectNeed& need = ahead.objects[ahead.next];
    if (is_behind_host(need)) {
      const Ledger::Key key = host_key(need.object);
      const Ledger::Item* item = host_.find(key);
      const bool is_leaving = item && item->state == Ledger::State::kLeaving;
      if (!item) {
        // What cannot be read is not asked for again and again: the first run will see.
        if (ahead.fetches >= kMostFetches) return true;
        if (host_.shortage(need.bytes) > 0 || !host_.has_now(need.bytes)) return true;  // the run will make room
        host_.bring(key, need.bytes, use_of(ahead.function, prices_.fetch_ns(need.bytes)));
        host_.find(key)->underway = true;
        lease({0}, host_, key);
        ++prefetches_;
        ++ahead.fetches;
        act(Fetch{.object = need.object, .bytes = need.bytes});
      }
      if (ahead.stage == Stage::kHost && !is_leaving) continue;
      fetch_waiters_[need.object].insert(device.id);
      return false;
    }
    if (ahead.stage < Stage::kHot) continue;
    if (executor->state != Executor::State::kUp) return executor->state == Executor::State::kEnding;
    const Ledger::Key key{executor->id, need.object};
    if (const Ledger::Item* item = ledger.find(key)) {
      if (item->state == Ledger::State::kLeaving) return false;  // it is brought again once it has left
      continue;
    }
    const uint64_t bytes = round_up(need.bytes);
    if (!make_room_ahead(device, bytes, is_kept)) return false;
    ledger.bring(key, bytes, use_of(ahead.function, reload_ns(device, need)));
    lease(device.id, ledger, key, need.passing);
    if (need.passing) holders_[need.object].insert({device.id, executor->id});
    if (has_host_ && !need.passing) {
      host_.pin(host_key(need.object), need.bytes, use_of(ahead.function, prices_.fetch_ns(need.bytes)));
      ledger.find(key)->from_host = true;
      if (device.in_place) mapped_[need.object][executor->id] = device.id;
    }
    ++prefetches_;
    act(Load{.executor = executor->id, .object = need.object, .bytes = bytes});
  }
  devices_.settle(device, ahead.function);
  return true;
}

// True if there is room now. For what is to be kept, what nobody waits for leaves; then this is asked again. For a
// request in the queue nothing does: it may go elsewhere, and what left for it would have to be brought back.
bool Scheduler::Impl::make_room_ahead(Device& device, uint64_t bytes, bool may_evict) {
  Ledger& ledger = device.ledger;
  if (ledger.shortage(bytes) == 0 || QUERN_MUTANT(35)) return ledger.has_now(bytes) || QUERN_MUTANT(35);
  if (!may_evict || !ledger.could_promise_beside_kept(bytes)) return false;
  const auto is_wanted = [&](FunctionId function) { return tenants_.size_of(function) > 0; };
  for (int i = 0; i < kMostLeave && ledger.shortage(bytes) > 0; ++i) {
    const auto victim = ledger.choose(is_wanted);
    if (!victim) return false;
    const Ledger::Item& item = *ledger.find(*victim);
    if (item.kept || is_wanted(item.function)) return false;
    if (victim->second == Ledger::kContext && ledger.has_content(victim->first)) return false;
    ++evictions_;
    ledger.raise_floor(*victim);
    leave(device, *victim, Room{});
  }
  return false;
}

}  // namespace quern::sched
