// SPDX-License-Identifier: Apache-2.0
#include "daemon/object_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "os/file.h"

namespace quern::daemon {
namespace {

constexpr uint64_t kLargest = uint64_t{1} << 40;

/// A hash may come from a database or a request: it must not name a file elsewhere.
bool is_hash(std::string_view text) {
  return text.size() == 64 &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

Result<ObjectStore> ObjectStore::open(const std::string& folder) {
  QUERN_TRY(os::make_folders(folder));
  for (int i = 0; i < 256; ++i) QUERN_TRY(os::make_folders(fmt::format("{}/{:02x}", folder, i)));
  // Written last, and durably: that also puts the 256 folders themselves on disk, once, instead of at each `put`.
  const std::string format = folder + "/format";
  if (!os::exists(format)) QUERN_TRY(os::write_file_durably(format, as_bytes_of("1\n")));

  for (const std::string& shelf : os::list_folder(folder)) {
    if (!os::is_folder(folder + "/" + shelf)) {
      if (shelf.ends_with(".tmp")) os::remove_file(folder + "/" + shelf);
      continue;
    }
    for (const std::string& name : os::list_folder(folder + "/" + shelf))
      if (name.ends_with(".tmp")) os::remove_file(fmt::format("{}/{}/{}", folder, shelf, name));
  }
  return ObjectStore(folder);
}

std::string ObjectStore::path_of(std::string_view hash) const {
  return fmt::format("{}/{}/{}", folder_, hash.substr(0, 2), hash);
}

Result<std::string> ObjectStore::put(std::span<const std::byte> bytes) {
  std::string hash = sha256(bytes);
  const std::string path = path_of(hash);
  if (os::exists(path)) {
    // Reading is far cheaper than a write with its two fsyncs. One byte more than expected is enough to differ.
    const auto stored = os::read_file(path, bytes.size() + 1);
    if (stored.ok() && std::ranges::equal(*stored, bytes)) return hash;
  }
  QUERN_TRY(os::write_file_durably(path, bytes));
  return hash;
}

Result<Bytes> ObjectStore::get(std::string_view hash) const {
  if (!is_hash(hash)) return invalid(fmt::format("object '{}': is not a hash of 64 hex digits", hash));
  auto bytes = os::read_file(path_of(hash), kLargest);
  if (!bytes.ok() && bytes.error().code == ErrorCode::kNotFound)
    return not_found(fmt::format("object {}: is not in the store; deploy the function that uses it again", hash));
  if (!bytes.ok()) return Error{bytes.error().code, fmt::format("object {}: {}", hash, bytes.error().text)};
  if (sha256(*bytes) != hash)
    return internal(fmt::format("object {}: is damaged on disk; deploy the function that uses it again", hash));
  return bytes;
}

bool ObjectStore::has(std::string_view hash) const { return is_hash(hash) && os::exists(path_of(hash)); }

void ObjectStore::remove(std::string_view hash) {
  if (is_hash(hash)) os::remove_file(path_of(hash));
}

size_t ObjectStore::collect(const std::set<std::string>& keep) {
  size_t removed = 0;
  for (const std::string& shelf : os::list_folder(folder_)) {
    for (const std::string& name : os::list_folder(folder_ + "/" + shelf)) {
      if (!is_hash(name) || keep.contains(name)) continue;
      remove(name);
      ++removed;
    }
  }
  return removed;
}

}  // namespace quern::daemon
