// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/suggest.h"
#include "function/constant.h"
#include "function/manifest_reader.h"
#include "function/plan_builder.h"

namespace quern {

void ManifestReader::check_accesses() {
  const size_t count = manifest_.buffers.size();
  std::vector<char> is_read(count), is_written(count), is_told(count);
  for (const StepDecl& step : manifest_.steps) {
    if (step.kind == StepDecl::Kind::kFill) is_written[manifest_.fills[step.index].buffer] = true;
    if (step.kind == StepDecl::Kind::kCopy) {
      const CopyDecl& copy = manifest_.copies[step.index];
      const BufferDecl& from = manifest_.buffers[copy.from];
      const bool is_given = from.role == Role::kConstant || from.role == Role::kInput;
      if (!is_given && !is_written[copy.from] && !from.zero && !is_told[copy.from]) {
        is_told[copy.from] = true;
        mistakes_.warning(*copy_places_[step.index], fmt::format("copy reads {} '{}' before any kernel wrote it; write "
                                                                 "zero: true",
                                                                 name_of(from.role), from.name));
      }
      is_read[copy.from] = is_written[copy.to] = true;
    }
    if (step.kind != StepDecl::Kind::kKernel) continue;
    const size_t k = step.index;
    const KernelDecl& kernel = manifest_.kernels[k];
    std::vector<const ArgumentDecl*> seen;
    for (size_t a = 0; a < kernel.arguments.size(); ++a) {
      const ArgumentDecl& argument = kernel.arguments[a];
      if (argument.kind != ArgumentDecl::Kind::kBuffer) continue;
      const BufferDecl& buffer = manifest_.buffers[argument.buffer];
      const YamlNode& place = *argument_places_[k][a];
      const bool reads = argument.access == Access::kIn || argument.access == Access::kInout;
      const bool writes = argument.access != Access::kIn;
      const bool is_given = buffer.role == Role::kConstant || buffer.role == Role::kInput;
      if (writes && is_given)
        mistakes_.error(place, fmt::format("buffer '{}' is {} and never written; write in: {}", buffer.name,
                                           buffer.role == Role::kInput ? "an input" : "a constant", buffer.name));
      for (const ArgumentDecl* other : seen)
        // Whether two views are apart is known when they are planned.
        if (other->buffer == argument.buffer && (writes || other->access != Access::kIn) &&
            !(other->offset && argument.offset)) {
          mistakes_.error(place, fmt::format("kernel '{}' gets buffer '{}' twice and writes it; pass it once, as inout",
                                             kernel.entry, buffer.name));
          break;
        }
      seen.push_back(&argument);
      if (reads && !is_given && !is_written[argument.buffer] && !buffer.zero && !is_told[argument.buffer]) {
        is_told[argument.buffer] = true;
        mistakes_.warning(place, fmt::format("kernel '{}' reads {} '{}' before any kernel wrote it; write zero: true",
                                             kernel.entry, name_of(buffer.role), buffer.name));
      }
      is_read[argument.buffer] |= reads;
    }
    // Only now: a kernel does not read what it writes itself.
    for (const ArgumentDecl* argument : seen) is_written[argument->buffer] |= argument->access != Access::kIn;
  }
  for (size_t r = 0; r < manifest_.repeats.size(); ++r) {
    const RepeatDecl& repeat = manifest_.repeats[r];
    if (repeat.until) {
      const BufferDecl& buffer = manifest_.buffers[repeat.until->buffer];
      is_read[repeat.until->buffer] = true;
      if (buffer.role == Role::kConstant || buffer.role == Role::kInput)
        mistakes_.error(*repeat_places_[r], fmt::format("until looks at {} '{}', which never changes; look at what a "
                                                        "kernel writes",
                                                        name_of(buffer.role), buffer.name));
      else if (!is_written[repeat.until->buffer] && !buffer.zero)
        mistakes_.warning(*repeat_places_[r],
                          fmt::format("until looks at '{}', which no kernel writes; write it in check", buffer.name));
    }
    // What is written under one name may be read under the other.
    for (const auto& [one, two] : repeat.swaps) {
      is_read[one] = is_read[two] = is_read[one] | is_read[two];
      is_written[one] = is_written[two] = is_written[one] | is_written[two];
    }
  }
  for (size_t i = 0; i < count; ++i) {
    const BufferDecl& buffer = manifest_.buffers[i];
    if (buffer.role == Role::kOutput && !is_written[i] && !has_lost_arguments_)
      mistakes_.error(*buffer_places_[i],
                      fmt::format("no kernel writes output '{}'; pass it as out or inout", buffer.name));
    else if (!is_read[i] && !is_written[i] && !mistakes_.any_error())  // after an error it may only look unused
      mistakes_.warning(*buffer_places_[i],
                        fmt::format("no kernel reads {} '{}'; leave it out", name_of(buffer.role), buffer.name));
  }
}

void ManifestReader::check_swaps() {
  for (size_t i = 0; i < manifest_.repeats.size(); ++i)
    for (const auto& [one, two] : manifest_.repeats[i].swaps) {
      const BufferDecl &a = manifest_.buffers[one], &b = manifest_.buffers[two];
      const bool is_same_rank = a.shape.size() == b.shape.size();
      if (a.dtype != b.dtype || !is_same_rank)
        mistakes_.error(*repeat_places_[i], fmt::format("swap of '{}' and '{}', which differ in dtype or shape; make "
                                                        "them alike",
                                                        a.name, b.name));
    }
}

// What a run says of its rounds has a name for each repeat.
void ManifestReader::check_rounds_names() {
  std::set<std::string> names, parameters;
  size_t reported = 0;
  for (size_t i = 0; i < manifest_.repeats.size(); ++i) {
    const RepeatDecl& repeat = manifest_.repeats[i];
    if (!repeat.until) continue;
    if (++reported == kMostReported + 1)
      mistakes_.error(*repeat_places_[i],
                      fmt::format("more than {} repeats with until; leave some out", kMostReported));
    if (names.insert(repeat.name).second && parameters.insert(rounds_parameter(repeat)).second) continue;
    if (repeat.name.empty())
      mistakes_.error(*repeat_places_[i], "a second repeat with until has no name; give each a name: …");
    else
      mistakes_.error(*repeat_places_[i], fmt::format("two repeats have the name '{}'; choose another", repeat.name));
  }
}

void ManifestReader::check_constants() {
  for (size_t i = 0; i < manifest_.buffers.size(); ++i) {
    const BufferDecl& buffer = manifest_.buffers[i];
    if (buffer.role != Role::kConstant || (buffer.file.empty() && !buffer.data)) continue;
    if (!buffer.data && constants_ == ConstantFiles::kElsewhere) continue;
    const YamlNode& place = *buffer_places_[i];
    if (!buffer.data && files_.find(buffer.file) == files_.end()) {
      std::vector<std::string> names;
      for (const auto& [name, bytes] : files_) names.push_back(name);
      std::string hint = did_you_mean(buffer.file, names);
      mistakes_.error(place, fmt::format("constant '{}': there is no file {}{}", buffer.name, shown(buffer.file),
                                         hint.empty() ? "; add it to the folder" : hint));
      continue;
    }
    if (mistakes_.any_error()) continue;  // its shape may be wrong, and was told
    // A constant has one size, so that any binding tells it.
    const Binding binding = corner_of(manifest_, Corner::kDefault);
    auto planned = plan_buffer(manifest_, buffer, names_in(manifest_, binding));
    if (!planned.ok()) {
      mistakes_.error(place, planned.error().text);
      continue;
    }
    auto bytes = constant_elements(buffer, *planned, files_);
    if (!bytes.ok()) mistakes_.error(place, bytes.error().text);
  }
}

void ManifestReader::check_used_names() {
  if (mistakes_.any_error()) return;  // what was left out for an error may be where a name is used
  std::set<std::string_view> used;
  auto use = [&used](const Expression& expression) {
    used.insert(expression.names().begin(), expression.names().end());
  };
  for (const BufferDecl& buffer : manifest_.buffers)
    for (const Expression& size : buffer.shape) use(size);
  auto maybe = [&use](const std::optional<Expression>& expression) {
    if (expression) use(*expression);
  };
  for (const KernelDecl& kernel : manifest_.kernels) {
    for (const Expression& size : kernel.global) use(size);
    for (const Expression& size : kernel.local) use(size);
    for (const ArgumentDecl& argument : kernel.arguments)
      for (const auto* one : {&argument.value, &argument.offset, &argument.count}) maybe(*one);
    maybe(kernel.flops);
    maybe(kernel.bytes);
  }
  for (const StepDecl& step : manifest_.steps) maybe(step.when);
  for (const FillDecl& fill : manifest_.fills)
    for (const auto* one : {&fill.value, &fill.offset, &fill.count}) maybe(*one);
  for (const CopyDecl& copy : manifest_.copies)
    for (const auto* one : {&copy.offset, &copy.at, &copy.count}) maybe(*one);
  for (const RepeatDecl& repeat : manifest_.repeats) {
    maybe(repeat.rounds);
    if (repeat.until)
      for (const auto* one : {&repeat.until->every, &repeat.until->element, &repeat.until->value}) maybe(*one);
  }
  // Each names only those before it.
  for (size_t i = manifest_.lets.size(); i-- > 0;) {
    if (used.contains(manifest_.lets[i].name))
      use(manifest_.lets[i].value);
    else
      mistakes_.warning(*let_places_[i], fmt::format("nothing uses let '{}'; leave it out", manifest_.lets[i].name));
  }
  for (size_t i = 0; i < manifest_.dims.size(); ++i)
    if (!used.contains(manifest_.dims[i].name))
      mistakes_.warning(*dim_places_[i], fmt::format("nothing uses dim '{}'; leave it out", manifest_.dims[i].name));
  for (size_t i = 0; i < manifest_.params.size(); ++i)
    if (!used.contains(manifest_.params[i].name))
      mistakes_.warning(*param_places_[i],
                        fmt::format("nothing uses param '{}'; leave it out", manifest_.params[i].name));
}

// A launch over nothing is left out, which is right where a dim is 0, and else most probably a slip: n / 64 for
// ceil_div(n, 64).
void ManifestReader::warn_of_idle_kernels(const Binding& binding) {
  if (std::find(binding.dims.begin(), binding.dims.end(), 0) != binding.dims.end()) return;
  const Names names = names_in(manifest_, binding);
  for (size_t at = 0; at < manifest_.steps.size(); ++at) {
    const StepDecl& step = manifest_.steps[at];
    if (step.when && step.kind == StepDecl::Kind::kRepeat) at = manifest_.repeats[step.index].end - 1;
    if (step.when || step.kind != StepDecl::Kind::kKernel) continue;
    PlannedLaunch launch;
    const KernelDecl& kernel = manifest_.kernels[step.index];
    // One that names the number of a round has no sizes here.
    if (!plan_sizes(manifest_, kernel, names, launch).ok() || has_work(launch)) continue;
    mistakes_.warning(
        *kernel_places_[step.index],
        fmt::format("kernel '{}' has a global size of 0 and is left out; round up, as ceil_div does", kernel.entry));
  }
}

// Plans the function for its defaults, its smallest and its largest sizes. What fails for the defaults can never be
// called as it stands; what fails at an end of a range may be a range that is too wide, which only a request can tell.
void ManifestReader::check_plans() {
  auto tell = [&](bool is_warning, std::string_view when, const PlanPlace& where, const std::string& text) {
    const YamlNode* at = root_;
    if (where.let) at = let_places_[static_cast<size_t>(where.let - manifest_.lets.data())];
    if (where.buffer) at = buffer_places_[static_cast<size_t>(where.buffer - manifest_.buffers.data())];
    if (where.kernel) at = kernel_places_[static_cast<size_t>(where.kernel - manifest_.kernels.data())];
    if (where.fill) at = fill_places_[static_cast<size_t>(where.fill - manifest_.fills.data())];
    if (where.copy) at = copy_places_[static_cast<size_t>(where.copy - manifest_.copies.data())];
    if (where.repeat) at = repeat_places_[static_cast<size_t>(where.repeat - manifest_.repeats.data())];
    mistakes_.add(at->line, at->column, is_warning, fmt::format("{}{}", when, text));
  };
  // Without a default for everything, what is tried first is a guess.
  const bool is_guess =
      std::any_of(manifest_.dims.begin(), manifest_.dims.end(), [](const DimDecl& dim) { return !dim.value; }) ||
      std::any_of(manifest_.params.begin(), manifest_.params.end(),
                  [](const ParamDecl& param) { return !param.value; });
  struct Trial {
    Corner corner;
    bool is_warning;
    std::string_view when;
  };
  std::set<std::string> told;
  for (const Trial& trial :
       {Trial{Corner::kDefault, is_guess, ""}, Trial{Corner::kSmallest, true, "at the smallest dims and params: "},
        Trial{Corner::kLargest, true, "at the largest dims and params: "}}) {
    const Binding binding = corner_of(manifest_, trial.corner);
    PlanPlace where;
    auto plan = build_plan(manifest_, binding, {}, where);
    if (!plan.ok()) {
      if (told.insert(plan.error().text).second) tell(trial.is_warning, trial.when, where, plan.error().text);
      continue;
    }
    if (trial.corner == Corner::kDefault) warn_of_idle_kernels(binding);
    auto scalars = build_scalars(manifest_, *plan, binding, where);
    if (!scalars.ok() && told.insert(scalars.error().text).second)
      tell(trial.is_warning, trial.when, where, scalars.error().text);
    const auto limit = manifest_.settings.memory_bytes;
    if (limit && plan->memory_bytes > *limit && trial.corner != Corner::kSmallest)
      tell(true, trial.when, {},
           fmt::format("needs {} bytes, and limits.memory is {}; such requests will be refused", plan->memory_bytes,
                       *limit));
  }
}

}  // namespace quern
