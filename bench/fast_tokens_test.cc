// SPDX-License-Identifier: Apache-2.0
#include "bench/fast_tokens.h"

#include <gtest/gtest.h>

namespace quern::bench {
namespace {

double ms(Duration duration) { return static_cast<double>(duration.ns) / 1e6; }

// Without a guard and a trip, and with all of a token counted, a quota is what it says.
TEST(FastTokens, AQuotaIsAShareOfTheTimeInWhichKernelsAreLaunched) {
  const TokenRules exact{.guard = {0}, .trip = {0}, .counts_rest = true};
  const TokenClient client{.launching = Duration::millis(64), .kernels = 1024};
  for (const double quota : {0.1, 0.2, 0.5, 0.8}) {
    TokenClient limited = client;
    limited.quota = quota;
    EXPECT_NEAR(64 / ms(token_latency(exact, limited, 50)), quota, 0.01) << quota;
  }
}

// 4 ms of 40, less 1 ms of guard and 1 ms on the way: half of what was asked for.
TEST(FastTokens, ShortTokensAreMostlyLost) {
  const TokenRules rules{.counts_rest = true};
  const TokenClient client{.quota = 0.1, .launching = Duration::millis(64), .kernels = 1024};
  EXPECT_NEAR(64 / ms(token_latency(rules, client, 50)), 0.05, 0.005);
}

// The published source gives a second token at once for one that is given back before its end: 14 ms of launches of
// every 46 instead of 8 of 40.
TEST(FastTokens, ATokenGivenBackEarlyIsGivenAgain) {
  const TokenRules rules{.trip = {0}};
  const TokenClient client{.quota = 0.2, .launching = Duration::millis(64), .kernels = 4096};
  EXPECT_NEAR(64 / ms(token_latency(rules, client, 50)), 14.0 / 46, 0.02);
}

// All launches of a request fit one token, and what the device takes for them counts nowhere.
TEST(FastTokens, WhatWasLaunchedIsFree) {
  const TokenClient whole{
      .launching = Duration::millis(1), .device = Duration::millis(250), .pause = Duration::millis(5)};
  TokenClient limited = whole;
  limited.quota = 0.1;
  EXPECT_NEAR(ms(token_latency({}, limited, 50)), ms(token_latency({}, whole, 50)), 2);
}

}  // namespace
}  // namespace quern::bench
