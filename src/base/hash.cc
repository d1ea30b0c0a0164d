// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <openssl/sha.h>

#include <array>

namespace quern {

std::string sha256(std::span<const std::byte> bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  std::string text;
  text.reserve(2 * digest.size());
  for (unsigned char byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string sha256(std::string_view text) { return sha256(std::as_bytes(std::span(text.data(), text.size()))); }

}  // namespace quern
