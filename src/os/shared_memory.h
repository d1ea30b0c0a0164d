// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "os/fd.h"

namespace quern::os {

/// A mapping of this process, unmapped with its owner.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  std::span<std::byte> bytes() const { return bytes_; }
  std::byte* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }

 private:
  friend Result<Mapping> map(const Fd& fd, size_t size, bool writable);
  std::span<std::byte> bytes_;
};

/// Who may still write to a shared memory once it is sealed. Its size never changes again.
enum class Sealed : uint8_t {
  kSizeOnly,      ///< everyone with the descriptor
  kOwnerWrites,   ///< only mappings that exist already: those of who made it
  kNobodyWrites,  ///< nobody; all writable mappings must be gone
};

/// A memfd of `size` bytes, zero, without storage until touched. Not sealed yet.
Result<Fd> create_shared_memory(const std::string& name, uint64_t size);

Status seal(const Fd& fd, Sealed sealed);

/// kInvalid if the file behind a stranger's descriptor is not a sealed memfd of at least `size` bytes, so that
/// touching it can never raise SIGBUS.
Status check_sealed(const Fd& fd, uint64_t size);

Result<Mapping> map(const Fd& fd, size_t size, bool writable);

/// A sealed, immutable copy of `bytes`.
Result<Fd> immutable_copy(const std::string& name, std::span<const std::byte> bytes);

/// What this machine has.
uint64_t memory_bytes();

}  // namespace quern::os
