// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "hal/driver.h"

namespace quern::hal::cts {

/// A test that does not hold for a driver, by its full name ("Launch.Offset"), and why.
struct Exception {
  std::string test;
  std::string reason;
};

/// What a driver gives to be tested.
struct Backend {
  std::string name;
  std::function<Result<std::unique_ptr<Driver>>()> create_driver;
  /// For the one device that all tests of the process share; the suite sets group sizes and, if empty, the folder.
  DeviceOptions options;
  std::vector<Exception> unsupported;        ///< for good: skipped
  std::vector<Exception> expected_failures;  ///< for now: run, must fail, and one that passes fails the run
};

/// Implemented by each driver in its cts_backend.cc, linked once per driver.
Backend backend();

}  // namespace quern::hal::cts
