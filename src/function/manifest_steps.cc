// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/suggest.h"
#include "function/manifest_reader.h"
#include "function/plan.h"

namespace quern {

void ManifestReader::read_steps(const YamlNode& node, std::string_view what) {
  if (!is_sequence(node, what)) return;
  if (node.children.empty()) mistakes_.error(node, fmt::format("{} is empty; write at least one", what));
  for (const YamlNode& step : node.children) read_step(step);
}

void ManifestReader::read_step(const YamlNode& node) {
  if (!is_map(node, "a kernel")) return;
  if (manifest_.steps.size() == kMostSteps)
    return mistakes_.error(node, fmt::format("more than {} kernels; leave some out", kMostSteps));
  if (manifest_.steps.size() > kMostSteps) return;
  if (node.find("repeat")) return read_repeat(node);
  if (node.find("fill")) return read_fill(node);
  if (node.find("copy")) return read_copy(node);
  read_kernel(node);
}

void ManifestReader::read_kernel(const YamlNode& node) {
  refuse_unknown_keys(
      node, "a kernel",
      {"entry", "program", "global", "local", "args", "flops", "bytes", "label", "when", "repeat", "fill", "copy"}, {});
  KernelDecl kernel;
  argument_places_.emplace_back();
  if (const YamlNode* entry = required(node, "a kernel", "entry")) {
    kernel.entry = text_of(*entry, "entry").value_or("");
    if (entry->is_scalar() && !is_identifier(kernel.entry))
      mistakes_.error(*entry,
                      fmt::format("entry {} is no name; write the name of a __kernel function", shown(kernel.entry)));
  }
  kernel.program = read_program_name(node);
  if (const YamlNode* label = node.find("label")) {
    kernel.label = text_of(*label, "label").value_or("");
    if (label->is_scalar() && !is_buffer_name(kernel.label))
      mistakes_.error(*label, fmt::format("label {} is no name; write at most 255 bytes, without quotes, backslashes, "
                                          "control characters and spaces at the ends",
                                          shown(kernel.label)));
  }
  if (const YamlNode* global = required(node, "a kernel", "global"); global && is_sequence(*global, "global"))
    kernel.global = read_sizes(*global, "global", 1, 3, {.what = "a global size"});
  if (const YamlNode* local = node.find("local"); local && !local->is_null() && is_sequence(*local, "local")) {
    kernel.local = read_sizes(*local, "local", 1, 3, {.what = "a local size", .free_dims = false, .indices = false});
    if (!kernel.local.empty() && !kernel.global.empty() && kernel.local.size() != kernel.global.size())
      mistakes_.error(*local, fmt::format("local has {} sizes and global {}; write as many", kernel.local.size(),
                                          kernel.global.size()));
  }
  if (const YamlNode* args = node.find("args"); args && !args->is_null() && is_sequence(*args, "args")) {
    if (args->children.size() > kMostArguments)
      mistakes_.error(*args,
                      fmt::format("{} arguments; at most {} are allowed", args->children.size(), kMostArguments));
    else
      for (const YamlNode& argument : args->children) read_argument(argument, kernel);
  }
  // A report, not a size: nothing is planned from it.
  const Scope report{.what = "flops and bytes", .any_integer_param = true, .is_size = false};
  if (const YamlNode* flops = node.find("flops")) kernel.flops = read_expression(*flops, report);
  if (const YamlNode* bytes = node.find("bytes")) kernel.bytes = read_expression(*bytes, report);
  manifest_.steps.push_back(
      {StepDecl::Kind::kKernel, static_cast<uint32_t>(manifest_.kernels.size()), read_when(node)});
  manifest_.kernels.push_back(std::move(kernel));
  manifest_.kernel_places.push_back({node.line, node.column});
  kernel_places_.push_back(&node);
}

std::optional<uint32_t> ManifestReader::read_buffer_name(const YamlNode& node, std::string_view what) {
  const auto name = text_of(node, what);
  if (!name) return std::nullopt;
  if (const auto known = buffer_index_.find(*name); known != buffer_index_.end()) return known->second;
  std::vector<std::string> known;
  if (!mistakes_.is_full())
    for (const BufferDecl& buffer : manifest_.buffers) known.push_back(buffer.name);
  const std::string hint = did_you_mean(*name, known);
  mistakes_.error(node,
                  fmt::format("there is no buffer {}{}", shown(*name), hint.empty() ? "; add it under buffers" : hint));
  return std::nullopt;
}

void ManifestReader::read_view(const YamlNode& node, std::optional<Expression>& offset,
                               std::optional<Expression>& count) {
  const YamlNode *from = node.find("offset"), *many = node.find("count");
  if (!from && !many) return;
  // One that is wrong was told; what is left behind plans as something harmless.
  offset = Expression::constant(0);
  count = Expression::constant(1);
  if (!from || !many) return mistakes_.error(node, "a view has an offset and a count, in elements; write both");
  if (auto value = read_expression(*from, {.what = "an offset", .least = 0})) offset = std::move(*value);
  if (auto value = read_expression(*many, {.what = "a count"})) count = std::move(*value);
}

void ManifestReader::read_argument(const YamlNode& node, KernelDecl& kernel) {
  constexpr std::string_view kForms =
      "write {in: b}, {out: b}, {inout: b}, {partial: b}, {in: b, offset: e, count: e}, {DTYPE: expression} or {local: "
      "bytes}";
  constexpr std::array<std::pair<std::string_view, Access>, 4> kAccesses = {
      {{"in", Access::kIn}, {"out", Access::kOut}, {"inout", Access::kInout}, {"partial", Access::kPartial}}};
  const bool lost_before = std::exchange(has_lost_arguments_, true);  // until it is kept
  if (!node.is_map() || node.children.empty())
    return mistakes_.error(node, fmt::format("an argument is {}; {}", node.kind_name(), kForms));
  // JSON writers put keys in any order.
  size_t at = 0;
  for (size_t i = 0; i + 1 < node.children.size(); i += 2)
    for (const auto& [word, access] : kAccesses)
      if (node.children[i].text == word) at = i;
  const YamlNode &key = node.children[at], &value = node.children[at + 1];
  ArgumentDecl argument;
  const auto dtype = dtype_of(key.text);
  const auto access =
      std::find_if(kAccesses.begin(), kAccesses.end(), [&](const auto& one) { return one.first == key.text; });
  const bool is_buffer = access != kAccesses.end();
  if (is_buffer) {
    argument.access = access->second;
    refuse_unknown_keys(node, "an argument", {key.text, "offset", "count"}, {});
    const auto buffer = read_buffer_name(value, key.text);
    if (!buffer) return;
    argument.buffer = *buffer;
    read_view(node, argument.offset, argument.count);
  } else if (node.children.size() != 2) {
    return mistakes_.error(node, fmt::format("an argument has {} keys; {}", node.children.size() / 2, kForms));
  } else if (key.text == "local") {
    argument.kind = ArgumentDecl::Kind::kLocal;
    argument.value = read_expression(value, {.what = "local memory", .indices = false});
  } else if (dtype) {
    argument.kind = ArgumentDecl::Kind::kScalar;
    argument.dtype = *dtype;
    argument.value = read_scalar(value, *dtype, "a scalar");
  } else {
    std::vector<std::string> known = dtype_names();
    known.insert(known.end(), {"in", "out", "inout", "partial", "local"});
    std::string hint = did_you_mean(key.text, known);
    return mistakes_.error(key, fmt::format("there is no argument {}{}", shown(key.text),
                                            hint.empty() ? fmt::format("; {}", kForms) : hint));
  }
  if (!is_buffer && !argument.value) argument.value = Expression::constant(1);
  has_lost_arguments_ = lost_before;
  kernel.arguments.push_back(std::move(argument));
  argument_places_.back().push_back(&key);
}

std::optional<Expression> ManifestReader::read_scalar(const YamlNode& node, Dtype dtype, std::string_view what) {
  if (dtype == Dtype::kBool && node.is_scalar() && !node.quoted && (node.text == "true" || node.text == "false"))
    return Expression::constant(node.text == "true");
  return read_expression(node, {.what = what, .any_integer_param = true, .floats = is_float(dtype), .is_size = false});
}

std::optional<Expression> ManifestReader::read_when(const YamlNode& node) {
  const YamlNode* when = node.find("when");
  if (!when) return std::nullopt;
  return read_expression(*when, {.what = "when", .least = INT64_MIN, .bools = true});
}

void ManifestReader::read_fill(const YamlNode& node) {
  refuse_unknown_keys(node, "a fill", {"fill", "value", "offset", "count", "when"}, {});
  FillDecl fill;
  const auto buffer = read_buffer_name(*node.find("fill"), "fill");
  const YamlNode* value = required(node, "a fill", "value");
  if (!buffer || !value) return;
  fill.buffer = *buffer;
  const BufferDecl& decl = manifest_.buffers[*buffer];
  if (decl.role == Role::kConstant || decl.role == Role::kInput)
    mistakes_.error(*node.find("fill"),
                    fmt::format("{} '{}' is never written; fill scratch or an output", name_of(decl.role), decl.name));
  fill.value = read_scalar(*value, decl.dtype, "a value");
  if (!fill.value) fill.value = Expression::constant(0);
  read_view(node, fill.offset, fill.count);
  manifest_.steps.push_back({StepDecl::Kind::kFill, static_cast<uint32_t>(manifest_.fills.size()), read_when(node)});
  manifest_.fills.push_back(std::move(fill));
  fill_places_.push_back(&node);
}

void ManifestReader::read_copy(const YamlNode& node) {
  refuse_unknown_keys(node, "a copy", {"copy", "to", "offset", "at", "count", "when"}, {});
  const auto from = read_buffer_name(*node.find("copy"), "copy");
  const YamlNode* target = required(node, "a copy", "to");
  const auto to = target ? read_buffer_name(*target, "to") : std::nullopt;
  if (!from || !to) return;
  const BufferDecl &source = manifest_.buffers[*from], &sink = manifest_.buffers[*to];
  if (*from == *to) mistakes_.error(node, "copy names one buffer twice; name two");
  if (sink.role == Role::kConstant || sink.role == Role::kInput)
    mistakes_.error(
        *target, fmt::format("{} '{}' is never written; copy to scratch or an output", name_of(sink.role), sink.name));
  if (source.dtype != sink.dtype)
    mistakes_.error(node, fmt::format("copy of '{}' to '{}', which are {} and {}; make them alike", source.name,
                                      sink.name, name_of(source.dtype), name_of(sink.dtype)));
  CopyDecl copy;
  copy.from = *from;
  copy.to = *to;
  for (const auto& [key, into, least] :
       {std::tuple{"offset", &copy.offset, 0}, std::tuple{"at", &copy.at, 0}, std::tuple{"count", &copy.count, 1}})
    if (const YamlNode* value = node.find(key)) *into = read_expression(*value, {.what = key, .least = least});
  manifest_.steps.push_back({StepDecl::Kind::kCopy, static_cast<uint32_t>(manifest_.copies.size()), read_when(node)});
  manifest_.copies.push_back(std::move(copy));
  copy_places_.push_back(&node);
}

std::optional<size_t> ManifestReader::repeat_of_index(std::string_view name) const {
  for (const uint32_t open : open_repeats_)
    if (manifest_.repeats[open].index == name) return open;
  return std::nullopt;
}

void ManifestReader::read_repeat(const YamlNode& node) {
  refuse_unknown_keys(node, "a repeat", {"repeat", "kernels", "when"}, {});
  const YamlNode& how = *node.find("repeat");
  if (open_repeats_.size() == kDeepestRepeat)
    return mistakes_.error(node, fmt::format("repeats are nested {} deep; at most {} are allowed",
                                             open_repeats_.size() + 1, kDeepestRepeat));
  if (manifest_.repeats.size() == kMostRepeats)
    return mistakes_.error(node, fmt::format("more than {} repeats; leave some out", kMostRepeats));
  if (!is_map(how, "repeat")) return;
  refuse_unknown_keys(how, "repeat", {"times", "at_most", "index", "swap", "until", "name", "on_limit"}, {});
  const auto at = static_cast<uint32_t>(manifest_.repeats.size());
  manifest_.steps.push_back({StepDecl::Kind::kRepeat, at, read_when(node)});
  manifest_.repeats.emplace_back();
  repeat_places_.push_back(&node);
  // By value until it is whole: reading its steps may add others behind it.
  RepeatDecl repeat;
  repeat.is_nested = !open_repeats_.empty();
  read_rounds(how, repeat);
  if (const YamlNode* name = how.find("name")) {
    repeat.name = text_of(*name, "name").value_or("");
    if (name->is_scalar() && !is_identifier(repeat.name))
      mistakes_.error(*name,
                      fmt::format("the name {} of a repeat is none; write letters, digits and _", shown(repeat.name)));
  }
  if (const YamlNode* swap = how.find("swap")) read_swap(*swap, repeat);
  if (const YamlNode* index = how.find("index")) read_index(*index, repeat);
  manifest_.repeats[at] = repeat;
  open_repeats_.push_back(at);
  if (const YamlNode* steps = required(node, "a repeat", "kernels")) read_steps(*steps, "kernels");
  repeat.check = static_cast<uint32_t>(manifest_.steps.size());
  if (const YamlNode* until = how.find("until")) read_until(*until, repeat);
  repeat.end = static_cast<uint32_t>(manifest_.steps.size());
  open_repeats_.pop_back();
  repeat.uses_index = manifest_.repeats[at].uses_index;
  manifest_.repeats[at] = std::move(repeat);
}

void ManifestReader::read_rounds(const YamlNode& node, RepeatDecl& repeat) {
  const YamlNode *times = node.find("times"), *at_most = node.find("at_most"), *until = node.find("until");
  repeat.rounds = Expression::constant(1);
  if (!times && !at_most)
    return mistakes_.error(node, "a repeat would never end; write times: N, or at_most: N and until: …");
  if (times && at_most) return mistakes_.error(*at_most, "a repeat has times and at_most; leave one out");
  if (times && until) return mistakes_.error(*times, "a repeat with until has a limit; write at_most instead of times");
  if (at_most && !until)
    return mistakes_.error(*at_most, "a repeat with at_most has an until; write times, or add until: {…}");
  const YamlNode& rounds = times ? *times : *at_most;
  if (auto value = read_expression(rounds, {.what = times ? "times" : "at_most", .least = times ? 0 : 1}))
    repeat.rounds = std::move(*value);
  if (const auto fixed = repeat.rounds->fixed(); fixed && *fixed > kMostRounds)
    mistakes_.error(rounds, fmt::format("{} rounds; at most {} are allowed", *fixed, kMostRounds));
  const YamlNode* limit = node.find("on_limit");
  if (!limit) return;
  const auto text = text_of(*limit, "on_limit");
  if (text && *text != "ok" && *text != "error")
    mistakes_.error(*limit, fmt::format("on_limit is {}; write ok or error", shown(*text)));
  else if (text && times)
    mistakes_.error(*limit, "on_limit is for a repeat with until; leave it out");
  repeat.limit_is_error = text && *text == "error";
}

void ManifestReader::read_index(const YamlNode& node, RepeatDecl& repeat) {
  const auto name = text_of(node, "index");
  if (!name) return;
  if (repeat_of_index(*name))
    return mistakes_.error(node, fmt::format("index '{}': the repeat around it has this index; choose another", *name));
  YamlNode key = node;
  if (is_free_name(key, "index")) repeat.index = *name;
}

void ManifestReader::read_swap(const YamlNode& node, RepeatDecl& repeat) {
  if (!is_sequence(node, "swap")) return;
  if (!node.children.empty() && node.children[0].is_sequence()) {
    if (node.children.size() > kMostSwaps)
      return mistakes_.error(node,
                             fmt::format("{} pairs in swap; at most {} are allowed", node.children.size(), kMostSwaps));
    for (const YamlNode& pair : node.children) read_swap_pair(pair, repeat);
  } else {
    read_swap_pair(node, repeat);
  }
}

void ManifestReader::read_swap_pair(const YamlNode& node, RepeatDecl& repeat) {
  if (!node.is_sequence() || node.children.size() != 2)
    return mistakes_.error(node, "swap names two buffers; write [x, y], or [[x, y], [u, v]]");
  const auto one = read_buffer_name(node.children[0], "swap"), two = read_buffer_name(node.children[1], "swap");
  if (!one || !two) return;
  if (*one == *two) return mistakes_.error(node, "swap names one buffer twice; name two");
  for (const uint32_t which : {*one, *two}) {
    const BufferDecl& buffer = manifest_.buffers[which];
    if (buffer.role == Role::kConstant || buffer.role == Role::kInput)
      return mistakes_.error(node, fmt::format("swap names {} '{}', which is never written; swap scratch and outputs",
                                               name_of(buffer.role), buffer.name));
    for (const auto& [a, b] : repeat.swaps)
      if (a == which || b == which)
        return mistakes_.error(node, fmt::format("swap names '{}' in two pairs; name it in one", buffer.name));
  }
  repeat.swaps.emplace_back(*one, *two);
}

void ManifestReader::read_until(const YamlNode& node, RepeatDecl& repeat) {
  if (!is_map(node, "until")) return;
  refuse_unknown_keys(node, "until", {"every", "check", "buffer", "element", "below", "above", "equals"}, {});
  UntilDecl until;
  until.every = Expression::constant(1);
  until.element = Expression::constant(0);
  until.value = Expression::constant(0);
  if (const YamlNode* every = node.find("every"))
    if (auto value = read_expression(*every, {.what = "every", .indices = false})) until.every = std::move(*value);
  std::optional<uint32_t> looked_at;
  if (const YamlNode* buffer = required(node, "until", "buffer")) looked_at = read_buffer_name(*buffer, "buffer");
  until.buffer = looked_at.value_or(0);
  if (const YamlNode* element = node.find("element"))
    if (auto value = read_expression(*element, {.what = "element", .indices = false, .least = 0}))
      until.element = std::move(*value);
  int compares = 0;
  for (const auto& [key, compare] :
       {std::pair{"below", UntilDecl::Compare::kBelow}, std::pair{"above", UntilDecl::Compare::kAbove},
        std::pair{"equals", UntilDecl::Compare::kEquals}}) {
    const YamlNode* value = node.find(key);
    if (!value) continue;
    ++compares;
    until.compare = compare;
    if (auto read = read_expression(
            *value, {.what = key, .any_integer_param = true, .floats = true, .is_size = false, .indices = false}))
      until.value = std::move(*read);
  }
  if (compares != 1) mistakes_.error(node, "until compares once; write one of below, above and equals");
  if (const YamlNode* check = node.find("check")) read_steps(*check, "check");
  if (looked_at) repeat.until = std::move(until);
}

}  // namespace quern
