// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/prng.h"
#include "hal/driver.h"

namespace quern::hal {

/// A launch in random parts that make it up, in order: whole groups, told apart by their offsets along the dimension
/// with the most groups (of equals the outermost); at most kMostSlices. The launch itself where it has one group or the
/// driver picks its local size.
std::vector<Launch> random_slices(const Launch& whole, Prng& prng);
constexpr uint64_t kMostSlices = 8;

/// A driver that launches in random slices whatever can be sliced, and all else as it is: what a program does must not
/// depend on it. The same seed gives each queue the same slices, so long as its launches are the same.
///
/// For checks, not for work: a launch that was cut has the point and the timing of its last slice, and submitting waits
/// for the device when very many slices are under way.
std::unique_ptr<Driver> create_sliced_driver(std::unique_ptr<Driver> driver, uint64_t seed);

}  // namespace quern::hal
