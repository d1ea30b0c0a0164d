// SPDX-License-Identifier: Apache-2.0
#include "sched/ledger.h"

#include "sched/mutant.h"

namespace quern::sched {

uint64_t Ledger::shortage(uint64_t more) const {
  const uint64_t leaving = QUERN_MUTANT(1) ? 2 * leaving_ : leaving_;
  const uint64_t wanted = held_ + (QUERN_MUTANT(2) ? 0 : promised_) + more;
  return wanted > memory_ + leaving ? wanted - memory_ - leaving : 0;
}

void Ledger::promise_context(ExecutorId executor, uint64_t bytes) {
  contexts_[executor].bytes = bytes;
  promised_ += bytes;
}

void Ledger::start_context(ExecutorId executor) {
  Context& context = contexts_.at(executor);
  context.held = true;
  promised_ -= context.bytes;
  held_ += context.bytes;
}

void Ledger::end_context(ExecutorId executor) {
  Context& context = contexts_.at(executor);
  if (context.leaving) return;
  set_idle(executor, false, 0);
  context.leaving = true;
  if (!context.held) return;
  leaving_ += context.bytes;
  for (auto it = items_.lower_bound({executor, {0}}); it != items_.end() && it->first.first == executor; ++it) {
    Item& item = it->second;
    if (item.state == State::kLoading || item.state == State::kResident) {
      unlist(it->first, item);
      item.state = State::kLeaving;
      leaving_ += item.bytes;
    }
  }
}

void Ledger::drop_context(ExecutorId executor) {
  const auto context = contexts_.find(executor);
  if (context == contexts_.end()) return;
  set_idle(executor, false, 0);
  if (context->second.held) {
    held_ -= context->second.bytes;
    if (context->second.leaving) leaving_ -= context->second.bytes;
  } else {
    promised_ -= context->second.bytes;
  }
  for (auto it = items_.lower_bound({executor, {0}}); it != items_.end() && it->first.first == executor;) {
    const Item& item = it->second;
    unlist(it->first, item);
    if (item.state == State::kPromised || item.returns) promised_ -= item.bytes;
    if (item.state != State::kPromised && !QUERN_MUTANT(3)) held_ -= item.bytes;
    if (item.state == State::kLeaving) leaving_ -= item.bytes;
    it = items_.erase(it);
  }
  contexts_.erase(context);
}

void Ledger::set_idle(ExecutorId executor, bool is_idle, uint64_t last_use) {
  Context& context = contexts_.at(executor);
  if (context.idle) {
    idle_contexts_.erase({context.last_use, executor});
    idle_bytes_ -= context.bytes;
  }
  context.idle = is_idle && !context.leaving && context.held;
  context.last_use = last_use;
  if (context.idle) {
    idle_contexts_.insert({last_use, executor});
    idle_bytes_ += context.bytes;
  }
}

const Ledger::Item* Ledger::find(Key key) const {
  const auto found = items_.find(key);
  return found == items_.end() ? nullptr : &found->second;
}

void Ledger::list(Key key, const Item& item) {
  if (idle_objects_.insert({item.last_use, key}).second) idle_bytes_ += item.bytes;
}

void Ledger::unlist(Key key, const Item& item) {
  if (idle_objects_.erase({item.last_use, key}) > 0) idle_bytes_ -= item.bytes;
}

void Ledger::pin(Key key, uint64_t bytes, uint64_t last_use) {
  auto [it, fresh] = items_.try_emplace(key);
  Item& item = it->second;
  unlist(key, item);
  if (fresh) item.bytes = bytes;
  const bool comes_back = item.state == State::kLeaving && !item.returns;
  if (fresh || comes_back) promised_ += item.bytes;
  item.returns |= comes_back;
  if (!QUERN_MUTANT(4) || item.pins == 0) ++item.pins;
  item.last_use = last_use;
}

void Ledger::unpin(Key key) {
  const auto it = items_.find(key);
  if (it == items_.end()) return;  // it went with its executor
  Item& item = it->second;
  if (item.pins == 0) return;
  if (--item.pins > 0 && !(QUERN_MUTANT(29) && item.state == State::kResident)) return;
  if (item.state == State::kPromised) {
    promised_ -= item.bytes;
    items_.erase(it);
  } else if (item.returns) {
    promised_ -= item.bytes;
    item.returns = false;
  } else if (item.state != State::kLeaving) {
    list(key, item);
  }
}

void Ledger::loading(Key key) {
  Item& item = items_.at(key);
  item.state = State::kLoading;
  promised_ -= item.bytes;
  held_ += item.bytes;
}

void Ledger::loaded(Key key) { items_.at(key).state = State::kResident; }

void Ledger::absent(Key key) {
  const auto it = items_.find(key);
  Item& item = it->second;
  unlist(key, item);
  held_ -= item.bytes;
  if (item.state == State::kLeaving) leaving_ -= item.bytes;
  if (!item.returns) {
    items_.erase(it);
    return;
  }
  item.returns = false;
  item.state = State::kPromised;
}

void Ledger::leaving(Key key) {
  Item& item = items_.at(key);
  unlist(key, item);
  item.state = State::kLeaving;
  leaving_ += item.bytes;
}

Scheduler::Books Ledger::books() const {
  Scheduler::Books books{memory_, held_, promised_, leaving_, {}};
  for (const auto& [key, item] : items_)
    books.entries.push_back({key.first, key.second, item.bytes, item.state, item.pins});
  return books;
}

}  // namespace quern::sched
