// SPDX-License-Identifier: Apache-2.0
//
// A function leaves a device in stages: first its objects (the host still has them), then those of the host, then its
// context. How long each stays follows from what keeping it costs and what coming back would (policy/exit.h). Objects
// and contexts may be shared, so it is they that have a time to leave, the latest that any function gave them. A timer
// is moved only when it fires: a warm request sets no timer.
#include <algorithm>

#include "sched/core.h"
#include "sched/mutant.h"

namespace quern::sched {
namespace {

constexpr Duration kLongest = Duration::seconds(10LL * 365 * 86400);  // for ever, for a machine
constexpr Duration kNoTimer = Duration::seconds(365LL * 86400);
constexpr size_t kMostAheads = 64;

Time after(Time now, Duration stay) { return now + std::min(stay, kLongest); }

}  // namespace

void Scheduler::Impl::on(const Keep& event) {
  if (event.stage == Stage::kNothing) {
    if (kept_.erase(event.function) > 0) let_go(event.function);
    return;
  }
  kept_[event.function] = event;
  uint64_t bytes = 0;
  for (const ObjectNeed& need : event.objects) bytes += round_up(need.bytes);
  const auto homes = devices_.homes(event.function);
  const auto where = homes.empty() ? devices_.emptiest(bytes) : std::optional(homes.front());
  if (!where) return;
  Device& device = *devices_.find(*where);
  const Group group = group_of(event.function, event.domain);
  if (device.aheads.size() >= kMostAheads) device.aheads.pop_front();
  device.aheads.push_back({event.function, group, event.objects, event.stage, 0, 0});
  touched_.insert(device.id);
  // What is there already has more time from now on.
  if (const auto executor = device.executors.find(group); executor != device.executors.end()) {
    stay(device.id, device.ledger, {executor->second, Ledger::kContext}, event.until, true);
    if (event.stage == Stage::kHot)
      for (const ObjectNeed& need : event.objects)
        stay(device.id, device.ledger, {executor->second, need.object}, event.until, true);
  }
  if (has_host_ && event.stage >= Stage::kHost)
    for (const ObjectNeed& need : event.objects) stay({0}, host_, host_key(need.object), event.until, true);
}

// Several functions may have the same object, and each of them may be kept.
Time Scheduler::Impl::kept_until(DeviceId where, Ledger::Key key) {
  Time until{0};
  const Executor* executor = where.value == 0 ? nullptr : devices_.find(key.first);
  for (const auto& [function, keep] : kept_) {
    const bool is_context = key.second == Ledger::kContext;
    const Stage stage = is_context ? Stage::kContext : where.value == 0 ? Stage::kHost : Stage::kHot;
    if (keep.stage < stage || keep.until <= until) continue;
    if (executor &&
        (executor->group.domain != keep.domain || executor->group.own_function.value_or(function) != function))
      continue;
    if (is_context || std::any_of(keep.objects.begin(), keep.objects.end(),
                                  [&](const ObjectNeed& need) { return need.object == key.second; }))
      until = keep.until;
  }
  return std::min(until, now_ + kLongest);
}

void Scheduler::Impl::let_go(FunctionId function) {
  const auto go = [&](DeviceId where, Ledger& ledger) {
    for (const Ledger::Key& key : ledger.items_of(function)) {
      Ledger::Item& item = *ledger.find(key);
      if (!item.kept) continue;
      item.until = now_;
      const Time others = kept_until(where, key);
      stay(where, ledger, key, std::max(others, now_ + config_.keep_alive), others > now_);
    }
  };
  for (const DeviceId id : devices_.homes(function)) go(id, devices_.find(id)->ledger);
  if (has_host_) go({0}, host_);
}

void Scheduler::Impl::stay(Device& device, const RunRecord& run) {
  const bool is_gone = blame_.is_gone(run.function);
  uint64_t object_bytes = 0;
  for (const ObjectNeed& need : run.objects) object_bytes += need.bytes;
  const auto rent_of = [&](uint64_t bytes, uint64_t memory) {
    return static_cast<double>(bytes) / static_cast<double>(std::max<uint64_t>(memory, 1)) *
           static_cast<double>(Duration::seconds(1).ns) / static_cast<double>(config_.rent_second.ns);
  };
  const auto stay_of = [&](int stage, int64_t price_ns, uint64_t bytes, uint64_t memory) {
    if (is_gone && stage < 2) return Duration{0};  // others may use its context
    return exit_->stay(arrivals_, run.function, price_ns, rent_of(bytes, memory), stage, config_);
  };
  const auto kept = kept_.find(run.function);
  const Stage floor = kept != kept_.end() && kept->second.until > now_ ? kept->second.stage : Stage::kNothing;
  const auto at_least = [&](Stage stage, Time until) {
    return floor >= stage && !QUERN_MUTANT(36) ? std::max(until, std::min(kept->second.until, now_ + kLongest)) : until;
  };

  const uint64_t device_bytes = object_bytes + run.memory_bytes;
  const Duration hot = stay_of(0, prices_.load_ns(device.id, device_bytes), device_bytes, device.memory_bytes);
  Duration host = hot;
  const Time until_hot = at_least(Stage::kHot, after(now_, hot));
  for (const ObjectNeed& need : run.objects)
    stay(device.id, device.ledger, {run.executor, need.object}, until_hot, floor >= Stage::kHot);
  if (run.has_lane) stay(device.id, device.ledger, {run.executor, Ledger::lane_id(run.lane)}, until_hot, false);
  if (has_host_ && object_bytes > 0) {
    host = std::max(hot, stay_of(1, prices_.fetch_ns(object_bytes), object_bytes, host_.memory_bytes()));
    const Time until = at_least(Stage::kHost, after(now_, host));
    for (const ObjectNeed& need : run.objects) stay({0}, host_, host_key(need.object), until, floor >= Stage::kHost);
  }
  const Duration context =
      std::max(host, stay_of(2, prices_.start_ns(device.id), device.context_bytes, device.memory_bytes));
  stay(device.id, device.ledger, {run.executor, Ledger::kContext}, at_least(Stage::kContext, after(now_, context)),
       floor >= Stage::kContext);
}

void Scheduler::Impl::stay(DeviceId where, Ledger& ledger, Ledger::Key key, Time until, bool kept) {
  Ledger::Item* item = ledger.find(key);
  if (!item || item->state == Ledger::State::kLeaving) return;
  const bool has_until = item->until != Time::never() && item->until > now_;
  item->until = has_until ? std::max(item->until, until) : until;
  if (kept || (item->kept && !has_until)) ledger.keep(key, kept);
  arm_exit(where, ledger, key);
}

void Scheduler::Impl::arm_exit(DeviceId where, Ledger& ledger, Ledger::Key key) {
  Ledger::Item* item = ledger.find(key);
  if (!item || item->state == Ledger::State::kLeaving || item->until == Time::never()) return;
  if (item->pins > 0 || item->exit_at <= item->until || item->until - now_ > kNoTimer) return;
  if (item->exit_at != Time::never()) exits_.erase({item->exit_at, {where, key}});
  item->exit_at = item->until;
  exits_.insert({item->exit_at, {where, key}});
}

void Scheduler::Impl::exit_due() {
  while (!exits_.empty() && exits_.begin()->first <= now_) {
    const auto [where, key] = exits_.begin()->second;
    exits_.erase(exits_.begin());
    Device* device = where.value == 0 ? nullptr : devices_.find(where);
    Ledger& ledger = device ? device->ledger : host_;
    Ledger::Item& item = *ledger.find(key);
    item.exit_at = Time::never();
    if ((item.pins > 0 && !QUERN_MUTANT(34)) || item.state == Ledger::State::kLeaving ||
        item.state == Ledger::State::kPromised)
      continue;  // armed anew when its run is over
    Time until = item.until;
    if (!kept_.empty() && !QUERN_MUTANT(36)) until = std::max(until, kept_until(where, key));
    // What is in a context goes with it, so it stays as long as that does.
    if (key.second == Ledger::kContext) until = std::max(until, ledger.latest_of(key.first));
    if (until > now_) {
      item.until = until;
      if (until - now_ > kNoTimer) continue;
      item.exit_at = until;
      exits_.insert({until, {where, key}});
      continue;
    }
    ++exits_done_;
    if (device)
      leave(*device, key);
    else
      leave_host(key.second);
  }
}

void Scheduler::Impl::send_away(FunctionId function) {
  const auto go = [&](Device* device, Ledger& ledger) {
    for (const Ledger::Key& key : ledger.items_of(function)) {
      const Ledger::Item* item = ledger.find(key);
      if (!item || !item->rank || key.second == Ledger::kContext) continue;
      if (!kept_.empty() && kept_until(device ? device->id : DeviceId{0}, key) > now_) continue;
      ++exits_done_;
      if (device)
        leave(*device, key);
      else
        leave_host(key.second);
    }
  };
  for (const DeviceId id : devices_.unsettle(function)) {
    Device& device = *devices_.find(id);
    go(&device, device.ledger);
  }
  if (has_host_) go(nullptr, host_);
}

}  // namespace quern::sched
