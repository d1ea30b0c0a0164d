// SPDX-License-Identifier: Apache-2.0
#include "hal/cts/backend.h"
#include "hal/fake/fake_driver.h"

namespace quern::hal::cts {

Backend backend() {
  return {.name = "fake",
          .create_driver = [] { return fake::create_driver(); },
          .options = {},
          .unsupported = {},
          .expected_failures = {}};
}

}  // namespace quern::hal::cts
