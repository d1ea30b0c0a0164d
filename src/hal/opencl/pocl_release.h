// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

namespace quern::hal::opencl {

/// Whether a PoCL of this CL_DRIVER_VERSION counts wrong who uses which code, and aborts for it; pocl_release.cc says
/// how.
bool counts_wrong(std::string_view driver_version);

/// This process has a PoCL of that version: one that counts right is left alone. Before its first launch.
void use_pocl(std::string_view driver_version);

}  // namespace quern::hal::opencl
