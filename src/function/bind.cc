// SPDX-License-Identifier: Apache-2.0
//
// Runs once for each request, before it is queued: lists are short (tens of names) and walked, nothing is built but
// the binding itself; texts only where something is wrong.
#include <fmt/format.h>

#include <bitset>
#include <cmath>

#include "base/suggest.h"
#include "function/plan.h"
#include "function/plan_builder.h"
#include "function/settings.h"

namespace quern {
namespace {

class Binder {
 public:
  Binder(const Graph& graph, const CallSpec& call) : graph_(graph), call_(call) {}

  Result<Binding> bind() {
    if (graph_.dims.size() > kMostDims || graph_.params.size() > kMostParams || graph_.lets.size() > kMostLets ||
        graph_.buffers.size() > kMostBuffers)
      return internal(fmt::format("{}: the graph is larger than its limits", graph_.name));
    binding_.dims.resize(graph_.dims.size());
    binding_.params.resize(graph_.params.size());
    for (size_t i = 0; i < graph_.dims.size(); ++i)
      if (graph_.dims[i].fixed) set_dim(i, graph_.dims[i].value.value_or(1));
    for (const auto& [name, value] : call_.parameters) QUERN_TRY(take_parameter(name, value));
    for (const TensorSpec& input : call_.inputs) QUERN_TRY(take_input(input));
    QUERN_TRY(find_missing_inputs());
    QUERN_TRY(finish_params());
    QUERN_TRY(solve_dims());
    QUERN_TRY(finish_dims());
    QUERN_TRY(compute_lets(graph_, binding_));
    QUERN_TRY(check_computed_shapes());
    return std::move(binding_);
  }

 private:
  template <class... Args>
  Error problem(fmt::format_string<Args...> format, Args&&... args) const {
    return invalid(fmt::format("{}: {}", graph_.name, fmt::format(format, std::forward<Args>(args)...)));
  }

  void set_dim(size_t index, int64_t value) {
    binding_.dims[index] = value;
    dim_is_bound_.set(index);
  }

  Status take_parameter(const std::string& name, const ParameterValue& value) {
    for (size_t i = 0; i < graph_.dims.size(); ++i)
      if (graph_.dims[i].name == name) return take_dim(i, value);
    for (size_t i = 0; i < graph_.params.size(); ++i)
      if (graph_.params[i].name == name) return take_param(i, value);
    std::vector<std::string> known = {"timeout", "priority", "setup", "binary_data_output"};
    for (const DimDecl& dim : graph_.dims) known.push_back(dim.name);
    for (const ParamDecl& param : graph_.params) known.push_back(param.name);
    std::string hint = did_you_mean(name, known);
    if (hint.empty()) hint = fmt::format("; it takes {}", fmt::join(known, ", "));
    return problem("there is no parameter '{:.64}'{}", name, hint);
  }

  Status take_dim(size_t index, const ParameterValue& value) {
    const DimDecl& dim = graph_.dims[index];
    const int64_t* whole = std::get_if<int64_t>(&value);
    const double* real = std::get_if<double>(&value);
    int64_t size = 0;
    if (whole)
      size = *whole;
    else if (real && *real == std::floor(*real) && std::fabs(*real) < 0x1p53)
      size = static_cast<int64_t>(*real);
    else
      return problem("dim '{}' is {}; send a whole number", dim.name, show(value));
    if (dim.fixed && size != *dim.value)
      return problem("dim '{}' is always {}, not {}; leave it out", dim.name, *dim.value, size);
    set_dim(index, size);
    return {};
  }

  Status take_param(size_t index, const ParameterValue& value) {
    const ParamDecl& param = graph_.params[index];
    std::optional<Scalar> scalar;
    if (param.dtype == Dtype::kBool) {
      if (const bool* flag = std::get_if<bool>(&value))
        scalar = scalar_of(param.dtype, int64_t{*flag});
      else
        return problem("param '{}' is {}; send true or false", param.name, show(value));
    } else if (const int64_t* whole = std::get_if<int64_t>(&value)) {
      scalar = scalar_of(param.dtype, *whole);
    } else if (const uint64_t* large = std::get_if<uint64_t>(&value)) {
      scalar = scalar_of(param.dtype, *large);
    } else if (const double* real = std::get_if<double>(&value)) {
      // 1.0 and 1e3 are whole; from 2^53 on a double no longer says which whole number was meant.
      if (is_float(param.dtype) || std::fabs(*real) < 0x1p53) scalar = scalar_of(param.dtype, *real);
    } else {
      return problem("param '{}' is {}; send a number that fits {}", param.name, show(value), name_of(param.dtype));
    }
    // A finite number must stay one: what a float dtype would make infinite does not fit it either.
    if (is_float(param.dtype) && !std::isfinite(number_of(*scalar)))
      return problem("param '{}' is {}, which does not fit {}", param.name, show(value), name_of(param.dtype));
    if (!scalar)
      return problem(
          "param '{}' is {}, which does not fit {}; send a whole number from {}, without a fraction or an "
          "exponent",
          param.name, show(value), name_of(param.dtype), range_of(param.dtype));
    if ((param.min && is_below(value, *param.min)) || (param.max && is_above(value, *param.max)))
      return problem("param '{}' is {}; send {}", param.name, show(value), range_text(param));
    binding_.params[index] = *scalar;
    param_is_bound_.set(index);
    return {};
  }

