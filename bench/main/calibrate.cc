// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>

#include "bench/calibration.h"
#include "bench/main/commands.h"
#include "main/call.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/log.h"
#include "os/thread.h"

namespace quern::main {
namespace {

struct CalibrateFlags {
  std::vector<std::string> folders;
  std::vector<std::string> dims;
  std::string devices = "here.yaml", workload = "here-workload.yaml";
};

Status calibrate(const CalibrateFlags& flags) {
  const bench::Layout layout = bench::Layout::here();
  const std::array host{layout.host};
  QUERN_TRY(os::pin_to(host));
  QUERN_TRY(const auto folder, bench::Folder::create());
  os::start_log(os::Level::kError);
  const bool is_terminal = isatty(STDERR_FILENO) == 1;
  const auto progress = [is_terminal](std::string_view line) {
    fmt::print(stderr, "{}{}{}", is_terminal ? "\r\x1b[K" : "", line, is_terminal ? "" : "\n");
  };
  progress("calibrate: start");
  const Time before = os::now();
  QUERN_TRY(auto ring, bench::Ring::create(layout, folder.path()));
  const Duration started_in = os::now() - before;
  std::map<std::string, ParameterValue> given;
  for (const std::string& text : flags.dims) QUERN_TRY(read_dim(text, given));
  std::map<std::string, int64_t> dims;
  for (const auto& [name, value] : given) dims[name] = std::get<int64_t>(value);
  std::vector<bench::Callee> callees;
  for (const std::string& path : flags.folders) {
    QUERN_TRY(auto callee, bench::Callee::create(*ring, path, dims));
    callees.push_back(std::move(callee));
  }
  const auto measured = bench::calibrate(callees, layout.device_config(), started_in, progress);
  if (is_terminal) fmt::print(stderr, "\r\x1b[K");
  QUERN_TRY(const bench::Calibration calibration, std::move(measured));
  QUERN_TRY(os::write_file(flags.devices, as_bytes_of(bench::devices_file(calibration))));
  QUERN_TRY(os::write_file(flags.workload, as_bytes_of(bench::workload_file(calibration))));
  fmt::print("{}, {}: written ({})\nquern simulate --devices {} --workload {}\n", flags.devices, flags.workload,
             layout.text, flags.devices, flags.workload);
  return {};
}

}  // namespace

void add_calibrate(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("calibrate", "Measure this device and functions, and write files for simulate");
  auto flags = std::make_shared<CalibrateFlags>();
  command->add_option("FOLDER", flags->folders, "Functions, each in its folder")->required();
  command->add_option("--dims", flags->dims, "Sizes, for those that have them; else defaults")
      ->type_name("NAME=N[,NAME=N]")
      ->delimiter(',');
  command->add_option("--devices", flags->devices, "Where the devices go")->type_name("FILE")->capture_default_str();
  command->add_option("--workload", flags->workload, "Where the functions go")
      ->type_name("FILE")
      ->capture_default_str();
  command->footer(
      "Takes some seconds for each function, on an otherwise idle machine.\n\nExample:\n"
      "  quern calibrate examples/sgemm examples/nbody");
  command->callback([=, &work] {
    work = [=] {
      const Status done = calibrate(*flags);
      return done.ok() ? 0 : fail(done.error());
    };
  });
}

}  // namespace quern::main
