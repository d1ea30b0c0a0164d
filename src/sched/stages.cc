// SPDX-License-Identifier: Apache-2.0
//
// A function leaves a device in stages: first its objects (the host still has them), then those of the host, then its
// context. How long each stays follows from what keeping it costs and what coming back would (policy/exit.h). Objects
// and contexts may be shared, so it is they that have a time to leave, the latest that any function gave them. A timer
// is moved only when it fires: a warm request sets no timer.
#include <algorithm>
#include <optional>

#include "sched/core.h"
#include "sched/mutant.h"

namespace quern::sched {
namespace {

constexpr Duration kLongest = Duration::seconds(10LL * 365 * 86400);  // for ever, for a machine
constexpr Duration kNoTimer = Duration::seconds(365LL * 86400);
constexpr size_t kMostAheads = 64;
constexpr size_t kMostUnplaced = 1024;

Time after(Time now, Duration stay) { return now + std::min(stay, kLongest); }

/// The stage from which on it is there; device 0 is the host.
Stage stage_of(DeviceId where, Ledger::Key key) {
  if (where.value == 0) return Stage::kHost;
  return key.second == Ledger::kContext ? Stage::kContext : Stage::kHot;
}

}  // namespace

void Scheduler::Impl::on(const Keep& event) {
  const Keeps::Kept* known = keeps_.find(event.function);
  const std::optional<Keeps::Kept> before = known ? std::optional(*known) : std::nullopt;
  keeps_.set(event);
  if (before) let_go(*before);
  if (event.stage == Stage::kNothing) return;
  // What is there already has more time from now on.
  for_each_kept(*keeps_.find(event.function), [&](DeviceId where, Ledger& ledger, Ledger::Key key) {
    if (kept_until(where, key) > now_) stay(where, ledger, key, now_);
  });
  unplaced_keeps_.erase(event.function);
  if (bring_kept(event.function) || unplaced_keeps_.size() >= kMostUnplaced) return;
  unplaced_keeps_.insert(event.function);
}

bool Scheduler::Impl::bring_kept(FunctionId function) {
  const Keeps::Kept& kept = *keeps_.find(function);
  uint64_t bytes = 0;
  for (const ObjectNeed& need : kept.objects) bytes += round_up(need.bytes);
  const auto homes = devices_.homes(function);
  const auto where = homes.empty() ? devices_.emptiest(bytes) : std::optional(homes.front());
  if (!where) return false;
  Device& device = *devices_.find(*where);
  std::erase_if(device.aheads, [&](const Ahead& ahead) { return ahead.function == function; });
  if (device.aheads.size() >= kMostAheads) device.aheads.pop_front();
  device.aheads.push_back({.function = function,
                           .group = group_of(function, kept.domain),
                           .objects = kept.objects,
                           .stage = kept.highest(now_)});
  touched_.insert(device.id);
  return true;
}

void Scheduler::Impl::bring_unplaced() {
  std::erase_if(unplaced_keeps_, [&](FunctionId function) { return !keeps_.find(function) || bring_kept(function); });
}

// Several functions may have the same object or context, and each of them may be kept.
Time Scheduler::Impl::kept_until(DeviceId where, Ledger::Key key) const {
  if (keeps_.empty()) return {0};
  const bool is_context = key.second == Ledger::kContext;
  Time until{0};
  if (where.value == 0) {
    until = keeps_.on_host(key.second);
  } else if (const Executor* executor = devices_.find(key.first); executor && executor->group.own_function) {
    const Keeps::Kept* kept = keeps_.find(*executor->group.own_function);
    const auto is_it = [&](const ObjectNeed& need) { return need.object == key.second; };
    if (kept && (is_context || std::any_of(kept->objects.begin(), kept->objects.end(), is_it)))
      until = kept->at(stage_of(where, key));
  } else if (executor) {
    until = is_context ? keeps_.context(executor->group.domain) : keeps_.on_device(executor->group.domain, key.second);
  }
  return std::min(until, now_ + kLongest);
}

template <class F>
void Scheduler::Impl::for_each_kept(const Keeps::Kept& kept, F&& f) {
  // It may have had an executor of its own meanwhile.
  for (const Group& group : {Group{kept.domain, std::nullopt}, Group{kept.domain, kept.function}}) {
    for (const DeviceId id : devices_.with(group)) {
      Device& device = *devices_.find(id);
      const ExecutorId executor = device.executors.at(group);
      const auto visit = [&](Ledger::Key key) {
        if (device.ledger.find(key)) f(id, device.ledger, key);
      };
      visit({executor, Ledger::kContext});
      for (const ObjectNeed& need : kept.objects) visit({executor, need.object});
    }
  }
  for (const ObjectNeed& need : kept.objects)
    if (has_host_ && host_.find(host_key(need.object))) f(DeviceId{0}, host_, host_key(need.object));
}

void Scheduler::Impl::let_go(const Keeps::Kept& kept) {
  for_each_kept(kept, [&](DeviceId where, Ledger& ledger, Ledger::Key key) {
    const Time was = kept.at(stage_of(where, key));
    if (was <= now_ || std::min(was, now_ + kLongest) <= kept_until(where, key)) return;
    ledger.find(key)->until = now_;
    stay(where, ledger, key, now_ + config_.keep_alive);
  });
}

void Scheduler::Impl::lapse() {
  while (const auto kept = keeps_.lapse(now_))
    for_each_kept(*kept, [&](DeviceId where, Ledger& ledger, Ledger::Key key) {
      if (ledger.find(key)->kept) ledger.keep(key, kept_until(where, key) > now_);
    });
}

void Scheduler::Impl::stay(Device& device, const RunRecord& run) {
  const bool is_gone = blame_.is_gone(run.function);
  uint64_t object_bytes = 0;
  for (const ObjectNeed& need : run.objects) object_bytes += need.passing ? 0 : need.bytes;
  const auto rent_of = [&](uint64_t bytes, uint64_t memory) {
    return static_cast<double>(bytes) / static_cast<double>(std::max<uint64_t>(memory, 1)) *
           static_cast<double>(Duration::seconds(1).ns) / static_cast<double>(config_.rent_second.ns);
  };
  const auto stay_of = [&](int stage, int64_t price_ns, uint64_t bytes, uint64_t memory) {
    if (is_gone && stage < 2) return Duration{0};  // others may use its context
    return exit_->stay(arrivals_, run.function, price_ns, rent_of(bytes, memory), stage, config_);
  };
  const uint64_t device_bytes = object_bytes + run.memory_bytes;
  const Duration hot = stay_of(0, prices_.load_ns(device.id, device_bytes), device_bytes, device.memory_bytes);
  Duration host = hot;
  const Time until_hot = after(now_, hot);
  const auto object_stays = [&](ObjectId object, Time until) {
    const Ledger::Key key{run.executor, object};
    const Ledger::Item* item = device.ledger.find(key);
    if (item && item->unwanted && item->rank) return leave(device, key);
    stay(device.id, device.ledger, key, until);
  };
  for (const ObjectNeed& need : run.objects) object_stays(need.object, until_hot);
  for (const Made& made : run.makes) object_stays(made.object, after(now_, std::max(made.stays, hot)));
  if (run.has_lane) stay(device.id, device.ledger, {run.executor, Ledger::lane_id(run.lane)}, until_hot);
  if (has_host_ && object_bytes > 0) {
    host = std::max(hot, stay_of(1, prices_.fetch_ns(object_bytes), object_bytes, host_.memory_bytes()));
    for (const ObjectNeed& need : run.objects) stay({0}, host_, host_key(need.object), after(now_, host));
  }
  const Duration context =
      std::max(host, stay_of(2, prices_.start_ns(device.id), device.context_bytes, device.memory_bytes));
  stay(device.id, device.ledger, {run.executor, Ledger::kContext}, after(now_, context));
}

void Scheduler::Impl::stay(DeviceId where, Ledger& ledger, Ledger::Key key, Time until) {
  Ledger::Item* item = ledger.find(key);
  if (!item || item->state == Ledger::State::kLeaving) return;
  const Time kept = kept_until(where, key);
  if (!QUERN_MUTANT(36)) until = std::max(until, kept);
  // One that never had a time to leave has none to be longer than.
  const bool has_until = item->until != Time::never() && item->until > now_;
  item->until = has_until ? std::max(item->until, until) : until;
  ledger.keep(key, kept > now_);
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
    if (!QUERN_MUTANT(36)) until = std::max(until, kept_until(where, key));
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
    if (!device) {
      leave_host(key.second);
      continue;
    }
    leave(*device, key);
    touched_.insert(where);  // what it leaves can be promised
  }
}

void Scheduler::Impl::send_away(FunctionId function) {
  const auto go = [&](Device* device, Ledger& ledger) {
    for (const Ledger::Key& key : ledger.items_of(function)) {
      const Ledger::Item* item = ledger.find(key);
      if (!item || !item->rank || key.second == Ledger::kContext) continue;
      if (kept_until(device ? device->id : DeviceId{0}, key) > now_) continue;
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
