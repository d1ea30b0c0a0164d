// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "sched/scheduler.h"

/// What is simulated, as data: devices, tenants, functions, who calls them, what goes wrong. All of it can be written
/// as small YAML files (docs/guide/simulate.md); the search makes it up at random.
namespace quern::sim {

/// How fast something is on a part of a device's units, against all of them. Between two such points it is on the line
/// through them; below the first in proportion to that one, above the last as fast as there.
struct SpeedAt {
  double share = 1;  ///< of the units, above 0
  double speed = 1;
};

/// A kernel, and how long its launcher pauses once it has ended; 0: the next one was launched long before.
struct KernelModel {
  Duration time = Duration::millis(1);
  Duration gap = {0};
};

/// A kind of device, and how many there are of it.
struct DeviceModel {
  std::string name = "device";
  uint32_t count = 1;
  uint32_t units = 1;
  bool in_halves = false;  ///< parts of it have 1, 2, 4, ... units, as those of OpenCL devices do
  uint64_t memory_bytes = uint64_t{1} << 30;
  uint64_t context_bytes = 0;
  uint64_t copy_bytes_per_second = uint64_t{10} << 30;  ///< of loads; one after another on a device
  Duration context = Duration::millis(50);              ///< to start an executor
  Duration framework = {0};                             ///< on top of it, of what every executor has to import first
  Duration load_latency = {0};                          ///< of every load, on top of its bytes
  Duration launch = {0};                                ///< from Run to the device, while nothing else runs there
  Duration answer = {0};                                ///< from the end on the device to the caller
  double speed = 1;                                     ///< kernel times are divided by it
  bool in_place = false;  ///< objects are read where they lie on the host: nothing is copied
  bool classes = true;    ///< see sched::DeviceUp
  /// Who is on it when several have something for it. kTurns knows no kernels: one launcher at a time, which leaves it
  /// at any moment, and units do not matter. The others do: KernelDevice.
  enum class Sharing : uint8_t {
    kTurns,
    kQueue,   ///< kernels in the order they were launched, several at once where units suffice
    kSlices,  ///< one process after another for `time_slice`, as contexts of a GPU; kernels are suspended meanwhile
  } sharing = Sharing::kTurns;
  Duration time_slice = Duration::millis(2);
  double interference = 0;  ///< kQueue: by this part longer takes a kernel for each other one beside it
  Duration gate = {0};      ///< from what a launcher says to the grant that it reads in answer, where there are kernels
  double drift = 0;         ///< by this part faster is the clock of launchers there; set right every second

