// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "sched/policy/eviction.h"
#include "sched/scheduler.h"

namespace quern::sched {

/// The memory of one device, or of the host: what is held, what is promised on top of it, and what is on its way out.
///
/// Three kinds of things are in it: objects, the memory of lanes, and contexts of executors; on the host only objects.
/// Each is promised while a run that has a slot waits for it, held from the moment it is asked for (Load, Run,
/// StartExecutor) until the shell said that it is gone, and pinned while a run needs it. Two rules hold at every
/// moment, unless memory was lost: held <= memory, so that whatever is asked for can be done; held - leaving + promised
/// <= memory, so that whatever is promised will be. All costs are logarithmic in what is in this one memory.
class Ledger {
 public:
  using State = Scheduler::Entry::State;
  using Kind = Scheduler::Entry::Kind;
  /// Of whom; which of its objects, lanes, or its context.
  using Key = std::pair<ExecutorId, ObjectId>;
  static constexpr ObjectId kContext{UINT64_MAX};
  static constexpr ObjectId lane_id(uint32_t lane) { return {UINT64_MAX - 1 - lane}; }
  static Kind kind_of(ObjectId id);

  struct Item {
    uint64_t bytes = 0;
    State state = State::kPromised;
    uint32_t pins = 0;
    uint64_t last_use = 0;  ///< a counter, not a time
    uint64_t uses = 0;
    int64_t reload_ns = 0;    ///< what it would cost to bring it back
    bool returns = false;     ///< it leaves, and is promised again to a run that came meanwhile
    uint64_t next_bytes = 0;  ///< of a lane: how large it is to be when it returns
    uint64_t growth = 0;      ///< of a lane: promised on top of `bytes`
    bool kept = false;        ///< the last to leave
    bool from_host = false;   ///< its load was begun ahead of a run, and pins it on the host
    bool underway = false;    ///< on the host: it is being read
    bool unwanted = false;    ///< it leaves with the last run that needs it
    FunctionId function;      ///< that needed it last
    Time since, used;
    Time until = Time::never();    ///< when it may leave though there is room
    Time exit_at = Time::never();  ///< when that is looked at
    std::optional<int64_t> rank;   ///< while it is listed as one that may leave
  };
  /// What is told of a thing when it is asked for.
  struct Use {
    FunctionId function;
    int64_t reload_ns = 0;
    uint64_t counter = 0;
    Time now;
  };

  void set_policy(const Eviction& eviction) { eviction_ = &eviction; }
  void set_memory(uint64_t memory_bytes) { memory_ = memory_bytes; }
  uint64_t memory_bytes() const { return memory_; }
  uint64_t held_bytes() const { return held_; }

  /// Bytes short if `more` were promised now; 0: it can be promised.
  uint64_t shortage(uint64_t more) const;
  /// Whether `more` could be promised if all left that may leave.
  bool could_promise(uint64_t more) const { return held_ + promised_ + more <= memory_ + leaving_ + idle_bytes_; }
  /// The same if only what is not kept did.
  bool could_promise_beside_kept(uint64_t more) const { return could_promise(more + idle_kept_bytes_); }
  /// Whether this much can be asked for at once.
  bool has_now(uint64_t bytes) const { return held_ + bytes <= memory_; }

  const Item* find(Key key) const;
  Item* find(Key key);
  /// One more run needs it; an absent one is promised, and one that leaves is to come back. A lane may be needed larger
  /// than it is: the rest is promised. True if it was there already, as large, or on its way.
  bool pin(Key key, uint64_t bytes, const Use& use);
  /// One less. What was only promised is absent again.
  void unpin(Key key, Time now);
  /// How much more is to be held before it is as the run needs it; 0: it is.
  uint64_t missing(Key key) const;
  /// It was asked for: what was promised of it is held. Objects and contexts are loading now, lanes are there.
  void begin(Key key, Time now);
  /// It was asked for though no run needs it yet. There must be room, now and for what is promised.
  void bring(Key key, uint64_t bytes, const Use& use);
  void loaded(Key key, Time now);
  /// Could not be brought, or is gone: it is promised again if a run needs it that came meanwhile.
  void absent(Key key);
  /// It leaves; where a run that has not been sent needs it, it comes back.
  void leaving(Key key);
  /// Has it leave last, or like others; and changes when.
  void keep(Key key, bool kept);

  /// The executor, and all that is in it, is on its way out.
  void end_executor(ExecutorId executor);
  /// It is gone, and all that was in it, which is returned. What runs had promised themselves in it is gone too.
  std::vector<std::pair<Key, Item>> drop_executor(ExecutorId executor);
  /// Whether it has anything beside its context.
  bool has_content(ExecutorId executor) const;
  /// Held by it and not on its way out: what its end would set free.
  uint64_t bytes_of(ExecutorId executor) const;
  /// When the last of what is in it, beside its context, may leave; 0 if nothing is.
  Time latest_of(ExecutorId executor) const;
  std::vector<Key> items_of(FunctionId function) const;  ///< linear in what is here: for functions that are removed

  /// What may leave, first what leaves first: kept, rank, last use, which.
  using Idle = std::set<std::tuple<bool, int64_t, uint64_t, Key>>;
  const Idle& idle() const { return idle_; }
  /// What leaves next, of those that may; `is_wanted` tells whether requests of a function wait. A few are looked at.
  template <class F>
  std::optional<Key> choose(F&& is_wanted) const;
  /// It was chosen: what comes later is ranked above it.
  void raise_floor(Key key);

  Scheduler::Books books() const;

 private:
  /// As one that may leave.
  void list(Key key, Item& item);
  void unlist(Key key, Item& item);

  const Eviction* eviction_ = nullptr;
  uint64_t memory_ = 0, held_ = 0, promised_ = 0, leaving_ = 0;
  uint64_t idle_bytes_ = 0;       // of what may leave
  uint64_t idle_kept_bytes_ = 0;  // of that: what is kept
  int64_t floor_ = 0;
  std::map<Key, Item> items_;
  Idle idle_;
};

template <class F>
std::optional<Ledger::Key> Ledger::choose(F&& is_wanted) const {
  constexpr int kMostLooked = 32;
  std::optional<Key> first, last_resort;
  int looked = 0;
  for (auto it = idle_.begin(); it != idle_.end() && looked < kMostLooked; ++it, ++looked) {
    const Key key = std::get<Key>(*it);
    // What is in a context goes with it: it is its own turn first.
    if (key.second == kContext && has_content(key.first)) {
      if (!last_resort) last_resort = key;
      continue;
    }
    if (!eviction_->looks_ahead() || !is_wanted(items_.at(key).function)) return key;
    if (!first) first = key;
  }
  return first ? first : last_resort;
}

}  // namespace quern::sched
