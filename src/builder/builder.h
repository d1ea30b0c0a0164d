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
///
/// A program is a stranger's text, and its compiler reads the files that the text names. Three walls keep it to the
/// headers that came with it, which are also all that the key of the binary is made of:
/// 1. `check_includes` (function/includes.h) refuses names that lead elsewhere, with the line, before a builder starts.
/// 2. The process works in a folder that holds these headers and nothing else: PoCL looks for them there (`-I.`).
/// 3. Landlock (os/sandbox.h), before the vendor's library is loaded: what is left are the system's libraries, those of
///    the vendor that the operator named, PoCL's own headers, the linker, clang-15 (hal/opencl/portable_ir.h) and the
///    builder's folder. It also stops what no check of text finds, such as `.incbin` of inline assembly. On a kernel
///    without it the first two remain, and the daemon logs a warning.
int run(os::Fd socket, const CreateDriver& create_driver);

}  // namespace quern::builder
