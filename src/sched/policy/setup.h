// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace quern::sched {

/// How does a run get ready? As data: what may happen at a time, and what runs share.
struct Setup {
  /// Who shares a context and the objects in it: the functions of a domain, the runs of one function, or nobody.
  enum class Share : uint8_t { kDomain, kFunction, kNobody } share = Share::kDomain;
  /// Executor, fetches and loads all begin at once, and a run begins before the last of them ended; else one step
  /// begins when the one before it ended.
  bool overlap = true;
  /// What the next requests in the queue need is brought while others run.
  bool prefetch = true;
};

}  // namespace quern::sched
