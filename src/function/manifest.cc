// SPDX-License-Identifier: Apache-2.0
#include "function/manifest.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "function/manifest_reader.h"

namespace quern {
namespace {

// Writes what the version is made of. Every text has its length before it and every list its count, so that two
// different manifests never give the same bytes.
class CanonicalWriter {
 public:
  void text(std::string_view text) { out_.put_text(text); }
  void number(int64_t value) { out_.put(value); }
  void count(size_t size) { out_.put(static_cast<uint64_t>(size)); }
  // Spaces say nothing: without them two tokens never become one that parses to something else.
  void expression(const Expression& expression) {
    std::string text = expression.text();
    std::erase_if(text, [](char c) { return c == ' ' || c == '\t'; });
    out_.put_text(text);
  }
  void expressions(const std::vector<Expression>& all) {
    count(all.size());
    for (const Expression& one : all) expression(one);
  }
  void maybe(const std::optional<Expression>& one) {
    number(one.has_value());
    if (one) expression(*one);
  }
  void bound(const std::optional<Number>& bound) {
    number(bound ? static_cast<int64_t>(bound->index()) : -1);
    if (bound) std::visit([this](auto value) { out_.put(value); }, *bound);
  }
  void file(std::string_view name, const Files& files) {
    text(name);
    const auto found = files.find(name);
    if (const auto large = files.large.find(name); large != files.large.end())
      text(large->second.sha256);
    else
      text(found == files.end() ? "" : sha256(found->second));
  }
  std::string hash() const { return sha256(out_.bytes()); }

