// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/parse.hpp>

#include "main/command.h"
#include "main/remote.h"

namespace quern::main {
namespace {

namespace json = boost::json;

// Returns the sentences for people. Fails on JSON that no server of this version sends.
Result<std::string> story_of(const std::string& text) try {
  const json::value parsed = json::parse(text);
  std::string story;
  for (const json::value& line : parsed.at("sentences").as_array())
    story += fmt::format("{}\n", std::string_view(line.as_string()));
  return story;
} catch (const std::exception& problem) {
  return unavailable(fmt::format("server: answers with no story ({}); is it another version?", problem.what()));
}

Status why(const Remote& remote, const std::string& request) {
  QUERN_TRY(auto server, client::Client::create(remote.options));
  QUERN_TRY(const std::string text, server.why(request));
  if (remote.json) {
    fmt::print("{}\n", text);
    return {};
  }
  QUERN_TRY(const std::string story, story_of(text));
  fmt::print("{}", story);
  return {};
}

}  // namespace

void add_why(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("why", "Tell what became of a request, and where its time went");
  auto request = std::make_shared<std::string>();
  command->add_option("REQUEST", *request, "Its id, as `quern requests` shows it")->required();
  auto remote = add_remote_flags(*command);
  command->footer("Also while it waits. The latest few hundred that ended are remembered.");
  command->callback([=, &work] {
    work = [=] {
      const Status told = why(*remote, *request);
      return told.ok() ? 0 : fail(told.error());
    };
  });
}

}  // namespace quern::main
