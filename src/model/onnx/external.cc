// SPDX-License-Identifier: Apache-2.0
#include "model/onnx/external.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "base/printable.h"

namespace quern::model::onnx {
namespace {

constexpr size_t kLongestPath = 1024;

std::optional<uint64_t> number_of_text(std::string_view text) {
  uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

bool stays_inside(std::string_view path) {
  if (path.empty() || path.size() > kLongestPath) return false;
  for (const char c : path)
    if (c == '\\' || static_cast<unsigned char>(c) < 0x20) return false;
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == path.npos) return true;
    path.remove_prefix(slash + 1);
  }
}

Result<Span> external_bytes(const Tensor& tensor, uint64_t size_bytes, const ExternalFiles& files) {
  const auto object = [&] { return fmt::format("tensor '{}'", printable(tensor.name)); };
  std::string_view location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
  for (const auto& [key, value] : tensor.external) {
    if (key == "location") {
      location = value;
    } else if (key == "offset" || key == "length") {
      const auto number = number_of_text(value);
      if (!number)
        return invalid(fmt::format("{}: {} '{}' of its external data is no number; write the model again", object(),
                                   key, printable(value)));
      if (key == "offset")
        offset = *number;
      else
        length = *number;
    }
  }
  // PyTorch writes "./weights.bin" for a file beside the model.
  while (location.starts_with("./")) location.remove_prefix(2);
  if (!stays_inside(location))
    return denied(
        fmt::format("{}: its external data are in '{}', which is not below the model's folder; put the file "
                    "there and name it by a relative path",
                    object(), printable(location)));
  if (!files)
    return not_found(
        fmt::format("{}: its data are in the file '{}', which is not here; give the model as a folder "
                    "with that file",
                    object(), printable(location)));
  auto file = files(std::string(location));
  if (!file.ok()) return std::move(file).error();
  if (length && *length != size_bytes)
    return invalid(fmt::format("{}: has {} bytes of external data, and its sizes {} ask for {}; write the model again",
                               object(), *length, ir::show_sizes(tensor.dims), size_bytes));
  if (offset > file->size() || size_bytes > file->size() - offset)
    return invalid(fmt::format("{}: bytes {} to {} of '{}' are asked for, which has {}; the file is cut off", object(),
                               offset, offset + size_bytes, printable(location), file->size()));
  return file->subspan(offset, size_bytes);
}

}  // namespace quern::model::onnx
