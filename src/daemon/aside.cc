// SPDX-License-Identifier: Apache-2.0
#include "daemon/aside.h"

#include <fmt/format.h>

#include <algorithm>

#include "os/clock.h"
#include "os/file.h"

namespace quern::daemon {

Result<std::string> Aside::take(const std::string& path) {
  if (!os::status_of(fmt::format("{}/{}", folder_, path))) return std::string();
  QUERN_TRY(const std::string to, place_for(path));
  QUERN_TRY(os::move_file(fmt::format("{}/{}", folder_, path), fmt::format("{}/{}", folder_, to)));
  return to;
}

Result<std::string> Aside::copy(const std::string& from, const std::string& path) {
  if (!os::exists(from)) return std::string();
  QUERN_TRY(const std::string to, place_for(path));
  const std::string target = fmt::format("{}/{}", folder_, to);
  QUERN_TRY(os::copy_file(from, target));
  QUERN_TRY(os::make_private(target));
  QUERN_TRY(give(target));
  // The names of the folders on the way to it may be as new as the copy.
  for (std::string path = target; path.size() > folder_.size(); path = path.substr(0, path.rfind('/')))
    QUERN_TRY(os::sync_to_disk(path));
  QUERN_TRY(os::sync_to_disk(folder_));
  return to;
}

Result<std::string> Aside::place_for(const std::string& path) {
  if (aside_.empty()) {
    std::string time = os::wall_time();
    std::replace(time.begin(), time.end(), ':', '-');
    std::string name = "aside/" + time;
    for (int i = 2; os::status_of(fmt::format("{}/{}", folder_, name)); ++i) name = fmt::format("aside/{}-{}", time, i);
    QUERN_TRY(make("aside"));
    QUERN_TRY(make(name));
    aside_ = name;
  }
  for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1))
    QUERN_TRY(make(fmt::format("{}/{}", aside_, path.substr(0, slash))));
  return fmt::format("{}/{}", aside_, path);
}

Status Aside::make(const std::string& name) const {
  const std::string path = fmt::format("{}/{}", folder_, name);
  QUERN_TRY(os::make_folders(path, 0700));
  // The user of the folder could send what root moves to any place.
  if (const auto status = os::status_of(path); !status || !status->is_folder)
    return denied(fmt::format("{}: is a link, and nothing is moved behind it; move the link away", path));
  return give(path);
}

Status Aside::give(const std::string& path) const {
  const auto status = os::status_of(path);
  return status && status->owner != owner_ ? os::give_to(path, owner_) : Status();
}

}  // namespace quern::daemon
