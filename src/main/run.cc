// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "main/call.h"
#include "main/command.h"
#include "main/local.h"
#include "os/clock.h"

namespace quern::main {
namespace {

struct RunFlags : CallFlags {
  std::string folder;
  LocalFlags local;
  bool json = false;
};

Status run(const RunFlags& flags) {
  QUERN_TRY(const Wanted wanted, read(flags));
  QUERN_TRY(const Folder folder, read_folder(flags.folder));
  if (!folder.parsed.manifest) return tell_mistakes(folder);
  QUERN_TRY(auto local, Local::create(flags.local));
  QUERN_TRY(const auto function, local->deploy(folder));
  const client::FunctionInfo info = info_of(*function);
  QUERN_TRY(check_outputs(info, wanted));
  QUERN_TRY(const auto inputs, make_inputs(info, wanted.inputs, wanted.dims, flags.seed));
  client::InferRequest request;
  request.parameters = wanted.parameters;
  for (const auto& input : inputs) request.inputs.push_back(input.view());
  std::vector<int64_t> times;
  Local::Answer answer;
  for (uint32_t i = 0; i < flags.repeat; ++i) {
    const Time begin = os::now();
    QUERN_TRY(answer, local->call(function, request, false));
    times.push_back((os::now() - begin).ns);
  }
  QUERN_TRY(write_outputs(answer.answer, wanted));
  print_answer(info, answer.answer, wanted, times, flags.json);
  return {};
}

}  // namespace

void add_run(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("run", "Run the function in a folder once, without a server");
  auto flags = std::make_shared<RunFlags>();
  command->add_option("FOLDER", flags->folder, "The folder that holds function.yaml")->required();
  add_call_flags(*command, *flags);
  add_local_flags(*command, flags->local);
  command->add_flag("--json", flags->json, "For programs");
  command->footer("Example:\n  quern run examples/saxpy --input x=@ones --input y=@ones --dims n=8 --param alpha=2");
  command->callback([=, &work] {
    work = [=] {
      const auto ran = run(*flags);
      return ran.ok() ? 0 : fail(ran.error());
    };
  });
}

}  // namespace quern::main
