// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

#include "base/result.h"
#include "hal/opencl/api.h"

namespace quern::hal::opencl {

/// "CL_INVALID_KERNEL_ARGS (-52)": the vendor's word, for people who look it up.
std::string name_of_cl(cl_int code);

/// What a failed call means to our caller: "<object>: <name of the code>".
Error cl_error(cl_int code, std::string_view object);

/// What a command that ended with a negative status means: a kernel broke, or a copy did not happen.
Error cl_command_error(cl_int status, bool is_launch);

}  // namespace quern::hal::opencl
