// SPDX-License-Identifier: Apache-2.0
//
// Builds in one process, loads and launches in another: each is this program again, asked for one disabled test. The
// builder must have started a linker (so that the check is known to bite), the executor must not, and its cache folder
// must not change once the program is loaded.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <set>

#include "hal/cts/suite.h"
#include "hal/opencl/api.h"
#include "hal/opencl/opencl_driver.h"
#include "os/env.h"
#include "os/file.h"
#include "os/process.h"

namespace quern::hal::opencl {
namespace {

bool had_children() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return usage.ru_maxrss > 0;
}

std::vector<std::string> mapped_code() {
  std::set<std::string> found;
  const auto maps = os::env("QUERN_TEST_FOLDER") + "/executor";
  if (FILE* file = fopen("/proc/self/maps", "r")) {
    char line[4096];
    while (fgets(line, sizeof line, file))
      if (const std::string text = line; text.find(maps) != std::string::npos) found.insert(text);
    fclose(file);
  }
  return {found.begin(), found.end()};
}

std::unique_ptr<Device> open_device(const std::string& folder, const std::vector<Size3>& sizes) {
  static std::unique_ptr<Driver> driver;
  auto made = create_driver();
  QUERN_CHECK(made.ok(), made.error().text);
  driver = std::move(made).value();
  DeviceOptions options;
  options.cache_folder = folder;
  options.platform = os::env("QUERN_TEST_PLATFORM");
  options.group_sizes = sizes;
  auto device = driver->open(options);
  QUERN_CHECK(device.ok(), device.error().text);
  return std::move(device).value();
}

bool run_self(const std::string& test, const std::string& folder) {
  os::ProcessOptions options;
  options.arguments = {"--gtest_also_run_disabled_tests", "--gtest_filter=NoCompile.DISABLED_" + test};
  options.environment = os::vendor_environment();
  options.environment["QUERN_TEST_FOLDER"] = folder;
  options.environment["QUERN_TEST_PLATFORM"] = os::env("QUERN_TEST_PLATFORM");
  options.environment["PATH"] = test == "Builder" ? "/usr/bin:/bin" : "/nowhere";
  auto process = os::Process::spawn(options);
  if (!process.ok()) return false;
  const auto exit = process->wait(Duration::seconds(120));
  if (exit && (exit->code != 0 || exit->signal != 0))
    ADD_FAILURE() << test << " ended with code " << exit->code << ", signal " << exit->signal;
  return exit && exit->code == 0 && exit->signal == 0;
}

TEST(NoCompile, WhatABuilderMadeRunsInAFreshProcess) {
  if (auto probe = Api::load(""); !probe.ok()) GTEST_SKIP() << probe.error().text;
  char folder[] = "/tmp/quern-no-compile-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  EXPECT_TRUE(run_self("Builder", folder) && run_self("Executor", folder));
  os::remove_tree(folder);
}

TEST(NoCompile, DISABLED_Builder) {
  const auto folder = os::env("QUERN_TEST_FOLDER");
  ASSERT_FALSE(folder.empty());
  auto device = open_device(folder + "/builder", cts::group_sizes());
  auto built = device->build({cts::suite_source(), "", cts::group_sizes()});
  QUERN_ASSERT_OK(built);
  auto binary = (*built)->binary();
  QUERN_ASSERT_OK(binary);
  QUERN_ASSERT_OK(os::write_file(folder + "/binary", *binary));
}

TEST(NoCompile, DISABLED_Executor) {
  const auto folder = os::env("QUERN_TEST_FOLDER");
  ASSERT_FALSE(folder.empty());
  auto device = open_device(folder + "/executor", {});
  auto binary = os::read_file(folder + "/binary");
  QUERN_ASSERT_OK(binary);
  auto program = device->load(*binary);
  QUERN_ASSERT_OK(program);
  auto queue = device->create_queue();
  QUERN_ASSERT_OK(queue);
  auto kernel = (*program)->create_kernel("suite_add");
  QUERN_ASSERT_OK(kernel);
  constexpr uint64_t kItems = 512 * 1024;
  std::vector<int32_t> values(kItems);
  for (uint64_t i = 0; i < kItems; ++i) values[i] = static_cast<int32_t>(i);
  auto in = device->allocate(4 * kItems), out = device->allocate(4 * kItems);
  QUERN_ASSERT_OK(in);
  QUERN_ASSERT_OK(out);
  QUERN_ASSERT_OK((*queue)->write(**in, 0, std::as_bytes(std::span(values))));

  const auto files = os::list_files(folder + "/executor", 10000);
  QUERN_ASSERT_OK(files);
  const auto code = mapped_code();
  // Only PoCL's code lies in files; of others it is enough that no process was started and no file written.
  if (device->caps().build_key.find("Portable Computing Language") != std::string::npos) {
    EXPECT_EQ((*program)->code().size(), (*program)->entries().size() * (1 + cts::group_sizes().size()));
  }
  for (uint64_t local : {0, 1, 4, 32, 64, 96})
    for (uint64_t offset : {0, 64, 100000})
      for (uint64_t groups : {1, 3, 2000})
        for (uint32_t dimensions : {1, 2, 3}) {
          const uint64_t global = groups * std::max<uint64_t>(1, local);
          const Argument arguments[] = {in->get(), out->get(), *scalar_of(Dtype::kInt32, int64_t(groups))};
          auto point = (*queue)->launch({kernel->get(),
                                         arguments,
                                         dimensions,
                                         {offset, 0, 0},
                                         {global, 1, 1},
                                         {local, uint64_t{local > 0}, uint64_t{local > 0}}});
          QUERN_ASSERT_OK(point);
          std::vector<int32_t> result(global);
          point = (*queue)->read(**out, 4 * offset, std::as_writable_bytes(std::span(result)));
          QUERN_ASSERT_OK(point);
          QUERN_ASSERT_OK((*queue)->timeline().wait(*point, Duration::forever()));
          for (uint64_t i = 0; i < global; ++i)
            ASSERT_EQ(result[i], static_cast<int32_t>(offset + i + groups)) << local << " " << offset << " " << global;
        }
  const auto files_after = os::list_files(folder + "/executor", 10000);
  QUERN_ASSERT_OK(files_after);
  EXPECT_EQ(*files, *files_after);
  EXPECT_EQ(code, mapped_code());
  EXPECT_FALSE(had_children());
}

}  // namespace
}  // namespace quern::hal::opencl
