// SPDX-License-Identifier: Apache-2.0
#include "main/cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "function/npy.h"
#include "function/yaml_tree.h"
#include "os/file.h"

namespace quern::main {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> sorted(const std::string& folder) {
  std::vector<fs::path> paths;
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(folder, problem)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

// %XX in the name of a file is a character that no file name has: %2F in that of /encoder/out.
std::string name_in_file(const std::string& stem) {
  std::string name;
  for (size_t i = 0; i < stem.size(); ++i) {
    unsigned byte = 0;
    const char* digits = stem.data() + i + 1;
    if (stem[i] == '%' && i + 2 < stem.size() && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      name += static_cast<char>(byte);
      i += 2;
    } else {
      name += stem[i];
    }
  }
  return name;
}

Result<std::vector<OwnedTensor>> read_tensors(const std::string& folder) {
  std::vector<OwnedTensor> tensors;
  for (const fs::path& path : sorted(folder)) {
    if (path.extension() != ".npy") continue;
    QUERN_TRY(Bytes bytes, os::read_file(path.string()));
    auto header = read_npy_header(bytes);
    if (!header.ok()) return Error{header.error().code, fmt::format("{}: {}", path.string(), header.error().text)};
    tensors.push_back(
        {name_in_file(path.stem().string()), header->dtype, header->shape, std::move(bytes), header->data_offset});
  }
  return tensors;
}

Status read_case_file(const std::string& path, Case& into) {
  if (!os::exists(path)) return {};
  QUERN_TRY(const Bytes bytes, os::read_file(path, 1 << 20));
  const auto tree = read_yaml(as_text(bytes));
  const auto wrong = [&](int line, std::string_view what) {
    return invalid(fmt::format("{}:{}: {}", path, line, what));
  };
  if (const auto* problem = std::get_if<YamlProblem>(&tree)) return wrong(problem->line, problem->text);
  const YamlNode& root = std::get<YamlNode>(tree);
  if (root.is_null()) return {};
  if (!root.is_map()) return wrong(root.line, "write a map of dims, params, rtol and atol");
  for (size_t i = 0; i + 1 < root.children.size(); i += 2) {
    const YamlNode &key = root.children[i], &value = root.children[i + 1];
    if (key.text == "dims" || key.text == "params") {
      if (!value.is_map() && !value.is_null()) return wrong(value.line, "write a map, name: value");
      for (size_t j = 0; j + 1 < value.children.size(); j += 2)
        into.parameters[value.children[j].text] = parameter_of(value.children[j + 1].text);
    } else if (key.text == "rtol" || key.text == "atol") {
      double number = 0;
      const char* end = value.text.data() + value.text.size();
      const auto parsed = std::from_chars(value.text.data(), end, number);
      if (!value.is_scalar() || parsed.ec != std::errc() || parsed.ptr != end || !(number >= 0))
        return wrong(value.line, fmt::format("{} is no number that is 0 or more", key.text));
      (key.text == "rtol" ? into.rtol : into.atol) = number;
    } else {
      return wrong(key.line, fmt::format("'{:.64}' is no key; write dims, params, rtol or atol", key.text));
    }
  }
  return {};
}

Scalar element(const client::TensorView& tensor, size_t index) {
  Scalar scalar{tensor.dtype, 0};
  std::memcpy(&scalar.bits, tensor.bytes.data() + index * size_of(tensor.dtype), size_of(tensor.dtype));
  return scalar;
}

// |a - b|; the double of two whole numbers of 64 bits may be the same although they are not.
double distance(Scalar a, Scalar b) {
  const double x = number_of(a), y = number_of(b);
  if (!is_float(a.dtype)) return a == b ? 0 : std::max(1.0, std::fabs(x - y));
  if (std::isnan(x) && std::isnan(y)) return 0;
  return x == y ? 0 : std::fabs(x - y);
}

}  // namespace

Result<std::vector<Case>> read_cases(const std::string& folder) {
  std::vector<Case> cases;
  for (const fs::path& path : sorted(folder + "/expected")) {
    if (!fs::is_directory(path)) continue;
    Case one;
    one.name = path.filename().string();
    QUERN_TRY(read_case_file((path / "case.yaml").string(), one));
    QUERN_TRY(one.inputs, read_tensors((path / "input").string()));
    QUERN_TRY(one.outputs, read_tensors((path / "output").string()));
    if (one.outputs.empty()) return invalid(fmt::format("{}: has no output/*.npy to compare with", path.string()));
    cases.push_back(std::move(one));
  }
  return cases;
}

Difference compare(const client::TensorView& got, const client::TensorView& wanted, double rtol, double atol) {
  if (got.dtype != wanted.dtype || got.shape != wanted.shape)
    return {false, INFINITY,
            fmt::format("is {} {}, wanted {} {}", name_of(got.dtype), show_shape(got.shape), name_of(wanted.dtype),
                        show_shape(wanted.shape))};
  Difference difference;
  const bool exact = !is_float(got.dtype);
  for (size_t i = 0; i < elements_of(got); ++i) {
    const Scalar wish = element(wanted, i);
    const double apart = distance(element(got, i), wish);
    const bool same = apart <= (exact ? 0 : atol + rtol * std::fabs(number_of(wish)));  // false for NaN
    difference.largest = std::max(difference.largest, std::isnan(apart) ? INFINITY : apart);
    if (!same && difference.same) {
      difference.same = false;
      difference.what = fmt::format("element {} is {}, wanted {}", i, show_element(got, i), show_element(wanted, i));
    }
  }
  return difference;
}

}  // namespace quern::main
