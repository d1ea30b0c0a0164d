// SPDX-License-Identifier: Apache-2.0
#include "sched/ledger.h"

#include <algorithm>

#include "sched/mutant.h"

namespace quern::sched {
namespace {

constexpr uint64_t kMostLanes = uint64_t{1} << 20;

}  // namespace

Ledger::Kind Ledger::kind_of(ObjectId id) {
  if (id == kContext) return Kind::kContext;
  return id.value > UINT64_MAX - 1 - kMostLanes ? Kind::kLane : Kind::kObject;
}

uint64_t Ledger::shortage(uint64_t more) const {
  const uint64_t leaving = QUERN_MUTANT(1) ? 2 * leaving_ : leaving_;
  const uint64_t wanted = held_ + (QUERN_MUTANT(2) ? 0 : promised_) + more;
  return wanted > memory_ + leaving ? wanted - memory_ - leaving : 0;
}

const Ledger::Item* Ledger::find(Key key) const {
  const auto found = items_.find(key);
  return found == items_.end() ? nullptr : &found->second;
}

Ledger::Item* Ledger::find(Key key) {
  const auto found = items_.find(key);
  return found == items_.end() ? nullptr : &found->second;
}

void Ledger::list(Key key, Item& item) {
  if (item.rank) return;
  item.rank = eviction_->rank({kind_of(key.second), item.bytes, item.reload_ns, item.uses}, floor_);
  idle_.insert({item.kept, *item.rank, item.last_use, key});
  idle_bytes_ += item.bytes;
  if (item.kept) idle_kept_bytes_ += item.bytes;
}

void Ledger::unlist(Key key, Item& item) {
  if (!item.rank) return;
  idle_.erase({item.kept, *item.rank, item.last_use, key});
  idle_bytes_ -= item.bytes;
  if (item.kept) idle_kept_bytes_ -= item.bytes;
  item.rank.reset();
}

void Ledger::raise_floor(Key key) {
  const Item& item = items_.at(key);
  if (item.rank && !item.kept) floor_ = std::max(floor_, *item.rank);
}

bool Ledger::pin(Key key, uint64_t bytes, const Use& use) {
  auto [it, fresh] = items_.try_emplace(key);
  Item& item = it->second;
  unlist(key, item);
  bool was_there = true;
  if (fresh) {
    item.bytes = bytes;
    promised_ += bytes;
    was_there = false;
  } else if (item.state == State::kLeaving) {
    if (!item.returns) {
      item.returns = true;
      item.next_bytes = bytes;
      promised_ += bytes;
    }
    was_there = false;
  } else if (bytes > item.bytes) {  // a lane, which one run at a time has
    item.growth = bytes - item.bytes;
    promised_ += item.growth;
    was_there = false;
  }
  if (!QUERN_MUTANT(4) || item.pins == 0) ++item.pins;
  ++item.uses;
  item.last_use = use.counter;
  item.reload_ns = use.reload_ns;
  item.function = use.function;
  item.used = use.now;
  return was_there;
}

void Ledger::unpin(Key key, Time now) {
  const auto it = items_.find(key);
  if (it == items_.end()) return;  // it went with its executor
  Item& item = it->second;
  if (item.pins == 0) return;
  item.used = now;
  if (--item.pins > 0 && !(QUERN_MUTANT(29) && item.state == State::kResident && kind_of(key.second) == Kind::kObject))
    return;
  promised_ -= item.growth;
  item.growth = 0;
  if (item.state == State::kPromised) {
    promised_ -= item.bytes;
    items_.erase(it);
  } else if (item.returns) {
    promised_ -= item.next_bytes;
    item.returns = false;
  } else if (item.state != State::kLeaving) {
    list(key, item);
  }
}

uint64_t Ledger::missing(Key key) const {
  const Item& item = items_.at(key);
  return item.state == State::kPromised ? item.bytes : item.growth;
}

void Ledger::begin(Key key, Time now) {
  Item& item = items_.at(key);
  const uint64_t more = item.state == State::kPromised ? item.bytes : item.growth;
  promised_ -= more;
  held_ += QUERN_MUTANT(31) && item.growth > 0 ? 0 : more;
  if (item.state == State::kPromised) {
    item.since = now;
    item.state = kind_of(key.second) == Kind::kLane ? State::kResident : State::kLoading;
  } else {
    item.bytes += item.growth;
    item.growth = 0;
  }
}

void Ledger::bring(Key key, uint64_t bytes, const Use& use) {
  Item& item = items_[key];
  item.bytes = bytes;
  item.state = State::kLoading;
  item.last_use = use.counter;
  item.reload_ns = use.reload_ns;
  item.function = use.function;
  item.since = item.used = use.now;
  held_ += bytes;
  list(key, item);
}

void Ledger::loaded(Key key, Time now) {
  Item& item = items_.at(key);
  item.state = State::kResident;
  item.since = now;
}

void Ledger::absent(Key key) {
  const auto it = items_.find(key);
  if (it == items_.end()) return;
  Item& item = it->second;
  unlist(key, item);
  held_ -= item.bytes;
  promised_ -= item.growth;
  item.growth = 0;
  if (item.state == State::kLeaving) leaving_ -= item.bytes;
  if (!item.returns) {
    items_.erase(it);
    return;
  }
  item.returns = false;
  item.state = State::kPromised;
  item.bytes = item.next_bytes;
}

void Ledger::leaving(Key key) {
  Item& item = items_.at(key);
  unlist(key, item);
  item.state = State::kLeaving;
  item.kept = false;
  leaving_ += item.bytes;
  if (item.pins == 0 || item.returns) return;
  item.returns = true;
  item.next_bytes = item.bytes;
  promised_ += item.bytes;
}

void Ledger::keep(Key key, bool kept) {
  Item& item = items_.at(key);
  if (item.kept == kept) return;
  const bool listed = item.rank.has_value();
  unlist(key, item);
  item.kept = kept;
  if (listed) list(key, item);
}

void Ledger::end_executor(ExecutorId executor) {
  for (auto it = items_.lower_bound({executor, {0}}); it != items_.end() && it->first.first == executor; ++it) {
    Item& item = it->second;
    unlist(it->first, item);
    if (item.state != State::kLoading && item.state != State::kResident) continue;
    promised_ -= item.growth;
    item.growth = 0;
    item.state = State::kLeaving;
    leaving_ += item.bytes;
  }
}

std::vector<std::pair<Ledger::Key, Ledger::Item>> Ledger::drop_executor(ExecutorId executor) {
  std::vector<std::pair<Key, Item>> dropped;
  for (auto it = items_.lower_bound({executor, {0}}); it != items_.end() && it->first.first == executor;) {
    Item& item = it->second;
    unlist(it->first, item);
    if (item.state == State::kPromised) promised_ -= item.bytes;
    if (item.returns) promised_ -= item.next_bytes;
    promised_ -= item.growth;
    if (item.state != State::kPromised && !(QUERN_MUTANT(3) && kind_of(it->first.second) == Kind::kObject))
      held_ -= item.bytes;
    if (item.state == State::kLeaving) leaving_ -= item.bytes;
    dropped.push_back(*it);
    it = items_.erase(it);
  }
  return dropped;
}

bool Ledger::has_content(ExecutorId executor) const {
  const auto it = items_.lower_bound({executor, {0}});
  return it != items_.end() && it->first.first == executor && it->first.second != kContext;
}

uint64_t Ledger::bytes_of(ExecutorId executor) const {
  uint64_t bytes = 0;
  for (auto it = items_.lower_bound({executor, {0}}); it != items_.end() && it->first.first == executor; ++it)
    if (it->second.state == State::kLoading || it->second.state == State::kResident) bytes += it->second.bytes;
  return bytes;
}

Time Ledger::latest_of(ExecutorId executor) const {
  Time latest{0};
  for (auto it = items_.lower_bound({executor, {0}}); it != items_.end() && it->first < Key{executor, kContext}; ++it)
    if (it->second.state != State::kLeaving) latest = std::max(latest, it->second.until);
  return latest;
}

std::vector<Ledger::Key> Ledger::items_of(FunctionId function) const {
  std::vector<Key> keys;
  for (const auto& [key, item] : items_)
    if (item.function == function) keys.push_back(key);
  return keys;
}

Scheduler::Books Ledger::books() const {
  Scheduler::Books books{memory_, held_, promised_, leaving_, {}};
  for (const auto& [key, item] : items_) {
    Scheduler::Entry entry;
    entry.kind = kind_of(key.second);
    entry.executor = key.first;
    if (entry.kind == Kind::kObject) entry.object = key.second;
    if (entry.kind == Kind::kLane) entry.lane = static_cast<uint32_t>(UINT64_MAX - 1 - key.second.value);
    entry.bytes = item.bytes;
    entry.state = item.state;
    entry.pins = item.pins;
    entry.since = item.since;
    entry.used = item.used;
    entry.until = item.until;
    entry.kept = item.kept;
    entry.function = item.function;
    books.entries.push_back(entry);
  }
  return books;
}

}  // namespace quern::sched
