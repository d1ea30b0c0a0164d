// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "base/result.h"
#include "base/time.h"

namespace quern::hal {

/// A counter that only grows: submission n of a queue sets it to n when it ends.
///
/// A failed timeline stays failed, and every wait on it gets that error, so one lost kernel
/// fails all that depended on it and nothing else. Any thread may ask; one at a time may wait.
class Timeline {
 public:
  virtual ~Timeline() = default;

  /// The last point reached, without blocking; the error once failed.
  virtual Result<uint64_t> reached() = 0;

  /// The last point reached, also once failed: then the submission after this point is the one that failed.
  virtual uint64_t last_reached() = 0;

  /// Until `point` is reached. kDeadline after `limit`, and the work goes on; kInvalid for a point never submitted.
  virtual Status wait(uint64_t point, Duration limit) = 0;

  /// Fails it by hand: the owner of a queue gave up on it. Later submissions are refused with this error.
  virtual void fail(Error error) = 0;
};

}  // namespace quern::hal
