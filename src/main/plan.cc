// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/units.h"
#include "function/plan_builder.h"
#include "main/call.h"
#include "main/command.h"
#include "main/local.h"
#include "main/tensors.h"

namespace quern::main {
namespace {

constexpr size_t kShownSteps = 40, kPictureWidth = 64;

struct PlanFlags {
  std::string folder;
  std::vector<std::string> dims, params;
  bool json = false;
};

// The default of everything, changed by what was given, as a request would be bound.
Result<Binding> binding_of(const Manifest& manifest, const std::map<std::string, ParameterValue>& given) {
  Binding binding = corner_of(manifest, Corner::kDefault);
  for (const auto& [name, value] : given)
    for (size_t i = 0; i < manifest.dims.size(); ++i) {
      const DimDecl& dim = manifest.dims[i];
      const auto* whole = std::get_if<int64_t>(&value);
      if (dim.name != name || !whole) continue;
      if (*whole < dim.min || *whole > dim.max)
        return invalid(fmt::format("{}: dim '{}' is {}; send {} to {}", manifest.name, name, *whole, dim.min, dim.max));
      binding.dims[i] = *whole;
    }
  QUERN_TRY(compute_lets(manifest, binding));
  // A request with inputs of these shapes finds what is out of range or not known.
  CallSpec call;
  call.parameters = given;
  for (size_t i = 0; i < manifest.params.size(); ++i)
    if (!manifest.params[i].value && !given.contains(manifest.params[i].name))
      call.parameters[manifest.params[i].name] = parameter_of(binding.params[i]);
  for (size_t i = 0; i < manifest.dims.size(); ++i)
    if (!manifest.dims[i].fixed) call.parameters[manifest.dims[i].name] = binding.dims[i];
  const auto names = names_in(manifest, binding);
  for (const BufferDecl& buffer : manifest.buffers) {
    if (buffer.role != Role::kInput) continue;
    QUERN_TRY(const PlannedBuffer planned, plan_buffer(manifest, buffer, names));
    call.inputs.push_back({buffer.name, buffer.dtype, planned.shape});
  }
  return bind(manifest, call);
}

std::vector<uint64_t> live_bytes(const Plan& plan) {
  std::vector<int64_t> change(plan.steps.size() + 1);
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (buffer.role != Role::kScratch || !buffer.used || plan.steps.empty()) continue;
    change[buffer.first] += static_cast<int64_t>(buffer.size_bytes);
    change[buffer.last + 1] -= static_cast<int64_t>(buffer.size_bytes);
  }
  std::vector<uint64_t> live;
  int64_t now = 0;
  for (size_t i = 0; i < plan.steps.size(); ++i) live.push_back(static_cast<uint64_t>(now += change[i]));
  return live;
}

std::string show_sizes(const Size3& sizes, uint32_t dimensions) {
  if (sizes[0] == 0) return "any";
  return fmt::format("{}", fmt::join(sizes.begin(), sizes.begin() + dimensions, "x"));
}

std::vector<std::string> names_of(const Manifest& manifest, const PlannedLaunch& launch, bool written) {
  std::vector<std::string> names;
  for (const PlannedArgument& argument : launch.arguments)
    if (argument.kind == ArgumentDecl::Kind::kBuffer &&
        (written ? argument.access != Access::kIn
                 : argument.access == Access::kIn || argument.access == Access::kInout))
      names.push_back(manifest.buffers[argument.buffer].name);
  return names;
}

bool has_labels(const Manifest& manifest) {
  return std::any_of(manifest.kernels.begin(), manifest.kernels.end(),
                     [](const KernelDecl& kernel) { return !kernel.label.empty(); });
}

std::string_view label_of(const Manifest& manifest, const Plan& plan, uint32_t at) {
  const PlannedStep& step = plan.steps[at];
  return step.kind == PlannedStep::Kind::kLaunch ? manifest.kernels[plan.launches[step.index].kernel].label
                                                 : std::string_view();
}

/// Each step as people see it, with how deep in repeats it is.
std::vector<std::string> step_row(const Manifest& manifest, const Plan& plan, uint32_t at, int depth) {
  const PlannedStep& step = plan.steps[at];
  const std::string indent(static_cast<size_t>(2 * depth), ' ');
  std::vector<std::string> row{fmt::format("{}", at), step.level ? fmt::format("{}", step.level) : ""};
  switch (step.kind) {
    case PlannedStep::Kind::kLaunch: {
      const PlannedLaunch& launch = plan.launches[step.index];
      row.insert(row.end(), {indent + launch.entry, show_sizes(launch.global, launch.dimensions),
                             show_sizes(launch.local, launch.dimensions),
                             fmt::format("{}", fmt::join(names_of(manifest, launch, false), " ")),
                             fmt::format("{}", fmt::join(names_of(manifest, launch, true), " "))});
      break;
    }
    case PlannedStep::Kind::kFill:
      row.insert(row.end(), {indent + "(fill)", "", "", "", manifest.buffers[plan.fills[step.index].buffer].name});
      break;
    case PlannedStep::Kind::kCopy: {
      const PlannedCopy& copy = plan.copies[step.index];
      row.insert(row.end(),
                 {indent + "(copy)", "", "", manifest.buffers[copy.from].name, manifest.buffers[copy.to].name});
      break;
    }
    case PlannedStep::Kind::kRepeat: {
      const PlannedRepeat& repeat = plan.repeats[step.index];
      row[1] = "";
      row.push_back(fmt::format("{}repeat {}{}{}", indent, repeat.until ? "at most " : "", repeat.rounds,
                                repeat.until ? fmt::format(", checked every {}", repeat.until->every) : ""));
      row.insert(row.end(), {"", "", "", ""});
    }
  }
  return row;
}

void add_rows(const Manifest& manifest, const Plan& plan, uint32_t begin, uint32_t end, int depth,
              std::vector<std::vector<std::string>>& rows) {
  for (uint32_t at = begin; at < end && rows.size() <= kShownSteps; at = plan.steps[at].end) {
    rows.push_back(step_row(manifest, plan, at, depth));
    if (rows.back().size() < rows.front().size()) rows.back().emplace_back(label_of(manifest, plan, at));
    if (plan.steps[at].kind == PlannedStep::Kind::kRepeat)
      add_rows(manifest, plan, at + 1, plan.steps[at].end, depth + 1, rows);
  }
}

// Scratch that is live at each step, as columns of eighths.
void print_picture(const std::vector<uint64_t>& live) {
  constexpr int kHeight = 4;
  constexpr const char* kEighths[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const uint64_t peak = live.empty() ? 0 : *std::max_element(live.begin(), live.end());
  if (peak == 0) return;
  const size_t width = std::min(live.size(), kPictureWidth);
  fmt::print("\nscratch that is live, step by step (the most is {}):\n", show_bytes(peak));
  for (int row = kHeight - 1; row >= 0; --row) {
    std::string line = "  ";
    for (size_t column = 0; column < width; ++column) {
      const size_t from = column * live.size() / width, to = std::max(from + 1, (column + 1) * live.size() / width);
      const uint64_t most =
          *std::max_element(live.begin() + static_cast<ptrdiff_t>(from), live.begin() + static_cast<ptrdiff_t>(to));
      const int eighths = static_cast<int>((static_cast<double>(most) * kHeight * 8 + static_cast<double>(peak) - 1) /
                                           static_cast<double>(peak));
      line += kEighths[std::clamp(eighths - 8 * row, 0, 8)];
    }
    fmt::print("{}\n", line);
  }
  fmt::print("  0{:>{}}\n", live.size() - 1, width > 1 ? width - 1 : 1);
}

void print_people(const Manifest& manifest, const Binding& binding, const Plan& plan) {
  fmt::print("{}", manifest.name);
  for (size_t i = 0; i < manifest.dims.size(); ++i) fmt::print(" {}={}", manifest.dims[i].name, binding.dims[i]);
  for (size_t i = 0; i < binding.lets.size(); ++i)
    fmt::print(" {}={}", manifest.lets[i].name,
               std::visit([](auto value) { return fmt::format("{}", value); }, binding.lets[i]));
  fmt::print("\n\n");
  std::vector<std::vector<std::string>> rows{{"STEP", "LEVEL", "KERNEL", "GLOBAL", "LOCAL", "READS", "WRITES"}};
  if (has_labels(manifest)) rows[0].push_back("LABEL");
  add_rows(manifest, plan, 0, static_cast<uint32_t>(plan.steps.size()), 0, rows);
  const size_t right[] = {0, 1};
  fmt::print("{}", align(rows, right));
  if (plan.steps.size() + 1 > rows.size())
    fmt::print("… {} more; --json has all\n", plan.steps.size() + 1 - rows.size());
  rows = {{"BUFFER", "ROLE", "DTYPE", "SHAPE", "SIZE", "LIVE", "PLACE"}};
  for (size_t i = 0; i < plan.buffers.size() && rows.size() <= kShownSteps; ++i) {
    const PlannedBuffer& buffer = plan.buffers[i];
    const Placement::Place& place = plan.in_place.places[i];
    rows.push_back({manifest.buffers[i].name, std::string(name_of(buffer.role)), std::string(name_of(buffer.dtype)),
                    show_shape(buffer.shape), show_bytes(buffer.size_bytes),
                    buffer.used ? fmt::format("{}-{}", buffer.first, buffer.last) : "",
                    place.arena == Placement::kElsewhere ? "" : fmt::format("{}+{}", place.arena, place.offset)});
  }
  fmt::print("\n{}", align(rows));
  if (plan.buffers.size() + 1 > rows.size())
    fmt::print("… {} more; --json has all\n", plan.buffers.size() + 1 - rows.size());
  print_picture(live_bytes(plan));
  uint64_t alone = 0;
  for (const PlannedBuffer& buffer : plan.buffers)
    if (buffer.role == Role::kScratch) alone += buffer.size_bytes;
  fmt::print("\n{} of device memory; scratch is {} in {} arenas ({} if nothing were shared)\n",
             show_bytes(plan.memory_bytes), show_bytes(plan.in_place.bytes()), plan.in_place.arenas.size(),
             show_bytes(alone));
}

void print_json(const Manifest& manifest, const Binding& binding, const Plan& plan) {
  const auto quoted = [](const std::vector<std::string>& names) {
    std::vector<std::string> all;
    for (const std::string& name : names) all.push_back(json_string(name));
    return fmt::format("[{}]", fmt::join(all, ", "));
  };
  std::vector<std::string> dims, steps, buffers;
  for (size_t i = 0; i < manifest.dims.size(); ++i)
    dims.push_back(fmt::format("{}: {}", json_string(manifest.dims[i].name), binding.dims[i]));
  const std::vector<uint64_t> live = live_bytes(plan);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlannedStep& step = plan.steps[i];
    std::string text = fmt::format("{{\"level\": {}, \"end\": {}, \"live_bytes\": {}", step.level, step.end, live[i]);
    if (const auto label = label_of(manifest, plan, static_cast<uint32_t>(i)); !label.empty())
      text += fmt::format(", \"label\": {}", json_string(label));
    if (step.kind == PlannedStep::Kind::kLaunch) {
      const PlannedLaunch& launch = plan.launches[step.index];
      text += fmt::format(
          ", \"kernel\": {}, \"global\": [{}], \"local\": [{}], \"reads\": {}, \"writes\": {}, "
          "\"flops\": {}, \"bytes\": {}}}",
          json_string(launch.entry), fmt::join(launch.global, ", "), fmt::join(launch.local, ", "),
          quoted(names_of(manifest, launch, false)), quoted(names_of(manifest, launch, true)), launch.flops,
          launch.bytes);
    } else if (step.kind == PlannedStep::Kind::kFill) {
      text += fmt::format(", \"fill\": {}}}", json_string(manifest.buffers[plan.fills[step.index].buffer].name));
    } else if (step.kind == PlannedStep::Kind::kCopy) {
      const PlannedCopy& copy = plan.copies[step.index];
      text += fmt::format(", \"copy\": {}, \"to\": {}, \"bytes\": {}}}", json_string(manifest.buffers[copy.from].name),
                          json_string(manifest.buffers[copy.to].name), copy.size_bytes);
    } else {
      const PlannedRepeat& repeat = plan.repeats[step.index];
      text += fmt::format(", \"repeat\": {}, \"every\": {}}}", repeat.rounds, repeat.until ? repeat.until->every : 0);
    }
    steps.push_back(std::move(text));
  }
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlannedBuffer& buffer = plan.buffers[i];
    const Placement::Place& place = plan.in_place.places[i];
    std::string text = fmt::format(
        "{{\"name\": {}, \"role\": \"{}\", \"dtype\": \"{}\", \"shape\": [{}], \"size_bytes\": {}, \"first\": {}, "
        "\"last\": {}",
        json_string(manifest.buffers[i].name), name_of(buffer.role), name_of(buffer.dtype),
        fmt::join(buffer.shape, ", "), buffer.size_bytes, buffer.first, buffer.last);
    if (place.arena != Placement::kElsewhere)
      text += fmt::format(", \"arena\": {}, \"offset\": {}", place.arena, place.offset);
    buffers.push_back(text + "}");
  }
  fmt::print(
      "{{\"function\": {}, \"dims\": {{{}}}, \"memory_bytes\": {}, \"peak_bytes\": {}, \"arenas\": [{}], \"steps\": "
      "[{}], \"buffers\": [{}]}}\n",
      json_string(manifest.name), fmt::join(dims, ", "), plan.memory_bytes, plan.peak_bytes,
      fmt::join(plan.in_place.arenas, ", "), fmt::join(steps, ", "), fmt::join(buffers, ", "));
}

