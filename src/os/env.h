// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <vector>

namespace quern::os {

/// The value, or "" if it is not set.
std::string env(const char* name);

/// For vendors that read variables, before their first call, in a process with one thread.
void set_env(const char* name, const std::string& value);

/// The variables of this process that tell where the libraries of OpenCL vendors are: OCL_ICD_VENDORS,
/// OCL_ICD_FILENAMES and LD_LIBRARY_PATH, those that are set. A child gets them and nothing else of our environment.
/// Entries with a relative path, and `/`, are left out: builders may read what is named here.
std::map<std::string, std::string> vendor_environment();

/// The files and folders that these variables name, all with absolute paths.
std::vector<std::string> vendor_paths();

}  // namespace quern::os
