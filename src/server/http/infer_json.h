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

/// The JSON of the answer. The bytes of binary outputs follow it, in the order of `picks`.
Status append_answer(std::string& out, const daemon::Function& function, const InferRequest& request,
                     const daemon::Call& call, std::span<const OutputPick> picks);

}  // namespace quern::server
