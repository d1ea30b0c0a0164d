// SPDX-License-Identifier: Apache-2.0
#include "os/env.h"

#include <gtest/gtest.h>

namespace quern::os {
namespace {

TEST(VendorEnvironment, IsThreeVariablesAndThePathsInThem) {
  const std::string before[] = {env("OCL_ICD_VENDORS"), env("OCL_ICD_FILENAMES"), env("LD_LIBRARY_PATH")};
  set_env("OCL_ICD_VENDORS", "/etc/one");
  set_env("OCL_ICD_FILENAMES", "libname.so:/opt/two/libtwo.so");
  set_env("LD_LIBRARY_PATH", "");
  set_env("QUERN_SECRET", "1");
  EXPECT_EQ(vendor_environment(),
            (std::map<std::string, std::string>{{"OCL_ICD_VENDORS", "/etc/one"},
                                                {"OCL_ICD_FILENAMES", "libname.so:/opt/two/libtwo.so"}}));
  EXPECT_EQ(vendor_paths(), (std::vector<std::string>{"/opt/two/libtwo.so", "/etc/one"}));
  set_env("LD_LIBRARY_PATH", "/a::/b/c:");
  EXPECT_EQ(vendor_paths(), (std::vector<std::string>{"/a", "/b/c", "/opt/two/libtwo.so", "/etc/one"}));
  // The working folder of a builder holds what a tenant uploaded, and `/` is everything.
  set_env("LD_LIBRARY_PATH", "lib:.::/:./x:../y:/b/../:/a");
  set_env("OCL_ICD_FILENAMES", "libname.so:two/libtwo.so");
  set_env("OCL_ICD_VENDORS", "/.//");
  EXPECT_EQ(vendor_paths(), std::vector<std::string>{"/a"});
  EXPECT_EQ(vendor_environment(),
            (std::map<std::string, std::string>{{"LD_LIBRARY_PATH", "/a"}, {"OCL_ICD_FILENAMES", "libname.so"}}));
  const char* const names[] = {"OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "LD_LIBRARY_PATH"};
  for (int i = 0; i < 3; ++i) set_env(names[i], before[i]);
}

}  // namespace
}  // namespace quern::os
