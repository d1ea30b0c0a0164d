// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "client/client.h"

namespace CLI {
class App;
}

namespace quern::main {

/// The flags of every command that talks to a server: --server, --key, and --json where it lists something.
struct Remote {
  client::Options options;
  bool json = false;
};
std::shared_ptr<Remote> add_remote_flags(CLI::App& command, bool with_json = true);

}  // namespace quern::main
