// SPDX-License-Identifier: Apache-2.0
#include "main/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/prng.h"
#include "base/suggest.h"
#include "function/npy.h"
#include "os/file.h"

namespace quern::main {
namespace {

using Dims = std::map<std::string, int64_t>;

Result<OwnedTensor> read_npy(const InputFlag& flag) {
  QUERN_TRY(auto bytes, os::read_file(flag.value));
  auto header = read_npy_header(bytes);
  if (!header.ok()) return Error{header.error().code, fmt::format("{}: {}", flag.value, header.error().text)};
  return OwnedTensor{flag.name, header->dtype, header->shape, std::move(bytes), header->data_offset};
}

// A dim in the shape of an input is what the file says, alone and as in [n + 1].
void bind_dims(const client::FunctionInfo& function, const client::FunctionInfo::Tensor& declared, const Shape& shape,
               Dims& dims) {
  if (declared.expressions.size() != shape.size()) return;
  const auto known = [&](std::string_view name) {
    const auto dim = dims.find(std::string(name));
    return dim == dims.end() ? std::nullopt : std::optional<Number>(dim->second);
  };
  const auto is_dim = [&](const std::string& name) {
    return std::any_of(function.dims.begin(), function.dims.end(), [&](const auto& dim) { return dim.name == name; });
  };
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto expression = Expression::parse(declared.expressions[i]);
    if (!expression.ok()) continue;
    for (const std::string& name : expression->names()) {
      if (dims.contains(name) || !is_dim(name)) continue;
      if (const auto solved = expression->solve(name, shape[i], known); solved.ok() && *solved)
        dims.emplace(name, **solved);
    }
  }
}

Result<Shape> shape_of(const client::FunctionInfo& function, const client::FunctionInfo::Tensor& declared,
                       const Dims& dims) {
  if (std::find(declared.shape.begin(), declared.shape.end(), -1) == declared.shape.end()) return declared.shape;
  const auto names = [&](std::string_view name) -> std::optional<Number> {
    if (const auto given = dims.find(std::string(name)); given != dims.end()) return given->second;
    for (const auto& dim : function.dims)
      if (dim.name == name && dim.value) return *dim.value;
    return std::nullopt;
  };
  // What has no value here may be of params, or of no concern.
  Dims lets;
  const auto all_names = [&](std::string_view name) -> std::optional<Number> {
    if (const auto let = lets.find(std::string(name)); let != lets.end()) return let->second;
    return names(name);
  };
  for (const auto& let : function.lets)
    if (const auto expression = Expression::parse(let.expression); expression.ok())
      if (const auto value = expression->whole(all_names); value.ok()) lets.emplace(let.name, *value);
  Shape shape;
  for (const std::string& text : declared.expressions) {
    QUERN_TRY(auto expression, Expression::parse(text));
    const auto size = expression.whole(all_names);
    if (!size.ok() || *size < 0) {
      return invalid(fmt::format("input {}: its shape needs {}, which has no default; give --dims {}=NUMBER",
                                 declared.name, text, text));
    }
    shape.push_back(*size);
  }
  if (shape.empty())
    return invalid(
        fmt::format("input {}: its shape {} is open; give a file", declared.name, show_shape(declared.shape)));
  return shape;
}

uint64_t element_bits(std::string_view kind, Dtype dtype, Prng& prng) {
  if (kind == "@zeros") return 0;
  if (kind == "@ones") return scalar_of(dtype, int64_t{1})->bits;
  if (dtype == Dtype::kBool) return prng.next() & 1;
  if (is_float(dtype)) return scalar_of(dtype, prng.uniform())->bits;
  return prng.below(is_signed(dtype) ? 128 : 256);  // fits every integer dtype
}

Result<OwnedTensor> make(const InputFlag& flag, Dtype dtype, Shape shape, uint64_t seed) {
  uint64_t size = size_of(dtype);
  for (const int64_t one : shape)
    if (__builtin_mul_overflow(size, static_cast<uint64_t>(one), &size) || size > (uint64_t{1} << 34))
      return invalid(fmt::format("input {}: shape {} is too large to make; give a file", flag.name, show_shape(shape)));
  OwnedTensor tensor{flag.name, dtype, std::move(shape), Bytes(size), 0};
  Prng prng(seed);
  for (size_t at = 0; at < size; at += size_of(dtype)) {
    const uint64_t bits = element_bits(flag.value, dtype, prng);
    std::memcpy(tensor.file.data() + at, &bits, size_of(dtype));
  }
  return tensor;
}

}  // namespace

Result<std::pair<std::string, std::string>> split_pair(std::string_view flag, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    return invalid(fmt::format("{} {}: write NAME=VALUE", flag, text));
  return std::pair{text.substr(0, equals), text.substr(equals + 1)};
}

