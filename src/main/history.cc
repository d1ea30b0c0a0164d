// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/parse.hpp>

#include "main/command.h"
#include "main/remote.h"

namespace quern::main {
namespace {

namespace json = boost::json;

// Returns the tables for people. Fails on JSON that no server of this version sends.
Result<std::string> history_tables(const std::string& text) try {
  const json::value parsed = json::parse(text);
  std::vector<std::vector<std::string>> rows{{"VERSION", "DEPLOYED", ""}};
  const auto string_of = [](const json::value& value) { return std::string(value.as_string()); };
  for (const json::value& one : parsed.at("versions").as_array())
    rows.push_back(
        {string_of(one.at("version")), string_of(one.at("created_at")), one.at("current").as_bool() ? "current" : ""});
  std::string tables = align(rows) + "\n";
  rows = {{"WHEN", "WHAT", "VERSION"}};
  for (const json::value& one : parsed.at("history").as_array())
    rows.push_back({string_of(one.at("at")), string_of(one.at("what")), string_of(one.at("version"))});
  return tables + align(rows);
} catch (const std::exception& problem) {
  return unavailable(fmt::format("server: answers with no history ({}); is it another version?", problem.what()));
}

Status history(const Remote& remote, const std::string& name) {
  QUERN_TRY(auto server, client::Client::create(remote.options));
  QUERN_TRY(const std::string text, server.history(name));
  if (remote.json) {
    fmt::print("{}\n", text);
    return {};
  }
  QUERN_TRY(const std::string tables, history_tables(text));
  fmt::print("{}", tables);
  return {};
}

}  // namespace

void add_history(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("history", "Show the stored versions of a function, and what was done to it");
  auto name = std::make_shared<std::string>();
  command->add_option("NAME", *name, "The function")->required();
  auto remote = add_remote_flags(*command);
  command->callback([=, &work] {
    work = [=] {
      const Status told = history(*remote, *name);
      return told.ok() ? 0 : fail(told.error());
    };
  });
}

}  // namespace quern::main
