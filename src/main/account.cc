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

// "-" for nothing, so that what there is can be seen.
std::string time_of(const json::value& account, std::string_view key) {
  const auto ns = account.at(key).to_number<double>();
  return ns > 0 ? show_time(ns) : "-";
}

std::string bytes_of(const json::value& account, std::string_view key) {
  const auto bytes = account.at(key).to_number<uint64_t>();
  return bytes > 0 ? show_bytes(bytes) : "-";
}

std::vector<std::string> row_of(std::string name, const json::value& account) {
  std::vector<std::string> row{std::move(name)};
  const auto count = [&](std::string_view key) {
    const auto number = account.at(key).to_number<uint64_t>();
    row.push_back(number > 0 ? std::to_string(number) : "-");
  };
  count("requests");
  count("failed");
  count("runs");
  row.push_back(time_of(account, "device_time_ns"));
  row.push_back(bytes_of(account, "bytes_in"));
  row.push_back(bytes_of(account, "bytes_out"));
  count("loads");
  row.push_back(bytes_of(account, "loaded_bytes"));
  count("evictions");
  for (const char* cause : {"queue_ns", "fairness_ns", "quota_ns", "urgent_ns", "memory_ns", "setup_ns"})
    row.push_back(time_of(account.at("waits"), cause));
  return row;
}

// Returns the table for people. Fails on JSON that no server of this version sends.
Result<std::string> account_table(const std::string& text) try {
  const json::value parsed = json::parse(text);
  const std::string by(parsed.at("by").as_string());
  std::string heading = by;
  for (char& c : heading) c = static_cast<char>(c - 'a' + 'A');
  std::vector<std::vector<std::string>> rows{{heading, "ANSWERED", "FAILED", "RUNS", "DEVICE TIME", "IN", "OUT",
                                              "LOADS", "LOADED", "EVICTED", "QUEUE", "FAIRNESS", "QUOTA", "URGENT",
                                              "MEMORY", "SETUP"}};
  for (const json::value& account : parsed.at("accounts").as_array())
    rows.push_back(row_of(std::string(account.at(by).as_string()), account));
  if (rows.size() == 1) return std::string("no accounts: nobody has called anything since the server started\n");
  rows.push_back(row_of("total", parsed.at("total")));
  constexpr std::array<size_t, 15> kNumbers{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return align(rows, kNumbers);
} catch (const std::exception& problem) {
  return unavailable(fmt::format("server: answers with no accounts ({}); is it another version?", problem.what()));
}

Status account(const Remote& remote, const std::string& by) {
  QUERN_TRY(auto server, client::Client::create(remote.options));
  QUERN_TRY(const std::string text, server.accounts(by));
  if (remote.json) {
    fmt::print("{}\n", text);
    return {};
  }
  QUERN_TRY(const std::string table, account_table(text));
  fmt::print("{}", table);
  return {};
}

}  // namespace

void add_account(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("account", "Show what was used since the server started, and what was waited for");
  auto by = std::make_shared<std::string>("function");
  command->add_option("--by", *by, "A row for each tenant, function or device")
      ->type_name("WHAT")
      ->capture_default_str();
  auto remote = add_remote_flags(*command);
  command->footer(
      "DEVICE TIME is in unit-nanoseconds: on a CPU, the time of the cores. QUEUE to SETUP is how long requests "
      "waited, "
      "by cause;\n`quern why REQUEST` tells it of one.");
  command->callback([=, &work] {
    work = [=] {
      const Status told = account(*remote, *by);
      return told.ok() ? 0 : fail(told.error());
    };
  });
}

}  // namespace quern::main
