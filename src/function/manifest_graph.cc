// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "base/suggest.h"
#include "function/manifest_reader.h"
#include "function/plan.h"

namespace quern {
namespace {

template <class T>
std::vector<std::string> names_of(const std::vector<T>& all) {
  std::vector<std::string> names;
  for (const T& one : all) names.push_back(one.name);
  return names;
}

std::string show(const Number& number) {
  return std::visit([](auto value) { return fmt::format("{}", value); }, number);
}

bool is_below(const Number& a, const Number& b) { return compare_numbers(a, b) < 0; }

// True of a whole number that no int64_t holds.
bool is_beyond_int64(const YamlNode& node) {
  if (!node.is_scalar() || node.quoted) return false;
  int64_t value = 0;
  const char* end = node.text.data() + node.text.size();
  const auto parsed = std::from_chars(node.text.data(), end, value);
  return parsed.ec == std::errc::result_out_of_range && parsed.ptr == end;
}

}  // namespace

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kDtypes; ++i) names.emplace_back(name_of(static_cast<Dtype>(i)));
  return names;
}

// True of a name that a dim or param may have; dims and params are one set of names, because a request sets both alike.
bool ManifestReader::is_free_name(const YamlNode& key, std::string_view what) {
  if (!is_identifier(key.text))
    mistakes_.error(key, fmt::format("{} {} is no name; write a letter, then at most 62 letters, digits or _", what,
                                     shown(key.text)));
  else if (is_reserved_parameter(key.text))
    mistakes_.error(key, fmt::format("{} '{}': this name is reserved for requests; choose another", what, key.text));
  else if (auto call = Expression::parse(key.text); !call.ok() || !call->is_name())
    mistakes_.error(key,
                    fmt::format("{} '{}': this is a function of expressions; choose another name", what, key.text));
  else if (manifest_.dim(key.text) || manifest_.param(key.text))
    mistakes_.error(key, fmt::format("{} '{}': a dim or param has this name; choose another", what, key.text));
  else if (manifest_.let(key.text))
    mistakes_.error(key, fmt::format("{} '{}': a let has this name; choose another", what, key.text));
  else
    return true;
  return false;
}

void ManifestReader::read_dims(const YamlNode& node) {
  if (!is_map(node, "dims")) return;
  if (node.children.size() / 2 > kMostDims)
    return mistakes_.error(node, fmt::format("{} dims; at most {} are allowed", node.children.size() / 2, kMostDims));
  for (size_t i = 0; i + 1 < node.children.size(); i += 2) read_dim(node.children[i], node.children[i + 1]);
}

void ManifestReader::read_dim(const YamlNode& key, const YamlNode& node) {
  DimDecl dim;
  dim.name = key.text;
  const bool is_named = is_free_name(key, "dim");
  auto number = [&](std::string_view name, int64_t otherwise, int64_t least) {
    const YamlNode* value = node.find(name);
    const auto whole = value ? whole_of(*value, fmt::format("{} of dim {}", name, shown(key.text))) : std::nullopt;
    if (!whole) return otherwise;
    if (*whole >= least && *whole <= kLargestDim) return *whole;
    mistakes_.error(
        *value, fmt::format("{} of dim {} is {}; write {} to {}", name, shown(key.text), *whole, least, kLargestDim));
    return otherwise;
  };
  if (node.is_scalar()) {
    dim.fixed = true;
    const auto value = whole_of(node, fmt::format("dim {}", shown(key.text)));
    if (value && (*value < 1 || *value > kLargestDim))
      mistakes_.error(node, fmt::format("dim {} is {}; write 1 to {}", shown(key.text), *value, kLargestDim));
    dim.value = dim.min = dim.max = std::clamp<int64_t>(value.value_or(1), 1, kLargestDim);
  } else if (is_map(node, fmt::format("dim {}", shown(key.text)))) {
    refuse_unknown_keys(node, "a dim", {"default", "min", "max", "multiple_of"}, {});
    required(node, fmt::format("dim {}", shown(key.text)), "max");
    const size_t errors_before = mistakes_.errors();
    dim.min = number("min", 1, 0);
    dim.max = number("max", kLargestDim, 1);
    dim.multiple_of = number("multiple_of", 1, 1);
    if (node.find("default")) dim.value = number("default", dim.min, 0);
    if (mistakes_.errors() != errors_before) {
      // What is out of range was told; more about it would only repeat it.
    } else if (dim.max / dim.multiple_of * dim.multiple_of < dim.min) {
      mistakes_.error(
          node, dim.min > dim.max
                    ? fmt::format("dim {}: min {} is above max {}; widen the range", shown(key.text), dim.min, dim.max)
                    : fmt::format("dim {}: nothing from {} to {} is a multiple of {}; widen the "
                                  "range",
                                  shown(key.text), dim.min, dim.max, dim.multiple_of));
    } else if (dim.value && (*dim.value < dim.min || *dim.value > dim.max || *dim.value % dim.multiple_of != 0)) {
      mistakes_.error(
          *node.find("default"),
          fmt::format("dim {}: the default {} is not {}from {} to {}; choose another", shown(key.text), *dim.value,
                      dim.multiple_of == 1 ? "" : fmt::format("a multiple of {} ", dim.multiple_of), dim.min, dim.max));
    }
  }
  if (!is_named) return;
  manifest_.dims.push_back(std::move(dim));
  dim_places_.push_back(&key);
}

