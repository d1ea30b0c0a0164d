// SPDX-License-Identifier: Apache-2.0
//
// Runs every scenarios/*.txt: commands above `----`, the actions they must give below, a blank line between blocks,
// `#` for comments. A file is a conversation with one core. To accept what the core does now, set QUERN_REWRITE=1 (as
// `./quern test --rewrite` does), then read the diff.
//
//     config quarantine_after=2       settings, before anything else
//     0ms device-up d1 8GiB           a time and an event: sched/text.h
//     ----
//     -                               nothing is to be done
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "sched/text.h"

namespace quern::sched {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> scenario_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator("src/sched/scenarios"))
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

class Conversation {
 public:
  /// The actions that one command gives, a line each.
  std::string say(const std::string& command) {
    if (command.starts_with("config ")) {
      const Status status = parse_config(std::string_view(command).substr(7), config_);
      if (core_) return "config comes first\n";
      return status.ok() ? "" : status.error().text + "\n";
    }
    if (!core_) core_ = std::make_unique<Scheduler>(config_);
    const auto event = parse_timed_event(command);
    if (!event.ok()) return event.error().text + "\n";
    std::string lines;
    for (const Action& action : core_->step(event->first, event->second)) lines += to_text(action) + "\n";
    return lines;
  }

 private:
  Config config_;
  std::unique_ptr<Scheduler> core_;
};

/// The file as it would be if everything below `----` were what the core does.
std::string play(const std::string& text) {
  Conversation conversation;
  std::istringstream in(text);
  std::string out, actions, line;
  bool below = false;
  while (std::getline(in, line)) {
    if (line.empty()) below = false;
    if (below) continue;
    out += line + "\n";
    if (line == "----") {
      out += actions.empty() ? "-\n" : actions;
      actions.clear();
      below = true;
    } else if (!line.empty() && line[0] != '#') {
      actions += conversation.say(line);
    }
  }
  return actions.empty() ? out : out + "----\n" + actions;
}

class Scenario : public testing::TestWithParam<fs::path> {};

TEST_P(Scenario, GivesTheseActions) {
  std::ostringstream text;
  text << std::ifstream(GetParam()).rdbuf();
  const std::string played = play(text.str());
  if (std::getenv("QUERN_REWRITE") && played != text.str()) {
    std::ofstream(GetParam()) << played;
    return;
  }
  EXPECT_EQ(text.str(), played) << GetParam() << ": run again with QUERN_REWRITE=1 to accept, then read the diff";
}

INSTANTIATE_TEST_SUITE_P(Sched, Scenario, testing::ValuesIn(scenario_files()),
                         [](const auto& info) { return info.param.stem().string(); });

}  // namespace
}  // namespace quern::sched
