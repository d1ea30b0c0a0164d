// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "base/units.h"
#include "main/command.h"
#include "main/remote.h"

namespace quern::main {
namespace {

namespace json = boost::json;

constexpr const char* kNone = "no functions yet; deploy one with 'quern deploy examples/saxpy'\n";

std::string join(const std::vector<std::string>& sizes) {
  return sizes.empty() ? "any" : fmt::format("{}", fmt::join(sizes, " x "));
}

// One removed while we ask is not there any more; that is no mistake of whoever asked.
Result<std::vector<client::FunctionInfo>> details(client::Client& server) {
  QUERN_TRY(const auto functions, server.functions());
  std::vector<client::FunctionInfo> all;
  for (const auto& one : functions.items) {
    if (!one.error.empty()) continue;
    auto function = server.function(one.name);
    if (!function.ok() && function.error().code == ErrorCode::kNotFound) continue;
    if (!function.ok()) return function.error();
    all.push_back(*std::move(function));
  }
  return all;
}

int list_kernels(client::Client& server, bool json) {
  const auto functions = details(server);
  if (!functions.ok()) return fail(functions.error());
  if (json) {
    std::string list;
    for (const auto& one : *functions) list += (list.empty() ? "" : ", ") + one.json;
    fmt::print("{{\"functions\": [{}]}}\n", list);
    return 0;
  }
  if (functions->empty()) {
    fmt::print("{}", kNone);
    return 0;
  }
  std::vector<std::vector<std::string>> rows{{"FUNCTION", "KERNEL", "GLOBAL", "LOCAL", "SLICED"}};
  for (const auto& one : *functions)
    for (const auto& kernel : one.kernels)
      rows.push_back({one.name, kernel.entry, join(kernel.global), join(kernel.local),
                      kernel.sliceable ? "yes" : "no: " + kernel.reason});
  fmt::print("{}", align(rows));
  return 0;
}

std::string show_setting(const json::value& value) {
  if (value.is_double()) return plain_number(value.get_double());
  return value.is_string() ? std::string(value.get_string()) : json::serialize(value);
}

// "limits.timeout": the paths that `quern set` takes.
void add_settings(const json::object& settings, const std::string& prefix,
                  std::vector<std::vector<std::string>>& rows) {
  for (const auto& [key, value] : settings) {
    const std::string path = prefix + std::string(key);
    if (value.is_object())
      add_settings(value.get_object(), path + ".", rows);
    else
      rows.push_back({path, show_setting(value)});
  }
}

// Fails on JSON that no server of this version sends.
Result<std::string> settings_table(const client::FunctionInfo& function) try {
  std::vector<std::vector<std::string>> rows{{"SETTING", "VALUE"}};
  add_settings(json::parse(function.json).at("settings").as_object(), "", rows);
  return align(rows);
} catch (const std::exception& problem) {
  return unavailable(fmt::format("server: tells no settings ({}); is it another version?", problem.what()));
}

int show_function(client::Client& server, const std::string& name, bool for_programs) {
  const auto function = server.function(name);
  if (!function.ok()) return fail(function.error());
  if (for_programs) {
    fmt::print("{}\n", function->json);
    return 0;
  }
  const auto table = settings_table(*function);
  if (!table.ok()) return fail(table.error());
  fmt::print("{}@{} deployed {}\n{}", function->name, function->version, function->created_at, *table);
  return 0;
}

int list_functions(const Remote& remote, const std::string& name, bool kernels) {
  auto server = client::Client::create(remote.options);
  if (!server.ok()) return fail(server.error());
  if (!name.empty() && kernels) return fail(invalid("--kernels: lists those of all functions; leave out the name"));
  if (!name.empty()) return show_function(*server, name, remote.json);
  if (kernels) return list_kernels(*server, remote.json);
  const auto functions = server->functions();
  if (!functions.ok()) return fail(functions.error());
  if (remote.json) {
    fmt::print("{}\n", functions->json);
    return 0;
  }
  if (functions->items.empty()) {
    fmt::print("{}", kNone);
    return 0;
  }
  std::vector<std::vector<std::string>> rows{{"NAME", "VERSION", "DEPLOYED"}};
  for (const auto& one : functions->items) rows.push_back({one.name, one.version, one.created_at});
  fmt::print("{}", align(rows));
  for (const auto& one : functions->items)
    if (!one.error.empty()) fmt::print("{}: {}\n", one.state, one.error);
  return 0;
}

}  // namespace

void add_functions(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("functions", "List the deployed functions, or show the settings of one");
  auto name = std::make_shared<std::string>();
  command->add_option("NAME", *name, "Show this one: its version and its settings");
  auto remote = add_remote_flags(*command);
  auto kernels = std::make_shared<bool>(false);
  command->add_flag("--kernels", *kernels, "Their kernels: sizes, and which can be launched in slices");
  command->callback([=, &work] { work = [=] { return list_functions(*remote, *name, *kernels); }; });
}

}  // namespace quern::main
