// SPDX-License-Identifier: Apache-2.0
//
// 8 bytes of length, a JSON header, the data. JSON is YAML, so the reader of manifests reads the header, with its
// limits on depth and size.
#include "function/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "function/yaml_tree.h"

namespace quern {
namespace {

constexpr std::array<std::pair<std::string_view, Dtype>, 13> kDtypeNames = {{
    {"BOOL", Dtype::kBool},
    {"I8", Dtype::kInt8},
    {"I16", Dtype::kInt16},
    {"I32", Dtype::kInt32},
    {"I64", Dtype::kInt64},
    {"U8", Dtype::kUint8},
    {"U16", Dtype::kUint16},
    {"U32", Dtype::kUint32},
    {"U64", Dtype::kUint64},
    {"F16", Dtype::kFp16},
    {"BF16", Dtype::kBf16},
    {"F32", Dtype::kFp32},
    {"F64", Dtype::kFp64},
}};

Error bad(std::string_view what) {
  return invalid(fmt::format("safetensors header: {}; write the file with safetensors.numpy.save_file", what));
}

std::optional<uint64_t> whole_of(const YamlNode& node) {
  uint64_t value = 0;
  const char* end = node.text.data() + node.text.size();
  const auto parsed = std::from_chars(node.text.data(), end, value);
  if (!node.is_scalar() || node.quoted || parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

Result<std::vector<uint64_t>> numbers_of(const YamlNode* node, std::string_view what) {
  if (!node || !node->is_sequence()) return bad(fmt::format("a tensor has no {}", what));
  std::vector<uint64_t> numbers;
  for (const YamlNode& child : node->children) {
    const auto number = whole_of(child);
    if (!number || *number > INT64_MAX) return bad(fmt::format("{} holds what is no number", what));
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace

Result<std::vector<SafeTensor>> read_safetensors(std::span<const std::byte> file) {
  return read_safetensors(file, file.size());
}

Result<std::vector<SafeTensor>> read_safetensors(std::span<const std::byte> head, uint64_t file_bytes) {
  ByteReader reader(head);
  const auto length = reader.get<uint64_t>();
  if (!reader.ok()) return invalid("safetensors: the file is shorter than the length of its header");
  if (length > kLongestSafetensorsHeader)
    return invalid(
        fmt::format("safetensors: a header of {} bytes; at most {} are read", length, kLongestSafetensorsHeader));
  const std::string_view header = as_text(reader.raw(length));
  if (!reader.ok()) return invalid("safetensors: the file ends within its header");
  const auto tree = read_yaml(header);
  if (const auto* problem = std::get_if<YamlProblem>(&tree)) return bad(problem->text);
  const YamlNode& root = std::get<YamlNode>(tree);
  if (!root.is_map()) return bad("it is no map of tensors");
  const size_t data = sizeof length + length, data_bytes = file_bytes - data;
  std::vector<SafeTensor> tensors;
  for (size_t i = 0; i + 1 < root.children.size(); i += 2) {
    const YamlNode &key = root.children[i], &value = root.children[i + 1];
    if (key.text == "__metadata__") continue;
    const YamlNode* dtype = value.find("dtype");
    if (!dtype || !dtype->is_scalar()) return bad("a tensor has no dtype");
    QUERN_TRY(const auto shape, numbers_of(value.find("shape"), "shape"));
    QUERN_TRY(const auto range, numbers_of(value.find("data_offsets"), "data_offsets"));
    if (range.size() != 2 || range[0] > range[1] || range[1] > data_bytes)
      return bad(fmt::format("the data of '{:.64}' is not in the file", key.text));
    const auto known =
        std::find_if(kDtypeNames.begin(), kDtypeNames.end(), [&](const auto& row) { return row.first == dtype->text; });
    if (known == kDtypeNames.end()) continue;
    SafeTensor tensor;
    tensor.name = key.text;
    tensor.dtype = known->second;
    tensor.offset = data + range[0];
    tensor.size_bytes = range[1] - range[0];
    uint64_t bytes = size_of(tensor.dtype);
    for (const uint64_t size : shape) {
      tensor.shape.push_back(static_cast<int64_t>(size));
      if (__builtin_mul_overflow(bytes, size, &bytes))
        return bad(fmt::format("the shape of '{:.64}' overflows", key.text));
    }
    if (bytes != tensor.size_bytes)
      return bad(fmt::format("'{:.64}' has {} bytes, and its shape needs {}", key.text, tensor.size_bytes, bytes));
    tensors.push_back(std::move(tensor));
  }
  std::vector<const SafeTensor*> placed;
  for (const SafeTensor& tensor : tensors)
    if (tensor.size_bytes > 0) placed.push_back(&tensor);
  std::sort(placed.begin(), placed.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < placed.size(); ++i)
    if (placed[i - 1]->offset + placed[i - 1]->size_bytes > placed[i]->offset)
      return bad(fmt::format("'{:.64}' and '{:.64}' overlap", placed[i - 1]->name, placed[i]->name));
  return tensors;
}

}  // namespace quern