ParameterValue parameter_of(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  const char* end = text.data() + text.size();
  int64_t whole = 0;
  if (const auto [rest, problem] = std::from_chars(text.data(), end, whole); problem == std::errc() && rest == end) {
    if (whole == 0 && text.starts_with('-')) return -0.0;  // an integer would lose the sign
    return whole;
  }
  uint64_t large = 0;
  if (const auto [rest, problem] = std::from_chars(text.data(), end, large); problem == std::errc() && rest == end)
    return large;
  double real = 0;
  if (const auto [rest, problem] = std::from_chars(text.data(), end, real);
      problem == std::errc() && rest == end && std::isfinite(real))
    return real;
  return text;
}

ParameterValue parameter_of(Scalar scalar) {
  if (scalar.dtype == Dtype::kBool) return scalar.bits != 0;
  if (is_float(scalar.dtype)) return number_of(scalar);
  if (scalar.dtype == Dtype::kUint64 && scalar.bits >> 63 != 0) return scalar.bits;
  if (size_of(scalar.dtype) == 8) return static_cast<int64_t>(scalar.bits);
  return static_cast<int64_t>(number_of(scalar));
}

Result<std::vector<OwnedTensor>> make_inputs(const client::FunctionInfo& function, const std::vector<InputFlag>& flags,
                                             Dims dims, uint64_t seed, bool has_server) {
  std::vector<OwnedTensor> tensors(flags.size());
  std::vector<const client::FunctionInfo::Tensor*> declared;
  std::vector<std::string> known;
  for (const auto& input : function.inputs) known.push_back(input.name);
  for (const InputFlag& flag : flags) {
    const auto found = std::find(known.begin(), known.end(), flag.name);
    if (found == known.end())
      return invalid(
          fmt::format("function {}: has no input '{}'{}", function.name, flag.name, did_you_mean(flag.name, known)));
    declared.push_back(&function.inputs[static_cast<size_t>(found - known.begin())]);
    if (flag.is_object()) {
      if (!has_server)
        return invalid(fmt::format("input {}: only a server has objects; use 'quern invoke'", flag.name));
      if (flag.object().empty())
        return invalid(fmt::format("input {}: write @object:ID, with an ID of 'quern objects'", flag.name));
    } else if (flag.is_made() && flag.value != "@random" && flag.value != "@zeros" && flag.value != "@ones") {
      return invalid(
          fmt::format("input {}: '{}' is none of @random, @zeros, @ones, @object:ID", flag.name, flag.value));
    }
  }
  // Files first: their shapes may decide those of the others.
  for (size_t i = 0; i < flags.size(); ++i) {
    if (flags[i].is_made()) continue;
    QUERN_TRY(tensors[i], read_npy(flags[i]));
    bind_dims(function, *declared[i], tensors[i].shape, dims);
  }
  for (size_t i = 0; i < flags.size(); ++i) {
    if (!flags[i].is_made()) continue;
    QUERN_TRY(auto shape, shape_of(function, *declared[i], dims));
    if (flags[i].is_object()) {
      tensors[i] = {flags[i].name, declared[i]->dtype, std::move(shape), {}, 0, flags[i].object()};
      continue;
    }
    QUERN_TRY(tensors[i], make(flags[i], declared[i]->dtype, std::move(shape), seed + i));
  }
  return tensors;
}

Status write_npy(const std::string& path, const client::TensorView& tensor) {
  QUERN_TRY(auto header, npy_header(tensor.dtype, tensor.shape));
  Bytes bytes(header.size() + tensor.bytes.size());
  std::memcpy(bytes.data(), header.data(), header.size());
  if (!tensor.bytes.empty()) std::memcpy(bytes.data() + header.size(), tensor.bytes.data(), tensor.bytes.size());
  return os::write_file(path, bytes);
}

size_t elements_of(const client::TensorView& tensor) { return tensor.bytes.size() / size_of(tensor.dtype); }

std::string show_element(const client::TensorView& tensor, size_t index, bool json) {
  const size_t size = size_of(tensor.dtype);
  Scalar scalar{tensor.dtype, 0};
  std::memcpy(&scalar.bits, tensor.bytes.data() + index * size, size);
  if (tensor.dtype == Dtype::kBool) return scalar.bits ? "true" : "false";
  if (tensor.dtype == Dtype::kUint64) return fmt::format("{}", scalar.bits);
  if (tensor.dtype == Dtype::kInt64) return fmt::format("{}", static_cast<int64_t>(scalar.bits));
  const double number = number_of(scalar);
  if (json && std::isnan(number)) return "\"NaN\"";
  if (json && std::isinf(number)) return number > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  if (json && number == 0 && std::signbit(number)) return "-0.0";  // "-0" would be read back as an integer
  return tensor.dtype == Dtype::kFp64 ? fmt::format("{}", number) : fmt::format("{}", static_cast<float>(number));
}

}  // namespace quern::main
