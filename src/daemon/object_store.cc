// SPDX-License-Identifier: Apache-2.0
#include "daemon/object_store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "base/hash.h"
#include "daemon/hidden_paths.h"
#include "os/file.h"

namespace quern::daemon {
namespace {

constexpr uint64_t kLargest = uint64_t{1} << 40;
constexpr size_t kPiece = 1 << 20;          // compared at a time
constexpr size_t kCopied = 1 << 18;         // copied at a time: stays in a core's cache from read to hash to write
constexpr uint64_t kBegunAtOnce = 8 << 20;  // written to disk at a time

/// A hash may come from a database or a request: it must not name a file elsewhere.
bool is_hash(std::string_view text) {
  return text.size() == 64 &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Error missing(std::string_view hash) {
  return not_found(
      fmt::format("object {}: is not in the store; put it, or deploy the function that uses it, again", hash));
}

Error damaged(std::string_view hash) {
  return internal(
      fmt::format("object {}: is damaged on disk; put it, or deploy the function that uses it, again", hash));
}

// The object names the file: whoever reads this may be a tenant.
Error unreadable(std::string_view hash, const std::string& folder, const Error& why) {
  if (why.code == ErrorCode::kNotFound) return missing(hash);
  return {why.code, fmt::format("object {}: {}", hash, without_paths(why.text, folder))};
}

Error unwritable(const std::string& folder, const Error& why) {
  return {why.code, fmt::format("object: cannot be stored: {}{}", without_paths(why.text, folder),
                                why.code == ErrorCode::kExhausted ? "; tell the operator to make room" : "")};
}

Error no_hash(std::string_view text) {
  return invalid(fmt::format("object '{}': is not a hash of 64 hex digits", text));
}

}  // namespace

Result<ObjectStore> ObjectStore::open(const std::string& folder, std::function<void()> before_disk) {
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
  return ObjectStore(folder, std::move(before_disk));
}

std::string ObjectStore::path_of(std::string_view hash) const {
  return fmt::format("{}/{}/{}", folder_, hash.substr(0, 2), hash);
}

Result<std::string> ObjectStore::put(std::span<const std::byte> bytes) {
  std::string hash = sha256(bytes);
  QUERN_TRY(put(hash, bytes));
  return hash;
}

Status ObjectStore::put(const std::string& hash, std::span<const std::byte> bytes) {
  wait_for_disk();
  const std::string path = path_of(hash);
  // Reading is far cheaper than a write with its two fsyncs.
  if (holds(path, bytes)) return {};
  const Status written = os::write_file_durably(path, bytes);
  return written.ok() ? Status() : Status(unwritable(folder_, written.error()));
}

bool ObjectStore::holds(const std::string& path, std::span<const std::byte> bytes) const {
  const auto file = os::open_file(path);
  if (!file.ok()) return false;
  Bytes piece(std::min(kPiece, bytes.size() + 1));
  for (;;) {
    const auto size = os::read_some(*file, path, piece);
    if (!size.ok() || *size > bytes.size()) return false;
    if (!std::equal(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(*size), piece.begin())) return false;
    bytes = bytes.subspan(*size);
    if (*size < piece.size()) return bytes.empty();
  }
}

Result<Bytes> ObjectStore::get(std::string_view hash) const {
  if (!is_hash(hash)) return no_hash(hash);
  wait_for_disk();
  auto bytes = os::read_file(path_of(hash), kLargest);
  if (!bytes.ok()) return unreadable(hash, folder_, bytes.error());
  if (sha256(*bytes) != hash) return damaged(hash);
  return bytes;
}

// By way of a piece that stays in a core's cache. Reading straight into mapped memory would save a copy and cost a page
// fault for every 4 KiB of it: a quarter more in all, and more still when an executor starts beside it.
Status ObjectStore::copy_to(std::string_view hash, uint64_t size, const os::Fd& into) const {
  if (!is_hash(hash)) return no_hash(hash);
  wait_for_disk();
  const std::string path = path_of(hash);
  const auto file = os::open_file(path);
  if (!file.ok()) return unreadable(hash, folder_, file.error());
  Sha256 found;
  Bytes piece(kCopied);
  for (;;) {
    const auto got = os::read_some(*file, path, piece);
    if (!got.ok()) return unreadable(hash, folder_, got.error());
    if (*got > size) return damaged(hash);
    const auto bytes = std::span(piece).first(*got);
    found.add(bytes);
    if (const Status written = os::append(into, "its copy", bytes); !written.ok())
      return unreadable(hash, folder_, written.error());
    size -= *got;
    if (*got < piece.size()) break;
  }
  if (size != 0 || found.take() != hash) return damaged(hash);
  return {};
}

bool ObjectStore::has(std::string_view hash) const { return is_hash(hash) && os::exists(path_of(hash)); }

uint64_t ObjectStore::size_of(std::string_view hash) const {
  return is_hash(hash) ? os::file_size(path_of(hash)).value_or(0) : 0;
}

void ObjectStore::remove(std::string_view hash) {
  if (is_hash(hash)) os::remove_file(path_of(hash));
}

std::string ObjectStore::new_temporary() const {
  static std::atomic<uint64_t> counter{0};
  return fmt::format("{}/{}.{}.tmp", folder_, getpid(), counter.fetch_add(1));
}

std::vector<std::string> ObjectStore::set_aside(const std::set<std::string>& keep) {
  std::vector<std::string> aside;
  for (const std::string& shelf : os::list_folder(folder_)) {
    for (const std::string& name : os::list_folder(folder_ + "/" + shelf)) {
      if (keep.contains(name)) continue;
      if (auto file = set_one_aside(name)) aside.push_back(*std::move(file));
    }
  }
  return aside;
}

std::optional<std::string> ObjectStore::set_one_aside(std::string_view hash) {
  if (!is_hash(hash)) return std::nullopt;
  std::string temporary = new_temporary();
  if (!os::rename_file(path_of(hash), temporary).ok()) return std::nullopt;
  return temporary;
}

ObjectWriter::~ObjectWriter() {
  if (!path_.empty()) os::remove_file(path_);
}

Status ObjectWriter::open_file() {
  path_ = store_.new_temporary();
  auto file = os::create_file(path_);
  if (!file.ok()) return path_.clear(), unwritable(store_.folder_, file.error());
  file_ = *std::move(file);
  return {};
}

Status ObjectWriter::add(std::span<const std::byte> bytes) {
  store_.wait_for_disk();
  if (path_.empty()) QUERN_TRY(open_file());
  if (const Status written = os::append(file_, path_, bytes); !written.ok())
    return unwritable(store_.folder_, written.error());
  sum_.add(bytes);
  size_bytes_ += bytes.size();
  // The disk works while more comes: what is written at the end alone would make all others wait for it.
  if (size_bytes_ - begun_bytes_ >= kBegunAtOnce) {
    os::begin_writing(file_, begun_bytes_, size_bytes_ - begun_bytes_);
    begun_bytes_ = size_bytes_;
  }
  return {};
}

const std::string& ObjectWriter::hash() {
  if (hash_.empty()) hash_ = sum_.take();
  return hash_;
}

void ObjectWriter::rest() {
  if (!file_) return;
  if (size_bytes_ > begun_bytes_) os::begin_writing(file_, begun_bytes_, size_bytes_ - begun_bytes_);
  file_.reset();
}

Status ObjectWriter::keep() {
  store_.wait_for_disk();
  const std::string place = store_.path_of(hash());
  const auto is_whole = [&] {
    const auto file = os::open_file(place);
    Sha256 found;
    Bytes piece(kCopied);
    while (file.ok()) {
      const auto size = os::read_some(*file, place, piece);
      if (!size.ok()) return false;
      found.add(std::span(piece).first(*size));
      if (*size < piece.size()) return found.take() == hash_;
    }
    return false;
  };
  if (is_whole()) return {};
  if (path_.empty()) {
    if (size_bytes_ > 0) return damaged(hash_);  // it was kept, and the disk lost it since
    QUERN_TRY(open_file());
  }
  if (!file_) {
    auto file = os::open_file(path_);
    if (!file.ok()) return unwritable(store_.folder_, file.error());
    file_ = *std::move(file);
  }
  if (const Status kept = os::rename_durably(file_, path_, place); !kept.ok())
    return unwritable(store_.folder_, kept.error());
  path_.clear();
  return {};
}

}  // namespace quern::daemon
