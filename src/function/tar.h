// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "function/manifest.h"

namespace quern {

/// Limits on an uploaded folder: beyond them it is refused before anything is kept.
constexpr size_t kMostFiles = 4096;
constexpr uint64_t kMostFolderBytes = uint64_t{1} << 30;

/// Takes a ustar, pax or GNU tar apart as it comes, in pieces of any size. Regular files go to the sink. Of links the
/// sink gets the names alone: where they lead is never looked at, and they count as files in every limit. Devices,
/// absolute names, `..` and names given twice are kInvalid, also of links. A single leading folder ("./", "saxpy/")
/// common to all names is not removed: names are relative to the folder.
class TarStream {
 public:
  /// Gets each file: its name and size, then its bytes, then its end. What it refuses ends the stream.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual Status begin_file(const std::string& name, uint64_t size_bytes) = 0;
    virtual Status add_bytes(std::span<const std::byte> bytes) = 0;
    virtual Status end_file() = 0;
    /// There is a link of this name, symbolic or hard, which is passed over.
    virtual void skip_link(const std::string& name) = 0;
  };

  explicit TarStream(Sink& sink) : sink_(sink) {}

  /// After an error, call nothing more.
  Status add(std::span<const std::byte> bytes);
  /// All has come. kInvalid if that is not all of a tar.
  Status finish() const;

 private:
  struct Overrides {
    std::optional<std::string> path;
    std::optional<uint64_t> size;
  };
  enum class At : uint8_t { kHeader, kExtra, kFile, kSkipped, kPadding, kEnd };

  Status take_header();
  Status begin_entry(char kind, std::string name, uint64_t size_bytes);
  Status end_content();
  Status take_extra();
  Status check_name(const std::string& name, uint64_t size_bytes);

  Sink& sink_;
  At at_ = At::kHeader;
  uint64_t left_ = 0;     ///< of the content, or of the padding
  uint64_t padding_ = 0;  ///< behind the content
  char kind_ = 0;
  Bytes held_;  ///< a header, or a record, as far as it has come
  Overrides overrides_;
  std::set<std::string, std::less<>> names_;
  uint64_t total_bytes_ = 0;
};

/// All of a tar at once.
Result<Files> read_tar(std::span<const std::byte> tar);

/// The same files always give the same bytes: sorted names, no times, no owners.
Result<Bytes> write_tar(const Files& files);

}  // namespace quern
