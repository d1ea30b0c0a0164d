// SPDX-License-Identifier: Apache-2.0
#include "main/simulate_replay.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "main/command.h"
#include "os/file.h"
#include "sim/replay.h"

namespace quern::main {

Result<bool> run_replay(const std::string& file, bool json) {
  QUERN_TRY(const Bytes bytes, os::read_file(file));
  const auto replayed = sim::replay(as_text(bytes));
  if (!replayed.ok()) return invalid(fmt::format("{}:{}", file, replayed.error().text));
  const bool agrees = replayed->line == 0;
  if (json) {
    fmt::print(
        "{{\"file\": {}, \"agrees\": {}, \"events\": {}, \"actions\": {}, \"cut\": {}, \"line\": {}, \"difference\": "
        "{}}}\n",
        json_string(file), agrees, replayed->events, replayed->actions, replayed->is_cut, replayed->line,
        json_string(replayed->difference));
    return agrees;
  }
  if (!agrees) fmt::print("{}:{}: {}\n", file, replayed->line, replayed->difference);
  fmt::print("{} events and {} actions agree{}\n", replayed->events, replayed->actions,
             replayed->is_cut ? "; the log ends in the middle of a line, its last event was left out" : "");
  return agrees;
}

}  // namespace quern::main
