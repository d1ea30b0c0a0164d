// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "base/time.h"

namespace quern::bench {

/// The token scheduler of FaST-GShare, for a client that has a device to itself: how its quota works, and how it leaks.
///
/// A client may launch while it has a token, which lasts for its quota of a window from when it was given. It asks for
/// the next one a little before the end, or with its first launch after it, and gets that as soon as its tokens took
/// less of the last window than its quota. What counts is the clock of the host while kernels are being launched: what
/// the device does with them afterwards is nobody's.
struct TokenRules {
  Duration window = Duration::millis(40);
  Duration guard = Duration::millis(1);  ///< so long before the end of a token no kernel is launched
  Duration trip = Duration::millis(1);   ///< from when a token is given until the client has it; it counts
  /// Of the token that a client gives back, what is left counts too. In the published source it does not, so that it is
  /// given another one at once; what RaPP measured is as if it did.
  bool counts_rest = false;
};

struct TokenClient {
  double quota = 1;          ///< of time: request and limit
  Duration launching = {0};  ///< that the host needs for the launches of a request
  Duration device = {0};     ///< that the device needs for its kernels, beside it
  Duration pause = {0};      ///< between an answer and the next request
  uint32_t kernels = 64;     ///< of a request, all alike
};

/// How long a request takes in the mean, once the first few are over.
Duration token_latency(const TokenRules& rules, const TokenClient& client, uint32_t requests);

}  // namespace quern::bench