 private:
  ByteWriter out_;
};

void write_program(CanonicalWriter& out, const ProgramDecl& program, const Files& files) {
  out.text(program.driver);
  out.count(program.files.size());
  for (const std::string& file : program.files) out.file(file, files);
  out.count(program.headers.size());
  for (const std::string& file : program.headers) out.file(file, files);
  out.count(program.options.size());
  for (const std::string& option : program.options) out.text(option);
  out.count(program.defines.size());
  for (const auto& [name, value] : program.defines) out.text(name), out.text(value);
}

void write_param(CanonicalWriter& out, const ParamDecl& param) {
  out.text(param.name);
  out.number(static_cast<int64_t>(param.dtype));
  out.number(param.value.has_value());
  out.number(param.value ? static_cast<int64_t>(param.value->bits) : 0);
  out.bound(param.min);
  out.bound(param.max);
}

void write_kernel(CanonicalWriter& out, const KernelDecl& kernel) {
  out.text(kernel.entry);
  out.expressions(kernel.global);
  out.expressions(kernel.local);
  out.count(kernel.arguments.size());
  for (const ArgumentDecl& argument : kernel.arguments) {
    out.number(static_cast<int64_t>(argument.kind));
    out.number(static_cast<int64_t>(argument.access));
    out.number(argument.buffer);
    out.number(static_cast<int64_t>(argument.dtype));
    out.maybe(argument.value);
    out.maybe(argument.offset);
    out.maybe(argument.count);
  }
  out.maybe(kernel.flops);
  out.maybe(kernel.bytes);
}

void write_fill(CanonicalWriter& out, const FillDecl& fill) {
  out.number(fill.buffer);
  out.maybe(fill.value);
  out.maybe(fill.offset);
  out.maybe(fill.count);
}

void write_copy(CanonicalWriter& out, const CopyDecl& copy) {
  out.number(copy.from);
  out.number(copy.to);
  out.maybe(copy.offset);
  out.maybe(copy.at);
  out.maybe(copy.count);
}

void write_repeat(CanonicalWriter& out, const RepeatDecl& repeat) {
  out.text(repeat.name);
  out.text(repeat.index);
  out.maybe(repeat.rounds);
  out.count(repeat.swaps.size());
  for (const auto& [one, two] : repeat.swaps) out.number(one), out.number(two);
  out.number(repeat.limit_is_error);
  out.number(repeat.check);
  out.number(repeat.end);
  out.number(repeat.until.has_value());
  if (!repeat.until) return;
  out.number(static_cast<int64_t>(repeat.until->compare));
  out.number(repeat.until->buffer);
  out.maybe(repeat.until->every);
  out.maybe(repeat.until->element);
  out.maybe(repeat.until->value);
}

}  // namespace

std::string to_string(const Mistake& mistake) {
  const std::string_view kind = mistake.is_warning ? "warning" : "error";
  if (mistake.line == 0) return fmt::format("{}: {}: {}", mistake.file, kind, mistake.text);
  return fmt::format("{}:{}:{}: {}: {}", mistake.file, mistake.line, mistake.column, kind, mistake.text);
}

std::vector<Mistake> mistakes_in(const Manifest& manifest, std::span<const KernelProblem> problems) {
  std::vector<Mistake> mistakes;
  for (const KernelProblem& one : problems) {
    const TextPlace place =
        one.kernel < manifest.kernel_places.size() ? manifest.kernel_places[one.kernel] : TextPlace{};
    mistakes.push_back({std::string(kManifestFile), place.line, place.column, one.is_warning, one.text});
  }
  return mistakes;
}

std::string version_of(const Graph& graph, const Files& files) {
  CanonicalWriter out;
  out.text("quern/v1 graph");
  out.text(graph.name);
  out.count(graph.programs.size());
  for (const ProgramDecl& program : graph.programs) write_program(out, program, files);
  out.count(graph.dims.size());
  for (const DimDecl& dim : graph.dims) {
    out.text(dim.name);
    out.number(dim.fixed);
    out.number(dim.value.value_or(0));
    out.number(dim.min);
    out.number(dim.max);
    out.number(dim.multiple_of);
  }
  out.count(graph.params.size());
  for (const ParamDecl& param : graph.params) write_param(out, param);
  out.count(graph.buffers.size());
  for (const BufferDecl& buffer : graph.buffers) {
    out.text(buffer.name);
    out.number(static_cast<int64_t>(buffer.role));
    out.number(static_cast<int64_t>(buffer.dtype));
    out.expressions(buffer.shape);
    out.number(buffer.zero);
    if (buffer.role != Role::kConstant) continue;
    out.text(buffer.tensor);
    if (buffer.data)
      out.text(as_text(*buffer.data));
    else
      out.file(buffer.file, files);
  }
  out.count(graph.kernels.size());
  for (const KernelDecl& kernel : graph.kernels) write_kernel(out, kernel);
  out.count(graph.fills.size());
  for (const FillDecl& fill : graph.fills) write_fill(out, fill);
  out.count(graph.repeats.size());
  for (const RepeatDecl& repeat : graph.repeats) write_repeat(out, repeat);
  out.count(graph.steps.size());
  for (const StepDecl& step : graph.steps) out.number(static_cast<int64_t>(step.kind)), out.number(step.index);
  // What came later is written only where it is used, so that older functions keep their versions.
  if (!graph.lets.empty()) {
    out.text("let");
    out.count(graph.lets.size());
    for (const LetDecl& let : graph.lets) out.text(let.name), out.expression(let.value);
  }
  if (!graph.copies.empty()) {
    out.text("copies");
    out.count(graph.copies.size());
    for (const CopyDecl& copy : graph.copies) write_copy(out, copy);
  }
  if (graph.program_names != std::vector<std::string>{""}) {
    out.text("program names");
    out.count(graph.program_names.size());
    for (const std::string& name : graph.program_names) out.text(name);
    for (const ProgramDecl& program : graph.programs) out.number(program.number);
    for (const KernelDecl& kernel : graph.kernels) out.number(kernel.program);
  }
  for (size_t i = 0; i < graph.kernels.size(); ++i)
    if (!graph.kernels[i].label.empty()) out.text("label"), out.count(i), out.text(graph.kernels[i].label);
  for (size_t i = 0; i < graph.steps.size(); ++i)
    if (graph.steps[i].when) out.text("when"), out.count(i), out.expression(*graph.steps[i].when);
  return out.hash();
}

std::set<std::string> files_of(const Graph& graph) {
  std::set<std::string> files{"function.yaml"};
  for (const ProgramDecl& program : graph.programs) {
    files.insert(program.files.begin(), program.files.end());
    files.insert(program.headers.begin(), program.headers.end());
  }
  for (const BufferDecl& buffer : graph.buffers)
    if (!buffer.file.empty()) files.insert(buffer.file);
  return files;
}

std::set<std::string> files_named_in(std::string_view manifest) {
  std::set<std::string> names{"function.yaml"};
  const auto read = read_yaml(manifest);
  const auto* root = std::get_if<YamlNode>(&read);
  if (!root) return names;
  const auto add = [&](const YamlNode* node) {
    if (node && node->is_scalar()) names.insert(node->text);
    if (node && node->is_sequence())
      for (const YamlNode& one : node->children)
        if (one.is_scalar()) names.insert(one.text);
  };
  // The values of a map; the keys stand before them.
  const auto each_value = [](const YamlNode* map, auto&& work) {
    if (map && map->is_map())
      for (size_t i = 1; i < map->children.size(); i += 2) work(map->children[i]);
  };
  const auto add_program = [&](const YamlNode& program) {
    add(&program);
    if (program.is_map()) add(program.find("files")), add(program.find("headers"));
  };
  each_value(root->find("programs"), [&](const YamlNode& driver) {
    add_program(driver);
    each_value(&driver, [&](const YamlNode& program) {
      if (!program.is_sequence()) add_program(program);
    });
  });
  each_value(root->find("buffers"), [&](const YamlNode& buffer) {
    if (buffer.is_map()) add(buffer.find("file"));
  });
  return names;
}

Status check_links(const Files& files) {
  if (files.links.empty()) return {};
  const auto manifest = files.find("function.yaml");
  for (const std::string& name : files_named_in(manifest == files.end() ? "" : as_text(manifest->second)))
    for (size_t end = name.find('/');; end = name.find('/', end + 1)) {
      const std::string_view part = std::string_view(name).substr(0, end);
      if (files.links.contains(part)) return invalid(fmt::format("{}: is a link; pack the file itself", part));
      if (end == name.npos) break;
    }
  return {};
}

}  // namespace quern
