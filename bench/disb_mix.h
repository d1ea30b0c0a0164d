// SPDX-License-Identifier: Apache-2.0
//
// The mixes of DISB, the benchmark of REEF (OSDI 2022): who calls which model, how often, and in what hurry.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"

namespace quern::bench {

struct DisbClient {
  std::string id;     ///< "vgg19_rt"
  std::string model;  ///< "vgg19-imagenet"
  bool is_urgent = false;
  enum class Load : uint8_t {
    kPeriodic,    ///< so often a second; those of one frequency are set apart
    kPoisson,     ///< so often a second in the mean
    kContinuous,  ///< again as soon as it has its answer
  } load = Load::kContinuous;
  double per_second = 0;  ///< 0 of a continuous one
};

/// A mix as its file has it, in the order of that.
struct DisbMix {
  std::string name;
  std::vector<DisbClient> clients;
};
constexpr size_t kMostDisbClients = 64;
constexpr double kMostDisbPerSecond = 1e4;

/// From the text of a file of `workloads/`. Ids end in _rt (real time: urgent) or _be (best effort), are names of
/// functions and are there once; kInvalid says what is wrong with which client.
Result<DisbMix> parse_disb(const std::string& name, std::string_view text);

/// What a call of a model costs.
struct DisbModel {
  std::string_view name;
  double alone_ms = 0;   ///< as DISB publishes it, by TensorRT alone on an RTX 3080: the device of the mixes
  uint32_t kernels = 0;  ///< as REEF compiled it, or by its layers where it did not
};
/// kNotFound if it is none of DISB's.
Result<DisbModel> disb_model(std::string_view name);

/// When each client of a mix sends first, as DISB sets periodic ones of one frequency apart: each after those before it
/// have had the time they take alone. All times `scale` times as long as DISB's.
Result<std::vector<Duration>> disb_first_sends(const DisbMix& mix, double scale);

/// When a client sends, in time since the beginning. A client waits for its answer before it sends again; what was due
/// meanwhile is given up, but for the last of it, since only the newest picture is worth looking at.
class DisbClock {
 public:
  DisbClock(const DisbClient& client, Duration first, double scale, uint64_t seed);

  /// The next time to send at, which may be past; `now` does not go backwards.
  Duration next(Duration now);
  uint64_t given_up() const { return given_up_; }

 private:
  Duration interval();

  // Constant after construction.
  DisbClient::Load load_;
  double mean_ns_;
  // Its one client's.
  Prng prng_;
  Duration due_;
  uint64_t given_up_ = 0;
};

}  // namespace quern::bench