Status plan(const PlanFlags& flags) {
  std::map<std::string, ParameterValue> given;
  for (const std::string& text : flags.params) {
    QUERN_TRY(auto pair, split_pair("--param", text));
    if (!given.emplace(pair.first, parameter_of(pair.second)).second)
      return invalid(fmt::format("--param {}: '{}' is given twice; give it once", text, pair.first));
  }
  for (const std::string& text : flags.dims) QUERN_TRY(read_dim(text, given));
  QUERN_TRY(const Folder folder, read_folder(flags.folder));
  QUERN_TRY(tell_mistakes(folder));
  const Manifest& manifest = *folder.parsed.manifest;
  QUERN_TRY(const Binding binding, binding_of(manifest, given));
  QUERN_TRY(const Plan made, make_plan(manifest, binding));
  (flags.json ? print_json : print_people)(manifest, binding, made);
  return {};
}

}  // namespace

void add_plan(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("plan", "Show what a call of the function in a folder would do, and its memory");
  auto flags = std::make_shared<PlanFlags>();
  command->add_option("FOLDER", flags->folder, "The folder that holds function.yaml")->required();
  command->add_option("--dims", flags->dims, "Sizes; the defaults where none is given")
      ->type_name("NAME=N[,NAME=N]")
      ->delimiter(',');
  command->add_option("--param", flags->params, "A param that sizes or rounds depend on")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  command->add_flag("--json", flags->json, "For programs");
  command->footer("Builds nothing and needs no device.\n\nExample:\n  quern plan examples/jacobi --dims n=1024");
  command->callback([=, &work] {
    work = [=] {
      const auto planned = plan(*flags);
      return planned.ok() ? 0 : fail(planned.error());
    };
  });
}

}  // namespace quern::main
