// SPDX-License-Identifier: Apache-2.0
#include "hal/cts/backend.h"
#include "hal/cts/suite.h"

namespace quern::hal::cts {
namespace {

class DeviceCaps : public Suite {};

TEST_F(DeviceCaps, AreComplete) {
  const auto& caps = device().caps();
  EXPECT_FALSE(caps.driver.empty());
  EXPECT_FALSE(caps.name.empty());
  EXPECT_FALSE(caps.build_key.empty());
  EXPECT_GT(caps.memory_bytes, 0u);
  EXPECT_GT(caps.context_bytes, 0u);
  EXPECT_GT(caps.max_allocation_bytes, 0u);
  EXPECT_LE(caps.max_allocation_bytes, caps.memory_bytes);
  EXPECT_GE(caps.allocation_granularity_bytes, 1u);
  EXPECT_GE(caps.alignment_bytes, 128u);
  EXPECT_GE(caps.units, 1u);
  EXPECT_GE(caps.local_memory_bytes, 1024u);
  EXPECT_GE(caps.max_group_size, 64u);
  for (auto size : caps.max_group_sizes) EXPECT_GE(size, 1u);
  // A CPU device is the cores that it was given.
  const auto cores = backend().options.cores;
  EXPECT_TRUE(cores.empty() || caps.units == cores.size()) << caps.units;
}

TEST_F(DeviceCaps, EnumerationNamesTheOpenedDevice) {
  auto found = driver().enumerate();
  QUERN_ASSERT_OK(found);
  ASSERT_FALSE(found->empty());
  bool is_among = false;
  for (size_t i = 0; i < found->size(); ++i) {
    const Found& one = (*found)[i];
    EXPECT_FALSE(one.platform.empty());
    if (one.kind == Found::Kind::kNone) {
      EXPECT_FALSE(one.error.empty()) << one.platform;
      continue;
    }
    EXPECT_EQ(one.index, i);
    if (one.name != device().caps().name || !one.error.empty()) continue;
    is_among = true;
    EXPECT_FALSE(one.clock.empty());
    EXPECT_EQ(one.classes, device().caps().worker_classes);
    EXPECT_EQ(one.in_place, device().caps().unified_memory);
    EXPECT_EQ(one.undivided.empty(), device().caps().partitions);
  }
  EXPECT_TRUE(is_among);
}

TEST_F(DeviceCaps, AnUnknownDeviceIsNotFound) {
  DeviceOptions options;
  options.index = 1000;
  QUERN_EXPECT_CODE(ErrorCode::kNotFound, driver().open(options));
}

TEST_F(DeviceCaps, MemoryIsWhatTheOperatorSays) {
  DeviceOptions options;
  options.memory_bytes = 8 << 20;
  auto small = driver().open(options);
  QUERN_ASSERT_OK(small);
  EXPECT_EQ((*small)->caps().memory_bytes, 8u << 20);
  EXPECT_LE((*small)->caps().max_allocation_bytes, 8u << 20);
}

}  // namespace
}  // namespace quern::hal::cts
