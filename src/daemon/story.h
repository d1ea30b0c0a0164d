// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "base/time.h"
#include "daemon/daemon.h"

namespace quern::daemon {

/// What became of a request, and why it took so long.
struct Story {
  RequestStatus status;
  CallTimes times;
  RequestAccount account;
  std::vector<Phase> setup;  ///< what it had to wait for, in the order it began; empty for a warm one
  std::vector<std::string> sentences;
};

/// The story in sentences; `now` is its end where it has none. Of what it waited for, all that took more than a
/// millisecond or a twentieth of its life.
std::vector<std::string> tell(const Story& story, Time now);

}  // namespace quern::daemon