  bool has_kernels() const { return sharing != Sharing::kTurns; }
};

/// Where objects are before they are on a device: in memory, and beyond that on a disk.
struct HostModel {
  uint64_t memory_bytes = 0;                           ///< of objects at a time; 0: all of them are always there
  uint64_t disk_bytes_per_second = uint64_t{1} << 30;  ///< of fetches, one after another
  Duration disk_latency = {0};                         ///< of every fetch, on top of its bytes
};

struct TenantModel {
  std::string name;
  uint64_t domain = 0;  ///< 0: one of its own
  uint32_t weight = 1;
  sched::Limits limits;
};

/// A constant by its content: functions that name the same one share it.
struct ObjectModel {
  std::string name;
  uint64_t bytes = 0;
};

struct FunctionModel {
  std::string name;
  uint32_t tenant = 0;  ///< into Model::tenants
  Duration device_time = Duration::millis(1);
  double spread = 0;              ///< standard deviation of it, as a part of it
  uint64_t memory_bytes = 0;      ///< of a run for itself
  std::vector<uint32_t> objects;  ///< into Model::objects
  uint64_t passes_bytes = 0;      ///< an input that comes as an object, at times one that a call left; 0: none does
  uint64_t leaves_bytes = 0;      ///< an output that stays as an object for a while; 0: none does
  Duration timeout = Duration::forever();
  Duration device_limit = Duration::forever();
  uint8_t priority = 5;
  sched::Stage keep_warm = sched::Stage::kNothing;  ///< at least so ready, always
  sched::Quota quota = {};
  // Where there are kernels.
  std::vector<Duration> kernels = {};  ///< among which its device time is divided, in proportion; empty: one
  bool sliceable = true;               ///< its kernels can be cut
  std::vector<SpeedAt> speeds = {};    ///< the least share first; empty: in proportion to it
};

/// Who calls a function.
struct LoadModel {
  enum class Kind : uint8_t { kClosed, kPoisson, kUniform, kBurst, kTrace } kind = Kind::kClosed;
  uint32_t function = 0;               ///< into Model::functions
  uint32_t clients = 1;                ///< closed loop: callers, each of which waits for its answer
  Duration think = {0};                ///< closed loop: between an answer and the next call
  double per_second = 1;               ///< open loop: mean rate
  uint32_t burst = 1;                  ///< kBurst: calls that come at once, `per_second` counts calls
  std::vector<Time> times;             ///< kTrace: when, in order
  std::vector<Duration> device_times;  ///< kTrace: how long each takes; empty: as the function says
};

/// Who launches kernels of its own on a device, beside the runs: again and again so many kernels, then a pause, for as
/// long as calls come. Where there are no loads at all, for Model::length.
struct ProgramModel {
  std::string name;
  uint32_t device = 0;  ///< counted over all devices; beyond the last they begin again
  uint8_t priority = 5;
  uint32_t kernels = 1;  ///< between two gaps
  Duration kernel = Duration::millis(1);
  Duration gap = Duration::millis(1);
  double jitter = 0;      ///< standard deviation of the gap, as a part of it
  bool sliceable = true;  ///< its kernels can be cut
  sched::Quota quota = {};
  std::vector<KernelModel> sequence = {};  ///< one round of it, instead of `kernels`, `kernel` and `gap`
  Duration think = {0};                    ///< after a round, on top of the gap after its last kernel
  std::vector<SpeedAt> speeds = {};        ///< as of a function
};

/// What goes wrong, in mean events per second of virtual time over the whole pool; 0: never. Nothing goes wrong after
/// `until`, so that it can be seen whether all work ends.
struct FaultModel {
  double executor_loss = 0;  ///< one dies, nobody is to blame
  double kernel_fault = 0;   ///< a run takes its executor with it
  double hang = 0;           ///< a run never ends by itself
  double failed_run = 0;     ///< a run ends with an error of its own
  double device_loss = 0;    ///< a device goes away for a while
  double slow_load = 0;      ///< the next load takes 20 times as long
  double failed_load = 0;    ///< the next load fails
  double failed_start = 0;   ///< the next executor does not come up
  double late_event = 0;     ///< the next report is held back for a while
  double lost_memory = 0;    ///< a device has less memory for a while
  double restart = 0;        ///< the daemon dies and comes back: requests in flight are lost with their connections
  double cancel = 0;         ///< a caller goes away
  double removal = 0;        ///< a function is removed and comes back as another version
  double slow_fetch = 0;     ///< the next fetch takes 20 times as long
  double failed_fetch = 0;   ///< the next fetch fails
  double no_room = 0;        ///< the next load, or run that lets its lane grow, finds less memory than there should be
  double host_memory = 0;    ///< the host has less memory for objects for a while
  double lease = 0;          ///< someone wants a function at some stage for a while, or no longer
  double program_loss = 0;   ///< a program dies while its gate is open, and comes back as another
  double silence = 0;        ///< a program never says that it has work again
  double ignored_gate = 0;   ///< a program launches from now on whatever its gate says
  double wrong_profile =
      0;                  ///< the kernels of the next work on a device are taken for a tenth of what they are, or ten
  double new_kernel = 0;  ///< the kernels of the next work on a device were never seen
  double settings = 0;    ///< a function is of another priority, or has another quota, from its next call on
  double failed_launch = 0;  ///< a launch fails: its run ends with that error, and the executor ends with the run
  double unclear_loss = 0;   ///< an executor dies, and any of the runs that it was at may have done it
  Duration until = {0};
};

struct Model {
  sched::Config config;
  std::vector<DeviceModel> devices;
  HostModel host;
  /// Blank executors that are kept ready on each device: a start takes one, and another is made in the time of a start.
  /// Their contexts are memory that the core never sees. `serial` and `sage` have none, as published.
  uint32_t pool = 0;
  std::vector<TenantModel> tenants;
  std::vector<ObjectModel> objects;
  std::vector<FunctionModel> functions;
  std::vector<LoadModel> loads;
  std::vector<ProgramModel> programs;
  FaultModel faults;
  Duration length = Duration::seconds(10);  ///< calls come in this time; then all that is under way may end
  uint64_t most_requests = 0;               ///< no further calls after so many; 0: any number
};

}  // namespace quern::sim
