// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "hal/driver.h"
#include "os/fd.h"

namespace quern::builder {

using CreateDriver = std::function<Result<std::unique_ptr<hal::Driver>>(const std::string& name)>;

/// The whole life of a builder process: takes one Build frame, compiles that program in every variant its launches
/// will need, answers with one Built frame, and ends. It runs no kernel. Returns the exit code.
int run(os::Fd socket, const CreateDriver& create_driver);

}  // namespace quern::builder
