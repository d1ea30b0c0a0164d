// SPDX-License-Identifier: Apache-2.0
//
// Profiles that others measured and published. They are no part of the project: find_data() has them or says what to
// do.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "sim/model.h"

namespace quern::bench {

/// From the text of a file of `profiles/orion-v100` (Orion, EuroSys 2024): how long each kernel of one request or of
/// one step of training takes on a V100, in order. What lies between them is not in it. kUnsupported if the durations
/// are a placeholder, which those of the files `*_fb0.csv` are; kInvalid names the line that is wrong.
Result<std::vector<Duration>> parse_orion(const std::string& name, std::string_view text);
constexpr size_t kMostKernels = 1 << 16;

/// One model at one batch size, as RaPP measured it on a V100 under the manager of HAS-GPU: FaST-GShare's, of the same
/// authors. 180 requests, each 5 ms after the answer to the one before.
struct RappModel {
  std::string name;
  uint32_t batch = 1;
  std::map<uint32_t, std::map<uint32_t, double>> ms;  ///< latency by per cent of the SMs, and of time

  /// At so many per cent of the SMs; NaN if it was not measured.
  double at(uint32_t sm, uint32_t quota) const;
};
/// From the text of `profiles/rapp-v100.csv`, by name and batch. kInvalid names the line that is wrong.
Result<std::vector<RappModel>> parse_rapp(std::string_view text);

/// From a graph and a profile of `profiles/reef-mi50` (REEF, OSDI 2022): how long each kernel takes on an MI50, in
/// order. kInvalid if they do not belong together.
Result<std::vector<Duration>> parse_reef(const std::string& name, std::string_view graph, std::string_view profile);

/// The kernels with pauses between them, as FIKIT finds them and the profiles do not have them: `share` of the time of
/// a request, divided evenly among `places` that divide the kernels evenly; 0, or more than there are kernels: one
/// after each. The last is after the last kernel.
std::vector<sim::KernelModel> with_gaps(const std::vector<Duration>& kernels, double share, size_t places);

}  // namespace quern::bench
