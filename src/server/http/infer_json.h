// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "daemon/daemon.h"
#include "function/plan.h"

/// The JSON of an infer request and of its answer, Open Inference Protocol v2 with binary tensor data. Pure functions
/// over buffers: no socket, no daemon.
namespace quern::server {

/// Where the elements of an input are: in the JSON, behind it, or on the server.
struct InputSource {
  std::optional<uint64_t> binary_bytes;  ///< `binary_data_size`
  std::string object;                    ///< the id of the object that it is
  uint64_t data_elements = 0;            ///< numbers and booleans in `data`

  bool is_json() const { return !binary_bytes && object.empty(); }
};

struct OutputWish {
  std::string name;
  std::optional<bool> is_binary;  ///< `binary_data`; nothing: as `binary_data_output` says
  bool stays = false;             ///< `object`: it stays on the server
  std::optional<Duration> lease;  ///< for how long
};

/// A request as its JSON says it; checked in itself, not yet against a function.
struct InferRequest {
  std::optional<std::string> id;
  CallSpec spec;                     ///< dims and params in `parameters`, without ours
  std::vector<InputSource> sources;  ///< one per spec.inputs
  daemon::CallOptions options;
  bool binary_data_output = false;
  bool tells_setup = false;      ///< what had to be brought for it comes with the answer
  bool selects_outputs = false;  ///< `outputs` was there
  std::vector<OutputWish> outputs;

  bool has_json_data() const;
  bool names_objects() const;
  void clear();
};

/// Reads a request. Mistakes are kInvalid and say where; memory is bounded by the length of `json`.
Status parse_infer(std::string_view json, InferRequest& into);

/// Reads the `data` of a JSON that parse_infer took into `tensors` (one per input of the request, in its order):
/// straight to its place, without a tree in between.
Status read_tensors(std::string_view json, const InferRequest& request, std::span<daemon::CallTensor> tensors);

/// One output of an answer: which of the call's, and how.
struct OutputPick {
  uint32_t index = 0;
  bool is_binary = false;
  std::optional<Duration> lease = {};  ///< it stays as an object: the answer has its id in place of its elements
};

/// Which outputs the caller gets, in its order. `outputs` are the function's, in the order of the manifest.
/// kInvalid for an unknown or repeated name, and for fp16 and bf16 that were not asked for as binary.
Status pick_outputs(const InferRequest& request, std::span<const BufferDecl* const> outputs,
                    std::vector<OutputPick>& into);

/// How many elements the JSON of an answer has.
uint64_t json_elements_of(const daemon::Call& call, std::span<const OutputPick> picks);

/// Writes the JSON of an answer, piece by piece. The bytes of binary outputs follow it, in the order of `picks`.
class AnswerWriter {
 public:
  /// All of them outlive it. More than `most_bytes` of JSON are kInvalid, with what to do instead.
  AnswerWriter(std::string& out, const daemon::Function& function, const InferRequest& request,
               const daemon::Call& call, std::span<const OutputPick> picks, uint64_t most_bytes);

  /// Appends at most so many elements, and what is between them. True if there are more.
  Result<bool> append(uint64_t elements);

  /// What is said of an output that is too long for JSON.
  static Error too_long(std::string_view output, uint64_t most_bytes);

 private:
  void append_number(uint64_t value);
  void begin(const daemon::Function& function, const InferRequest& request);
  void begin_output();

  std::string& out_;
  const daemon::Call& call_;
  const std::span<const OutputPick> picks_;
  const uint64_t most_bytes_;
  size_t pick_ = 0;        ///< the output that is being written
  bool is_begun_ = false;  ///< it is
  uint64_t written_ = 0;   ///< its elements
};

}  // namespace quern::server
