// SPDX-License-Identifier: Apache-2.0
//
// A tar is a list of 512-byte blocks: a header with name, size and kind, then the content, padded; at the end a block
// of zeros. Names longer than 100 bytes come in one of three ways: a prefix field (ustar), a record before the file
// (pax), or a pseudo-file (GNU). All are read; what is written is ustar, with pax records for long names.
#include "function/tar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

namespace quern {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kLongestName = 1024;
constexpr size_t kLongestRecord = 64 * 1024;  // of pax records and GNU names

struct Header {
  char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], kind, link[100];
  char magic[8], user[32], group[32], major[8], minor[8], prefix[155], padding[12];
};
static_assert(sizeof(Header) == kBlock);

template <size_t N>
std::string_view field(const char (&chars)[N]) {
  return {chars, ::strnlen(chars, N)};
}

// Octal, or base 256 where the first bit is set (GNU, for what octal cannot hold).
template <size_t N>
std::optional<uint64_t> number(const char (&chars)[N]) {
  if (static_cast<unsigned char>(chars[0]) & 0x80) {
    uint64_t value = static_cast<unsigned char>(chars[0]) & 0x7f;
    for (size_t i = 1; i < N; ++i) {
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | static_cast<unsigned char>(chars[i]);
    }
    return value;
  }
  std::string_view text = field(chars);
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (text.empty()) return 0;
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

uint64_t checksum_of(const Header& header) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(&header);
  uint64_t sum = 0;
  const size_t begin = offsetof(Header, checksum), end = begin + sizeof header.checksum;
  for (size_t i = 0; i < kBlock; ++i) sum += i >= begin && i < end ? ' ' : bytes[i];
  return sum;
}

// A name relative to the folder without "." and empty parts; what leads out of the folder is refused.
Result<std::string> clean_name(std::string_view name) {
  auto problem = [&](std::string_view what) {
    return invalid(
        fmt::format("tar: file '{:.64}': {}; pack the function's folder itself, as in tar -C FOLDER -c .", name, what));
  };
  if (name.size() > kLongestName) return problem(fmt::format("its name is longer than {} bytes", kLongestName));
  if (name.starts_with('/')) return problem("its name is absolute");
  if (std::any_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; }))
    return invalid("tar: a file's name has a control character; rename it");
  std::string clean;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    at = end + 1;
    if (part == "..") return problem("its name has '..'");
    if (part.empty() || part == ".") continue;
    if (!clean.empty()) clean += '/';
    clean += part;
  }
  if (clean.empty()) return problem("it has no name");
  return clean;
}

// Records are "LENGTH KEY=VALUE\n"; LENGTH counts all of it.
template <class Overrides>
Status read_pax(std::string_view text, Overrides& overrides) {
  while (!text.empty()) {
    size_t length = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), length);
    const size_t digits = static_cast<size_t>(parsed.ptr - text.data());
    if (parsed.ec != std::errc() || length > text.size() || length < digits + 3 || *parsed.ptr != ' ' ||
        text[length - 1] != '\n')
      return invalid("tar: a pax record is damaged; pack it again");
    const std::string_view record = text.substr(digits + 1, length - digits - 2);
    text.remove_prefix(length);
    const size_t equals = record.find('=');
    if (equals == record.npos) return invalid("tar: a pax record is damaged; pack it again");
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") overrides.path = std::string(value);
    if (key.starts_with("GNU.sparse")) return invalid("tar: sparse files are not supported; pack without --sparse");
    if (key != "size") continue;
    uint64_t size = 0;
    const auto number = std::from_chars(value.data(), value.data() + value.size(), size);
    if (number.ec != std::errc() || number.ptr != value.data() + value.size())
      return invalid("tar: a pax size is no number; pack it again");
    overrides.size = size;
  }
  return {};
}

std::string name_in(const Header& header) {
  std::string name(field(header.name));
  // GNU tar keeps other things where ustar has the prefix; its magic is "ustar  ".
  if (std::string_view(header.magic, 6) == std::string_view("ustar\0", 6) && !field(header.prefix).empty())
    name = fmt::format("{}/{}", field(header.prefix), name);
  return name;
}

bool is_extra(char kind) { return kind == 'x' || kind == 'g' || kind == 'L' || kind == 'K'; }