std::optional<Dtype> ManifestReader::read_dtype(const YamlNode& node, std::string_view what) {
  auto text = text_of(node, "dtype");
  if (!text) return std::nullopt;
  auto dtype = dtype_of(*text);
  if (dtype) return dtype;
  std::string hint = did_you_mean(*text, dtype_names());
  if (hint.empty()) hint = fmt::format("; write one of {}", fmt::join(dtype_names(), ", "));
  mistakes_.error(node, fmt::format("{}: there is no dtype {}{}", what, shown(*text), hint));
  return std::nullopt;
}

void ManifestReader::read_params(const YamlNode& node) {
  if (!is_map(node, "params")) return;
  if (node.children.size() / 2 > kMostParams)
    return mistakes_.error(node,
                           fmt::format("{} params; at most {} are allowed", node.children.size() / 2, kMostParams));
  for (size_t i = 0; i + 1 < node.children.size(); i += 2) read_param(node.children[i], node.children[i + 1]);
}

// A number that the dtype can hold; true and false for bool.
std::optional<Number> ManifestReader::number_of_dtype(const YamlNode& node, Dtype dtype, std::string_view what) {
  if (dtype == Dtype::kBool) {
    const auto value = bool_of(node, what);
    return value ? std::optional<Number>(int64_t{*value}) : std::nullopt;
  }
  if (!is_float(dtype)) {
    if (is_beyond_int64(node)) {
      uint64_t large = 0;
      const auto parsed = std::from_chars(node.text.data(), node.text.data() + node.text.size(), large);
      if (dtype == Dtype::kUint64 && parsed.ec == std::errc()) return Number(large);
      mistakes_.error(node, fmt::format("{} is {}, which does not fit {}", what, shown(node.text), name_of(dtype)));
      return std::nullopt;
    }
    const auto value = whole_of(node, what);
    if (!value) return std::nullopt;
    if (scalar_of(dtype, *value)) return Number(*value);
    mistakes_.error(node, fmt::format("{} is {}, which does not fit {}", what, *value, name_of(dtype)));
    return std::nullopt;
  }
  double value = 0;
  const char* end = node.text.data() + node.text.size();
  if (node.is_scalar() && !node.quoted) {
    const auto parsed = std::from_chars(node.text.data(), end, value);
    if (parsed.ec == std::errc() && parsed.ptr == end && std::isfinite(value)) {
      if (std::isfinite(quern::number_of(*scalar_of(dtype, value)))) return Number(value);
      mistakes_.error(node, fmt::format("{} is {}, which does not fit {}", what, value, name_of(dtype)));
      return std::nullopt;
    }
  }
  mistakes_.error(node, fmt::format("{} is {}; write a number", what,
                                    node.is_scalar() ? shown(node.text) : std::string(node.kind_name())));
  return std::nullopt;
}

