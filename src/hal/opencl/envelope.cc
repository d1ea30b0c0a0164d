// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/envelope.h"

#include <fmt/format.h>

#include "base/hash.h"

namespace quern::hal::opencl {
namespace {

constexpr std::string_view kMagic = "quern-cl";
constexpr size_t kHashBytes = 64;
constexpr uint32_t kMostEntries = 4096, kMostArguments = 1024, kMostSizes = 256;

void put_size(ByteWriter& writer, const Size3& size) {
  for (uint64_t n : size) writer.put(n);
}

Size3 get_size(ByteReader& reader) {
  Size3 size;
  for (auto& n : size) n = reader.get<uint64_t>();
  return size;
}

}  // namespace

Bytes write_envelope(const Envelope& envelope) {
  ByteWriter writer;
  writer.raw(as_bytes_of(kMagic));
  writer.put(uint32_t{kEnvelopeFormat});
  writer.put(envelope.kind);
  writer.put_text(envelope.build_key);
  writer.put(static_cast<uint32_t>(envelope.group_sizes.size()));
  for (const auto& size : envelope.group_sizes) put_size(writer, size);
  writer.put(static_cast<uint32_t>(envelope.entries.size()));
  for (const auto& entry : envelope.entries) {
    writer.put_text(entry.name);
    put_size(writer, entry.required_group_size);
    writer.put(entry.local_memory_bytes);
    writer.put_text(entry.unsliceable);
    writer.put(static_cast<uint32_t>(entry.arguments.size()));
    for (const auto& argument : entry.arguments) {
      writer.put_text(argument.name);
      writer.put_text(argument.type);
      writer.put(argument.space);
      writer.put(static_cast<uint8_t>(argument.is_const));
      writer.put(argument.access);
    }
  }
  writer.put(static_cast<uint64_t>(envelope.payload.size()));
  writer.raw(envelope.payload);
  writer.raw(as_bytes_of(sha256(writer.bytes())));
  return writer.take();
}

Result<Envelope> read_envelope(std::span<const std::byte> bytes, const std::string& build_key) {
  const Error damaged = invalid("binary: damaged; build the program again");
  if (bytes.size() < kMagic.size() + kHashBytes || as_text(bytes.first(kMagic.size())) != kMagic)
    return invalid("binary: was not made by this driver; build the program again");
  const auto body = bytes.first(bytes.size() - kHashBytes);
  if (sha256(body) != as_text(bytes.last(kHashBytes))) return damaged;

  ByteReader reader(body.subspan(kMagic.size()));
  if (const auto format = reader.get<uint32_t>(); format != kEnvelopeFormat)
    return invalid(fmt::format("binary: has format {}, not {}; build the program again", format, kEnvelopeFormat));
  Envelope envelope;
  const auto kind = reader.get<uint8_t>();
  if (kind > static_cast<uint8_t>(Envelope::Kind::kPocl)) return damaged;
  envelope.kind = static_cast<Envelope::Kind>(kind);
  envelope.build_key = reader.get_text();
  if (reader.ok() && envelope.build_key != build_key)
    return invalid(
        fmt::format("binary: is for '{}', not for '{}'; build the program again", envelope.build_key, build_key));
  const auto sizes = reader.get_count(kMostSizes);
  for (uint32_t i = 0; i < sizes; ++i) envelope.group_sizes.push_back(get_size(reader));
  const auto entries = reader.get_count(kMostEntries);
  for (uint32_t i = 0; i < entries; ++i) {
    EntryInfo entry;
    entry.name = reader.get_text(256);
    entry.required_group_size = get_size(reader);
    entry.local_memory_bytes = reader.get<uint64_t>();
    entry.unsliceable = reader.get_text();
    const auto arguments = reader.get_count(kMostArguments);
    for (uint32_t j = 0; j < arguments; ++j) {
      ArgumentInfo argument;
      argument.name = reader.get_text();
      argument.type = reader.get_text();
      const auto space = reader.get<uint8_t>();
      if (space > static_cast<uint8_t>(AddressSpace::kLocal)) return damaged;
      argument.space = static_cast<AddressSpace>(space);
      argument.is_const = reader.get<uint8_t>() != 0;
      const auto access = reader.get<uint8_t>();
      if (access > static_cast<uint8_t>(Access::kReadWritten)) return damaged;
      argument.access = static_cast<Access>(access);
      entry.arguments.push_back(std::move(argument));
    }
    envelope.entries.push_back(std::move(entry));
  }
  envelope.payload = reader.raw(reader.get<uint64_t>());
  if (!reader.ok() || !reader.at_end()) return damaged;
  return envelope;
}

}  // namespace quern::hal::opencl
