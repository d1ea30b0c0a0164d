// SPDX-License-Identifier: Apache-2.0
#include "daemon/binary_cache.h"

#include "base/hash.h"
#include "os/file.h"
#include "os/log.h"

namespace quern::daemon {

std::optional<BinaryContent> BinaryCache::get(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const auto file = os::read_file(folder_ + "/" + key);
  if (!file.ok() || file->size() < kSha256Digits) return std::nullopt;
  const auto body = std::span<const std::byte>(*file).subspan(kSha256Digits);
  if (sha256(body) != as_text(std::span(*file).first(kSha256Digits))) return std::nullopt;
  ByteReader reader(body);
  const auto signatures = reader.raw(reader.get<uint32_t>());
  const auto binary = reader.raw(reader.get<uint32_t>());
  if (!reader.ok() || !reader.at_end()) return std::nullopt;
  return BinaryContent{{binary.begin(), binary.end()}, {signatures.begin(), signatures.end()}};
}

void BinaryCache::put(const std::string& key, const BinaryContent& content) const {
  if (folder_.empty()) return;
  ByteWriter body;
  body.put(static_cast<uint32_t>(content.signatures.size()));
  body.raw(content.signatures);
  body.put(static_cast<uint32_t>(content.binary.size()));
  body.raw(content.binary);
  ByteWriter file;
  file.raw(as_bytes_of(sha256(body.bytes())));
  file.raw(body.bytes());
  Status written = os::make_folders(folder_);
  if (written.ok()) written = os::write_file_durably(folder_ + "/" + key, file.bytes());
  // A cache that cannot be written costs time, nothing else.
  if (!written.ok()) os::log_warning("binary cache: {}", written.error().text);
}

}  // namespace quern::daemon
