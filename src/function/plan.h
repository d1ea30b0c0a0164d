// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/time.h"
#include "function/graph.h"

namespace quern {

using Shape = std::vector<int64_t>;
using Size3 = std::array<uint64_t, 3>;

/// "[2,3]"
std::string show_shape(std::span<const int64_t> shape);

/// A tensor of a request as its caller describes it; the bytes are elsewhere.
struct TensorSpec {
  std::string name;
  Dtype dtype = Dtype::kFp32;
  Shape shape;
};

/// A parameter of a request: whole, real or boolean as JSON gave it. A uint64_t is only used for what no int64_t holds.
using ParameterValue = std::variant<int64_t, uint64_t, double, bool, std::string>;

/// What one request says: its inputs' shapes, and dims and params by name.
struct CallSpec {
  std::vector<TensorSpec> inputs;
  std::map<std::string, ParameterValue> parameters;
};

/// The parameter `timeout` of a request: whole microseconds, at least 1 and at most kLongestTimeout. kInvalid says
/// which.
Result<Duration> timeout_of(const ParameterValue& value);

/// The values of all dims and params of one request, in the order of the graph.
struct Binding {
  std::vector<int64_t> dims;
  std::vector<Scalar> params;
  std::vector<Number> lets;  ///< what they come to; planning computes those that are missing
};

/// Checks a request against the graph: every input there once, with its dtype and a shape that binds the dims
/// without contradiction; dims in range; params known ("did you mean") and in range.
Result<Binding> bind(const Graph& graph, const CallSpec& call);

/// A scalar of a plan: the same for every request that shares the plan, or a slot that each request fills.
struct PlannedScalar {
  static constexpr uint32_t kFixed = UINT32_MAX;
  uint32_t slot = kFixed;
  Scalar fixed;
};

/// An argument of a planned launch.
struct PlannedArgument {
  ArgumentDecl::Kind kind = ArgumentDecl::Kind::kBuffer;
  Access access = Access::kIn;
  bool is_view = false;  ///< else it is the whole buffer
  uint32_t buffer = 0;
  uint64_t offset_bytes = 0, size_bytes = 0;  ///< of a view, which may have no elements
  PlannedScalar scalar;
  uint64_t local_bytes = 0;
};

struct PlannedLaunch {
  uint32_t kernel = 0;   ///< index into Graph::kernels
  uint32_t program = 0;  ///< index into Graph::program_names
  std::string entry;
  uint32_t dimensions = 1;
  Size3 global = {1, 1, 1};
  Size3 local = {0, 0, 0};  ///< zeros: the driver picks
  std::vector<PlannedArgument> arguments;
  uint64_t flops = 0, bytes = 0;  ///< as the graph states; 0: it does not
};

struct PlannedFill {
  uint32_t buffer = 0;
  uint64_t offset_bytes = 0, size_bytes = 0;
  PlannedScalar value;
};

struct PlannedCopy {
  uint32_t from = 0, to = 0;  ///< never the same
  uint64_t from_offset = 0, to_offset = 0, size_bytes = 0;
};

struct PlannedUntil {
  uint32_t buffer = 0;
  Dtype dtype = Dtype::kFp32;
  uint64_t offset_bytes = 0;  ///< of the element
  uint64_t every = 1;
  UntilDecl::Compare compare = UntilDecl::Compare::kBelow;
  PlannedScalar value;  ///< fp64, int64 or uint64, whatever the element is
  std::string name;     ///< of the buffer, for messages
};

/// A repeat whose rounds are all alike has its steps once. One whose rounds differ (its index is used) has them once
/// per round. Of variant v the steps are [bodies[v], checks[v]) and the check's [checks[v], bodies[v + 1]), the last
/// one's up to the end of the repeat's step.
struct PlannedRepeat {
  uint32_t repeat = 0;  ///< index into Graph::repeats
  uint64_t rounds = 0;
  std::vector<uint32_t> bodies, checks;
  std::vector<std::pair<uint32_t, uint32_t>> swaps;
  std::optional<PlannedUntil> until;
  bool limit_is_error = false;
  uint32_t report = kNoReport;  ///< place of its rounds in what a run reports
  static constexpr uint32_t kNoReport = UINT32_MAX;
};

struct PlannedStep {
  enum class Kind : uint8_t { kLaunch, kFill, kRepeat, kCopy } kind = Kind::kLaunch;
  uint32_t index = 0;  ///< into Plan::launches, fills, repeats or copies
  uint32_t end = 0;    ///< the first step behind it
  uint32_t level = 0;  ///< steps of one level do not depend on each other
};

struct PlannedBuffer {
  Role role = Role::kScratch;
  Dtype dtype = Dtype::kFp32;
  Shape shape;
  uint64_t size_bytes = 0;
  /// The first and last step that needs its contents; inputs from the start, outputs to the end, constants always.
  uint32_t first = 0, last = 0;
  bool used = true;     ///< a step of the plan names it: scratch that is not used has no place
  bool passed = false;  ///< an input that comes as an object: no placement has room for it
};

/// Where buffers lie in memory that is allocated together: those that are never needed at the same time share.
struct Placement {
  static constexpr uint32_t kElsewhere = UINT32_MAX;
  struct Place {
    uint32_t arena = kElsewhere;
    uint64_t offset = 0;
  };
  std::vector<Place> places;     ///< per buffer
  std::vector<uint64_t> arenas;  ///< bytes
  uint64_t bytes() const;
};

/// What a plan must obey of the devices it may run on: the strictest of them.
struct PlanLimits {
  uint64_t alignment_bytes = 256;
  uint64_t max_allocation_bytes = UINT64_MAX;
};

/// Everything about one (function, dims) that no longer changes: what an executor prepares once and runs often.
struct Plan {
  std::vector<PlannedBuffer> buffers;  ///< in the order of Graph::buffers
  std::vector<PlannedStep> steps;
  std::vector<PlannedLaunch> launches;
  std::vector<PlannedFill> fills;
  std::vector<PlannedCopy> copies;
  std::vector<PlannedRepeat> repeats;
  /// One per slot that a request fills: where its expression stands, and the rounds it stands in.
  struct Slot {
    enum class Kind : uint8_t { kArgument, kFill, kUntil } kind = Kind::kArgument;
    uint32_t index = 0, argument = 0;  ///< kernel, fill or repeat; which argument
    Dtype dtype = Dtype::kFp32;
    std::vector<std::pair<uint32_t, int64_t>> rounds;  ///< (repeat, number of the round)
  };
  std::vector<Slot> slots;
  std::vector<uint32_t> reported;  ///< repeats whose rounds a run reports, by index into Graph::repeats
  Placement in_place;              ///< scratch only: inputs and outputs are used where they lie
  Placement own;                   ///< scratch, inputs and outputs, for a device with memory of its own
  uint64_t memory_bytes = 0;       ///< constants, inputs, outputs and scratch: what a device needs at most
  uint64_t peak_bytes = 0;         ///< the largest sum of scratch that is live at once: no placement can do with less
};

/// Bytes of memory that a plan takes, about.
uint64_t footprint_of(const Plan& plan);

/// Limits on what a plan may hold, so that nothing built from one is unbounded.
constexpr size_t kMostBuffers = 16384, kMostTensors = 256, kMostSteps = 16384, kMostLaunches = 65536;
constexpr size_t kMostArguments = 64, kMostSlots = 4096, kMostReported = 16;
constexpr uint64_t kMostBufferBytes = uint64_t{1} << 40;
constexpr uint64_t kViewAlignment = 256;  ///< views start at multiples of this

/// What has nothing to do is left out, launches with a global size of 0 and fills and copies of nothing, and so are
/// steps whose `when` is 0. kInvalid if a size overflows or is negative, or a local size does not divide its global
/// size; if a view is not in its buffer; if there are too many rounds to plan; if something was left out and no step
/// writes an output.
Result<Plan> make_plan(const Graph& graph, const Binding& binding, const PlanLimits& limits = {});

/// The same plan for calls of which these inputs (by buffer) come as objects.
void pass_inputs(Plan& plan, const PlanLimits& limits, std::span<const uint32_t> inputs);

/// The scalars of one request, one per slot of the plan.
Result<std::vector<Scalar>> scalars_of(const Graph& graph, const Plan& plan, const Binding& binding);

/// Dims, and the params that sizes depend on: requests with the same key share a plan.
std::string plan_key(const Graph& graph, const Binding& binding);

/// Every local size that the kernels of a program can be launched with, over all dims; sizes that depend on a free dim
/// are listed for its default, min and max.
std::vector<Size3> group_sizes_of(const Graph& graph, uint32_t program = 0);

/// The shape of a buffer with -1 where it is not fixed: the metadata of the Open Inference Protocol.
Shape open_shape(const Graph& graph, const BufferDecl& buffer);

/// The groups of a launch along its longest dimension; 1 where the driver picks the local size.
uint64_t most_groups(const PlannedLaunch& launch);

}  // namespace quern
