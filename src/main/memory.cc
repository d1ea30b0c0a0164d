// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <boost/json/parse.hpp>

#include "base/units.h"
#include "main/command.h"
#include "main/remote.h"

namespace quern::main {
namespace {

namespace json = boost::json;

uint64_t bytes_of(const json::value& value, std::string_view key) { return value.at(key).to_number<uint64_t>(); }

// Returns the tables for people. Fails on JSON that no server of this version sends.
Result<std::string> memory_tables(const std::string& text) try {
  const json::value parsed = json::parse(text);
  std::vector<std::vector<std::string>> rows{{"MEMORY", "SIZE", "HELD", "PINNED", "PROMISED", "LEAVING", "FREE"}};
  for (const json::value& place : parsed.at("places").as_array()) {
    std::vector<std::string> row{std::string(place.at("name").as_string())};
    for (const char* key :
         {"memory_bytes", "held_bytes", "pinned_bytes", "promised_bytes", "leaving_bytes", "free_bytes"})
      row.push_back(show_bytes(bytes_of(place, key)));
    rows.push_back(std::move(row));
  }
  constexpr std::array<size_t, 6> kNumbers{1, 2, 3, 4, 5, 6};
  const std::string places = align(rows, kNumbers);
  rows = {{"WHERE", "WHAT", "BYTES", "FUNCTION", "STATE", "SINCE", "WHY"}};
  for (const json::value& place : parsed.at("places").as_array()) {
    const std::string where(place.at("name").as_string());
    for (const json::value& item : place.at("items").as_array()) {
      const auto string_of = [&](const char* key) { return std::string(item.at(key).as_string()); };
      const std::string kind = string_of("kind");
      const bool has_kind = kind != "lane" && kind != "context";
      rows.push_back({where, has_kind ? kind + " " + string_of("name") : string_of("name"),
                      show_bytes(bytes_of(item, "bytes")), string_of("function"), string_of("state"),
                      show_time(item.at("since_ns").to_number<double>()), string_of("why")});
    }
    if (const uint64_t others = bytes_of(place, "others_bytes"); others > 0)
      rows.push_back({where, "of other tenants", show_bytes(others), "-", "-", "-", "-"});
    if (const uint64_t blanks = bytes_of(place, "blanks"); blanks > 0)
      rows.push_back({where, fmt::format("{} blank executor{}", blanks, blanks == 1 ? "" : "s"),
                      show_bytes(bytes_of(place, "blank_bytes")), "-", "-", "-", "wait for a domain"});
  }
  if (rows.size() == 1) return places + "\nnothing is in it\n";
  constexpr std::array<size_t, 2> kItemNumbers{2, 5};
  return fmt::format("{}\n{}", places, align(rows, kItemNumbers));
} catch (const std::exception& problem) {
  return unavailable(fmt::format("server: answers with no memory ({}); is it another version?", problem.what()));
}

Status memory(const Remote& remote) {
  QUERN_TRY(auto server, client::Client::create(remote.options));
  QUERN_TRY(const std::string text, server.memory());
  if (remote.json) {
    fmt::print("{}\n", text);
    return {};
  }
  QUERN_TRY(const std::string tables, memory_tables(text));
  fmt::print("{}", tables);
  return {};
}

}  // namespace

void add_memory(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("memory", "Show what is in the memory of devices and host, for whom, and why");
  auto remote = add_remote_flags(*command);
  command->footer("docs/guide/memory.md says who is loaded, who waits and who leaves.");
  command->callback([=, &work] {
    work = [=] {
      const Status told = memory(*remote);
      return told.ok() ? 0 : fail(told.error());
    };
  });
}

}  // namespace quern::main