  Status take_input(const TensorSpec& input) {
    size_t index = 0;
    while (index < graph_.buffers.size() && graph_.buffers[index].name != input.name) ++index;
    if (index == graph_.buffers.size() || graph_.buffers[index].role != Role::kInput)
      return unknown_input(input.name, index);
    const BufferDecl& buffer = graph_.buffers[index];
    if (input_is_there_.test(index)) return problem("input '{}' is given twice; send it once", buffer.name);
    input_is_there_.set(index);
    if (input.dtype != buffer.dtype)
      return problem("input '{}' has dtype {} but the function takes {}; send {}", buffer.name,
                     protocol_name_of(input.dtype), protocol_name_of(buffer.dtype), protocol_name_of(buffer.dtype));
    if (input.shape.size() != buffer.shape.size()) return wrong_shape(buffer, input);
    for (size_t i = 0; i < buffer.shape.size(); ++i) {
      const Expression& size = buffer.shape[i];
      if (!size.is_name()) continue;  // check_computed_shapes, once all dims are known
      for (size_t dim = 0; dim < graph_.dims.size(); ++dim) {
        if (graph_.dims[dim].name != size.names()[0]) continue;
        if (dim_is_bound_.test(dim) && binding_.dims[dim] != input.shape[i])
          return problem("input '{}' has shape {} but the function takes {} with {} = {}", buffer.name,
                         show_shape(input.shape), shape_text(buffer), graph_.dims[dim].name, binding_.dims[dim]);
        set_dim(dim, input.shape[i]);
      }
    }
    return {};
  }

  Status unknown_input(const std::string& name, size_t index) const {
    if (index < graph_.buffers.size())
      return problem("'{}' is {} {}, not an input; leave it out", name,
                     graph_.buffers[index].role == Role::kOutput ? "an" : "a", name_of(graph_.buffers[index].role));
    std::vector<std::string> known;
    for (const BufferDecl& buffer : graph_.buffers)
      if (buffer.role == Role::kInput) known.push_back(buffer.name);
    std::string hint = did_you_mean(name, known);
    if (hint.empty()) hint = known.empty() ? "; it takes none" : fmt::format("; it takes {}", fmt::join(known, ", "));
    return problem("there is no input '{:.64}'{}", name, hint);
  }

  Status find_missing_inputs() const {
    for (size_t i = 0; i < graph_.buffers.size(); ++i) {
      const BufferDecl& buffer = graph_.buffers[i];
      if (buffer.role == Role::kInput && !input_is_there_.test(i))
        return problem("input '{}' is missing; send {} {}", buffer.name, protocol_name_of(buffer.dtype),
                       shape_text(buffer));
    }
    return {};
  }

  // Dims that stand in the shape of an input, but not alone: [n + 1].
  Status solve_dims() {
    const Names known = [this](std::string_view name) -> std::optional<Number> {
      for (size_t i = 0; i < graph_.dims.size(); ++i)
        if (graph_.dims[i].name == name && !dim_is_bound_.test(i)) return std::nullopt;
      return value_in(graph_, binding_, name);
    };
    // One that is found may be what another one lacks.
    for (bool found = true; found && dim_is_bound_.count() < graph_.dims.size();) {
      found = false;
      for (const TensorSpec& input : call_.inputs) {
        const BufferDecl& buffer = *graph_.buffer(input.name);
        for (size_t i = 0; i < buffer.shape.size(); ++i) {
          const std::optional<size_t> dim = only_unknown_in(buffer.shape[i]);
          if (!dim) continue;
          const auto solved = buffer.shape[i].solve(graph_.dims[*dim].name, input.shape[i], known);
          if (!solved.ok())
            return problem("input '{}' has shape {} but the function takes {}; {}", buffer.name,
                           show_shape(input.shape), shape_text(buffer), solved.error().text);
          if (!*solved) continue;
          set_dim(*dim, **solved);
          found = true;
        }
      }
    }
    return {};
  }

  // The one dim that an expression names and that is not bound; nothing if there are more or none.
  std::optional<size_t> only_unknown_in(const Expression& expression) const {
    std::optional<size_t> unknown;
    for (const std::string& name : expression.names())
      for (size_t i = 0; i < graph_.dims.size(); ++i) {
        if (graph_.dims[i].name != name || dim_is_bound_.test(i)) continue;
        if (unknown) return std::nullopt;
        unknown = i;
      }
    return unknown;
  }

