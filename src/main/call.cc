// SPDX-License-Identifier: Apache-2.0
#include "main/call.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/suggest.h"
#include "main/command.h"

namespace quern::main {
namespace {

constexpr size_t kShown = 8;  ///< elements of an output that people see

std::string show_values(const client::TensorView& tensor, size_t most, bool json) {
  const size_t count = elements_of(tensor);
  std::string text = "[";
  for (size_t i = 0; i < std::min(count, most); ++i) text += (i ? ", " : "") + show_element(tensor, i, json);
  return text + (count > most ? fmt::format(", ... {} in all]", count) : "]");
}

std::string times_line(std::vector<int64_t> times) {
  if (times.size() == 1) return "answered in " + show_time(static_cast<double>(times[0]));
  const int64_t first = times[0];
  std::sort(times.begin(), times.end());
  return fmt::format("{} calls: first {}, median {}, fastest {}, slowest {}", times.size(),
                     show_time(static_cast<double>(first)), show_time(static_cast<double>(times[times.size() / 2])),
                     show_time(static_cast<double>(times.front())), show_time(static_cast<double>(times.back())));
}

// Where an output is that is not shown: empty if it is.
std::string place_of(const client::TensorView& output, const Wanted& wanted) {
  if (!output.object.empty()) return fmt::format("stays for {} as {}", output.expires_in, output.object);
  const auto file = wanted.outputs.find(output.name);
  return file == wanted.outputs.end() ? "" : "written to " + file->second;
}

void print_people(const client::FunctionInfo& function, const client::InferAnswer& answer, const Wanted& wanted,
                  const std::vector<int64_t>& times) {
  for (const auto& output : answer.outputs) {
    const std::string place = place_of(output, wanted);
    fmt::print("{}  {} {}  {}\n", output.name, name_of(output.dtype), show_shape(output.shape),
               place.empty() ? show_values(output, kShown, false) : place);
  }
  if (answer.parameters_json.size() > 2) fmt::print("{}\n", answer.parameters_json);
  fmt::print("{}@{}  request {}  {}\n", function.name, answer.version, answer.request, times_line(times));
}

// Names of functions and outputs, versions and ids need no escapes: their alphabets have nothing to escape.
void print_json(const client::FunctionInfo& function, const client::InferAnswer& answer, const Wanted& wanted,
                const std::vector<int64_t>& times) {
  std::string outputs, list;
  for (const auto& output : answer.outputs) {
    if (!outputs.empty()) outputs += ", ";
    outputs += fmt::format("{{\"name\": \"{}\", \"datatype\": \"{}\", \"shape\": {}", output.name,
                           protocol_name_of(output.dtype), show_shape(output.shape));
    if (!output.object.empty())
      outputs += fmt::format(", \"object\": {}, \"expires_in\": {}", json_string(output.object),
                             json_string(output.expires_in));
    else if (!wanted.outputs.contains(output.name))
      outputs += ", \"data\": " + show_values(output, SIZE_MAX, true);
    outputs += "}";
  }
  for (const int64_t one : times) list += fmt::format("{}{}", list.empty() ? "" : ", ", one);
  fmt::print(
      "{{\"function\": \"{}\", \"version\": \"{}\", \"request\": \"{}\", \"times_ns\": [{}], \"parameters\": {}, "
      "\"outputs\": [{}]}}\n",
      function.name, answer.version, answer.request, list,
      answer.parameters_json.empty() ? "{}" : answer.parameters_json, outputs);
}

}  // namespace

Status read_dim(const std::string& text, std::map<std::string, ParameterValue>& parameters) {
  QUERN_TRY(auto pair, split_pair("--dims", text));
  const auto value = parameter_of(pair.second);
  if (!std::holds_alternative<int64_t>(value)) return invalid(fmt::format("--dims {}: a dim is a whole number", text));
  if (std::get<int64_t>(value) < 0) return invalid(fmt::format("--dims {}: a dim is not negative", text));
  if (!parameters.emplace(pair.first, value).second)
    return invalid(fmt::format("--dims {}: '{}' is given twice; give it once", text, pair.first));
  return {};
}

Result<Wanted> read(const CallFlags& flags) {
  Wanted wanted;
  for (const auto& text : flags.inputs) {
    QUERN_TRY(auto pair, split_pair("--input", text));
    wanted.inputs.push_back({pair.first, pair.second});
  }
  for (const auto& text : flags.params) {
    QUERN_TRY(auto pair, split_pair("--param", text));
    if (!wanted.parameters.emplace(pair.first, parameter_of(pair.second)).second)
      return invalid(fmt::format("--param {}: '{}' is given twice; give it once", text, pair.first));
  }
  for (const auto& text : flags.dims) QUERN_TRY(read_dim(text, wanted.parameters));
  for (const auto& [name, value] : wanted.parameters)
    if (const auto* whole = std::get_if<int64_t>(&value)) wanted.dims[name] = *whole;
  for (const auto& text : flags.outputs) {
    QUERN_TRY(auto pair, split_pair("--output", text));
    wanted.outputs[pair.first] = pair.second;
  }
  return wanted;
}

Status check_outputs(const client::FunctionInfo& function, const Wanted& wanted) {
  std::vector<std::string> known;
  for (const auto& output : function.outputs) known.push_back(output.name);
  const auto check = [&](const std::string& name) -> Status {
    if (std::find(known.begin(), known.end(), name) != known.end()) return {};
    return invalid(fmt::format("function {}: has no output '{}'{}", function.name, name, did_you_mean(name, known)));
  };
  for (const auto& [name, file] : wanted.outputs) QUERN_TRY(check(name));
  for (const auto& [name, lease] : wanted.kept) {
    QUERN_TRY(check(name));
    if (wanted.outputs.contains(name))
      return invalid(fmt::format("output {}: --keep leaves it on the server, --output fetches it; give one", name));
  }
  return {};
}

Status write_outputs(const client::InferAnswer& answer, const Wanted& wanted) {
  for (const auto& output : answer.outputs)
    if (const auto file = wanted.outputs.find(output.name); file != wanted.outputs.end())
      QUERN_TRY(write_npy(file->second, output));
  return {};
}

void print_answer(const client::FunctionInfo& function, const client::InferAnswer& answer, const Wanted& wanted,
                  const std::vector<int64_t>& times, bool json) {
  (json ? print_json : print_people)(function, answer, wanted, times);
}

void add_call_flags(CLI::App& command, CallFlags& flags) {
  // One value each, so that what follows is not taken for a second one.
  const auto add = [&](const char* name, std::vector<std::string>& into, const char* help, const char* type) {
    return command.add_option(name, into, help)->type_name(type)->allow_extra_args(false);
  };
  add("--input", flags.inputs, "A tensor: a file, or one that is made", "NAME=FILE.npy|@random|@zeros|@ones");
  add("--param", flags.params, "A param of the function, or timeout (us), priority (0-9)", "NAME=VALUE");
  add("--dims", flags.dims, "Dims that no file decides", "NAME=N[,NAME=N]")->delimiter(',');
  add("--output", flags.outputs, "Write an output to a file instead of showing its first values", "NAME=FILE.npy");
  command.add_option("--repeat", flags.repeat, "Call so many times")->check(CLI::Range(1, 1000000));
  command.add_option("--seed", flags.seed, "Of @random: the same seed gives the same numbers")->capture_default_str();
}

}  // namespace quern::main
