// SPDX-License-Identifier: Apache-2.0
#include "hal/cts/backend.h"
#include "hal/opencl/opencl_driver.h"
#include "os/env.h"

namespace quern::hal::cts {

// QUERN_TEST_PLATFORM chooses among the drivers of this machine, by a part of the platform's name.
Backend backend() {
  DeviceOptions options;
  options.platform = os::env("QUERN_TEST_PLATFORM");
  return {.name = "opencl",
          .create_driver = opencl::create_driver,
          .options = options,
          .unsupported = {},
          .expected_failures = {}};
}

}  // namespace quern::hal::cts
