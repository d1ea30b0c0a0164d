// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace CLI {
class App;
}

namespace quern::main {

/// What the chosen subcommand does once all flags are read; its value is the exit code of the program.
using Work = std::function<int()>;

/// Each adds its subcommand to `app`; when the user chose it, `work` is set. One per file of the same name.
void add_serve(CLI::App& app, Work& work);
void add_executor(CLI::App& app, Work& work);
void add_builder(CLI::App& app, Work& work);
void add_deploy(CLI::App& app, Work& work);
void add_invoke(CLI::App& app, Work& work);
void add_new(CLI::App& app, Work& work);
void add_plan(CLI::App& app, Work& work);
void add_run(CLI::App& app, Work& work);
void add_check(CLI::App& app, Work& work);
void add_functions(CLI::App& app, Work& work);
void add_devices(CLI::App& app, Work& work);
void add_requests(CLI::App& app, Work& work);
void add_cancel(CLI::App& app, Work& work);
void add_why(CLI::App& app, Work& work);
void add_memory(CLI::App& app, Work& work);
void add_account(CLI::App& app, Work& work);
void add_profile(CLI::App& app, Work& work);
void add_trace(CLI::App& app, Work& work);
void add_keep(CLI::App& app, Work& work);
void add_put(CLI::App& app, Work& work);
void add_get(CLI::App& app, Work& work);
void add_objects(CLI::App& app, Work& work);
void add_remove(CLI::App& app, Work& work);
void add_history(CLI::App& app, Work& work);
void add_rollback(CLI::App& app, Work& work);
void add_set(CLI::App& app, Work& work);
void add_doctor(CLI::App& app, Work& work);
void add_simulate(CLI::App& app, Work& work);
/// Names the subcommands of quern-bench in the help: see main/measure.h.
void add_measured(CLI::App& app, Work& work);
void add_demo(CLI::App& app, Work& work);
void add_version(CLI::App& app, Work& work);

constexpr int kFailed = 1, kUsage = 2;

/// Prints `error: text` to standard error; the exit code of a command that failed.
int fail(const Error& error);

/// Rows as aligned columns, the first row as headings; `right` lists the columns that hold numbers.
std::string align(const std::vector<std::vector<std::string>>& rows, std::span<const size_t> right = {});

/// With quotes and escapes.
std::string json_string(std::string_view text);

/// The version and commit of this build.
std::string version();
std::string commit();

}  // namespace quern::main
