// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "main/call.h"
#include "main/command.h"
#include "main/remote.h"
#include "os/clock.h"

namespace quern::main {
namespace {

struct Flags : CallFlags {
  std::string function;
};

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
  QUERN_TRY(write_outputs(answer, wanted));
  print_answer(function, answer, wanted, times, remote.json);
  return {};
}

}  // namespace

void add_invoke(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("invoke", "Call a function");
  auto flags = std::make_shared<Flags>();
  command->add_option("FUNCTION", flags->function, "NAME, or NAME@VERSION")->required();
  add_call_flags(*command, *flags);
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
