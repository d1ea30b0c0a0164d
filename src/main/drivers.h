// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "hal/driver.h"

namespace quern::main {

/// The driver of a name, for executors and builders; that of `sliced_name` launches in slices, that of `guarded_name`
/// has guards around memory. kUnsupported if this build has none of it.
Result<std::unique_ptr<hal::Driver>> create_driver(const std::string& name);

/// What hal::create_sliced_driver makes of a driver, as a name.
std::string sliced_name(const std::string& driver, uint64_t seed);
/// What hal::create_guarded_driver makes of a driver, as a name.
std::string guarded_name(const std::string& driver, uint8_t poison);

}  // namespace quern::main