  Status finish_dims() {
    for (size_t i = 0; i < graph_.dims.size(); ++i) {
      const DimDecl& dim = graph_.dims[i];
      if (dim.fixed) continue;
      if (!dim_is_bound_.test(i)) {
        if (!dim.value) return problem("dim '{}' is not known; send it as a parameter", dim.name);
        set_dim(i, *dim.value);
      }
      const int64_t value = binding_.dims[i];
      if (value < dim.min || value > dim.max)
        return problem("dim '{}' is {}; send {} to {}", dim.name, value, dim.min, dim.max);
      if (value % dim.multiple_of != 0)
        return problem("dim '{}' is {}; send a multiple of {}", dim.name, value, dim.multiple_of);
    }
    return {};
  }

  Status finish_params() {
    for (size_t i = 0; i < graph_.params.size(); ++i) {
      if (param_is_bound_.test(i)) continue;
      const ParamDecl& param = graph_.params[i];
      if (!param.value)
        return problem("param '{}' has no default; send it as a parameter ({})", param.name, name_of(param.dtype));
      binding_.params[i] = *param.value;
    }
    return {};
  }

  // Sizes that are no lone dim: numbers, products, params.
  Status check_computed_shapes() const {
    const Names names = [this](std::string_view name) { return value_in(graph_, binding_, name); };
    for (const TensorSpec& input : call_.inputs) {
      const BufferDecl& buffer = *graph_.buffer(input.name);
      for (size_t i = 0; i < buffer.shape.size(); ++i) {
        if (buffer.shape[i].is_name() && graph_.dim(buffer.shape[i].names()[0])) continue;
        auto size = buffer.shape[i].whole(names);
        if (!size.ok()) return problem("input '{}': {}", buffer.name, size.error().text);
        if (*size != input.shape[i])
          return problem("input '{}' has shape {} but the function takes {}, where {} is {}", buffer.name,
                         show_shape(input.shape), shape_text(buffer), buffer.shape[i].text(), *size);
      }
    }
    return {};
  }

  Error wrong_shape(const BufferDecl& buffer, const TensorSpec& input) const {
    return problem("input '{}' has shape {} but the function takes {}; send {} dims", buffer.name,
                   show_shape(input.shape), shape_text(buffer), buffer.shape.size());
  }

  // As the graph has it: "[m,k]".
  static std::string shape_text(const BufferDecl& buffer) {
    std::string text = "[";
    for (const Expression& size : buffer.shape) text += (text.size() > 1 ? "," : "") + size.text();
    return text + "]";
  }

  static std::string show(const ParameterValue& value) {
    if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
    if (const auto* text = std::get_if<std::string>(&value)) return fmt::format("the text '{:.64}'", *text);
    if (const auto* whole = std::get_if<int64_t>(&value)) return fmt::format("{}", *whole);
    if (const auto* large = std::get_if<uint64_t>(&value)) return fmt::format("{}", *large);
    return fmt::format("{}", std::get<double>(value));
  }

  static std::string range_text(const ParamDecl& param) {
    auto show_bound = [](const Number& bound) {
      return std::visit([](auto n) { return fmt::format("{}", n); }, bound);
    };
    if (param.min && param.max) return fmt::format("{} to {}", show_bound(*param.min), show_bound(*param.max));
    return param.min ? fmt::format("at least {}", show_bound(*param.min))
                     : fmt::format("at most {}", show_bound(*param.max));
  }

  // Whole numbers are compared as such: beyond 2^53 a double would blur them.
  static bool is_below(const ParameterValue& value, const Number& bound) { return compare(value, bound) < 0; }
  static bool is_above(const ParameterValue& value, const Number& bound) { return compare(value, bound) > 0; }
  static int compare(const ParameterValue& value, const Number& bound) {
    if (const auto* whole = std::get_if<int64_t>(&value)) return compare_numbers(*whole, bound);
    if (const auto* large = std::get_if<uint64_t>(&value)) return compare_numbers(*large, bound);
    return compare_numbers(std::get<double>(value), bound);
  }

  const Graph& graph_;
  const CallSpec& call_;
  Binding binding_;
  std::bitset<kMostDims> dim_is_bound_;
  std::bitset<kMostParams> param_is_bound_;
  std::bitset<kMostBuffers> input_is_there_;
};

}  // namespace

Result<Duration> timeout_of(const ParameterValue& value) {
  constexpr int64_t kMost = kLongestTimeout.ns / 1000;
  const auto* micros = std::get_if<int64_t>(&value);
  const auto* large = std::get_if<uint64_t>(&value);
  const auto* real = std::get_if<double>(&value);
  if ((micros && *micros > kMost) || large || (real && *real > static_cast<double>(kMost)))
    return invalid(fmt::format("timeout is {} microseconds, which is too long; send at most {} ({})",
                               std::visit([](const auto& one) { return fmt::format("{}", one); }, value), kMost,
                               to_string(kLongestTimeout)));
  if (!micros || *micros < 1) return invalid("timeout must be a whole number of microseconds, at least 1");
  return Duration::micros(*micros);
}

Result<Binding> bind(const Graph& graph, const CallSpec& call) { return Binder(graph, call).bind(); }

}  // namespace quern
