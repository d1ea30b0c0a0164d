// SPDX-License-Identifier: Apache-2.0
#include "os/env.h"

#include <algorithm>
#include <cstdlib>

namespace quern::os {

std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

void set_env(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

std::map<std::string, std::string> vendor_environment() {
  std::map<std::string, std::string> found;
  for (const char* name : {"OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "LD_LIBRARY_PATH"})
    if (auto value = env(name); !value.empty()) found[name] = std::move(value);
  return found;
}

std::vector<std::string> vendor_paths() {
  std::vector<std::string> paths;
  for (const auto& [name, value] : vendor_environment())
    for (size_t at = 0; at <= value.size();) {
      const size_t end = std::min(value.find(':', at), value.size());
      // A name without a folder is looked for in LD_LIBRARY_PATH.
      if (value.find('/', at) < end) paths.push_back(value.substr(at, end - at));
      at = end + 1;
    }
  return paths;
}

}  // namespace quern::os
