// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "hal/program.h"

namespace quern::hal::opencl {

/// Part of Caps::build_key: binaries of another format are other objects. Since 3 group ids are those of the whole in
/// every slice on every driver (kPrelude), and entries say what they do with memory.
constexpr int kEnvelopeFormat = 3;

/// What `Program::binary` gives: the vendor's binary, what it was built for, what it contains, and a hash over all.
///
/// The entries travel with it because not every vendor tells them of a program that came from a binary.
struct Envelope {
  enum class Kind : uint8_t { kPlain, kPocl };
  Kind kind = Kind::kPlain;
  std::string build_key;
  std::vector<Size3> group_sizes;
  std::vector<EntryInfo> entries;
  std::span<const std::byte> payload;
};

Bytes write_envelope(const Envelope& envelope);

/// kInvalid if a byte of it is wrong or it is for another `build_key`. The payload points into `bytes`.
Result<Envelope> read_envelope(std::span<const std::byte> bytes, const std::string& build_key);

}  // namespace quern::hal::opencl
