// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "main/call.h"
#include "main/command.h"
#include "main/remote.h"
#include "os/clock.h"

namespace quern::main {
namespace {

struct InvokeFlags : CallFlags {
  std::string function;
  std::vector<std::string> kept;
};

// "NAME[=DURATION]" of --keep.
Status read_kept(const std::string& text, Wanted& wanted) {
  const size_t equals = text.find('=');
  std::optional<Duration>& lease = wanted.kept[text.substr(0, equals)];
  if (equals == std::string::npos) return {};
  const auto given = parse_duration(text.substr(equals + 1));
  if (!given.ok()) return invalid(fmt::format("--keep {}: {}", text, given.error().text));
  lease = *given;
  return {};
}

Status invoke(const Remote& remote, const InvokeFlags& flags) {
  QUERN_TRY(auto wanted, read(flags));
  for (const std::string& text : flags.kept) QUERN_TRY(read_kept(text, wanted));
  if (!wanted.kept.empty() && flags.repeat > 1)
    return invalid("--keep: leaves something at every call; not with --repeat");
  QUERN_TRY(auto server, client::Client::create(remote.options));
  QUERN_TRY(auto function, server.function(flags.function));
  QUERN_TRY(check_outputs(function, wanted));
  QUERN_TRY(auto inputs, make_inputs(function, wanted.inputs, wanted.dims, flags.seed, true));
  client::InferRequest request;
  request.function = flags.function;
  request.parameters = wanted.parameters;
  for (const auto& input : inputs) request.inputs.push_back(input.view());
  request.kept = wanted.kept;
  if (!request.kept.empty())
    for (const auto& output : function.outputs) request.outputs.push_back(output.name);
  std::vector<int64_t> times;
  client::InferAnswer answer;
  for (uint32_t i = 0; i < flags.repeat; ++i) {
    const Time begin = os::now();
    QUERN_TRY(answer, server.infer(request));
    times.push_back((os::now() - begin).ns);
  }
  QUERN_TRY(write_outputs(answer, wanted));
  print_answer(function, answer, wanted, times, remote.json);
  return {};
}

}  // namespace

void add_invoke(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("invoke", "Call a function");
  auto flags = std::make_shared<InvokeFlags>();
  command->add_option("FUNCTION", flags->function, "NAME, or NAME@VERSION")->required();
  add_call_flags(*command, *flags);
  command->get_option("--input")->type_name("NAME=FILE.npy|@random|@zeros|@ones|@object:ID");
  command->add_option("--keep", flags->kept, "Leave an output on the server, for the next call or 'quern get'")
      ->type_name("NAME[=60s]")
      ->allow_extra_args(false);
  auto remote = add_remote_flags(*command);
  command->footer(
      "Examples:\n"
      "  quern invoke saxpy --input x=x.npy --input y=@random --param alpha=2\n"
      "  quern invoke saxpy --input x=@ones --input y=@ones --dims n=1024 --output z=z.npy\n"
      "  quern invoke saxpy --input x=@object:ID --input y=@ones --keep z=10m");
  command->callback([=, &work] {
    work = [=] {
      const auto invoked = invoke(*remote, *flags);
      return invoked.ok() ? 0 : fail(invoked.error());
    };
  });
}

}  // namespace quern::main
