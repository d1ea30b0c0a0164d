// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "function/npy.h"
#include "main/command.h"
#include "main/remote.h"
#include "os/file.h"

namespace quern::main {
namespace {

constexpr uint64_t kMostInput = uint64_t{1} << 31;  // as much as read_file takes of a file

Result<Bytes> read_standard_input() {
  return os::read_to_end(os::Fd(::dup(STDIN_FILENO)), "standard input", kMostInput);
}

Status put(const Remote& remote, const std::string& path, bool whole) {
  QUERN_TRY(const Bytes file, path == "-" ? read_standard_input() : os::read_file(path));
  std::span<const std::byte> bytes = file;
  // An object is the elements of a tensor, and an input has no header.
  if (path.ends_with(".npy") && !whole) {
    const auto header = read_npy_header(file);
    if (!header.ok())
      return Error{header.error().code, fmt::format("{}: {}; --whole puts it as it is", path, header.error().text)};
    bytes = bytes.subspan(header->data_offset);
  }
  QUERN_TRY(auto server, client::Client::create(remote.options));
  QUERN_TRY(const std::string id, server.put_object(bytes));
  if (remote.json)
    fmt::print("{{\"object\": {}, \"bytes\": {}}}\n", json_string(id), bytes.size());
  else
    fmt::print("{}\n", id);
  return {};
}

}  // namespace

void add_put(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("put", "Store a file as an object, for calls to name");
  auto path = std::make_shared<std::string>();
  auto whole = std::make_shared<bool>(false);
  command
      ->add_option("FILE", *path,
                   "Elements as they are, or a .npy file, whose elements are stored; - for standard input")
      ->required();
  command->add_flag("--whole", *whole, "Store a .npy file with its header");
  auto remote = add_remote_flags(*command);
  command->footer(
      "Prints its id.\n\n"
      "Example:\n  quern invoke saxpy --input x=@object:$(quern put x.npy) --input y=@ones --dims n=1024");
  command->callback([=, &work] {
    work = [=] {
      const Status done = put(*remote, *path, *whole);
      return done.ok() ? 0 : fail(done.error());
    };
  });
}

}  // namespace quern::main
