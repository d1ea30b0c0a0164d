// SPDX-License-Identifier: Apache-2.0
#include "bench/fast_tokens.h"

#include <algorithm>
#include <deque>
#include <optional>

namespace quern::bench {
namespace {

struct Token {
  Time from, until;
};

class Tokens {
 public:
  Tokens(const TokenRules& rules, double quota)
      : rules_(rules), length_{static_cast<int64_t>(static_cast<double>(rules.window.ns) * quota)} {}

  /// When a client that launches at `now` at the earliest may do so.
  Time launch(Time now) {
    if (current_ && now - current_->from + rules_.guard <= length_) return now;
    if (current_) {
      if (!rules_.counts_rest) current_->until = std::min(current_->until, now);
      given_.push_back(*current_);
    }
    const Time at = eligible(now);
    current_ = Token{at, at + length_};
    return at + rules_.trip;
  }

 private:
  Duration used(Time now) const {
    Duration all{0};
    for (const Token& token : given_) {
      const Time from = std::max(token.from, window_before(now));
      if (token.until > from) all = all + (token.until - from);
    }
    return all;
  }
  Time window_before(Time now) const { return {now.ns - rules_.window.ns}; }

  // Less than all of the quota: a token that began a window ago leaves room for the next one.
  Time eligible(Time now) {
    for (;;) {
      while (!given_.empty() && given_.front().until <= window_before(now)) given_.pop_front();
      const Duration over = used(now) - length_;
      if (over.ns < 0) return now;
      // As time passes the oldest leaves the window, and nothing before it.
      const Time oldest = std::max(given_.front().from, window_before(now));
      const Duration gone = std::min(Duration{over.ns + 1}, given_.front().until - oldest);
      now = std::max(now, given_.front().from + rules_.window) + gone;
    }
  }

  const TokenRules rules_;
  const Duration length_;
  std::deque<Token> given_;  ///< before the current one, the oldest first
  std::optional<Token> current_;
};

}  // namespace

Duration token_latency(const TokenRules& rules, const TokenClient& client, uint32_t requests) {
  constexpr uint32_t kFirst = 4;
  Tokens tokens(rules, client.quota);
  const Duration launch{client.launching.ns / client.kernels}, kernel{client.device.ns / client.kernels};
  Time now{0};
  Duration all{0};
  for (uint32_t i = 0; i < kFirst + requests; ++i) {
    const Time began = now;
    Time device = now;
    for (uint32_t k = 0; k < client.kernels; ++k) {
      now = tokens.launch(now) + launch;
      device = std::max(device, now) + kernel;
    }
    now = std::max(now, device);
    if (i >= kFirst) all = all + (now - began);
    now = now + client.pause;
  }
  return {all.ns / requests};
}

}  // namespace quern::bench
