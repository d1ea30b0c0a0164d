// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/result.h"
#include "function/expression.h"
#include "function/files.h"

/// A graph as data: kernels over named buffers, in steps. Whoever makes graphs meets these structs: the reader of
/// `function.yaml` (manifest.h) is one front end, and knows where each part stood in its text; a graph does not.
namespace quern {

/// Limits on a graph, so that nothing made from one is unbounded; plan.h has those of a plan.
constexpr size_t kMostDriverPrograms = 256;  ///< of one driver
constexpr size_t kMostDims = 64, kMostParams = 64, kMostLets = 256, kMostRank = 8;
constexpr size_t kMostRepeats = 256, kDeepestRepeat = 4, kMostSwaps = 8;
constexpr int64_t kLargestDim = int64_t{1} << 40;
constexpr int64_t kMostRounds = 10'000'000;  ///< of one repeat; the limit of a run's device time is the tighter one

/// What one driver compiles at once. `files` are one source in order.
struct ProgramDecl {
  std::string driver;   ///< "opencl"
  uint32_t number = 0;  ///< index into Graph::program_names
  std::vector<std::string> files;
  std::vector<std::string> headers;  ///< that the files may include
  std::vector<std::string> options;
  std::map<std::string, std::string> defines;
};

struct DimDecl {
  std::string name;
  bool fixed = false;
  std::optional<int64_t> value;  ///< the fixed value, or the default
  int64_t min = 1, max = 1, multiple_of = 1;
};

struct ParamDecl {
  std::string name;
  Dtype dtype = Dtype::kFp32;
  std::optional<Scalar> value;     ///< the default; without one a request must say it
  std::optional<Number> min, max;  ///< both are needed before an integer param may stand in a size
  bool in_size = false;            ///< stands in what a plan is made of: a shape, a size, a view, a number of rounds
};

/// A value with a name, which the expressions of a graph use like a dim: computed once for each binding.
struct LetDecl {
  std::string name;
  Expression value;                     ///< over dims, params and the lets before it
  bool is_real = false;                 ///< computed in fp64, for scalars of a float dtype; else whole
  std::vector<std::string> depends_on;  ///< the dims and params that it is made of, also by way of other lets
};

enum class Role : uint8_t { kConstant, kInput, kOutput, kScratch };
std::string_view name_of(Role role);

struct BufferDecl {
  std::string name;
  Role role = Role::kScratch;
  Dtype dtype = Dtype::kFp32;
  std::vector<Expression> shape;  ///< empty: one element. A size may be 0: then nothing is there
  bool zero = false;              ///< filled with zeros before the first kernel
  std::string file;               ///< constants: raw, .npy or .safetensors
  std::string tensor;             ///< of a .safetensors file
  std::optional<Bytes> data;      ///< constants written into the manifest
};

/// `kOut` promises that every element is written. `kPartial` writes some, and leaves what is in the others.
enum class Access : uint8_t { kIn, kOut, kInout, kPartial };

struct ArgumentDecl {
  enum class Kind : uint8_t { kBuffer, kScalar, kLocal } kind = Kind::kBuffer;
  Access access = Access::kIn;
  uint32_t buffer = 0;  ///< index into Graph::buffers
  Dtype dtype = Dtype::kInt32;
  std::optional<Expression> value;          ///< of a scalar; bytes of local memory
  std::optional<Expression> offset, count;  ///< of a view, in elements
};

struct KernelDecl {
  std::string entry;
  uint32_t program = 0;                   ///< index into Graph::program_names
  std::string label;                      ///< what tables and errors call it, as a layer of a model; empty: its entry
  std::vector<Expression> global, local;  ///< local empty: Quern picks
  std::vector<ArgumentDecl> arguments;
  std::optional<Expression> flops, bytes;  ///< what one launch does, for reports

