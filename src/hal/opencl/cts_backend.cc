// SPDX-License-Identifier: Apache-2.0
#include "hal/cts/backend.h"
#include "hal/opencl/opencl_driver.h"

namespace quern::hal::cts {

Backend backend() {
  return {.name = "opencl",
          .create_driver = opencl::create_driver,
          .options = {},
          .unsupported = {},
          .expected_failures = {}};
}

}  // namespace quern::hal::cts
