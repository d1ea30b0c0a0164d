// SPDX-License-Identifier: Apache-2.0
#include "os/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace quern::os {

Mapping::~Mapping() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

Result<Fd> create_shared_memory(const std::string& name, uint64_t size) {
  Fd fd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return internal(fmt::format("memfd {}: {}", name, strerror(errno)));
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
    return exhausted(fmt::format("memfd {}: {} bytes: {}", name, size, strerror(errno)));
  return fd;
}

Status seal(const Fd& fd, Sealed sealed) {
  int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (sealed == Sealed::kOwnerWrites) seals |= F_SEAL_FUTURE_WRITE;
  if (sealed == Sealed::kNobodyWrites) seals |= F_SEAL_WRITE;
  if (fcntl(fd.get(), F_ADD_SEALS, seals) != 0) return internal(fmt::format("seal: {}", strerror(errno)));
  return {};
}

Status check_sealed(const Fd& fd, uint64_t size) {
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  struct stat status {};
  if (seals < 0 || !(seals & F_SEAL_SHRINK)) return invalid("shared memory: is not a memfd sealed against shrinking");
  if (fstat(fd.get(), &status) != 0 || static_cast<uint64_t>(status.st_size) < size)
    return invalid(fmt::format("shared memory: has {} bytes where {} were announced", status.st_size, size));
  return {};
}

Result<Mapping> map(const Fd& fd, size_t size, bool writable) {
  Mapping mapping;
  if (size == 0) return mapping;
  void* address = mmap(nullptr, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED) return exhausted(fmt::format("mmap of {} bytes: {}", size, strerror(errno)));
  mapping.bytes_ = {static_cast<std::byte*>(address), size};
  return mapping;
}

Result<Fd> immutable_copy(const std::string& name, std::span<const std::byte> bytes) {
  QUERN_TRY(Fd fd, create_shared_memory(name, bytes.size()));
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return exhausted(fmt::format("memfd {}: {}", name, strerror(errno)));
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  QUERN_TRY(seal(fd, Sealed::kNobodyWrites));
  return fd;
}

uint64_t memory_bytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace quern::os