// Files in memory.
class MemorySink final : public TarStream::Sink {
 public:
  Status begin_file(const std::string& name, uint64_t) override {
    file_ = &files[name];
    return {};
  }
  Status add_bytes(std::span<const std::byte> bytes) override {
    file_->insert(file_->end(), bytes.begin(), bytes.end());
    return {};
  }
  Status end_file() override { return {}; }
  void skip_link(const std::string& name) override { files.links.insert(name); }

  Files files;

 private:
  Bytes* file_ = nullptr;
};

void append_padded(Bytes& out, std::span<const std::byte> content) {
  out.insert(out.end(), content.begin(), content.end());
  out.resize((out.size() + kBlock - 1) / kBlock * kBlock);
}

void append_header(Bytes& out, char kind, std::string_view name, size_t size) {
  Header header;
  std::memset(&header, 0, sizeof header);
  std::memcpy(header.name, name.data(), std::min(name.size(), sizeof header.name));
  std::memcpy(header.mode, "0000644", 7);
  std::memcpy(header.uid, "0000000", 7);
  std::memcpy(header.gid, "0000000", 7);
  fmt::format_to_n(header.size, sizeof header.size - 1, "{:011o}", size);
  std::memcpy(header.mtime, "00000000000", 11);
  std::memcpy(header.magic, "ustar\00000", 8);
  header.kind = kind;
  fmt::format_to_n(header.checksum, sizeof header.checksum - 2, "{:06o}", checksum_of(header));
  header.checksum[7] = ' ';
  const auto* bytes = reinterpret_cast<const std::byte*>(&header);
  out.insert(out.end(), bytes, bytes + kBlock);
}

// The length at the front counts its own digits, so it is found by trying.
std::string pax_path(std::string_view name) {
  const size_t rest = std::string_view(" path=\n").size() + name.size();
  size_t length = rest + 1;
  while (std::to_string(length).size() + rest != length) ++length;
  return fmt::format("{} path={}\n", length, name);
}

}  // namespace

Status TarStream::add(std::span<const std::byte> bytes) {
  const auto take = [&](uint64_t most) {
    const auto taken = bytes.first(std::min<uint64_t>(most, bytes.size()));
    bytes = bytes.subspan(taken.size());
    return taken;
  };
  while (!bytes.empty() && at_ != At::kEnd) {
    if (at_ == At::kHeader) {
      const auto part = take(kBlock - held_.size());
      held_.insert(held_.end(), part.begin(), part.end());
      if (held_.size() == kBlock) QUERN_TRY(take_header());
      continue;
    }
    const auto part = take(left_);
    left_ -= part.size();
    if (at_ == At::kExtra) held_.insert(held_.end(), part.begin(), part.end());
    if (at_ == At::kFile) QUERN_TRY(sink_.add_bytes(part));
    if (left_ == 0) QUERN_TRY(end_content());
  }
  return {};
}

Status TarStream::finish() const {
  if (at_ == At::kEnd) return {};
  if (at_ == At::kHeader || at_ == At::kPadding) return invalid("tar: it ends too early (no end mark); pack it again");
  return invalid("tar: it ends within a file; pack it again");
}

Status TarStream::take_header() {
  Header header;
  std::memcpy(&header, held_.data(), kBlock);
  const bool is_end = std::all_of(held_.begin(), held_.end(), [](std::byte b) { return b == std::byte{0}; });
  held_.clear();
  if (is_end) {
    at_ = At::kEnd;
    return {};
  }
  if (number(header.checksum) != checksum_of(header))
    return invalid("tar: a header is damaged or this is no tar; pack it again");
  const auto stated = number(header.size);
  if (!stated) return invalid("tar: a size is no number; pack it again");
  const uint64_t size = !is_extra(header.kind) && overrides_.size ? *overrides_.size : *stated;
  return begin_entry(header.kind, name_in(header), size);
}

