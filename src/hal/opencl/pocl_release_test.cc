// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/pocl_release.h"

#include <gtest/gtest.h>

namespace quern::hal::opencl {
namespace {

TEST(PoclRelease, OnlyThoseThatCountWrongAreKeptFromIt) {
  for (const char* version : {"3.0", "3.1", "3.1-pre"}) EXPECT_TRUE(counts_wrong(version)) << version;
  for (const char* version : {"1.8", "4.0", "5.0", "6.0-pre", "30.1", ""})
    EXPECT_FALSE(counts_wrong(version)) << version;
}

}  // namespace
}  // namespace quern::hal::opencl
