// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

/// How a frame is written and read: one `fields` per struct visits every field, with a Writer or with a Reader, so that
/// the two directions cannot disagree.
namespace quern::ipc {

constexpr size_t kLongestText = 16 * 1024;

struct Writer {
  ByteWriter& to;
  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void operator()(T& value) { to.put(value); }
  void operator()(std::string& text, size_t = kLongestText) { to.put_text(text); }
  void operator()(std::array<uint64_t, 3>& sizes) {
    for (uint64_t& size : sizes) to.put(size);
  }
  template <class T, class F>
  void list(std::vector<T>& items, uint32_t, F each) {
    to.put(static_cast<uint32_t>(items.size()));
    for (T& item : items) each(item);
  }
  template <class T, class F>
  void maybe(std::optional<T>& item, F each) {
    to.put(static_cast<uint8_t>(item.has_value()));
    if (item) each(*item);
  }
};

struct Reader {
  ByteReader& from;
  void operator()(bool& value) { value = from.get<uint8_t>() != 0; }  // any other byte in a bool would be undefined
  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void operator()(T& value) { value = from.get<T>(); }
  void operator()(std::string& text, size_t longest = kLongestText) { text = from.get_text(longest); }
  void operator()(std::array<uint64_t, 3>& sizes) {
    for (uint64_t& size : sizes) size = from.get<uint64_t>();
  }
  template <class T, class F>
  void list(std::vector<T>& items, uint32_t most, F each) {
    items.resize(from.get_count(most));
    for (T& item : items) {
      each(item);
      if (!from.ok()) break;
    }
  }
  template <class T, class F>
  void maybe(std::optional<T>& item, F each) {
    item.reset();
    if (from.get<uint8_t>() != 0) each(item.emplace());
  }
};

// `fields` takes its struct by reference for both directions; a Writer never changes it.
template <class T>
void write(const T& value, ByteWriter& into) {
  Writer writer{into};
  fields(writer, const_cast<T&>(value));
}
template <class T>
Bytes written(const T& value) {
  ByteWriter writer;
  write(value, writer);
  return writer.take();
}

template <class T>
Result<T> read_whole(std::span<const std::byte> bytes, const char* what) {
  ByteReader reader(bytes);
  Reader fields_of{reader};
  T value;
  fields(fields_of, value);
  if (!reader.ok() || !reader.at_end()) return invalid(std::string(what) + ": is damaged");
  return value;
}

}  // namespace quern::ipc
