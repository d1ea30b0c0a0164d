// SPDX-License-Identifier: Apache-2.0
#include "bench/data.h"

#include <fmt/format.h>

#include <vector>

#include "os/env.h"
#include "os/file.h"

namespace quern::bench {

Result<std::string> find_data(const std::string& path) {
  std::vector<std::string> folders;
  if (const std::string given = os::env("QUERN_DATA"); !given.empty()) folders.push_back(given);
  folders.insert(folders.end(), {"../shared/data", "shared/data"});
  for (const std::string& folder : folders)
    if (os::exists(folder + "/" + path)) return folder + "/" + path;
  return not_found(fmt::format("{}: is not here; set QUERN_DATA to the folder of public data", path));
}

}  // namespace quern::bench
