// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/doctor.h"

namespace quern::daemon {

/// What the database says, as of the schema of today.
struct Doctor::Records {
  bool is_readable = false;               ///< false: nothing below is known
  std::vector<FunctionRecord> functions;  ///< as State::functions gives them
  std::vector<TenantObject> tenant_objects;
  std::vector<std::string> programs;  ///< objects of compiled programs
  int64_t changes = 0;                ///< that named objects, as the database counts them (State)

  bool is_current(size_t i) const {
    return i + 1 == functions.size() || functions[i].tenant != functions[i + 1].tenant ||
           functions[i].name != functions[i + 1].name;
  }
};

/// The files of objects by hash.
struct Doctor::Stored {
  struct File {
    uint64_t size_bytes = 0;
    std::string problem;  ///< empty: it is whole
    bool is_unreadable = false;
  };
  std::map<std::string, File> files;

  bool has_whole(const std::string& hash) const {
    const auto file = files.find(hash);
    return file != files.end() && file->second.problem.empty();
  }
};

inline bool is_shelf_name(std::string_view name) {
  return name.size() == 2 && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Relative to the state folder.
inline std::string object_path(const std::string& hash) {
  return fmt::format("objects/{}/{}", hash.substr(0, 2), hash);
}

}  // namespace quern::daemon
