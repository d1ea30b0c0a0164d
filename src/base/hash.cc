// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <array>

#include "base/result.h"

namespace quern {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

std::string digits_of(const Digest& digest) {
  std::string text;
  text.reserve(2 * digest.size());
  for (unsigned char byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

EVP_MD_CTX* context_of(void* context) { return static_cast<EVP_MD_CTX*>(context); }

}  // namespace

std::string sha256(std::span<const std::byte> bytes) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return digits_of(digest);
}

std::string sha256(std::string_view text) { return sha256(std::as_bytes(std::span(text.data(), text.size()))); }

// Nothing of it can fail but for want of memory.
Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  QUERN_CHECK(context_ && EVP_DigestInit_ex(context_of(context_.get()), EVP_sha256(), nullptr) == 1,
              "sha256: no memory");
}

void Sha256::Free::operator()(void* context) const { EVP_MD_CTX_free(context_of(context)); }

void Sha256::add(std::span<const std::byte> bytes) {
  QUERN_CHECK(EVP_DigestUpdate(context_of(context_.get()), bytes.data(), bytes.size()) == 1, "sha256: ended already");
}

std::string Sha256::take() {
  Digest digest;
  QUERN_CHECK(EVP_DigestFinal_ex(context_of(context_.get()), digest.data(), nullptr) == 1, "sha256: ended already");
  return digits_of(digest);
}

}  // namespace quern
