// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "function/graph.h"

namespace quern {

using Size3 = std::array<uint64_t, 3>;

/// What the compiler saw of an entry; the builder's answer, independent of any driver.
struct Signature {
  struct Argument {
    std::string name, type;
    char space = 'p';  ///< 'g'lobal, 'c'onstant, 'l'ocal, 'p'rivate
    bool is_const = false;
    char access = '?';  ///< what the code does with memory: '-' nothing, 'r'ead, 'w'rite, 'b'oth; '?' cannot be told
  };
  std::string entry;
  std::vector<Argument> arguments;
  Size3 required_local = {0, 0, 0};
  uint64_t local_memory_bytes = 0;
  /// Why several launches over parts of its range might not do what one over all of it does. Empty: they do.
  std::string unsliceable = {};
};

/// Whether a function is deployed now, or was stored by an earlier Quern, which took more (docs/guide/state.md).
enum class Origin : uint8_t { kDeployed, kStored };

/// What is wrong between a kernel of a graph and its entry in the program. The text names kernel and argument.
struct KernelProblem {
  uint32_t kernel = 0;  ///< index into Graph::kernels
  bool is_warning = false;
  std::string text;
};

/// What the compiler saw of all entries of a program.
using ProgramSignatures = std::vector<Signature>;

/// Holds the graph against its compiled programs, in the order of Graph::program_names: entries exist ("did you mean"),
/// argument counts, kinds and types match
/// (`float4*` matches fp32, `uchar*` uint8 and bool, `ushort*` fp16 and bf16), and no `in` is written, which is a
/// warning in a function that was stored. At most 100 problems, each once.
std::vector<KernelProblem> check_signatures(const Graph& graph, std::span<const ProgramSignatures> programs,
                                            Origin origin = Origin::kDeployed);

/// Why a kernel is launched whole whatever its sizes: what the compiler saw of its entry, or that the driver picks its
/// local size. Empty: its launches may be cut into slices of whole groups, told apart by their offsets.
std::string unsliceable(const KernelDecl& kernel, std::span<const Signature> signatures);

}  // namespace quern
