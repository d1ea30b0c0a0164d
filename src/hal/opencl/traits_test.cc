// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/traits.h"

#include <gtest/gtest.h>

namespace quern::hal::opencl {
namespace {

constexpr std::string_view kPocl = "Portable Computing Language", kIntel = "Intel(R) OpenCL";

TEST(Traits, PoclIsFoundInEveryVersion) {
  for (const char* version : {"3.1+debian", "1.8", "5.0", "6.0-pre", ""}) {
    EXPECT_EQ(traits_of(kPocl, version).binaries, Traits::Binaries::kPocl) << version;
    EXPECT_EQ(traits_of(kPocl, version).clock, Traits::Clock::kMonotonicRaw) << version;
  }
}

TEST(Traits, OnlyPocl3CountsCodeWrong) {
  for (const char* version : {"3.0", "3.1", "3.1-pre"}) EXPECT_TRUE(traits_of(kPocl, version).counts_code_wrong);
  for (const char* version : {"1.8", "4.0", "5.0", "6.0-pre", "30.1", ""})
    EXPECT_FALSE(traits_of(kPocl, version).counts_code_wrong) << version;
  EXPECT_FALSE(traits_of(kIntel, "3.1").counts_code_wrong);
}

TEST(Traits, AnUnknownDriverIsTakenAtItsWord) {
  const Traits& traits = traits_of("NVIDIA CUDA", "550.54");
  EXPECT_EQ(traits.binaries, Traits::Binaries::kOpaque);
  EXPECT_EQ(traits.clock, Traits::Clock::kAsked);
  EXPECT_FALSE(traits.waiting_thread_computes);
  EXPECT_EQ(&traits_of("", ""), &traits);
}

TEST(Traits, IntelsEmulatorOfAnotherDeviceIsNotItsCpuRuntime) {
  EXPECT_TRUE(traits_of(kIntel, "2026.22.10.0.01_160000").waiting_thread_computes);
  EXPECT_FALSE(traits_of("Intel(R) FPGA Emulation Platform for OpenCL(TM)", "2026.22").waiting_thread_computes);
}

TEST(Traits, IntelsDriverForGpusIsNotItsCpuRuntime) {
  for (const char* platform : {"Intel(R) OpenCL Graphics", "Intel(R) OpenCL HD Graphics"}) {
    EXPECT_FALSE(traits_of(platform, "24.39.31294").waiting_thread_computes) << platform;
    EXPECT_FALSE(traits_of(platform, "24.39.31294").parts_share_workers) << platform;
  }
}

TEST(Traits, EveryRowHasAReason) {
  for (const auto platform : {kPocl, kIntel, std::string_view("any")})
    for (const char* version : {"3.1", "9"}) EXPECT_FALSE(traits_of(platform, version).reason.empty());
}

}  // namespace
}  // namespace quern::hal::opencl
