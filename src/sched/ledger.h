// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sched/scheduler.h"

namespace quern::sched {

/// The memory of one device: what is held, what is promised on top of it, and what is on its way out.
///
/// held: contexts of executors from their start to their end; objects from Load to Unloaded; the memory of runs from
/// Run to their end. promised: what a run that has a slot still waits for. Two rules hold at every moment, unless
/// memory was lost: held <= memory, so that whatever is asked for can be done; held - leaving + promised <= memory, so
/// that whatever is promised will be. All costs are logarithmic in what is on this one device.
class Ledger {
 public:
  using State = Scheduler::Entry::State;
  using Key = std::pair<ExecutorId, ObjectId>;
  struct Item {
    uint64_t bytes = 0;
    State state = State::kPromised;
    uint32_t pins = 0;
    uint64_t last_use = 0;  ///< a counter, not a time
    bool returns = false;   ///< it leaves, and is promised again to a run that came meanwhile
  };

  void set_memory(uint64_t memory_bytes) { memory_ = memory_bytes; }
  uint64_t memory_bytes() const { return memory_; }

  /// Bytes short if `more` were promised now; 0: it can be promised.
  uint64_t shortage(uint64_t more) const;
  /// Whether `more` could be promised if all left that may leave.
  bool could_promise(uint64_t more) const { return held_ + promised_ + more <= memory_ + leaving_ + idle_bytes_; }
  /// Whether this much can be asked for at once.
  bool has_now(uint64_t bytes) const { return held_ + bytes <= memory_; }

  // Contexts.
  void promise_context(ExecutorId executor, uint64_t bytes);
  void start_context(ExecutorId executor);
  /// It, and all that is in it, is on its way out.
  void end_context(ExecutorId executor);
  /// It is gone, and all that was in it. What runs had promised themselves in it is theirs to give up.
  void drop_context(ExecutorId executor);
  /// It has no runs from now on: it may be ended to make room. Or it has.
  void set_idle(ExecutorId executor, bool is_idle, uint64_t last_use);

  // Objects.
  const Item* find(Key key) const;
  /// One more run needs it; an absent one is promised, and one that leaves is to come back.
  void pin(Key key, uint64_t bytes, uint64_t last_use);
  /// One less. What was only promised is absent again.
  void unpin(Key key);
  void loading(Key key);
  void loaded(Key key);
  /// Could not be loaded, or was unloaded: it is promised again if a run needs it that came meanwhile.
  void absent(Key key);
  void leaving(Key key);

  // The memory of runs for themselves.
  void promise(uint64_t bytes) { promised_ += bytes; }
  void unpromise(uint64_t bytes) { promised_ -= bytes; }
  void hold(uint64_t bytes) { held_ += bytes; }
  void release(uint64_t bytes) { held_ -= bytes; }

  /// What may leave: objects that nobody has pinned, and executors without runs, the least recently used first.
  using Ages = std::set<std::pair<uint64_t, Key>>;
  using IdleAges = std::set<std::pair<uint64_t, ExecutorId>>;
  const Ages& idle_objects() const { return idle_objects_; }
  const IdleAges& idle_contexts() const { return idle_contexts_; }

  Scheduler::Books books() const;

 private:
  struct Context {
    uint64_t bytes = 0;
    bool held = false, leaving = false, idle = false;
    uint64_t last_use = 0;
  };
  /// As one that may leave.
  void list(Key key, const Item& item);
  void unlist(Key key, const Item& item);

  uint64_t memory_ = 0, held_ = 0, promised_ = 0, leaving_ = 0;
  uint64_t idle_bytes_ = 0;  // of what may leave
  std::map<Key, Item> items_;
  std::map<ExecutorId, Context> contexts_;
  Ages idle_objects_;
  IdleAges idle_contexts_;
};

}  // namespace quern::sched
