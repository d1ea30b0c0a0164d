// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/ir/graph.h"

namespace quern::model::kernel {

using BufferId = uint32_t;

/// A tensor in device memory.
struct Buffer {
  enum class Role : uint8_t { kConstant, kInput, kOutput, kScratch } role = Role::kScratch;
  std::string name;
  ir::Type type;
  std::optional<ir::Tensor> constant;  ///< the elements of Role::kConstant
};

/// One kernel in OpenCL C. Its text is complete but for the prelude, and depends on no size: launches pass sizes.
struct Kernel {
  std::string entry;
  std::string source;
};

struct Argument {
  enum class Kind : uint8_t { kIn, kOut, kInout, kPartial, kWhole } kind = Kind::kWhole;
  BufferId buffer = 0;  ///< of all but kWhole
  ir::Dim value;        ///< of kWhole: a `long` of the kernel
};

struct Launch {
  uint32_t kernel = 0;  ///< index into Lowered::kernels
  std::vector<Argument> arguments;
  ir::Dims global;  ///< 1 to 3 sizes; if one is 0 nothing runs
  ir::Dims local;   ///< empty: the driver picks
  std::vector<std::string> origins;
};

/// All elements of one buffer into another of the same size.
struct Copy {
  BufferId from = 0, to = 0;
};

struct Step {
  enum class Kind : uint8_t { kLaunch, kCopy } kind = Kind::kLaunch;
  uint32_t index = 0;
};

/// A graph as launches: what lowering makes, before it takes the form of a function.
struct Lowered {
  std::vector<Buffer> buffers;
  std::vector<Kernel> kernels;
  std::vector<Launch> launches;
  std::vector<Copy> copies;
  std::vector<Step> steps;
  std::vector<ir::FreeDim> dims;
  std::vector<ir::Requirement> requirements;
};

}  // namespace quern::model::kernel
