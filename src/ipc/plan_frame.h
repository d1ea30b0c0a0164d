// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/result.h"

namespace quern::ipc {

/// A plan as an executor gets it: everything about one (function, dims) that no longer changes. The words are those of
/// function/plan.h.
struct PlanFrame {
  static constexpr uint32_t kNone = UINT32_MAX;
  using Size3 = std::array<uint64_t, 3>;

  enum class Role : uint8_t { kConstant, kInput, kOutput, kScratch };
  struct Buffer {
    Role role = Role::kScratch;
    uint64_t size_bytes = 0;
    uint64_t object = 0;     ///< constants
    uint32_t arena = kNone;  ///< where it lies in memory of the lane; kNone: it is bound or loaded
    uint64_t offset = 0;
  };
  /// A scalar: `bits`, or what the run has in `slot`.
  struct Value {
    uint32_t slot = kNone;
    Dtype dtype = Dtype::kInt32;
    uint64_t bits = 0;
    auto operator<=>(const Value&) const = default;
  };
  struct Argument {
    enum class Kind : uint8_t { kBuffer, kScalar, kLocal } kind = Kind::kBuffer;
    uint32_t buffer = 0;
    uint64_t offset = 0, size_bytes = 0;  ///< of a view; size 0: the whole buffer
    Value value;
    uint64_t local_bytes = 0;
    auto operator<=>(const Argument&) const = default;
  };
  struct Launch {
    uint32_t kernel = 0;  ///< in the manifest, for reports
    std::string entry;
    uint32_t dimensions = 1;
    Size3 global = {1, 1, 1}, local = {0, 0, 0};
    std::vector<Argument> arguments;
    uint64_t identity = 0;   ///< of the kernel: the same program, entry, sizes and shapes have the same
    bool sliceable = false;  ///< launches over parts of the range do what one over all of it does
    uint64_t group_ps = 0;   ///< what a group of it took before, in picoseconds; 0: it was never seen
  };
  struct Fill {
    uint32_t buffer = 0;
    uint64_t offset = 0, size_bytes = 0;
    Value value;
  };
  struct Until {
    enum class Compare : uint8_t { kBelow, kAbove, kEquals } compare = Compare::kBelow;
    uint32_t buffer = 0;
    Dtype dtype = Dtype::kFp32;
    uint64_t offset = 0, every = 0;  ///< every 0: there is no until
    Value value;                     ///< fp64, int64 or uint64, whatever the element is
    std::string name;                ///< of the buffer, for messages
  };
  struct Repeat {
    uint64_t rounds = 0;
    std::vector<uint32_t> bodies, checks;
    std::vector<std::pair<uint32_t, uint32_t>> swaps;
    Until until;
    bool limit_is_error = false;
    uint32_t report = kNone;
  };
  struct Step {
    enum class Kind : uint8_t { kLaunch, kFill, kRepeat } kind = Kind::kLaunch;
    uint32_t index = 0, end = 0;
  };

  uint64_t program = 0;
  uint32_t slots = 0, reports = 0;
  std::vector<Buffer> buffers;
  std::vector<uint64_t> arenas;
  std::vector<Launch> launches;
  std::vector<Fill> fills;
  std::vector<Repeat> repeats;
  std::vector<Step> steps;
};

Bytes encode(const PlanFrame& plan);
/// Also checks that every index and range is inside what it points into, and that steps nest as they should: who walks
/// a plan that was decoded needs no checks of its own.
Result<PlanFrame> decode_plan(std::span<const std::byte> bytes);

}  // namespace quern::ipc
