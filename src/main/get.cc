// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/units.h"
#include "main/command.h"
#include "main/remote.h"
#include "os/file.h"

namespace quern::main {
namespace {

Status get(const Remote& remote, const std::string& id, const std::string& path, bool keep) {
  QUERN_TRY(auto server, client::Client::create(remote.options));
  // A lease is over only once its bytes are where they were to go.
  QUERN_TRY(const Bytes bytes, server.get_object(id, true));
  if (!path.empty()) {
    QUERN_TRY(os::write_file(path, bytes));
  } else if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() || std::fflush(stdout) != 0) {
    return unavailable("standard output: takes no more; give --output FILE");
  }
  if (id.starts_with("lease-") && !keep) {
    const Status removed = server.remove_object(id);
    if (!removed.ok() && removed.error().code != ErrorCode::kNotFound) return removed;  // it may be over by itself
  }
  if (!path.empty()) fmt::print("{} in {}\n", show_bytes(bytes.size()), path);
  return {};
}

}  // namespace

void add_get(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("get", "Fetch the bytes of an object");
  auto id = std::make_shared<std::string>(), path = std::make_shared<std::string>();
  auto keep = std::make_shared<bool>(false);
  command->add_option("ID", *id, "As 'quern objects' shows it")->required();
  command->add_option("-o,--output", *path, "Where to write them; standard output if left out")->type_name("FILE");
  command->add_flag("--keep", *keep, "Leave a lease as it is: without it, it is over when it was read");
  auto remote = add_remote_flags(*command, false);
  command->footer("Example:\n  quern get ID -o z.bin");
  command->callback([=, &work] {
    work = [=] {
      const Status done = get(*remote, *id, *path, *keep);
      return done.ok() ? 0 : fail(done.error());
    };
  });
}

}  // namespace quern::main
