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
#include "function/manifest.h"

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

/// A parameter of a request: whole, real or boolean as JSON gave it.
using ParameterValue = std::variant<int64_t, double, bool, std::string>;

/// What one request says: its inputs' shapes, and dims and params by name.
struct CallSpec {
  std::vector<TensorSpec> inputs;
  std::map<std::string, ParameterValue> parameters;
};

/// The values of all dims and params of one request, in the order of the manifest.
struct Binding {
  std::vector<int64_t> dims;
  std::vector<Scalar> params;
};

/// Checks a request against the manifest: every input there once, with its dtype and a shape that binds the dims
/// without contradiction; dims in range; params known ("did you mean") and in range.
Result<Binding> bind(const Manifest& manifest, const CallSpec& call);

/// An argument of a planned launch. A scalar is a slot of the request's scalars: all else is the same for every
/// request with these dims.
struct PlannedArgument {
  ArgumentDecl::Kind kind = ArgumentDecl::Kind::kBuffer;
  Access access = Access::kIn;
  uint32_t index = 0;        ///< buffer, or slot of the scalars
  uint64_t local_bytes = 0;  ///< kLocal
};

struct PlannedLaunch {
  std::string entry;
  uint32_t dimensions = 1;
  Size3 global = {1, 1, 1};
  Size3 local = {0, 0, 0};  ///< zeros: the driver picks
  std::vector<PlannedArgument> arguments;
};

struct PlannedBuffer {
  Role role = Role::kScratch;
  Dtype dtype = Dtype::kFp32;
  Shape shape;
  uint64_t size_bytes = 0;
  bool zero = false;
};

/// Everything about one (function, dims) that no longer changes: what an executor prepares once and runs often.
struct Plan {
  std::vector<PlannedBuffer> buffers;    ///< in the order of Manifest::buffers
  std::vector<PlannedLaunch> launches;
  std::vector<Dtype> scalars;            ///< the dtype of each scalar slot
  uint64_t memory_bytes = 0;             ///< constants, inputs, outputs and scratch together
};

/// Limits on what a plan may hold, so that nothing built from one is unbounded.
constexpr size_t kMostBuffers = 256, kMostLaunches = 4096, kMostArguments = 64, kMostScalars = 4096;
constexpr uint64_t kMostBufferBytes = uint64_t{1} << 40;

/// kInvalid if a size overflows, is not positive, or a local size does not divide its global size.
Result<Plan> make_plan(const Manifest& manifest, const Binding& binding);

/// The scalar arguments of one request, one per slot of Plan::scalars.
Result<std::vector<Scalar>> scalars_of(const Manifest& manifest, const Binding& binding);

/// Dims, and the params that sizes depend on: requests with the same key share a plan.
std::string plan_key(const Manifest& manifest, const Binding& binding);

/// Every local size that the graph can name over all its dims; sizes that depend on a free dim are listed for its
/// default, min and max.
std::vector<Size3> group_sizes_of(const Manifest& manifest);

/// The shape of a buffer with -1 where it is not fixed: the metadata of the Open Inference Protocol.
Shape open_shape(const Manifest& manifest, const BufferDecl& buffer);

/// What the compiler saw of an entry; the builder's answer, independent of any driver.
struct Signature {
  struct Argument {
    std::string name, type;
    char space = 'p';  ///< 'g'lobal, 'c'onstant, 'l'ocal, 'p'rivate
    bool is_const = false;
  };
  std::string entry;
  std::vector<Argument> arguments;
  Size3 required_local = {0, 0, 0};
  uint64_t local_memory_bytes = 0;
};

/// Holds the manifest against the compiled program: entries exist ("did you mean"), argument counts, kinds and types
/// match (`float4*` matches fp32, `uchar*` uint8 and bool, `ushort*` fp16 and bf16). Mistakes name kernel and argument.
std::vector<Mistake> check_signatures(const Manifest& manifest, std::span<const Signature> signatures);

}  // namespace quern
