// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "function/signature.h"

/// What daemon, executor and builder say to each other, as plain structs with `encode` and a `decode` that trusts
/// nothing. Control frames go over the socket, one per datagram, with descriptors beside them; commands and events of
/// a lane go through its rings.
namespace quern::ipc {

/// A device as an executor or a builder opens it.
struct DeviceSpec {
  std::string driver, platform, library;
  uint32_t index = 0;
  std::vector<int32_t> cores;
  uint64_t memory_bytes = 0;
  bool in_place = true;
  std::string cache_folder;
};

/// What a device can do, as hal::Caps has it, for a daemon that sees no hal.
struct DeviceCaps {
  std::string driver, name, build_key;
  uint64_t memory_bytes = 0, context_bytes = 0, max_allocation_bytes = 0, local_memory_bytes = 0;
  uint32_t units = 1, max_group_size = 1, alignment_bytes = 128;
  Size3 max_group_sizes = {1, 1, 1};
  bool unified_memory = false, launch_offset = false, partitions = false, worker_classes = false;
  uint8_t overlap = 0, fault_scope = 0, timestamps = 0;
};

// Daemon to executor.

/// The first frame. Descriptors: daemon page, executor page, the daemon's wake-up, then one wake-up per lane.
struct Start {
  DeviceSpec device;
  uint32_t lanes = 1;
};
/// Instead of a Start: tell what the driver shows, and end.
struct Discover {
  std::string driver;
};
/// Descriptor: the segment.
struct MapSegment {
  uint32_t segment = 0;
  uint8_t direction = 0;
  uint64_t size_bytes = 0;
};
struct UnmapSegment {
  uint32_t segment = 0;
};
/// A constant, or a tensor that passes from run to run. Descriptor: sealed memory that has its bytes at `offset`.
/// Answered when it is on the device, while other frames are taken.
struct LoadObject {
  uint64_t object = 0;
  uint64_t size_bytes = 0;
  uint64_t offset = 0, memory_bytes = 0;  ///< of the descriptor; 0: just as large as the object
};
/// Free it, also while it is being loaded; no run uses it. Answered by Dropped.
struct DropObject {
  uint64_t object = 0;
};
/// Descriptor: the sealed binary.
struct LoadProgram {
  uint64_t program = 0;
  uint64_t size_bytes = 0;
};
struct DropProgram {
  uint64_t program = 0;
};
/// Descriptor: a sealed BoundPlan. Its constants were loaded or are being loaded: a kernel waits for its own only.
struct PreparePlan {
  uint64_t plan = 0;
  uint64_t size_bytes = 0;
};
/// Let go of it; no run uses it.
struct DropPlan {
  uint64_t plan = 0;
};

// Executor to daemon.

struct Hello {
  DeviceCaps caps;
  std::vector<int32_t> workers;  ///< threads that execute kernels
};
/// The threads that execute kernels are these from now on: a driver may start some late, and end others.
struct Workers {
  std::vector<int32_t> workers;
};
/// What was asked for is there (or is not). LoadProgram, MapSegment and PreparePlan are answered in order; LoadObjects
/// in an order of their own, each before the end of a run that needs it. An object that is not there holds no memory:
/// kExhausted if the device had no room for it, kCancelled if it was dropped meanwhile.
struct Loaded {
  enum class Kind : uint8_t { kSegment, kObject, kProgram, kPlan } kind = Kind::kSegment;
  uint64_t id = 0;
  bool ok = true;
  ErrorCode code = ErrorCode::kInternal;
  std::string text;
};

/// The memory of the object is free; after the answer to its LoadObject.
struct Dropped {
  uint64_t object = 0;
};

/// Which launches of its lanes have not ended? Answered by Flight, also while lanes sit in the vendor's calls.
struct AskFlight {};
/// DeviceCaps::overlap of a device on which kernels of several processes run beside each other.
constexpr uint8_t kOverlapAcrossProcesses = 2;
struct Flight {
  struct Launch {
    uint64_t run = 0;
    uint64_t number = 0;   ///< of the first launch of the run that has not ended; it grows. 0: all have ended
    int64_t since_ns = 0;  ///< when it was made and those before it had ended
    int64_t used_ns = 0;   ///< from START to END, all launches of the run that have ended
  };
  std::vector<Launch> launches;
};

/// What the driver shows, as hal::Found has it.
struct Discovered {
  struct Found {
    enum class Kind : uint8_t { kNone, kCpu, kGpu, kOther };
    uint32_t index = 0;
    std::string name;
    Kind kind = Kind::kNone;
    uint32_t units = 1;
    uint64_t memory_bytes = 0;
    std::string platform, version, unsliceable, undivided, clock;
    bool classes = false, in_place = false;
    std::string error;
  };
  std::vector<Found> devices;
};

// Daemon to builder and back.

/// Descriptor: a sealed BuildFrame.
struct Build {
  uint64_t size_bytes = 0;
};
/// Descriptor if `ok`: the sealed binary.
struct Built {
  bool ok = false;
  ErrorCode code = ErrorCode::kInternal;
  std::string build_key;
  uint64_t size_bytes = 0;
  uint64_t details_bytes = 0;  ///< of the second descriptor: the log, or the signatures
};

using Frame =
    std::variant<Start, MapSegment, UnmapSegment, LoadObject, DropObject, LoadProgram, DropProgram, PreparePlan,
                 DropPlan, Hello, Loaded, Build, Built, Discover, Discovered, Dropped, AskFlight, Flight, Workers>;
Bytes encode(const Frame& frame);
/// kInvalid for anything but exactly one whole frame.
Result<Frame> decode(std::span<const std::byte> bytes);

/// What a builder compiles.
struct BuildFrame {
  DeviceSpec device;
  std::string text, options;
  std::vector<std::pair<std::string, std::string>> headers;  ///< name and text of what the text may include
  std::vector<Size3> group_sizes;
};
Bytes encode(const BuildFrame& build);
Result<BuildFrame> decode_build(std::span<const std::byte> bytes);

/// What the compiler saw of each entry.
Bytes encode(std::span<const Signature> signatures);
Result<std::vector<Signature>> decode_signatures(std::span<const std::byte> bytes);

// Commands of a lane's ring.

struct Binding {
  uint32_t segment = 0;
  uint64_t offset = 0;
  /// Of an input: it is this object, which was sent before the run, and the rest means nothing. Of an output: it is to
  /// be there as this object as well when the run ends well. 0: none.
  uint64_t object = 0;
};
/// `bindings`: one per input and output, in the order of the plan's buffers.
struct RunCommand {
  uint64_t run = 0, plan = 0;
  uint64_t lane_bytes = 0;  ///< of memory that the lane may have and keep; never less than the plan needs
  bool profile = false;     ///< report the time of each kernel
  uint32_t units = 0;       ///< of the device that it runs on; 0: all
  uint32_t first_unit = 0;  ///< of those
  std::vector<Binding> bindings;
  std::vector<uint64_t> scalars;
};
/// The run of this lane launches no further kernel and ends; of no effect if it ended already.
struct StopCommand {
  uint64_t run = 0;
};
/// Let go of what this lane keeps for a plan or imported from a segment.
struct ForgetPlanCommand {
  uint64_t plan = 0;
};
struct ForgetSegmentCommand {
  uint32_t segment = 0;
};
/// Free the memory that the lane computes in. Answered by LaneTrimmed; during a run, when it has ended.
struct TrimCommand {};
using Command = std::variant<RunCommand, StopCommand, ForgetPlanCommand, ForgetSegmentCommand, TrimCommand>;
/// Into a buffer that is used again, since this is on the path of every request.
void encode(const Command& command, ByteWriter& into);
/// Into a command that is used again.
Status decode(std::span<const std::byte> bytes, Command& into);

// Events of a lane's ring.

/// How a run went; kUnavailable if a constant that it needs could not be loaded.
struct RunEnded {
  uint64_t run = 0;
  bool ok = true, stopped = false;
  bool no_room = false;  ///< for what it computes in (kExhausted): nothing was launched, and the lane holds no memory
  /// A launch of the run failed, and broke the queue: the executor ends itself. Its other runs end with it.
  bool ends_executor = false;
  ErrorCode code = ErrorCode::kInternal;
  std::string text;
  /// Steady clock: command read, first START, last END, this report written.
  int64_t taken_ns = 0, started_ns = 0, ended_ns = 0, reported_ns = 0;
  int64_t waited_ns = 0;  ///< for constants that were still being loaded
  uint64_t device_time_ns = 0;
  std::vector<uint64_t> rounds;  ///< of the repeats that the plan reports
  struct Kernel {
    uint32_t launches = 0;
    uint64_t time_ns = 0;
  };
  static constexpr size_t kMostKernels = 4096;  ///< so many fit a record of a ring
  std::vector<Kernel> kernels;                  ///< with `profile`: by PlannedLaunch::kernel, of the first kMostKernels
};
/// The lane holds no memory.
struct LaneTrimmed {};

// Events of any launcher: a lane, or a program with a gate of its own.

/// It has something to launch, after a gap or for the first time. Sent before it is launched.
struct WorkReady {
  int64_t at_ns = 0;
  struct Kernel {
    uint64_t identity = 0;  ///< 0: unknown
    uint64_t groups = 0;    ///< of it that are to be launched; 0: unknown
    uint64_t time_ns = 0;   ///< that they will take, as the launcher expects; 0: it never saw one
    bool sliceable = false;
    bool operator==(const Kernel&) const = default;
  };
  static constexpr size_t kMost = 8;  ///< told of: what fits into a gap is decided by the first few
  std::vector<Kernel> kernels;        ///< that come next, in order
  bool pauses = false;                ///< it pauses after the last of them; else more follow, or it does not know
};
/// All it launched has ended, and it has nothing to launch.
struct GapBegun {
  int64_t at_ns = 0;       ///< when the last of it ended
  uint64_t after = 0;      ///< which was this one: gaps after the same are alike
  int64_t started_ns = 0;  ///< when the first of it began on the device; 0: not known
};
/// What was launched and has ended since it said so last. At most every millisecond.
struct DeviceUsed {
  uint64_t time_ns = 0;  ///< of the device
  uint64_t launches = 0;
  uint64_t past_gate = 0;  ///< of those, launched without having been let through
  struct Sample {
    uint64_t kernel = 0, groups = 0, time_ns = 0;
    bool is_undisturbed = false;  ///< nobody else's work is in that time
  };
  std::vector<Sample> samples;  ///< of some of them
  struct Gap {
    uint64_t after = 0, time_ns = 0;
  };
  std::vector<Gap> gaps;  ///< of a lane: between kernels of a run, where it looked at a result before it went on
};
/// From when to when launches were on the device, where the grant asks for it. In order; each once.
struct Traced {
  uint64_t run = 0;  ///< of a lane
  struct Span {
    uint32_t launch = 0;            ///< in the plan
    uint64_t first = 0, parts = 0;  ///< of the kernel: which parts it had
    uint64_t of = 0;                ///< that the kernel has in all
    int64_t start_ns = 0, end_ns = 0;
  };
  std::vector<Span> spans;
};

using LaneEvent = std::variant<RunEnded, LaneTrimmed, WorkReady, GapBegun, DeviceUsed, Traced>;
/// As alternatives of LaneEvent, without the copy that making one would take.
void encode(const RunEnded& ended, ByteWriter& into);
void encode(const LaneTrimmed& trimmed, ByteWriter& into);
void encode(const WorkReady& ready, ByteWriter& into);
void encode(const GapBegun& gap, ByteWriter& into);
void encode(const DeviceUsed& used, ByteWriter& into);
void encode(const Traced& traced, ByteWriter& into);
Result<LaneEvent> decode_lane_event(std::span<const std::byte> bytes);

}  // namespace quern::ipc
