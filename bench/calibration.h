// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/ring.h"
#include "sim/model.h"

namespace quern::bench {

/// A function that can be called with inputs made up once. Any thread may call it.
class Callee {
 public:
  /// `dims` that it does not have are left out; those not given have their defaults.
  static Result<Callee> create(Ring& ring, const std::string& folder, const std::map<std::string, int64_t>& dims);

  /// Inputs are written each time, as a caller would; that is not in Ended::micros.
  Result<Ring::Ended> call() const;
  const std::string& name() const { return function_->name; }
  uint64_t object_bytes() const { return object_bytes_; }
  uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  Callee(Ring& ring, daemon::FunctionRef function) : ring_(&ring), function_(std::move(function)) {}
  Ring* ring_;
  daemon::FunctionRef function_;
  CallSpec spec_;
  std::vector<Bytes> inputs_;
  uint64_t object_bytes_ = 0, memory_bytes_ = 0;
};

/// How calls of closed loops went.
struct Loop {
  double per_second = 0, p50_us = 0, p95_us = 0, most_us = 0;
};
/// `clients` threads, the i-th of which calls callees[i % size] again and again, each waiting for its answer.
Result<Loop> run_loop(std::span<const Callee> callees, uint32_t clients, Duration length);

/// A device and functions as the simulator wants them, from what they do here.
struct Calibration {
  sim::DeviceModel device;
  std::vector<sim::FunctionModel> functions;  ///< in the order of the callees; objects are left out
  std::vector<Duration> think;                ///< between two calls: writing inputs, and looking at outputs
};

/// Some seconds. A function's device time is from one start to the next while the device has work, so that what lies
/// between two runs is in it; launch and answer are what is left of a call that is alone.
Result<Calibration> calibrate(std::span<const Callee> callees, const daemon::DeviceConfig& device, Duration started_in,
                              const std::function<void(std::string_view)>& progress);

/// Files for `quern simulate`: the devices, and the functions with a closed loop each.
std::string devices_file(const Calibration& calibration);
std::string workload_file(const Calibration& calibration);

}  // namespace quern::bench
