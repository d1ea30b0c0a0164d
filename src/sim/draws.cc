// SPDX-License-Identifier: Apache-2.0
#include "sim/draws.h"

#include <algorithm>
#include <bit>

namespace quern::sim {

double natural_log(double x) {
  constexpr double kLog2 = 0.693147180559945309417;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
  double m = std::bit_cast<double>((bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1023} << 52);
  if (m > 1.4142135623730951) m = m / 2, ++exponent;
  // ln m = 2 artanh(s); with m in [0.7, 1.42] s is below 0.172, and the eighth term is below 1e-13.
  const double s = (m - 1) / (m + 1), square = s * s;
  double sum = 0;
  for (int k = 17; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * s * sum + exponent * kLog2;
}

double draw_exponential(Prng& prng) { return -natural_log(1 - prng.uniform()); }

double draw_normal(Prng& prng) {
  // Two uniforms of 32 bits from each number: six draws instead of twelve.
  uint64_t sum = 0;
  for (int i = 0; i < 6; ++i) {
    const uint64_t two = prng.next();
    sum += (two >> 32) + (two & 0xffffffff);
  }
  return static_cast<double>(sum) * 0x1p-32 - 6;
}

Duration whole_duration(double ns) {
  if (!(ns >= 1)) return {1};
  return ns < 9e18 ? Duration{static_cast<int64_t>(ns)} : Duration::forever();
}

Duration draw_gap(Prng& prng, double per_second) {
  if (!(per_second > 0)) return Duration::forever();
  return whole_duration(draw_exponential(prng) * 1e9 / per_second);
}

Duration draw_spread(Prng& prng, Duration time, double spread) {
  const double factor = spread > 0 ? std::clamp(1 + spread * draw_normal(prng), 0.2, 5.0) : 1;
  return whole_duration(static_cast<double>(time.ns) * factor);
}

}  // namespace quern::sim
