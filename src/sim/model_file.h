// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/model.h"

/// The two YAML files of a simulation: the devices there are with their host, and who calls what. Both are read whole,
/// and all mistakes are told at once, each as `file:line:column: error: what is wrong; what to write`; at most 100 of
/// them. docs/guide/simulate.md lists every key; examples/simulate has files to start from.
namespace quern::sim {

struct Machine {
  std::vector<DeviceModel> devices;
  std::optional<HostModel> host;  ///< nothing, like the one below: the file does not say
  std::optional<uint32_t> pool;
};

/// `devices:` of a file, at least one, at most 100,000 in all; and what else there is of the machine: `host:`, whose
/// memory holds objects that are not on devices, and `pool:`, how many blank executors each device has.
///
///     devices:
///       - {name: v100, count: 4, memory: 16GiB, context_memory: 300MiB, copy_bandwidth: 12GiB/s, context: 300ms}
///       - {name: a100, memory: 40GiB, units: 108, sharing: queue, interference: 0.05, launch: 5us, gate: 6us}
///     host: {memory: 64GiB, disk_bandwidth: 2GiB/s}
///     pool: 1
Result<Machine> parse_devices(std::string_view text, const std::string& file_name);

/// What a file named in a workload holds; how its path is found is the caller's business.
using ReadFile = std::function<Result<std::string>(const std::string& path)>;

struct Workload {
  Model model;                     ///< without devices, host and pool
  std::vector<std::string> notes;  ///< what its reader should know: rows of a trace that became no calls
};

/// Everything but the devices. Names are of a-z, 0-9, '.', '_' and '-'; each is given once.
///
///     tenants:   [{name: shop, weight: 2, copies: 32, limits: {in_flight: 4}}]
///     objects:   [{name: weights, bytes: 500MiB, tenant: shop}]
///     functions: [{name: infer, tenant: shop, device_time: 5ms, spread: 0.1, objects: [weights]}]
///     loads:     [{function: infer, closed: {clients: 4, think: 10ms}}]
///     programs:  [{name: render, device: 1, priority: 0, kernels: 4, kernel: 500us, gap: 2ms, jitter: 0.1}]
///     length: 10s
///
/// Functions and programs may have a `quota: {time: {request: 0.2, limit: 0.5}, units: 0.25}`, as in a manifest.
///
/// `copies: N` makes N tenants that are alike, named shop-1 to shop-N: each has its own of every function that names
/// the tenant, of the loads of these functions, and of every object that names it. An object that names no tenant is
/// the same for all. With `requests` and without `length` calls come until there were so many; with neither for 10 s,
/// or as long as the longest trace. At most a million tenants, objects, functions and loads each.
Result<Workload> parse_workload(std::string_view text, const std::string& file_name, const ReadFile& read_file);

}  // namespace quern::sim
