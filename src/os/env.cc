// SPDX-License-Identifier: Apache-2.0
#include "os/env.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace quern::os {

std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

void set_env(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

namespace {

constexpr const char* kLibraryPath = "LD_LIBRARY_PATH";

// A relative path would be looked for in the working folder of a child. That of a builder holds what a tenant uploaded.
// In LD_LIBRARY_PATH an empty entry is the working folder; elsewhere a name without a folder is that of a library or of
// an .icd file, which is looked for where LD_LIBRARY_PATH and the vendors are.
bool is_vendor_entry(const std::string& entry, bool is_library_path) {
  if (!entry.starts_with('/')) return !entry.empty() && !is_library_path && entry.find('/') == std::string::npos;
  const auto path = std::filesystem::path(entry).lexically_normal();
  return path != path.root_path();
}

std::vector<std::string> vendor_entries(const char* name) {
  const std::string value = env(name);
  std::vector<std::string> entries;
  for (size_t at = 0; at < value.size();) {
    const size_t end = std::min(value.find(':', at), value.size());
    std::string entry = value.substr(at, end - at);
    if (is_vendor_entry(entry, std::string_view(name) == kLibraryPath)) entries.push_back(std::move(entry));
    at = end + 1;
  }
  return entries;
}

}  // namespace

std::map<std::string, std::string> vendor_environment() {
  std::map<std::string, std::string> found;
  for (const char* name : {"OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", kLibraryPath}) {
    std::string value;
    for (const std::string& entry : vendor_entries(name)) value += (value.empty() ? "" : ":") + entry;
    if (!value.empty()) found[name] = std::move(value);
  }
  return found;
}

std::vector<std::string> vendor_paths() {
  std::vector<std::string> paths;
  for (const auto& [name, value] : vendor_environment())
    for (size_t at = 0; at <= value.size();) {
      const size_t end = std::min(value.find(':', at), value.size());
      if (value.find('/', at) < end) paths.push_back(value.substr(at, end - at));
      at = end + 1;
    }
  return paths;
}

}  // namespace quern::os
