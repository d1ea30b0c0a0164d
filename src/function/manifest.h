// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/result.h"
#include "base/time.h"
#include "function/expression.h"
#include "function/kinds.h"

namespace quern {

/// Limits on a manifest, so that nothing made from one is unbounded; plan.h has those of a plan.
constexpr size_t kMostDims = 64, kMostParams = 64, kMostRank = 8;
constexpr size_t kMostRepeats = 256, kDeepestRepeat = 4, kMostSwaps = 8;
constexpr int64_t kLargestDim = int64_t{1} << 40;
constexpr int64_t kMostRounds = 10'000'000;  ///< of one repeat; the limit of a run's device time is the tighter one

/// A file whose bytes are kept elsewhere: `Files` has only its head, which says what tensors are in it.
struct LargeFile {
  /// The elements of one tensor, or all of a file without a header.
  struct Slice {
    uint64_t offset = 0, size_bytes = 0;
    std::string sha256 = {};
    bool operator==(const Slice&) const = default;
  };
  uint64_t size_bytes = 0;
  std::string sha256;         ///< of all of it
  std::vector<Slice> slices;  ///< ascending, none within another
  bool operator==(const LargeFile&) const = default;
};

/// The files of a function's folder by relative path, as a tar brought them.
struct Files : std::map<std::string, Bytes, std::less<>> {
  using map::map;
  std::map<std::string, LargeFile, std::less<>> large;  ///< those of which only the head is here
  std::set<std::string, std::less<>> links;             ///< names that the tar had as links: nothing of them is here
};

/// What one driver compiles. `files` are one source in order.
struct ProgramDecl {
  std::string driver;  ///< "opencl"
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

enum class Role : uint8_t { kConstant, kInput, kOutput, kScratch };
std::string_view name_of(Role role);

struct BufferDecl {
  std::string name;
  Role role = Role::kScratch;
  Dtype dtype = Dtype::kFp32;
  std::vector<Expression> shape;
  bool zero = false;          ///< filled with zeros before the first kernel
  std::string file;           ///< constants: raw, .npy or .safetensors
  std::string tensor;         ///< of a .safetensors file
  std::optional<Bytes> data;  ///< constants written into the manifest
};

enum class Access : uint8_t { kIn, kOut, kInout };

struct ArgumentDecl {
  enum class Kind : uint8_t { kBuffer, kScalar, kLocal } kind = Kind::kBuffer;
  Access access = Access::kIn;
  uint32_t buffer = 0;  ///< index into Manifest::buffers
  Dtype dtype = Dtype::kInt32;
  std::optional<Expression> value;          ///< of a scalar; bytes of local memory
  std::optional<Expression> offset, count;  ///< of a view, in elements
};

struct KernelDecl {
  std::string entry;
  std::vector<Expression> global, local;  ///< local empty: Quern picks
  std::vector<ArgumentDecl> arguments;
  std::optional<Expression> flops, bytes;  ///< what one launch does, for reports
  int line = 0, column = 0;                ///< where it stands in function.yaml, for messages
};

/// `{fill: err, value: 0}`: sets every element, or those of a view.
struct FillDecl {
  uint32_t buffer = 0;
  std::optional<Expression> value, offset, count;
  int line = 0, column = 0;
};

/// When a repeat ends before its last round: one element of a buffer, looked at every so many rounds.
struct UntilDecl {
  enum class Compare : uint8_t { kBelow, kAbove, kEquals } compare = Compare::kBelow;
  uint32_t buffer = 0;
  std::optional<Expression> every, element, value;
};

/// Rounds of the same steps. Its steps stand behind it in Manifest::steps, those of `check` behind them.
struct RepeatDecl {
  std::string name;   ///< empty: none
  std::string index;  ///< the name of the round's number; empty: none
  bool uses_index = false;
  std::optional<Expression> rounds;                  ///< `times`, or `at_most`
  std::vector<std::pair<uint32_t, uint32_t>> swaps;  ///< buffers that exchange their names after each round
  std::optional<UntilDecl> until;
  bool limit_is_error = false;
  bool is_nested = false;       ///< stands in another repeat, so that it may run several times in a request
  uint32_t check = 0, end = 0;  ///< where the steps of `check` begin, and where they end, in Manifest::steps
  int line = 0, column = 0;
};

/// The parameter of an answer that has the rounds of a repeat with `until`: `rounds` or `rounds.NAME`. A nested repeat
/// may run several times in a request; the parameter has the rounds of the last time, and says so: `rounds.last` or
/// `rounds.NAME.last`.
std::string rounds_parameter(const RepeatDecl& repeat);

/// One step of a graph. All steps stand in one list, those of a repeat directly behind it.
struct StepDecl {
  enum class Kind : uint8_t { kKernel, kFill, kRepeat } kind = Kind::kKernel;
  uint32_t index = 0;  ///< into Manifest::kernels, fills or repeats
};

/// Not part of the version; changed in place.
/// How far a function stays ready while nobody calls it.
enum class KeepWarm : uint8_t { kNothing, kContext, kHost, kHot };

/// No timeout of a function or of a request is longer, nor is any other time of a manifest.
constexpr Duration kLongestTimeout = Duration::seconds(24 * 3600);

struct Settings {
  uint8_t priority = 5;
  KeepWarm keep_warm = KeepWarm::kNothing;
  Duration timeout = Duration::seconds(60);  ///< a request's whole life
  std::optional<Duration> device_time;       ///< one run's; default: the timeout
  std::optional<uint64_t> memory_bytes;      ///< the most a request's plan may need
  /// Shares of a device: of its time what it has in any case and at the most, and of its units.
  std::optional<double> time_request, time_limit, units;
  std::optional<Duration> slo_latency;
  double slo_percentile = 99;
};

std::string_view name_of(KeepWarm stage);

/// A function of any kind, parsed and checked as far as that needs no device and no request.
struct Manifest {
  std::string name;
  std::string_view kind = kGraphKind;  ///< the name of a FunctionKind
  std::vector<ProgramDecl> programs;
  std::vector<DimDecl> dims;
  std::vector<ParamDecl> params;
  std::vector<BufferDecl> buffers;
  std::vector<KernelDecl> kernels;  ///< every one that is written, also those in repeats, in order of text
  std::vector<FillDecl> fills;
  std::vector<RepeatDecl> repeats;
  std::vector<StepDecl> steps;  ///< what runs, in order
  Settings settings;

