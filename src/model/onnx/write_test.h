// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Writes ONNX files for tests, with no more knowledge of the format than field numbers.
namespace quern::model::onnx::test {

/// A protobuf message that grows field by field.
class Proto {
 public:
  Proto& number(uint32_t field, int64_t value) {
    key(field, 0);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Proto& real(uint32_t field, float value) {
    key(field, 5);
    return raw(&value, sizeof value);
  }
  Proto& bytes(uint32_t field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    text_ += value;
    return *this;
  }
  Proto& message(uint32_t field, const Proto& value) { return bytes(field, value.text_); }
  Proto& packed(uint32_t field, std::initializer_list<int64_t> values) {
    Proto inner;
    for (const int64_t value : values) inner.varint(static_cast<uint64_t>(value));
    return bytes(field, inner.text_);
  }
  template <class T>
  Proto& packed_fixed(uint32_t field, std::initializer_list<T> values) {
    return bytes(field, {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)});
  }
  Proto& with(const Proto& other) {
    text_ += other.text_;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  Proto& raw(const void* data, size_t size) {
    text_.append(static_cast<const char*>(data), size);
    return *this;
  }
  void key(uint32_t field, uint32_t wire) { varint(uint64_t{field} << 3 | wire); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }

  std::string text_;
};

inline Proto tensor(std::string_view name, int32_t type, std::initializer_list<int64_t> sizes) {
  return Proto().packed(1, sizes).number(2, type).bytes(8, name);
}
inline Proto floats(std::string_view name, std::initializer_list<int64_t> sizes, std::initializer_list<float> values) {
  return tensor(name, 1, sizes).packed_fixed<float>(9, values);
}
inline Proto int64s(std::string_view name, std::initializer_list<int64_t> sizes,
                    std::initializer_list<int64_t> values) {
  return tensor(name, 7, sizes).packed_fixed<int64_t>(9, values);
}

inline Proto whole(std::string_view name, int64_t value) {
  return Proto().bytes(1, name).number(3, value).number(20, 2);
}
inline Proto wholes(std::string_view name, std::initializer_list<int64_t> values) {
  return Proto().bytes(1, name).packed(8, values).number(20, 7);
}
inline Proto real(std::string_view name, float value) { return Proto().bytes(1, name).real(2, value).number(20, 1); }
inline Proto text(std::string_view name, std::string_view value) {
  return Proto().bytes(1, name).bytes(4, value).number(20, 3);
}

inline Proto node(std::string_view op, std::initializer_list<std::string_view> inputs,
                  std::initializer_list<std::string_view> outputs, std::initializer_list<Proto> attributes = {},
                  std::string_view name = "") {
  Proto out;
  for (const std::string_view input : inputs) out.bytes(1, input);
  for (const std::string_view output : outputs) out.bytes(2, output);
  if (!name.empty()) out.bytes(3, name);
  out.bytes(4, op);
  for (const Proto& attribute : attributes) out.message(5, attribute);
  return out;
}

/// A size is a number, or a name: "3", "batch".
inline Proto value(std::string_view name, int32_t type, std::initializer_list<std::string_view> shape) {
  Proto dims;
  for (const std::string_view size : shape) {
    const bool is_number = !size.empty() && size.find_first_not_of("-0123456789") == size.npos;
    dims.message(1, is_number ? Proto().number(1, std::stoll(std::string(size))) : Proto().bytes(2, size));
  }
  return Proto().bytes(1, name).message(2, Proto().message(1, Proto().number(1, type).message(2, dims)));
}

struct GraphParts {
  std::vector<Proto> nodes = {}, inputs = {}, outputs = {}, initialisers = {};
};
inline Proto graph(const GraphParts& parts) {
  Proto out;
  for (const Proto& node : parts.nodes) out.message(1, node);
  out.bytes(2, "g");
  for (const Proto& initialiser : parts.initialisers) out.message(5, initialiser);
  for (const Proto& input : parts.inputs) out.message(11, input);
  for (const Proto& output : parts.outputs) out.message(12, output);
  return out;
}
inline std::string model_file(const GraphParts& parts, int64_t opset = 17) {
  return Proto().number(1, 8).message(7, graph(parts)).message(8, Proto().bytes(1, "").number(2, opset)).text();
}

}  // namespace quern::model::onnx::test
