// SPDX-License-Identifier: Apache-2.0
//
// Several OpenCL platforms in one process. Each test is this program again, asked for one disabled test: drivers read
// their environment once and keep their threads, and the other tests of this program count threads.
// `tools/intel_opencl.sh --beside` runs a command where two platforms are visible.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "hal/cts/suite.h"
#include "hal/opencl/api.h"
#include "hal/opencl/opencl_driver.h"
#include "os/env.h"
#include "os/file.h"
#include "os/process.h"

namespace quern::hal::opencl {
namespace {

constexpr int kOnePlatform = 77;  // exit code of a child that needs two
constexpr const char* kTwice = "__kernel void twice(__global int* x) { x[get_global_id(0)] *= 2; }";

struct ChildFolder {
  std::string path;
  ~ChildFolder() { os::remove_tree(path); }
};

void run_in_child(const std::string& test) {
  if (auto probe = Api::load(""); !probe.ok()) GTEST_SKIP() << probe.error().text;
  auto path = os::make_temporary_folder("quern-platforms");
  QUERN_ASSERT_OK(path);
  const ChildFolder folder{*path};
  os::ProcessOptions options;
  options.arguments = {"--gtest_also_run_disabled_tests", "--gtest_filter=Platforms.DISABLED_" + test};
  options.environment = os::vendor_environment();
  options.environment["QUERN_TEST_FOLDER"] = folder.path;
  options.environment["TMPDIR"] = folder.path;
  options.environment["PATH"] = "/usr/bin:/bin";  // PoCL starts a linker
  options.log = 2;
  auto process = os::Process::spawn(options);
  QUERN_ASSERT_OK(process);
  const auto exit = process->wait(Duration::seconds(120));
  ASSERT_TRUE(exit) << test << " did not end";
  ASSERT_EQ(exit->signal, 0) << test;
  if (exit->code == kOnePlatform) GTEST_SKIP() << "only one OpenCL platform is visible, and this needs two";
  EXPECT_EQ(exit->code, 0) << test;
}

TEST(Platforms, EachIsOpenedByItsName) { run_in_child("EachIsOpenedByItsName"); }
TEST(Platforms, AnUnknownNameListsThoseThatAreThere) { run_in_child("AnUnknownNameListsThoseThatAreThere"); }
TEST(Platforms, ABinaryOfOneIsRefusedByAnother) { run_in_child("ABinaryOfOneIsRefusedByAnother"); }

/// In the child: its driver, and the platforms that have a device.
struct Visible {
  std::unique_ptr<Driver> driver;
  std::vector<Found> devices;  // the first one of each platform

  Result<std::unique_ptr<Device>> open(const std::string& platform) {
    DeviceOptions options;
    options.platform = platform;
    options.cache_folder = os::env("QUERN_TEST_FOLDER") + "/cache";
    options.group_sizes = cts::group_sizes();
    return driver->open(options);
  }
};

Result<Visible> look_around() {
  Visible visible;
  QUERN_TRY(visible.driver, create_driver());
  // Enumeration would be the first call of the vendors, without the options of `open`.
  (void)visible.open("");
  QUERN_TRY(auto found, visible.driver->enumerate());
  for (Found& one : found) {
    const bool is_known = std::any_of(visible.devices.begin(), visible.devices.end(),
                                      [&](const Found& before) { return before.platform == one.platform; });
    if (one.error.empty() && !is_known) visible.devices.push_back(std::move(one));
  }
  if (visible.devices.empty()) return unavailable("no OpenCL platform has a device");
  return visible;
}

TEST(Platforms, DISABLED_EachIsOpenedByItsName) {
  ASSERT_FALSE(os::env("QUERN_TEST_FOLDER").empty()) << "run the test of the same name without DISABLED_";
  auto visible = look_around();
  QUERN_ASSERT_OK(visible);
  std::vector<std::string> keys;
  for (const Found& one : visible->devices) {
    auto device = visible->open(one.platform);
    QUERN_ASSERT_OK(device);
    const Caps& caps = (*device)->caps();
    EXPECT_EQ(caps.name, one.name) << one.platform;
    EXPECT_NE(caps.build_key.find(one.platform), std::string::npos) << caps.build_key;
    EXPECT_EQ(std::count(keys.begin(), keys.end(), caps.build_key), 0) << caps.build_key;
    keys.push_back(caps.build_key);
  }
}

TEST(Platforms, DISABLED_AnUnknownNameListsThoseThatAreThere) {
  ASSERT_FALSE(os::env("QUERN_TEST_FOLDER").empty()) << "run the test of the same name without DISABLED_";
  auto visible = look_around();
  QUERN_ASSERT_OK(visible);
  const auto device = visible->open("Nobody's");
  ASSERT_FALSE(device.ok());
  QUERN_EXPECT_CODE(ErrorCode::kNotFound, device);
  EXPECT_NE(device.error().text.find("opencl platform 'Nobody's': no platform has this in its name"), std::string::npos)
      << device.error().text;
  for (const Found& one : visible->devices)
    EXPECT_NE(device.error().text.find(fmt::format("'{}'", one.platform)), std::string::npos) << device.error().text;
}

TEST(Platforms, DISABLED_ABinaryOfOneIsRefusedByAnother) {
  ASSERT_FALSE(os::env("QUERN_TEST_FOLDER").empty()) << "run the test of the same name without DISABLED_";
  auto visible = look_around();
  QUERN_ASSERT_OK(visible);
  if (visible->devices.size() < 2) _exit(kOnePlatform);
  for (const Found& maker : visible->devices) {
    auto device = visible->open(maker.platform);
    QUERN_ASSERT_OK(device);
    auto program = (*device)->build({kTwice, "", cts::group_sizes()});
    QUERN_ASSERT_OK(program);
    const auto binary = (*program)->binary();
    QUERN_ASSERT_OK(binary);
    QUERN_ASSERT_OK((*device)->load(*binary));
    for (const Found& one : visible->devices) {
      if (one.platform == maker.platform) continue;
      auto other = visible->open(one.platform);
      QUERN_ASSERT_OK(other);
      const auto loaded = (*other)->load(*binary);
      ASSERT_FALSE(loaded.ok()) << one.platform << " took a binary of " << maker.platform;
      QUERN_EXPECT_CODE(ErrorCode::kInvalid, loaded);
      const std::string& text = loaded.error().text;
      EXPECT_NE(text.find(fmt::format("binary: is for '{}'", (*device)->caps().build_key)), std::string::npos) << text;
      EXPECT_NE(text.find("build the program again"), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace quern::hal::opencl