  const ProgramDecl* program_for(std::string_view driver) const;
  const BufferDecl* buffer(std::string_view name) const;
  const DimDecl* dim(std::string_view name) const;
  const ParamDecl* param(std::string_view name) const;
};

/// One thing wrong with a manifest: `function.yaml:12:5: error: …; write …`.
struct Mistake {
  std::string file;
  int line = 0, column = 0;
  bool is_warning = false;
  std::string text;
};
std::string to_string(const Mistake& mistake);

struct ParsedManifest {
  std::optional<Manifest> manifest;  ///< nothing if there is any mistake that is no warning
  std::vector<Mistake> mistakes;     ///< all of them, in order of line
};

/// Whether the files of constants are among the files, or were when it was deployed and are not needed any more.
enum class ConstantFiles : uint8_t { kHere, kElsewhere };

/// Reads `function.yaml` (YAML or JSON) of `files` and checks it against the files it names. Unknown keys are mistakes.
ParsedManifest parse_manifest(const Files& files, ConstantFiles constants = ConstantFiles::kHere);

/// SHA-256 over the canonical manifest without settings, and every file it names: the version of the function.
std::string version_of(const Manifest& manifest, const Files& files);

/// The names a dim or param must not have: `timeout`, `priority`, `binary_data_output`, and all `sequence_…`.
bool is_reserved_parameter(std::string_view name);

/// [A-Za-z_][A-Za-z0-9_]{0,62}: dims, params, buffers, entries and defines.
bool is_identifier(std::string_view name);

/// [a-z0-9][a-z0-9._-]{0,62}
bool is_function_name(std::string_view name);

/// The files that the manifest names, and itself: what is kept of a folder.
std::set<std::string> files_of(const Manifest& manifest);
/// The same from the text of a manifest, which may have mistakes, before its files are read.
std::set<std::string> files_named_in(std::string_view manifest);
/// kInvalid if one of these files, or a folder that it lies in, came as a link.
Status check_links(const Files& files);

/// The text a compiler gets for `program`: its files in order, each behind a `#line`.
Result<std::string> source_text(const ProgramDecl& program, const Files& files);

/// Settings apart from their manifest, as JSON: what is stored, shown and changed in place. Everything that is not its
/// default, and nothing else.
std::string settings_text(const Settings& settings);
/// From the text of a map of settings, YAML or JSON. kInvalid with every mistake.
Result<Settings> parse_settings(std::string_view text);
/// `path` is as in `limits.timeout`, `value` as in a manifest; an empty one sets it back. kInvalid if it makes no
/// sense.
Result<Settings> change_setting(const Settings& settings, std::string_view path, std::string_view value);

/// The option string: options, then -D of every define.
std::string option_text(const ProgramDecl& program);

}  // namespace quern
