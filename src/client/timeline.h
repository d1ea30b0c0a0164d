// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace quern::client {

/// A trace as the server tells it (GET /v1/trace), ready to be counted and drawn. Times are from its beginning.
struct Timeline {
  enum class Kind : uint8_t { kRun, kWork, kKernel, kSlice, kGate, kGap, kLoad, kExecutor };
  static constexpr size_t kKinds = 8;
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Device {
    uint64_t process = 0;  ///< its number in the trace
    std::string name;      ///< "device cpu0", "host"
  };
  struct Row {
    enum class Kind : uint8_t { kLauncher, kGate, kGaps, kBrought };
    uint64_t process = 0;
    Kind kind = Kind::kLauncher;
    uint64_t launcher = UINT64_MAX;  ///< whose it is, where one has several rows
    std::string name;
  };
  struct Span {
    Kind kind = Kind::kRun;
    uint32_t row = 0;
    uint32_t owner = kNone;  ///< in `names`: the function or program
    Duration from{0}, to{0};
    size_t at = 0, size = 0;  ///< its event, in `text`
  };

  std::string text;
  Duration length{0};
  uint64_t dropped = 0;                     ///< spans that the server had no room for
  std::vector<Device> devices;              ///< by their numbers
  std::vector<Row> rows;                    ///< in the order in which the trace has them
  std::vector<std::string> names;           ///< of functions and programs
  std::map<uint32_t, uint64_t> priorities;  ///< by name: the most urgent that was seen
  std::vector<Span> spans;                  ///< by when they begin; what contains another stands before it
  Duration gaps_length{0}, filled{0};       ///< of all gaps, and what was on the device in them

  std::string_view event_of(const Span& span) const { return std::string_view(text).substr(span.at, span.size); }
  uint64_t count(Kind kind) const;
};

/// "run", "kernel", "slice", …: `cat` of the events.
std::string_view name_of(Timeline::Kind kind);

/// kInvalid if it is no such trace. Keeps the text, and no more than a few bytes for each of its events: a long trace
/// has a million.
Result<Timeline> read_timeline(std::string text);

}  // namespace quern::client