void ManifestReader::read_param(const YamlNode& key, const YamlNode& node) {
  ParamDecl param;
  param.name = key.text;
  const bool is_named = is_free_name(key, "param");
  const std::string what = fmt::format("param {}", shown(key.text));
  if (is_map(node, what)) {
    refuse_unknown_keys(node, "a param", {"dtype", "default", "min", "max"}, {});
    const YamlNode* dtype_node = required(node, what, "dtype");
    bool has_dtype = false;
    if (dtype_node)
      if (const auto dtype = read_dtype(*dtype_node, what)) param.dtype = *dtype, has_dtype = true;
    auto number = [&](std::string_view name) -> std::optional<Number> {
      const YamlNode* value = node.find(name);
      if (!has_dtype || !value) return std::nullopt;
      return number_of_dtype(*value, param.dtype, fmt::format("{} of {}", name, what));
    };
    const auto value = number("default");
    if (value) param.value = std::visit([&](auto number) { return scalar_of(param.dtype, number); }, *value);
    param.min = number("min");
    param.max = number("max");
    if (param.dtype == Dtype::kBool && (param.min || param.max))
      mistakes_.error(node, fmt::format("{} is bool; leave out min and max", what));
    if (param.min && param.max && is_below(*param.max, *param.min))
      mistakes_.error(node, fmt::format("{}: max {} is below min {}", what, show(*param.max), show(*param.min)));
    else if (value && ((param.min && is_below(*value, *param.min)) || (param.max && is_below(*param.max, *value))))
      mistakes_.error(*node.find("default"),
                      fmt::format("{}: the default {} is not between min and max", what, show(*value)));
  }
  if (!is_named) return;
  manifest_.params.push_back(std::move(param));
  param_places_.push_back(&key);
}

void ManifestReader::read_lets(const YamlNode& node) {
  if (!is_map(node, "let")) return;
  if (node.children.size() / 2 > kMostLets)
    return mistakes_.error(node, fmt::format("{} lets; at most {} are allowed", node.children.size() / 2, kMostLets));
  for (size_t i = 0; i + 1 < node.children.size(); i += 2) {
    const YamlNode &key = node.children[i], &value = node.children[i + 1];
    LetDecl let;
    let.name = key.text;
    const bool is_named = is_free_name(key, "let");
    const Scope scope{.what = "a let", .any_integer_param = true, .floats = true, .is_size = false, .indices = false};
    auto expression = read_expression(value, scope);
    if (!is_named) continue;
    // One that is wrong was told; what is left behind is something harmless.
    let.value = expression ? std::move(*expression) : Expression::constant(1);
    let.is_real = let.value.has_fractions();
    for (const std::string& name : let.value.names()) {
      const ParamDecl* param = manifest_.param(name);
      const LetDecl* other = manifest_.let(name);
      let.is_real |= (param && is_float(param->dtype)) || (other && other->is_real);
    }
    each_dependency(manifest_, let.value, [&](const std::string& name) {
      if (std::find(let.depends_on.begin(), let.depends_on.end(), name) == let.depends_on.end())
        let.depends_on.push_back(name);
    });
    manifest_.lets.push_back(std::move(let));
    let_places_.push_back(&key);
  }
}

void ManifestReader::read_buffers(const YamlNode& node) {
  if (!is_map(node, "buffers")) return;
  if (node.children.size() / 2 > kMostBuffers)
    return mistakes_.error(node,
                           fmt::format("{} buffers; at most {} are allowed", node.children.size() / 2, kMostBuffers));
  for (size_t i = 0; i + 1 < node.children.size(); i += 2) read_buffer(node.children[i], node.children[i + 1]);
}

void ManifestReader::read_buffer(const YamlNode& key, const YamlNode& node) {
  BufferDecl buffer;
  buffer.name = key.text;
  const std::string what = fmt::format("buffer {}", shown(key.text));
  if (!is_buffer_name(key.text))
    mistakes_.error(key, fmt::format("{} is no name; write at most 255 bytes, without quotes, backslashes, control "
                                     "characters and spaces at the ends",
                                     what));
  if (is_map(node, what)) {
    refuse_unknown_keys(node, "a buffer", {"role", "dtype", "shape", "zero", "file", "tensor", "data"}, {});
    if (const YamlNode* role_node = required(node, what, "role")) {
      const std::vector<std::string> roles = {"constant", "input", "output", "scratch"};
      const auto text = text_of(*role_node, "role");
      const auto role = text ? std::find(roles.begin(), roles.end(), *text) : roles.end();
      if (role != roles.end())
        buffer.role = static_cast<Role>(role - roles.begin());
      else if (text)
        mistakes_.error(*role_node, fmt::format("{}: there is no role {}; write constant, input, output or scratch",
                                                what, shown(*text)));
    }
    const bool is_constant = buffer.role == Role::kConstant;
    if (const YamlNode* dtype_node = required(node, what, "dtype"))
      buffer.dtype = read_dtype(*dtype_node, what).value_or(Dtype::kFp32);
    if (const YamlNode* shape = required(node, what, "shape"); shape && is_sequence(*shape, "shape"))
      buffer.shape =
          read_sizes(*shape, "shape", 0, kMostRank, {.what = "a shape", .fixed_only = is_constant, .least = 0});
    if (const YamlNode* zero = node.find("zero")) {
      buffer.zero = bool_of(*zero, "zero").value_or(false);
      if (buffer.zero && (is_constant || buffer.role == Role::kInput))
        mistakes_.error(*zero,
                        fmt::format("{}: {} buffers are never written; leave out zero", what, name_of(buffer.role)));
    }
    read_contents(node, key, buffer);
  }
  buffer_index_.emplace(key.text, static_cast<uint32_t>(manifest_.buffers.size()));
  if (buffer.role == Role::kInput || buffer.role == Role::kOutput)
    if (++tensors_ == kMostTensors + 1)
      mistakes_.error(key, fmt::format("more than {} inputs and outputs; leave some out", kMostTensors));
  // Kept even if it is wrong, so that kernels that name it are not called wrong too.
  manifest_.buffers.push_back(std::move(buffer));
  buffer_places_.push_back(&key);
}

