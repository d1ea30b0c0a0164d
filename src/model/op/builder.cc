// SPDX-License-Identifier: Apache-2.0
#include "model/op/builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/op/check.h"
#include "model/op/run.h"

namespace quern::model::op {
namespace {

// Larger tensors are left to the pass that folds constants, which knows what their fold saves.
constexpr int64_t kMostComputedElements = 4096;

bool is_small(const std::vector<ir::Type>& types) {
  int64_t elements = 0;
  for (const ir::Type& type : types) {
    const auto sizes = ir::fixed_of(type.dims);
    const auto count = sizes ? ir::elements_of(*sizes) : std::nullopt;
    if (!count || (elements += *count) > kMostComputedElements) return false;
  }
  return true;
}

}  // namespace

std::string Builder::fresh_name() { return next_++ == 0 ? name_ : fmt::format("{}.{}", name_, next_ - 1); }

Result<std::vector<ir::ValueId>> Builder::emit_all(std::string_view op, std::vector<ir::ValueId> inputs, size_t outputs,
                                                   ir::Attributes attributes) {
  ir::Node node;
  node.op = op;
  node.inputs = std::move(inputs);
  node.outputs.resize(outputs, ir::kNone);
  node.attributes = std::move(attributes);
  node.origins = origins_;
  QUERN_TRY(std::vector<ir::Type> types, check_node(graph_, node));
  types.resize(outputs);
  std::vector<const ir::Tensor*> constants;
  for (const ir::ValueId id : node.inputs) {
    const ir::Tensor* constant = graph_.constant(id);
    if (id != ir::kNone && !constant) break;
    if (constant && constant->elements() > static_cast<size_t>(kMostComputedElements)) break;
    constants.push_back(constant);
  }
  if (constants.size() == node.inputs.size() && is_small(types)) {
    bool is_fixed = true;  // attributes may have free dims although the types have none
    for (const auto& [name, value] : node.attributes) {
      if (const auto* dim = std::get_if<ir::Dim>(&value)) is_fixed = is_fixed && dim->is_fixed();
      if (const auto* dims = std::get_if<ir::Dims>(&value)) is_fixed = is_fixed && ir::fixed_of(*dims).has_value();
    }
    if (is_fixed) {
      QUERN_TRY(std::vector<ir::Tensor> results, run_node(node, constants, types, {}));
      std::vector<ir::ValueId> out;
      for (ir::Tensor& result : results) out.push_back(constant(std::move(result)));
      return out;
    }
  }
  std::optional<ir::Dims> contents = contents_of_output(graph_, node);
  if (contents && outputs == 1 && !is_float(types[0].dtype)) {
    if (const auto fixed = ir::fixed_of(*contents)) {
      ir::Tensor tensor = ir::Tensor::zeros(types[0].dtype, *ir::fixed_of(types[0].dims));
      ir::with_element(types[0].dtype, [&]<class T>() {
        const auto elements = tensor.write<T>();
        for (size_t i = 0; i < elements.size(); ++i) {
          if constexpr (std::same_as<T, ir::Bool>)
            elements[i] = T((*fixed)[i] != 0);
          else
            elements[i] = static_cast<T>((*fixed)[i]);
        }
      });
      return std::vector<ir::ValueId>{constant(std::move(tensor))};
    }
  }
  for (size_t i = 0; i < outputs; ++i)
    node.outputs[i] = graph_.add({.name = fresh_name(),
                                  .type = types[i],
                                  .constant = {},
                                  .contents = i == 0 ? std::move(contents) : std::nullopt});
  std::vector<ir::ValueId> out = node.outputs;
  graph_.nodes.push_back(std::move(node));
  return out;
}

Result<ir::ValueId> Builder::emit(std::string_view op, std::vector<ir::ValueId> inputs, ir::Attributes attributes) {
  QUERN_TRY(const std::vector<ir::ValueId> out, emit_all(op, std::move(inputs), 1, std::move(attributes)));
  return out[0];
}

Result<ir::ValueId> Builder::reshape(ir::ValueId x, const ir::Dims& dims) {
  if (type(x).dims == dims) return x;
  return emit("reshape", {x}, {{"shape", dims}});
}

Result<ir::ValueId> Builder::broadcast(ir::ValueId x, const ir::Dims& dims) {
  if (type(x).dims == dims) return x;
  return emit("broadcast", {x}, {{"shape", dims}});
}

Result<ir::ValueId> Builder::transpose(ir::ValueId x, const std::vector<int64_t>& order) {
  if (std::is_sorted(order.begin(), order.end())) return x;
  return emit("transpose", {x}, {{"order", ir::dims_of(order)}});
}

Result<ir::ValueId> Builder::cast(ir::ValueId x, Dtype dtype) {
  if (type(x).dtype == dtype) return x;
  return emit("cast", {x}, {{"to", std::string(name_of(dtype))}});
}

Status Builder::require(const ir::Dim& a, const ir::Dim& b, std::string_view what) {
  const auto same = ir::Dim::same(a, b);
  if (same == false) return invalid(fmt::format("{} are {} in all, not {}; give what fits", what, a.text(), b.text()));
  if (!same) graph_.requirements.push_back({a, b, origins_.empty() ? std::string(what) : origins_[0]});
  return {};
}

}  // namespace quern::model::op
