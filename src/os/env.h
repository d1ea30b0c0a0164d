// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace quern::os {

/// The value, or "" if it is not set.
std::string env(const char* name);

/// For vendors that read variables, before their first call, in a process with one thread.
void set_env(const char* name, const std::string& value);

}  // namespace quern::os