// Where the bytes of a constant come from; other buffers have none.
void ManifestReader::read_contents(const YamlNode& node, const YamlNode& key, BufferDecl& buffer) {
  const std::string what = fmt::format("buffer {}", shown(key.text));
  const YamlNode *file = node.find("file"), *tensor = node.find("tensor"), *data = node.find("data");
  if (buffer.role != Role::kConstant) {
    for (const YamlNode* extra : {file, tensor, data})
      if (extra)
        mistakes_.error(*extra, fmt::format("{}: only constants have file, tensor and data; leave it out", what));
    return;
  }
  if (!file && !data)
    return mistakes_.error(key,
                           fmt::format("{} is a constant without file; write file: NAME.npy, or data: [ … ]", what));
  if (file && data) return mistakes_.error(*data, fmt::format("{} has file and data; leave one out", what));
  if (data) {
    if (tensor)
      mistakes_.error(*tensor, fmt::format("{}: tensor names one of a .safetensors file; leave it out", what));
    ByteWriter bytes;
    read_data(*data, buffer, bytes);
    buffer.data = bytes.take();
    return;
  }
  buffer.file = text_of(*file, "file").value_or("");
  const bool is_safetensors = buffer.file.ends_with(".safetensors");
  if (tensor) buffer.tensor = text_of(*tensor, "tensor").value_or("");
  if (tensor && !is_safetensors)
    mistakes_.error(*tensor, fmt::format("{}: tensor names one of a .safetensors file; leave it out", what));
  else if (is_safetensors && buffer.tensor.empty())
    mistakes_.error(*file, fmt::format("{}: a .safetensors file holds many tensors; write tensor: NAME", what));
}

// Numbers, flat or nested; the shape says how many there must be.
void ManifestReader::read_data(const YamlNode& node, const BufferDecl& buffer, ByteWriter& into) {
  if (node.is_sequence()) {
    for (const YamlNode& item : node.children) read_data(item, buffer, into);
    return;
  }
  const auto number = number_of_dtype(node, buffer.dtype, fmt::format("data of buffer {}", shown(buffer.name)));
  if (!number) return;
  const auto scalar = std::visit([&](auto value) { return scalar_of(buffer.dtype, value); }, *number);
  const uint64_t bits = scalar ? scalar->bits : 0;
  into.raw(std::as_bytes(std::span(&bits, 1)).first(size_of(buffer.dtype)));
}

bool ManifestReader::names_are_known(const YamlNode& node, const Expression& expression, const Scope& scope) {
  bool all_known = true;
  for (const std::string& name : expression.names()) {
    const LetDecl* let = manifest_.let(name);
    if (!let) {
      all_known = name_is_known(node, name, "", scope) && all_known;
      continue;
    }
    if (let->is_real && !scope.floats) {
      mistakes_.error(node, fmt::format("{} is whole, but names '{}', which is not; use it in scalars of a float dtype",
                                        scope.what, name));
      all_known = false;
    }
    const std::string way = fmt::format(" by way of '{}'", name);
    for (const std::string& one : let->depends_on) all_known = name_is_known(node, one, way, scope) && all_known;
  }
  if (all_known && scope.is_size)
    each_dependency(manifest_, expression, [&](const std::string& name) {
      for (ParamDecl& param : manifest_.params) param.in_size |= param.name == name;
    });
  return all_known;
}

