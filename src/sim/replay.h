// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quern::sim {

/// What came of feeding a recorded log to a new core.
struct Replay {
  uint64_t events = 0, actions = 0;  ///< that agreed
  uint64_t line = 0;                 ///< of the first difference, from 1; 0: there is none
  std::string difference;            ///< what the log has there, and what the core does now
  bool is_cut = false;               ///< the log ends in the middle of a line; its last event was left out
};

/// A log as `quern serve --record` writes it: a line `config …`, then a line `TIME EVENT` for each event, each followed
/// by `  > ACTION` for every action it gave; all in the words of sched/text.h. Empty lines and lines that begin with #
/// are left out. The core is pure, so its actions must be the recorded ones, word by word. Stops at the first
/// difference.
///
/// kInvalid, with `LINE: what is wrong`, for a line that is none of these, and for time that goes backwards.
Result<Replay> replay(std::string_view text);

}  // namespace quern::sim
