// SPDX-License-Identifier: Apache-2.0
#include "model/ir/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/hash.h"

namespace quern::model::ir {
namespace {

constexpr size_t kMostShownElements = 16;

std::string show_real(double value) {
  std::string out = fmt::format("{}", value);
  // A real number is told from a whole one by its point.
  if (std::isfinite(value) && out.find_first_of(".e") == out.npos) out += ".0";
  return out;
}

std::string show_name(std::string_view name) {
  const bool is_plain =
      !name.empty() && name != "_" && name.back() != ':' && std::all_of(name.begin(), name.end(), [](char c) {
        return c > ' ' && c < 0x7f && std::string_view("(){}[],=\"@#").find(c) == std::string_view::npos;
      });
  if (is_plain) return std::string(name);
  std::string out = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? '?' : c;
  }
  return out + '"';
}

std::string show_element(const Tensor& tensor, size_t i) {
  return is_float(tensor.dtype()) ? show_real(tensor.real(i)) : fmt::format("{}", tensor.whole(i));
}

std::string show_attribute(const Attribute& attribute) {
  if (const auto* dim = std::get_if<Dim>(&attribute)) return dim->text();
  if (const auto* real = std::get_if<double>(&attribute)) return show_real(*real);
  if (const auto* dims = std::get_if<Dims>(&attribute)) return show_dims(*dims);
  if (const auto* text = std::get_if<std::string>(&attribute)) return fmt::format("\"{}\"", *text);
  std::string out;
  for (const double real : std::get<std::vector<double>>(attribute)) out += (out.empty() ? "" : ", ") + show_real(real);
  return fmt::format("[{}]", out);
}

std::string show_constant(const Tensor& tensor) {
  const size_t count = tensor.elements();
  const size_t size = size_of(tensor.dtype());
  const auto element = [&](size_t i) { return as_text(tensor.bytes().subspan(i * size, size)); };
  bool is_filled = count > 1;
  for (size_t i = 1; i < count && is_filled; ++i) is_filled = element(i) == element(0);
  if (is_filled) return fmt::format("{{fill={}}}", show_element(tensor, 0));
  if (count > kMostShownElements) return fmt::format("{{hash=\"{}\"}}", short_version(sha256(tensor.bytes())));
  std::string out;
  for (size_t i = 0; i < count; ++i) out += (out.empty() ? "" : ", ") + show_element(tensor, i);
  return fmt::format("{{values=[{}]}}", out);
}

// Names of values, each made unique.
std::vector<std::string> names_of(const Graph& graph) {
  std::map<std::string, int> taken;
  std::vector<std::string> out(graph.values.size());
  const auto take = [&](ValueId id) {
    const std::string& name = graph.values[id].name;
    std::string unique = name.empty() ? fmt::format("v{}", id) : name;
    for (int i = taken[unique]; i > 0 && taken.count(unique) != 0 && taken[unique] != 0; ++i)
      unique = fmt::format("{}.{}", name.empty() ? "v" : name, i);
    ++taken[unique];
    out[id] = show_name(unique);
  };
  for (const ValueId id : graph.inputs) take(id);
  for (ValueId id = 0; id < graph.values.size(); ++id)
    if (out[id].empty()) take(id);
  return out;
}

}  // namespace

std::string show_attributes(const Attributes& attributes) {
  std::string out;
  for (const auto& [name, value] : attributes)
    out += fmt::format("{}{}={}", out.empty() ? "" : ", ", name, show_attribute(value));
  return out.empty() ? "" : fmt::format(" {{{}}}", out);
}

namespace {

// `indent` spaces stand before every line but the first.
std::string show_lines(const Graph& graph, const std::string& indent) {
  const std::vector<std::string> names = names_of(graph);
  std::vector<bool> is_shown(graph.values.size());
  std::string out;
  for (const FreeDim& dim : graph.dims) out += fmt::format("dim {} in {}..{}\n", dim.name, dim.low, dim.high);
  out += "graph(";
  for (const ValueId id : graph.inputs) {
    out += fmt::format("{}{}: {}", out.back() == '(' ? "" : ", ", names[id], show_type(graph.type(id)));
    is_shown[id] = true;
  }
  out += ") {\n";
  const auto show_if_constant = [&](ValueId id) {
    if (id == kNone || is_shown[id] || !graph.values[id].constant) return;
    is_shown[id] = true;
    const Tensor& tensor = *graph.values[id].constant;
    out +=
        fmt::format("{}  {}: {} = constant {}\n", indent, names[id], show_type(graph.type(id)), show_constant(tensor));
  };
  for (const Node& node : graph.nodes) {
    for (const ValueId id : node.inputs) show_if_constant(id);
    std::string made, read;
    for (const ValueId id : node.outputs)
      made += fmt::format("{}{}: {}", made.empty() ? "" : ", ", names[id], show_type(graph.type(id)));
    for (const ValueId id : node.inputs)
      read += fmt::format("{}{}", read.empty() ? "" : ", ", id == kNone ? "_" : names[id]);
    out += fmt::format("{}  {} = {}({}){}", indent, made, node.op, read, show_attributes(node.attributes));
    if (node.body) out += " with " + show_lines(*node.body, indent + "  ");
    for (const std::string& origin : node.origins) out += " @" + show_name(origin);
    out += '\n';
  }
  for (const Output& output : graph.outputs) show_if_constant(output.value);
  for (const Requirement& requirement : graph.requirements)
    out += fmt::format("{}  require {} == {}\n", indent, requirement.a.text(), requirement.b.text());
  std::string returned;
  for (const Output& output : graph.outputs) {
    const std::string name = show_name(output.name);
    returned += returned.empty() ? " " : ", ";
    returned += name == names[output.value] ? name : fmt::format("{}={}", name, names[output.value]);
  }
  return fmt::format("{}{}  return{}\n{}}}", out, indent, returned, indent);
}

}  // namespace

std::string show_graph(const Graph& graph) { return show_lines(graph, "") + "\n"; }

}  // namespace quern::model::ir
