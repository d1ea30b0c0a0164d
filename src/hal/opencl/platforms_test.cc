// SPDX-License-Identifier: Apache-2.0
//
// Several OpenCL platforms: first of a loader that is made of functions of this file, then those of the machine in one
// process. Each test of the latter is this program again, asked for one disabled test: drivers read their environment
// once and keep their threads, and the other tests of this program count threads.
// `tools/intel_opencl.sh --beside` runs a command where two platforms are visible.
#include "hal/opencl/platforms.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "hal/cts/suite.h"
#include "hal/opencl/api.h"
#include "hal/opencl/opencl_driver.h"
#include "os/env.h"
#include "os/file.h"
#include "os/process.h"

namespace quern::hal::opencl {
namespace {

// A loader with four platforms: one fails, one has a device that is too old and one that is not, one has no device, and
// one a GPU.
struct MadeDevice {
  size_t platform;
  const char* name;
  const char* version;
  cl_device_type type;
};
constexpr const char* kMadePlatforms[] = {"Broken", "Acme OpenCL", "Empty", "Acme OpenCL Graphics"};
constexpr MadeDevice kMadeDevices[] = {{1, "old", "OpenCL 1.1 Acme", CL_DEVICE_TYPE_CPU},
                                       {1, "new", "OpenCL 1.2 Acme", CL_DEVICE_TYPE_CPU},
                                       {3, "card", "OpenCL 3.0 Acme", CL_DEVICE_TYPE_GPU}};
constexpr cl_uint kMade = 4;

// Ids are positions, counted from 1.
template <class Id>
Id made_id(size_t position) {
  return reinterpret_cast<Id>(position + 1);
}
template <class Id>
size_t position_of(Id id) {
  return reinterpret_cast<size_t>(id) - 1;
}

cl_int give(const void* value, size_t bytes, size_t room, void* into, size_t* size) {
  if (size) *size = bytes;
  if (into && room < bytes) return CL_INVALID_VALUE;
  if (into) std::memcpy(into, value, bytes);
  return CL_SUCCESS;
}

cl_int CL_API_CALL made_platform_ids(cl_uint room, cl_platform_id* into, cl_uint* count) {
  if (count) *count = kMade;
  for (cl_uint i = 0; into && i < std::min(room, kMade); ++i) into[i] = made_id<cl_platform_id>(i);
  return CL_SUCCESS;
}

cl_int CL_API_CALL made_platform_info(cl_platform_id id, cl_platform_info, size_t room, void* into, size_t* size) {
  const char* name = kMadePlatforms[position_of(id)];
  return give(name, std::strlen(name) + 1, room, into, size);
}

cl_int CL_API_CALL made_device_ids(cl_platform_id id, cl_device_type, cl_uint room, cl_device_id* into,
                                   cl_uint* count) {
  if (position_of(id) == 0) return CL_OUT_OF_HOST_MEMORY;
  cl_uint found = 0;
  for (size_t i = 0; i < std::size(kMadeDevices); ++i) {
    if (kMadeDevices[i].platform != position_of(id)) continue;
    if (into && found < room) into[found] = made_id<cl_device_id>(i);
    ++found;
  }
  if (count) *count = found;
  return found > 0 ? CL_SUCCESS : CL_DEVICE_NOT_FOUND;
}

cl_int CL_API_CALL made_device_info(cl_device_id id, cl_device_info what, size_t room, void* into, size_t* size) {
  const MadeDevice& device = kMadeDevices[position_of(id)];
  const auto platform = made_id<cl_platform_id>(device.platform);
  switch (what) {
    case CL_DEVICE_NAME:
      return give(device.name, std::strlen(device.name) + 1, room, into, size);
    case CL_DEVICE_VERSION:
      return give(device.version, std::strlen(device.version) + 1, room, into, size);
    case CL_DEVICE_TYPE:
      return give(&device.type, sizeof device.type, room, into, size);
    case CL_DEVICE_PLATFORM:
      return give(&platform, sizeof platform, room, into, size);
    default:
      return CL_INVALID_VALUE;
  }
}

Api made_loader() {
  Api api;
  api.GetPlatformIDs = made_platform_ids;
  api.GetPlatformInfo = made_platform_info;
  api.GetDeviceIDs = made_device_ids;
  api.GetDeviceInfo = made_device_info;
  return api;
}

TEST(MadePlatforms, APlatformOrDeviceThatFailsHidesNoOther) {
  const Api api = made_loader();
  const auto platforms = platforms_of(api);
  QUERN_ASSERT_OK(platforms);
  const auto found = found_on(api, *platforms);
  ASSERT_EQ(found.size(), 5u);
  EXPECT_EQ(found[0].name, "old");
  EXPECT_NE(found[0].error.find("has OpenCL 1.1 Acme; 1.2 is the least"), std::string::npos) << found[0].error;
  EXPECT_EQ(found[1].name, "new");
  EXPECT_EQ(found[1].kind, Found::Kind::kCpu);
  EXPECT_EQ(found[1].platform, "Acme OpenCL");
  EXPECT_EQ(found[1].error, "");
  EXPECT_EQ(found[1].clock, "by commands");
  EXPECT_EQ(found[1].undivided, "it has one unit");
  EXPECT_TRUE(found[1].classes);
  EXPECT_EQ(found[2].name, "card");
  EXPECT_EQ(found[2].kind, Found::Kind::kGpu);
  EXPECT_FALSE(found[2].classes);
  EXPECT_FALSE(found[2].in_place);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(found[i].index, i);
  EXPECT_EQ(found[3].platform, "Broken");
  EXPECT_EQ(found[3].kind, Found::Kind::kNone);
  EXPECT_NE(found[3].error.find("CL_OUT_OF_HOST_MEMORY"), std::string::npos) << found[3].error;
  EXPECT_EQ(found[4].platform, "Empty");
  EXPECT_NE(found[4].error.find("CL_DEVICE_NOT_FOUND"), std::string::npos) << found[4].error;
}

TEST(MadePlatforms, AWholeNameIsNoPartOfAnother) {
  const auto platforms = platforms_of(made_loader());
  QUERN_ASSERT_OK(platforms);
  const auto names_of_devices = [&](const std::string& platform) {
    std::string names;
    const auto devices = devices_of(*platforms, platform);
    if (!devices.ok()) return devices.error().text;
    for (auto id : *devices) names += std::string(kMadeDevices[position_of(id)].name) + " ";
    return names;
  };
  EXPECT_EQ(names_of_devices("Acme OpenCL"), "old new ");
  EXPECT_EQ(names_of_devices("Acme"), "old new card ");
  EXPECT_EQ(names_of_devices("Graphics"), "card ");
  EXPECT_EQ(names_of_devices(""), "old new card ");
  EXPECT_EQ(names_of_devices("Other"),
            "opencl platform 'Other': no platform has this in its name; there are 'Broken', 'Acme OpenCL', 'Empty', "
            "'Acme OpenCL Graphics'");
  QUERN_EXPECT_CODE(ErrorCode::kUnavailable, devices_of(*platforms, "Empty"));
}

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
