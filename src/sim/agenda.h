// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace quern::sim {

/// What is to happen, in order of time, and at one time in the order it was put there: the same run always takes the
/// same turns. A binary heap of plain entries; nothing is allocated per entry. What was called off stays in it, and is
/// told by its maker when its time comes.
class Agenda {
 public:
  enum class Kind : uint8_t {
    kCall,          ///< a: the load that calls
    kObjectGone,    ///< a: object
    kRunStarts,     ///< a: index of the device, which may be free
    kRunEnds,       ///< a: run
    kRunGivenUp,    ///< a: run; it does not get to the device
    kGateChanges,   ///< a: launcher, b: the epoch of its grant; it opens or closes by itself
    kMeters,        ///< a: launcher, b: which of its times on the device, or 0
    kKernels,       ///< a: index of the device, b: its epoch; a kernel begins, ends or can be launched
    kExecutorUp,    ///< a: executor
    kExecutorGone,  ///< a: executor
    kLoaded,        ///< a: executor, b: object
    kUnloaded,      ///< a: executor, b: object
    kTrimmed,       ///< a: executor, b: lane
    kFetched,       ///< a: object, b: 1 if it failed
    kFlight,        ///< a: index of the device
    kBlankReady,    ///< a: index of the device, b: its generation
    kReport,        ///< a: where it is kept, b: executor
    kDeviceUp,      ///< a: index of the device
    kMemoryBack,    ///< a: index of the device
    kHostBack,
    kProgram,       ///< a: index of the program, b: its life; it comes, or has work again
    kProgramTells,  ///< the same; it says that it has work
    kProgramEnds,   ///< a: index of the program
    kFault,         ///< a: its kind
    kFaultsEnd,
  };
  struct Entry {
    Time at;
    uint64_t order = 0;  ///< sequence * 256 + kind: one comparison, and 32 bytes in all
    uint64_t a = 0, b = 0;

    Kind kind() const { return static_cast<Kind>(order & 0xff); }
    bool operator<(const Entry& other) const { return at != other.at ? at > other.at : order > other.order; }
  };

  void put(Time at, Kind kind, uint64_t a = 0, uint64_t b = 0) {
    heap_.push_back({at, ++sequence_ << 8 | static_cast<uint64_t>(kind), a, b});
    std::push_heap(heap_.begin(), heap_.end());
  }
  bool empty() const { return heap_.empty(); }
  const Entry& top() const { return heap_.front(); }
  Entry take() {
    std::pop_heap(heap_.begin(), heap_.end());
    const Entry entry = heap_.back();
    heap_.pop_back();
    return entry;
  }
  /// All entries of which `is_over` is true leave.
  template <class F>
  void remove_if(F&& is_over) {
    std::erase_if(heap_, is_over);
    std::make_heap(heap_.begin(), heap_.end());
  }

 private:
  std::vector<Entry> heap_;
  uint64_t sequence_ = 0;
};

}  // namespace quern::sim
