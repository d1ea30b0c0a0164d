// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "hal/driver.h"
#include "os/fd.h"

namespace quern::executor {

/// The driver of a name ("opencl"); wired by main, since no module but main sees them all.
using CreateDriver = std::function<Result<std::unique_ptr<hal::Driver>>(const std::string& name)>;

/// The whole life of an executor process: opens its device as the first frame says, starts its lanes, and answers
/// control frames until the daemon closes the socket. It never returns to idle code: what it returns is the exit
/// code, and the caller ends the process at once.
int run(os::Fd socket, const CreateDriver& create_driver);

}  // namespace quern::executor
