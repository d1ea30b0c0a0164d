// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quern {

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

/// "4GiB", "64MiB", "512KiB", "100B" or a plain number of bytes.
Result<uint64_t> parse_bytes(std::string_view text);

/// For people: "4GiB", "1.5MiB", "100B".
std::string show_bytes(uint64_t bytes);

/// For people, in three digits: "1.25ms", "98.0us".
std::string show_time(double ns);

/// The shortest decimal number that reads back as `value`, without an exponent: "0.5", "0.00001". `value` is finite.
std::string plain_number(double value);

/// `value` rounded up to a multiple of `step` (a power of two or not); the caller knows that it cannot overflow.
constexpr uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

}  // namespace quern
