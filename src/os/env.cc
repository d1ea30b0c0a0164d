// SPDX-License-Identifier: Apache-2.0
#include "os/env.h"

#include <cstdlib>

namespace quern::os {

std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

void set_env(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

}  // namespace quern::os
