// SPDX-License-Identifier: Apache-2.0
#include "function/npy.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace quern {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kLongestHeader = kLongestNpyHead - 12;
constexpr size_t kDeepestShape = 32;  // NumPy's own limit

// The header is a Python dict of three known keys; this reads exactly such a dict and no other Python.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  Status read(Npy& npy) {
    if (!take('{')) return bad("'{' is missing");
    bool has_descr = false, has_order = false, has_shape = false;
    while (!take('}')) {
      QUERN_TRY(std::string_view key, quoted());
      if (!take(':')) return bad("':' is missing");
      if (key == "descr" && !std::exchange(has_descr, true)) {
        QUERN_TRY(read_descr(npy));
      } else if (key == "fortran_order" && !std::exchange(has_order, true)) {
        QUERN_TRY(read_order());
      } else if (key == "shape" && !std::exchange(has_shape, true)) {
        QUERN_TRY(read_shape(npy));
      } else {
        return bad("a key that is not known or comes twice");
      }
      if (!take(',') && peek() != '}') return bad("',' is missing");
    }
    if (!has_descr || !has_order || !has_shape) return bad("descr, fortran_order or shape is missing");
    if (skip_space(), at_ != text_.size()) return bad("something follows the header");
    return {};
  }

 private:
  static Error bad(std::string_view what) {
    return invalid(fmt::format("npy header: {}; write the file with numpy.save", what));
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  Result<std::string_view> quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return bad("a quote is missing");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) return bad("a quote is not closed");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return inside;
  }
  Status read_descr(Npy& npy) {
    if (peek() == '[') return unsupported("npy: structured dtypes are not supported; save one array of numbers");
    QUERN_TRY(std::string_view descr, quoted());
    if (auto dtype = dtype_of_npy(descr)) return npy.dtype = *dtype, Status();
    if (descr.starts_with('>'))
      return unsupported(
          fmt::format("npy: dtype '{:.16}' is big-endian; save it with .astype('<{:.15}')", descr, descr.substr(1)));
    return unsupported(fmt::format("npy: dtype '{:.16}' is not supported; save bool, integers or floats", descr));
  }
  Status read_order() {
    skip_space();
    if (text_.substr(at_).starts_with("False")) return at_ += 5, Status();
    if (text_.substr(at_).starts_with("True"))
      return unsupported("npy: Fortran order is not supported; save it with numpy.ascontiguousarray");
    return bad("fortran_order is neither True nor False");
  }
  Status read_shape(Npy& npy) {
    if (!take('(')) return bad("shape is no tuple");
    while (!take(')')) {
      skip_space();
      int64_t size = 0;
      const auto parsed = std::from_chars(text_.data() + at_, text_.data() + text_.size(), size);
      if (parsed.ec != std::errc() || size < 0) return bad("shape holds what is no size");
      at_ = static_cast<size_t>(parsed.ptr - text_.data());
      take('L');  // Python 2
      if (npy.shape.size() == kDeepestShape) return bad("shape has too many dimensions");
      npy.shape.push_back(size);
      if (!take(',') && peek() != ')') return bad("',' is missing in shape");
    }
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Bytes of all elements; nothing if that does not fit.
std::optional<uint64_t> size_bytes_of(Dtype dtype, std::span<const int64_t> shape) {
  uint64_t bytes = size_of(dtype);
  for (int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) return std::nullopt;
  return bytes;
}

}  // namespace

Result<Npy> read_npy_header(std::span<const std::byte> file) { return read_npy_header(file, file.size()); }

Result<Npy> read_npy_header(std::span<const std::byte> head, uint64_t file_bytes) {
  ByteReader reader(head);
  const std::string_view magic = as_text(reader.raw(kMagic.size()));
  if (!reader.ok() || magic != kMagic)
    return invalid("npy: the file does not start with \\x93NUMPY; write it with numpy.save");
  const auto major = reader.get<uint8_t>();
  reader.get<uint8_t>();
  if (reader.ok() && (major < 1 || major > 3))
    return unsupported(fmt::format("npy: version {} is not supported; versions 1 to 3 are", major));
  const size_t length = major == 1 ? reader.get<uint16_t>() : reader.get<uint32_t>();
  if (length > kLongestHeader)
    return invalid(fmt::format("npy: a header of {} bytes; at most {} are read", length, kLongestHeader));
  const std::string_view header = as_text(reader.raw(length));
  if (!reader.ok()) return invalid("npy: the file ends within its header");
  Npy npy;
  QUERN_TRY(HeaderReader(header).read(npy));
  npy.data_offset = kMagic.size() + 2 + (major == 1 ? 2 : 4) + length;
  const auto bytes = size_bytes_of(npy.dtype, npy.shape);
  if (!bytes || *bytes != file_bytes - npy.data_offset)
    return invalid(fmt::format("npy: shape {} of {} does not match the {} bytes of data", show_shape(npy.shape),
                               name_of(npy.dtype), file_bytes - npy.data_offset));
  return npy;
}

Result<std::string> npy_header(Dtype dtype, std::span<const int64_t> shape) {
  if (npy_name_of(dtype).empty())
    return unsupported(fmt::format("npy: {} has no name in .npy files; ask for another dtype", name_of(dtype)));
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", npy_name_of(dtype),
                                 fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const size_t prefix = kMagic.size() + 4;
  dict.append(63 - (prefix + dict.size()) % 64, ' ');
  dict += '\n';
  if (dict.size() > 0xffff) return invalid("npy: the shape does not fit a header");
  std::string header(kMagic);
  header += '\x01';
  header += '\0';
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

}  // namespace quern
