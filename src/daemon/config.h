// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace quern::daemon {

/// A device as the operator names it, or as it was found.
struct DeviceConfig {
  std::string name;
  std::string driver = "opencl";
  std::string platform;        ///< the name of the vendor's platform, or a part of it; empty: all platforms
  std::string library;         ///< what the driver opens instead of its usual library
  uint32_t index = 0;          ///< which of the platform's devices
  std::vector<int> cores;      ///< a CPU device: where its workers run
  uint64_t memory_bytes = 0;   ///< 0: what the device says
  uint64_t context_bytes = 0;  ///< what every executor on it costs
  bool in_place = true;        ///< a CPU device reads inputs and constants where they are, without a copy
};

/// What a tenant may use; 0 is no limit of its own.
struct TenantLimits {
  uint32_t in_flight = 0;      ///< requests that hold a slot of a device
  uint32_t queued = 0;         ///< requests that wait
  uint64_t memory_bytes = 0;   ///< of all its requests in flight
  uint64_t storage_bytes = 0;  ///< on disk: objects, constants of its functions, and what it uploads
  uint8_t priority = 0;        ///< the most urgent it may ask for; 0 is the most urgent there is
  /// Of a device's time what its functions may ask for in all, and of its units what one of them may; none: as they
  /// like.
  std::optional<double> quota_time, quota_units;
};

struct TenantConfig {
  std::string name;
  std::string key_sha256;  ///< 64 hex digits; empty only for the default tenant
  std::string domain;      ///< empty: the tenant's own
  uint32_t weight = 1;     ///< its share against others'
  TenantLimits limits;
};

/// Which policy answers which question; each is a row of sched/policy/table.h. Empty: ours.
struct PolicyConfig {
  std::string fairness, placement, eviction, setup, exit, dispatch;
};

/// quern.yaml, parsed and checked.
struct Config {
  std::vector<DeviceConfig> devices;  ///< empty: found at start
  std::vector<TenantConfig> tenants;  ///< empty: one default tenant without a key
  std::string state_folder;
  std::string binary_cache;  ///< a folder of compiled binaries shared between servers (tests use it); empty: none
  uint64_t arena_bytes = uint64_t{8} << 30;  ///< tensors in flight per domain and direction
  uint64_t host_bytes = 0;                   ///< of objects in the memory of the host; 0: half of what the machine has
  uint64_t storage_bytes = uint64_t{64} << 30;  ///< what all tenants together may have on disk
  std::function<void()> before_disk;  ///< for tests: comes before every access to bytes of objects, and may block
  uint32_t pool = 2;                  ///< blank executors per device that wait for a domain, at the most
  Duration build_limit = Duration::seconds(60);
  PolicyConfig policy;
  uint32_t least_share = 10;  ///< in thousandths of a device's time: what who has work gets beside more urgent ones
  bool classes = true;      ///< workers of executors that run only best effort give way to all others, where permitted
  std::string record_file;  ///< where the core's events and actions are written; empty: nowhere
  uint64_t record_bytes = uint64_t{1} << 30;  ///< how much of them
  std::vector<int> host_cores;                ///< where the daemon's own threads run; empty: anywhere
};

/// Config::host_bytes, or what that is by default.
uint64_t host_bytes_of(const Config& config);

/// Reads the text of a quern.yaml. Every mistake is in the error's text, one line each. Unknown keys are mistakes.
Result<Config> parse_config(std::string_view text, const std::string& file_name);

}  // namespace quern::daemon
