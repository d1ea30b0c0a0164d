// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/suggest.h"
#include "main/command.h"
#include "main/remote.h"
#include "main/tensors.h"
#include "os/clock.h"

namespace quern::main {
namespace {

constexpr size_t kShown = 8;  ///< elements of an output that people see

struct Flags {
  std::string function;
  std::vector<std::string> inputs, params, dims, outputs;
  uint32_t repeat = 1;
  uint64_t seed = 1;
};

struct Wanted {
  std::vector<InputFlag> inputs;
  std::map<std::string, ParameterValue> parameters;
  std::map<std::string, int64_t> dims;         ///< and whole params: a shape may use them
  std::map<std::string, std::string> outputs;  ///< file by name
};

Result<Wanted> read(const Flags& flags) {
  Wanted wanted;
  for (const auto& text : flags.inputs) {
    QUERN_TRY(auto pair, split_pair("--input", text));
    wanted.inputs.push_back({pair.first, pair.second});
  }
  for (const auto& text : flags.params) {
    QUERN_TRY(auto pair, split_pair("--param", text));
    wanted.parameters[pair.first] = parameter_of(pair.second);
  }
  for (const auto& text : flags.dims) {
    QUERN_TRY(auto pair, split_pair("--dims", text));
    const auto value = parameter_of(pair.second);
    if (!std::holds_alternative<int64_t>(value))
      return invalid(fmt::format("--dims {}: a dim is a whole number", text));
    wanted.parameters[pair.first] = value;
  }
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
  for (const auto& [name, file] : wanted.outputs)
    if (std::find(known.begin(), known.end(), name) == known.end())
      return invalid(fmt::format("function {}: has no output '{}'{}", function.name, name, did_you_mean(name, known)));
  return {};
}

std::string show_values(const client::TensorView& tensor, size_t most) {
  const size_t count = elements_of(tensor);
  std::string text = "[";
  for (size_t i = 0; i < std::min(count, most); ++i) text += (i ? ", " : "") + show_element(tensor, i);
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

void print_people(const client::FunctionInfo& function, const client::InferAnswer& answer, const Wanted& wanted,
                  const std::vector<int64_t>& times) {
  for (const auto& output : answer.outputs) {
    const auto file = wanted.outputs.find(output.name);
    fmt::print("{}  {} {}  {}\n", output.name, name_of(output.dtype), show_shape(output.shape),
               file == wanted.outputs.end() ? show_values(output, kShown) : "written to " + file->second);
  }
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
    if (!wanted.outputs.contains(output.name)) outputs += ", \"data\": " + show_values(output, SIZE_MAX);
    outputs += "}";
  }
  for (const int64_t one : times) list += fmt::format("{}{}", list.empty() ? "" : ", ", one);
  fmt::print(
      "{{\"function\": \"{}\", \"version\": \"{}\", \"request\": \"{}\", \"times_ns\": [{}], \"outputs\": [{}]}}\n",
      function.name, answer.version, answer.request, list, outputs);
}

Status invoke(const Remote& remote, const Flags& flags) {
  QUERN_TRY(auto wanted, read(flags));
  QUERN_TRY(auto server, client::Client::create(remote.options));
  QUERN_TRY(auto function, server.function(flags.function));
  QUERN_TRY(check_outputs(function, wanted));
  QUERN_TRY(auto inputs, make_inputs(function, wanted.inputs, wanted.dims, flags.seed));
  client::InferRequest request;
  request.function = flags.function;
  request.parameters = wanted.parameters;
  for (const auto& input : inputs) request.inputs.push_back(input.view());
  std::vector<int64_t> times;
  client::InferAnswer answer;
  for (uint32_t i = 0; i < flags.repeat; ++i) {
    const Time begin = os::now();
    QUERN_TRY(answer, server.infer(request));
    times.push_back((os::now() - begin).ns);
  }
  for (const auto& output : answer.outputs)
    if (const auto file = wanted.outputs.find(output.name); file != wanted.outputs.end())
      QUERN_TRY(write_npy(file->second, output));
  (remote.json ? print_json : print_people)(function, answer, wanted, times);
  return {};
}

}  // namespace

void add_invoke(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("invoke", "Call a function");
  auto flags = std::make_shared<Flags>();
  command->add_option("FUNCTION", flags->function, "NAME, or NAME@VERSION")->required();
  // One value each, so that what follows is not taken for a second one.
  const auto add = [&](const char* name, std::vector<std::string>& into, const char* help, const char* type) {
    return command->add_option(name, into, help)->type_name(type)->allow_extra_args(false);
  };
  add("--input", flags->inputs, "A tensor: a file, or one that is made", "NAME=FILE.npy|@random|@zeros|@ones");
  add("--param", flags->params, "A param of the function, or timeout (us), priority (0-9)", "NAME=VALUE");
  add("--dims", flags->dims, "Dims that no file decides", "NAME=N[,NAME=N]")->delimiter(',');
  add("--output", flags->outputs, "Write an output to a file instead of showing its first values", "NAME=FILE.npy");
  command->add_option("--repeat", flags->repeat, "Call so many times")->check(CLI::Range(1, 1000000));
  command->add_option("--seed", flags->seed, "Of @random: the same seed gives the same numbers")->capture_default_str();
  auto remote = add_remote_flags(*command);
  command->footer(
      "Examples:\n"
      "  quern invoke saxpy --input x=x.npy --input y=@random --param alpha=2\n"
      "  quern invoke saxpy --input x=@ones --input y=@ones --dims n=1024 --output z=z.npy");
  command->callback([=, &work] {
    work = [=] {
      const auto invoked = invoke(*remote, *flags);
      return invoked.ok() ? 0 : fail(invoked.error());
    };
  });
}

}  // namespace quern::main
