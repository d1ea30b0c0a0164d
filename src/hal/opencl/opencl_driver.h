// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "base/result.h"
#include "hal/driver.h"

namespace quern::hal::opencl {

/// Any OpenCL 1.2 device that the ICD loader of this machine shows, or the library that the options name. `enumerate`
/// and `open` give kUnavailable where there is none.
///
/// Vendors read their environment once, at the first call of `enumerate` or `open`: make that the first thing of a
/// process, while it has one thread. What the first `open` says of cores, cache folder and group sizes holds for all
/// later ones. On a CPU device `open` leaves the calling thread pinned to its cores: the workers inherit that.
Result<std::unique_ptr<Driver>> create_driver();

}  // namespace quern::hal::opencl
