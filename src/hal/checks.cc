// SPDX-License-Identifier: Apache-2.0
#include "hal/checks.h"

#include <fmt/format.h>

#include <limits>

namespace quern::hal {
namespace {

std::string show(const Size3& size, uint32_t dimensions) {
  std::string text = std::to_string(size[0]);
  for (uint32_t i = 1; i < dimensions; ++i) text += fmt::format("x{}", size[i]);
  return text;
}

}  // namespace

Status check_range(std::string_view what, uint64_t buffer_bytes, uint64_t offset, uint64_t size_bytes) {
  if (size_bytes == 0) return invalid(fmt::format("{}: has no bytes", what));
  if (offset > buffer_bytes || size_bytes > buffer_bytes - offset)
    return invalid(fmt::format("{}: {} bytes at {} leave the buffer of {}", what, size_bytes, offset, buffer_bytes));
  return {};
}

Status check_view(uint64_t buffer_bytes, uint64_t offset, uint64_t size_bytes, uint64_t alignment_bytes) {
  QUERN_TRY(check_range("view", buffer_bytes, offset, size_bytes));
  if (offset % alignment_bytes == 0) return {};
  return invalid(fmt::format("view: starts at byte {}, which is no multiple of {}", offset, alignment_bytes));
}

Status check_copy(uint64_t source_bytes, uint64_t source_offset, uint64_t target_bytes, uint64_t target_offset,
                  uint64_t size_bytes, bool is_one_buffer) {
  QUERN_TRY(check_range("copy from", source_bytes, source_offset, size_bytes));
  QUERN_TRY(check_range("copy to", target_bytes, target_offset, size_bytes));
  if (is_one_buffer && source_offset < target_offset + size_bytes && target_offset < source_offset + size_bytes)
    return invalid(fmt::format("copy: {} bytes at {} and at {} overlap", size_bytes, source_offset, target_offset));
  return {};
}

Status check_fill(uint64_t buffer_bytes, uint64_t offset, uint64_t size_bytes, uint64_t pattern_bytes) {
  QUERN_TRY(check_range("fill", buffer_bytes, offset, size_bytes));
  if (pattern_bytes != 1 && pattern_bytes != 2 && pattern_bytes != 4 && pattern_bytes != 8 && pattern_bytes != 16)
    return invalid(fmt::format("fill: a pattern of {} bytes; 1, 2, 4, 8 or 16 are possible", pattern_bytes));
  if (offset % pattern_bytes != 0 || size_bytes % pattern_bytes != 0)
    return invalid(
        fmt::format("fill: {} bytes at {} are no multiples of the pattern's {}", size_bytes, offset, pattern_bytes));
  return {};
}

Result<Size3> check_sizes(const Launch& launch, const EntryInfo& entry, const Caps& caps, uint64_t max_group_size) {
  const auto wrong = [&](const std::string& text) { return invalid(fmt::format("kernel {}: {}", entry.name, text)); };
  const uint32_t dimensions = launch.dimensions;
  if (dimensions < 1 || dimensions > 3) return wrong(fmt::format("{} dimensions; 1 to 3 are possible", dimensions));
  Size3 local = launch.local;
  for (uint32_t i = dimensions; i < 3; ++i)
    if (launch.global[i] != 1 || launch.offset[i] != 0 || local[i] > 1)
      return wrong(fmt::format("sizes past dimension {} are not 1", dimensions));
  uint64_t items = 1;
  for (uint32_t i = 0; i < dimensions; ++i) {
    if (launch.global[i] == 0) return wrong("a global size is 0");
    if (launch.global[i] > std::numeric_limits<uint64_t>::max() / 2 / items ||
        launch.offset[i] > std::numeric_limits<uint64_t>::max() / 2)
      return wrong(fmt::format("global size {} is too large", show(launch.global, dimensions)));
    items *= launch.global[i];
    if (launch.offset[i] != 0 && !caps.launch_offset)
      return unsupported(fmt::format("kernel {}: device {} has no launch offset", entry.name, caps.name));
  }

  const auto& required = entry.required_group_size;
  if (local == Size3{0, 0, 0}) {
    if (required[0] == 0) return local;
    local = required;
  } else {
    for (uint32_t i = 0; i < dimensions; ++i)
      if (local[i] == 0) return wrong(fmt::format("local size {}: give all or none", show(local, dimensions)));
    for (uint32_t i = dimensions; i < 3; ++i) local[i] = 1;
    if (required[0] != 0 && local != required)
      return wrong(fmt::format("local size {}: it requires {}", show(local, 3), show(required, 3)));
  }
  uint64_t group = 1;
  for (uint32_t i = 0; i < 3; ++i) {
    if (local[i] > caps.max_group_sizes[i])
      return wrong(fmt::format("local size {}: the device has at most {} in dimension {}", show(local, 3),
                               caps.max_group_sizes[i], i));
    group *= local[i];  // at most 2^32 each, and checked before the next: cannot wrap
    if (group > max_group_size)
      return wrong(fmt::format("local size {}: {} items at most", show(local, 3), max_group_size));
    if (local[i] != 1 && launch.global[i] % local[i] != 0)
      return wrong(fmt::format("local size {} does not divide global size {}", show(local, 3), show(launch.global, 3)));
  }
  return local;
}

uint32_t scalar_bytes_of(std::string_view type) {
  static constexpr struct {
    std::string_view name;
    uint32_t bytes;
  } kScalars[] = {{"char", 1}, {"uchar", 1}, {"short", 2}, {"ushort", 2}, {"half", 2},  {"int", 4},
                  {"uint", 4}, {"float", 4}, {"long", 8},  {"ulong", 8},  {"double", 8}};
  for (const auto& scalar : kScalars)
    if (scalar.name == type) return scalar.bytes;
  return 0;
}

ArgumentCheck::ArgumentCheck(EntryInfo entry) : entry_(std::move(entry)) {
  for (const auto& argument : entry_.arguments)
    scalar_bytes_.push_back(argument.space == AddressSpace::kPrivate ? scalar_bytes_of(argument.type) : 0);
}

Error ArgumentCheck::wrong(size_t i, std::string_view what) const {
  const auto& argument = entry_.arguments[i];
  return invalid(fmt::format("kernel {}: argument {} ({} {}): {}", entry_.name, i, argument.type, argument.name, what));
}

Status ArgumentCheck::operator()(std::span<const Argument> arguments, uint64_t device_local_bytes) const {
  if (arguments.size() != entry_.arguments.size())
    return invalid(
        fmt::format("kernel {}: got {} arguments, takes {}", entry_.name, arguments.size(), entry_.arguments.size()));
  uint64_t local_bytes = entry_.local_memory_bytes;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto space = entry_.arguments[i].space;
    if (const auto* buffer = std::get_if<Buffer*>(&arguments[i])) {
      if (space != AddressSpace::kGlobal && space != AddressSpace::kConstant) return wrong(i, "got a buffer");
      if (!*buffer) return wrong(i, "got no buffer");
    } else if (const auto* scalar = std::get_if<Scalar>(&arguments[i])) {
      if (space != AddressSpace::kPrivate) return wrong(i, "got a scalar");
      if (scalar_bytes_[i] && scalar_bytes_[i] != size_of(scalar->dtype))
        return wrong(i, fmt::format("got {}, {} bytes; it has {}", name_of(scalar->dtype), size_of(scalar->dtype),
                                    scalar_bytes_[i]));
    } else {
      const uint64_t bytes = std::get<LocalMemory>(arguments[i]).size_bytes;
      if (space != AddressSpace::kLocal) return wrong(i, "got local memory");
      if (bytes == 0) return wrong(i, "got no bytes of local memory");
      local_bytes = bytes > device_local_bytes ? bytes : local_bytes + bytes;  // of a sum that could wrap, the part
      if (local_bytes > device_local_bytes) break;
    }
  }
  if (local_bytes > device_local_bytes)
    return invalid(fmt::format("kernel {}: needs {} bytes of local memory, the device has {}", entry_.name, local_bytes,
                               device_local_bytes));
  return {};
}

}  // namespace quern::hal