  std::string_view shown() const { return label.empty() ? entry : label; }
};

/// `{fill: err, value: 0}`: sets every element, or those of a view.
struct FillDecl {
  uint32_t buffer = 0;
  std::optional<Expression> value, offset, count;
};

/// `{copy: x, to: y}`: all elements, or `count` of them, from `offset` in one buffer to `at` in another one.
struct CopyDecl {
  uint32_t from = 0, to = 0;
  std::optional<Expression> offset, at, count;
};

/// When a repeat ends before its last round: one element of a buffer, looked at every so many rounds.
struct UntilDecl {
  enum class Compare : uint8_t { kBelow, kAbove, kEquals } compare = Compare::kBelow;
  uint32_t buffer = 0;
  std::optional<Expression> every, element, value;
};

/// Rounds of the same steps. Its steps stand behind it in Graph::steps, those of `check` behind them.
struct RepeatDecl {
  std::string name;   ///< empty: none
  std::string index;  ///< the name of the round's number; empty: none
  bool uses_index = false;
  std::optional<Expression> rounds;                  ///< `times`, or `at_most`
  std::vector<std::pair<uint32_t, uint32_t>> swaps;  ///< buffers that exchange their names after each round
  std::optional<UntilDecl> until;
  bool limit_is_error = false;
  bool is_nested = false;       ///< stands in another repeat, so that it may run several times in a request
  uint32_t check = 0, end = 0;  ///< where the steps of `check` begin, and where they end, in Graph::steps
};

/// The parameter of an answer that has the rounds of a repeat with `until`: `rounds` or `rounds.NAME`. A nested repeat
/// may run several times in a request; the parameter has the rounds of the last time, and says so: `rounds.last` or
/// `rounds.NAME.last`.
std::string rounds_parameter(const RepeatDecl& repeat);

/// One step of a graph. All steps stand in one list, those of a repeat directly behind it.
struct StepDecl {
  enum class Kind : uint8_t { kKernel, kFill, kRepeat, kCopy } kind = Kind::kKernel;
  uint32_t index = 0;  ///< into Graph::kernels, fills, repeats or copies
  /// Over dims, params of sizes and indices: the step, with all of a repeat, is left out of a plan for which it is 0.
  std::optional<Expression> when = {};
};

/// What a function computes. Indices point into the lists of the same graph, and every name in an expression is a dim,
/// a param, a let or the index of a repeat around it: a front end makes nothing else, and planning relies on it.
struct Graph {
  std::string name;  ///< of the function, for messages
  /// A function has one program without a name, or several, each compiled by itself: a driver has all of them or none.
  std::vector<std::string> program_names = {""};
  std::vector<ProgramDecl> programs;  ///< of all drivers
  std::vector<DimDecl> dims;
  std::vector<ParamDecl> params;
  std::vector<LetDecl> lets;
  std::vector<BufferDecl> buffers;
  std::vector<KernelDecl> kernels;  ///< every one that is written, also those in repeats, in order
  std::vector<FillDecl> fills;
  std::vector<CopyDecl> copies;
  std::vector<RepeatDecl> repeats;
  std::vector<StepDecl> steps;  ///< what runs, in order

  const ProgramDecl* program_for(std::string_view driver, uint32_t number = 0) const;
  const BufferDecl* buffer(std::string_view name) const;
  const DimDecl* dim(std::string_view name) const;
  const ParamDecl* param(std::string_view name) const;
  const LetDecl* let(std::string_view name) const;
};

/// Calls `use` with every dim and param that an expression of the graph depends on, also by way of lets; a name may
/// come more than once. Indices of repeats come as they are.
template <class F>
void each_dependency(const Graph& graph, const Expression& expression, F&& use) {
  for (const std::string& name : expression.names()) {
    const LetDecl* let = graph.let(name);
    if (!let) use(name);
    if (let)
      for (const std::string& one : let->depends_on) use(one);
  }
}

/// [A-Za-z_][A-Za-z0-9_]{0,62}: dims, params, lets, entries and defines.
bool is_identifier(std::string_view name);

/// A buffer: 1 to 255 bytes of UTF-8 as they may stand in a line and in JSON: no control character, `"` or `\`, and no
/// space at an end. `input.1`, `495` and `/encoder/MatMul_output_0` are names of models.
bool is_buffer_name(std::string_view name);

/// [a-z0-9][a-z0-9._-]{0,62}
bool is_function_name(std::string_view name);

/// The names a dim or param must not have: `timeout`, `priority`, `setup`, `binary_data_output`, and what the protocol
/// has for sequences: `sequence_id`, `sequence_start`, `sequence_end`.
bool is_reserved_parameter(std::string_view name);

/// The text a compiler gets for `program`: its files in order, each behind a `#line`.
Result<std::string> source_text(const ProgramDecl& program, const Files& files);

/// The option string: options, then -D of every define.
std::string option_text(const ProgramDecl& program);

}  // namespace quern