Status TarStream::begin_entry(char kind, std::string name, uint64_t size_bytes) {
  kind_ = kind;
  left_ = size_bytes;
  padding_ = (kBlock - size_bytes % kBlock) % kBlock;
  if (is_extra(kind)) {
    if (size_bytes > kLongestRecord) return invalid("tar: a name or record is too long; shorten names");
    at_ = At::kExtra;
  } else {
    const Overrides overrides = std::exchange(overrides_, {});
    bool is_link = false;
    if (overrides.path) name = *overrides.path;
    switch (kind) {
      case '0':
      case '7':
      case '\0':
        // Before POSIX a folder was a file whose name ends with a slash.
        at_ = name.ends_with('/') ? At::kSkipped : At::kFile;
        break;
      case '5':
        at_ = At::kSkipped;
        break;
      case '1':
      case '2':
        at_ = At::kSkipped;
        is_link = true;
        break;
      default:
        return invalid(fmt::format("tar: '{:.64}' is no regular file; pack regular files only", name));
    }
    if (at_ == At::kFile || is_link) {
      QUERN_TRY(name, clean_name(name));
      QUERN_TRY(check_name(name, size_bytes));
    }
    if (at_ == At::kFile) QUERN_TRY(sink_.begin_file(name, size_bytes));
    if (is_link) sink_.skip_link(name);
  }
  return left_ == 0 ? end_content() : Status();
}

Status TarStream::end_content() {
  if (at_ == At::kExtra) QUERN_TRY(take_extra());
  if (at_ == At::kFile) QUERN_TRY(sink_.end_file());
  left_ = at_ == At::kPadding ? 0 : padding_;
  at_ = left_ > 0 ? At::kPadding : At::kHeader;
  return {};
}

Status TarStream::take_extra() {
  const Bytes record = std::exchange(held_, {});
  const std::string_view text = as_text(record);
  if (kind_ == 'x') return read_pax(text, overrides_);
  if (kind_ == 'L') overrides_.path = std::string(text.substr(0, text.find('\0')));
  return {};  // 'g' and 'K' say nothing about regular files
}

// "a" and "a/b" cannot both be files of one folder.
Status TarStream::check_name(const std::string& name, uint64_t size_bytes) {
  if (names_.size() == kMostFiles)
    return invalid(fmt::format("tar: more than {} files; leave out what is not needed", kMostFiles));
  if (size_bytes > kMostFolderBytes - total_bytes_)
    return invalid(fmt::format("tar: more than {} bytes of files; leave out what is not needed", kMostFolderBytes));
  total_bytes_ += size_bytes;
  const auto [place, is_new] = names_.insert(name);
  if (!is_new) return invalid(fmt::format("tar: file '{:.64}' comes twice; pack it once", name));
  const auto within = [](std::string_view one) {
    return invalid(fmt::format("tar: '{:.64}' is within a file; rename one of them", one));
  };
  for (size_t slash = name.find('/'); slash != name.npos; slash = name.find('/', slash + 1))
    if (names_.contains(std::string_view(name).substr(0, slash))) return within(name);
  if (const auto next = names_.lower_bound(name + '/'); next != names_.end() && next->starts_with(name + '/'))
    return within(*next);
  return {};
}

Result<Files> read_tar(std::span<const std::byte> tar) {
  MemorySink sink;
  TarStream stream(sink);
  QUERN_TRY(stream.add(tar));
  QUERN_TRY(stream.finish());
  return std::move(sink.files);
}

Result<Bytes> write_tar(const Files& files) {
  if (files.size() > kMostFiles)
    return invalid(fmt::format("folder: {} files; at most {} are taken", files.size(), kMostFiles));
  uint64_t total = 0;
  Bytes out;
  for (const auto& [name, content] : files) {
    QUERN_TRY(std::string clean, clean_name(name));
    if (clean != name)
      return invalid(fmt::format("folder: '{:.64}' is no plain relative name; write '{:.64}'", name, clean));
    total += content.size();
    if (total > kMostFolderBytes)
      return invalid(
          fmt::format("folder: more than {} bytes of files; leave out what is not needed", kMostFolderBytes));
    if (name.size() > sizeof Header::name) {
      const std::string record = pax_path(name);
      append_header(out, 'x', "pax", record.size());
      append_padded(out, as_bytes_of(record));
    }
    append_header(out, '0', name, content.size());
    append_padded(out, content);
  }
  out.resize(out.size() + 2 * kBlock);
  return out;
}

}  // namespace quern