// `way`: through which let it is named.
bool ManifestReader::name_is_known(const YamlNode& node, const std::string& name, std::string_view way,
                                   const Scope& scope) {
  const auto refuse = [&](std::string text) {
    mistakes_.error(node, std::move(text));
    return false;
  };
  if (const auto repeat = repeat_of_index(name)) {
    if (!scope.indices)
      return refuse(
          fmt::format("{} names '{}', the number of a round; it must be the same in every round", scope.what, name));
    manifest_.repeats[*repeat].uses_index = true;
    return true;
  }
  if (const DimDecl* dim = manifest_.dim(name)) {
    if (!dim->fixed && scope.fixed_only)
      return refuse(fmt::format("{} of a constant names '{}'{}, which a request may change; make this dim a number",
                                scope.what, name, way));
    if (!dim->fixed && !scope.free_dims)
      return refuse(
          fmt::format("{} names '{}'{}, which a request may change; use numbers, fixed dims or params with min and max",
                      scope.what, name, way));
    return true;
  }
  const ParamDecl* param = manifest_.param(name);
  if (!param) {
    std::vector<std::string> known = names_of(manifest_.dims);
    for (const ParamDecl& one : manifest_.params) known.push_back(one.name);
    for (const LetDecl& one : manifest_.lets) known.push_back(one.name);
    for (const uint32_t open : open_repeats_)
      if (!manifest_.repeats[open].index.empty()) known.push_back(manifest_.repeats[open].index);
    std::string hint = did_you_mean(name, known);
    return refuse(fmt::format("{} names {}, which is no dim and no param{}", scope.what, shown(name),
                              hint.empty() ? "; add it under dims" : hint));
  }
  const bool is_bool = param->dtype == Dtype::kBool;
  if (scope.fixed_only)
    return refuse(
        fmt::format("{} of a constant names the param '{}'{}; use numbers and fixed dims", scope.what, name, way));
  if (is_bool && scope.bools) return true;
  if ((is_float(param->dtype) || is_bool) && !scope.floats && !(scope.any_integer_param && is_bool))
    return refuse(fmt::format("{} is whole, but names '{}'{}, which is {}; use an integer param", scope.what, name, way,
                              name_of(param->dtype)));
  if (!scope.floats && !scope.any_integer_param && (!param->min || !param->max))
    return refuse(
        fmt::format("{} names the param '{}'{}, which has no bounds; give it min and max", scope.what, name, way));
  return true;
}

std::optional<Expression> ManifestReader::read_expression(const YamlNode& node, const Scope& scope) {
  const auto text = text_of(node, scope.what);
  if (!text) return std::nullopt;
  auto expression = Expression::parse(*text);
  if (!expression.ok()) {
    mistakes_.error(node, fmt::format("{} is no expression: {}", scope.what, expression.error().text));
    return std::nullopt;
  }
  if (!names_are_known(node, *expression, scope)) return std::nullopt;
  if (expression->names().empty()) {
    const Status status = scope.floats ? [&]() -> Status {
      QUERN_TRY(expression->real({}));
      return {};
    }()
        : [&]() -> Status {
            QUERN_TRY(expression->whole({}));
            return {};
          }();
    if (!status.ok()) {
      mistakes_.error(node, fmt::format("{}: {}", scope.what, status.error().text));
      return std::nullopt;
    }
    if (scope.is_size && *expression->fixed() < scope.least) {
      mistakes_.error(node, fmt::format("{} is {}; write at least {}", scope.what, *expression->fixed(), scope.least));
      return std::nullopt;
    }
  }
  return std::move(*expression);
}

std::vector<Expression> ManifestReader::read_sizes(const YamlNode& node, std::string_view what, size_t fewest,
                                                   size_t most, const Scope& scope) {
  std::vector<Expression> sizes;
  if (node.children.size() < fewest || node.children.size() > most) {
    mistakes_.error(node, fmt::format("{} has {} sizes; write {} to {}", what, node.children.size(), fewest, most));
    return sizes;
  }
  // One that is wrong leaves a 1 behind, so that the rank stays what was written.
  for (const YamlNode& item : node.children)
    sizes.push_back(read_expression(item, scope).value_or(Expression::constant(1)));
  return sizes;
}

}  // namespace quern
