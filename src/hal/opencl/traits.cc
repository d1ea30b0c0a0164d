// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/traits.h"

#include <iterator>

#include "base/units.h"

namespace quern::hal::opencl {
namespace {

constexpr std::string_view kPocl = "Portable Computing Language";

// The first row that fits is used: special versions stand above the others of their platform.
constexpr Traits kTable[] = {
    {.platform = kPocl,
     .version = "3.",
     .reason = "PoCL 3.1 stamps with CLOCK_MONOTONIC_RAW, compiles at a launch unless its binary is taken apart, and "
               "aborts when launches of one kernel in several queues differ; 13 MB are private after its start",
     .binaries = Traits::Binaries::kPocl,
     .clock = Traits::Clock::kMonotonicRaw,
     .counts_code_wrong = true,
     .context_bytes = 16 * kMiB},
    {.platform = kPocl,
     .version = "",
     .reason = "taken over from PoCL 3.1; later versions were not tried",
     .binaries = Traits::Binaries::kPocl,
     .clock = Traits::Clock::kMonotonicRaw,
     .context_bytes = 16 * kMiB},
    {.platform = "Intel(R) OpenCL",
     .version = "",
     .reason = "Intel's CPU runtime 2026.22 has one worker fewer than units: a thread that waits is the last one. It "
               "then also executes what was submitted later, and returns late. With 2 units, kernels in different "
               "parts ran one after the other, since threads that wait do not help there. Markers have QUEUED 0; 55 MB "
               "are private after the first launch",
     .waiting_thread_computes = true,
     .parts_share_workers = true,
     .context_bytes = 64 * kMiB},
    {.platform = "", .version = "", .reason = "not tried: OpenCL 1.2 as it is specified"},
};

}  // namespace

const Traits& traits_of(std::string_view platform, std::string_view driver_version) {
  for (const Traits& row : kTable)
    if ((row.platform.empty() || platform == row.platform) && driver_version.starts_with(row.version)) return row;
  return kTable[std::size(kTable) - 1];
}

}  // namespace quern::hal::opencl
