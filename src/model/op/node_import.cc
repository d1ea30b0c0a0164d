// SPDX-License-Identifier: Apache-2.0
#include "model/op/node_import.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"

namespace quern::model::op {

NodeImport::NodeImport(ir::Graph& graph, std::vector<std::string> origins, std::string name, Place place)
    : Builder(graph, std::move(origins), std::move(name)),
      place_(std::move(place)),
      results_(place_.node.outputs.size(), ir::kNone) {}

Result<ir::ValueId> NodeImport::in(size_t i) const {
  if (has(i)) return place_.inputs[i];
  return invalid(fmt::format("input {} is left out; connect it", i));
}

bool NodeImport::wants(size_t i) const {
  return i < place_.node.outputs.size() && place_.wanted.count(place_.node.outputs[i]) != 0;
}

void NodeImport::set(size_t i, ir::ValueId id) {
  if (i < results_.size()) results_[i] = id;
}

Status NodeImport::become(std::string_view op, std::vector<ir::ValueId> inputs, ir::Attributes attributes) {
  QUERN_TRY(const ir::ValueId id, emit(op, std::move(inputs), std::move(attributes)));
  set(0, id);
  return {};
}

const onnx::Attribute* NodeImport::find(std::string_view name) const {
  for (const onnx::Attribute& attribute : place_.node.attributes) {
    if (attribute.name != name) continue;
    if (attribute.reference.empty()) return &attribute;
    // One that the call leaves out is left out here.
    const auto given = place_.attributes.find(attribute.reference);
    return given == place_.attributes.end() ? nullptr : given->second;
  }
  return nullptr;
}

Result<const onnx::Attribute*> NodeImport::take(std::string_view name, onnx::Attribute::Type type,
                                                std::string_view kind) {
  known_.insert(std::string(name));
  const onnx::Attribute* found = find(name);
  if (found && found->type != type) return invalid(fmt::format("attribute '{}' is not {}; give {}", name, kind, kind));
  return found;
}

Result<int64_t> NodeImport::whole(std::string_view name, std::optional<int64_t> fallback) {
  QUERN_TRY(const onnx::Attribute* found, take(name, onnx::Attribute::Type::kInt, "a whole number"));
  if (found) return found->whole;
  if (fallback) return *fallback;
  return invalid(fmt::format("attribute '{}' is missing; state it", name));
}

Result<bool> NodeImport::flag(std::string_view name, bool fallback) {
  QUERN_TRY(const int64_t value, whole(name, fallback));
  return value != 0;
}

Result<double> NodeImport::real(std::string_view name, std::optional<double> fallback) {
  QUERN_TRY(const onnx::Attribute* found, take(name, onnx::Attribute::Type::kFloat, "a real number"));
  if (found) return found->real;
  if (fallback) return *fallback;
  return invalid(fmt::format("attribute '{}' is missing; state it", name));
}

Result<std::string> NodeImport::text(std::string_view name, std::optional<std::string> fallback) {
  QUERN_TRY(const onnx::Attribute* found, take(name, onnx::Attribute::Type::kString, "text"));
  if (found) return std::string(found->text);
  if (fallback) return *fallback;
  return invalid(fmt::format("attribute '{}' is missing; state it", name));
}

Result<std::optional<std::vector<int64_t>>> NodeImport::wholes(std::string_view name) {
  QUERN_TRY(const onnx::Attribute* found, take(name, onnx::Attribute::Type::kInts, "a list of whole numbers"));
  return found ? std::optional(found->wholes) : std::nullopt;
}

Result<std::optional<std::vector<double>>> NodeImport::reals(std::string_view name) {
  QUERN_TRY(const onnx::Attribute* found, take(name, onnx::Attribute::Type::kFloats, "a list of real numbers"));
  return found ? std::optional(std::vector<double>(found->reals.begin(), found->reals.end())) : std::nullopt;
}

Result<std::optional<ir::Tensor>> NodeImport::tensor(std::string_view name) {
  QUERN_TRY(const onnx::Attribute* found, take(name, onnx::Attribute::Type::kTensor, "a tensor"));
  if (!found) return std::optional<ir::Tensor>();
  QUERN_TRY(ir::Tensor decoded, onnx::decode(found->tensors[0], place_.files));
  return std::optional(std::move(decoded));
}

Status NodeImport::check_attributes() const {
  std::string unknown;
  for (const onnx::Attribute& attribute : place_.node.attributes)
    if (known_.count(attribute.name) == 0)
      unknown += fmt::format("{}'{}'", unknown.empty() ? "" : ", ", printable(attribute.name));
  if (unknown.empty()) return {};
  return unsupported(
      fmt::format("attributes {} are not known in version {} of its operators; leave them out", unknown, version()));
}

Result<ir::Dims> NodeImport::numbers(size_t i, std::string_view what) {
  QUERN_TRY(const ir::ValueId id, in(i));
  if (is_float(type(id).dtype))
    return invalid(fmt::format("{} is {}; give whole numbers", what, name_of(type(id).dtype)));
  // Longer constants are no shapes, but lists of axes or starts may be any length.
  if (const ir::Tensor* known = graph().constant(id)) return ir::dims_of(known->wholes());
  if (auto known = ir::contents_of(graph().values[id])) return *std::move(known);
  missing_ = id;
  return unsupported(fmt::format("{} is known only when it is called; fix it in the model", what));
}

Result<std::vector<int64_t>> NodeImport::fixed_numbers(size_t i, std::string_view what) {
  QUERN_TRY(const ir::Dims dims, numbers(i, what));
  if (const auto fixed = ir::fixed_of(dims)) return *fixed;
  return unsupported(fmt::format("{} depends on free dims; fix the dims of the inputs", what));
}

Result<ir::Tensor> NodeImport::constant_input(size_t i, std::string_view what) {
  QUERN_TRY(const ir::ValueId id, in(i));
  if (const ir::Tensor* known = graph().constant(id)) return *known;
  missing_ = id;
  return unsupported(fmt::format("{} is known only when it is called; fix it in the model", what));
}

Result<size_t> NodeImport::axis(int64_t axis, size_t rank) {
  const auto size = static_cast<int64_t>(rank);
  if (axis < -size || axis >= size)
    return invalid(
        fmt::format("axis {} of a tensor with {} dimensions; give one from {} to {}", axis, rank, -size, size - 1));
  return static_cast<size_t>(axis < 0 ? axis + size : axis);
}

Result<size_t> NodeImport::axis_attribute(std::string_view name, size_t rank, std::optional<int64_t> fallback) {
  QUERN_TRY(const int64_t value, whole(name, fallback));
  return axis(value, rank);
}

Result<std::vector<int64_t>> NodeImport::axes(std::vector<int64_t> axes, size_t rank) {
  for (int64_t& one : axes) {
    QUERN_TRY(const size_t from_front, axis(one, rank));
    one = static_cast<int64_t>(from_front);
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) return invalid("an axis comes twice; name each once");
  return axes;
}

}  // namespace quern::model::op
