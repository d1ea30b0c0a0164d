// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>

#include "base/result.h"
#include "hal/driver.h"

namespace quern::main {

/// The driver of a name, for executors and builders. kUnsupported if this build has none of it.
Result<std::unique_ptr<hal::Driver>> create_driver(const std::string& name);

}  // namespace quern::main
