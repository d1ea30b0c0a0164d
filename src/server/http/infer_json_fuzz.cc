// SPDX-License-Identifier: Apache-2.0
#include "base/fuzz_main.h"
#include "server/http/infer_json.h"
#include "server/tensor_json.h"

void fuzz_one(std::span<const std::byte> input) {
  using namespace quern;
  const std::string_view json = as_text(input);
  server::InferRequest request;
  if (!server::parse_infer(json, request).ok()) return;
  // What was taken can be read, and never writes past the size that its own shape says.
  std::vector<Bytes> memory;
  std::vector<daemon::CallTensor> tensors;
  memory.reserve(request.spec.inputs.size());
  for (size_t i = 0; i < request.spec.inputs.size(); ++i) {
    const TensorSpec& spec = request.spec.inputs[i];
    memory.emplace_back(request.sources[i].is_json() ? request.sources[i].data_elements * size_of(spec.dtype) : 0);
    tensors.push_back({spec.name, spec.dtype, spec.shape, memory.back()});
  }
  if (!server::read_tensors(json, request, tensors).ok()) return;
  daemon::Function function;
  function.name = "f";
  function.version = std::string(64, '0');
  std::vector<server::OutputPick> picks;
  for (uint32_t i = 0; i < tensors.size(); ++i) picks.push_back({i, request.binary_data_output});
  std::string out;
  daemon::Call call;
  call.outputs = tensors;
  call.rounds = {{"rounds", 3}};
  server::AnswerWriter writer(out, function, request, call, picks, 1 << 20);
  for (auto more = writer.append(3); more.ok() && *more; more = writer.append(3)) continue;
}

FuzzPlan fuzz_plan() {
  FuzzPlan plan;
  plan.seeds = {
      R"({"id":"a","inputs":[{"name":"x","shape":[2,2],"datatype":"FP32","data":[[1,2.5],[-3e2,0.1]]}]})",
      R"({"inputs":[{"name":"x","shape":[3],"datatype":"INT64","data":[9223372036854775807,-1,0]},)"
      R"({"name":"y","shape":[2],"datatype":"UINT64","data":[18446744073709551615,1]},)"
      R"({"name":"z","shape":[2],"datatype":"BOOL","data":[true,0]}]})",
      R"({"inputs":[{"name":"x","shape":[4],"datatype":"FP16","parameters":{"binary_data_size":8}}],)"
      R"("outputs":[{"name":"y","parameters":{"binary_data":true}}],"parameters":{"timeout":5,"priority":1,"n":4}})",
      R"({"inputs":[{"name":"x","shape":[4],"datatype":"BF16","parameters":{"object":"lease-0123"}}],)"
      R"("outputs":[{"name":"y","parameters":{"object":true,"lease":"1.5s"}}]})",
      R"({"inputs":[],"parameters":{"a":"\u00e9\n","b":1e-3,"c":false,"binary_data_output":true}})",
  };
  plan.words = {"\"data\":",
                "\"shape\":",
                "\"inputs\":",
                "[",
                "]",
                "{",
                "}",
                ",",
                "1e400",
                "-0",
                "null",
                "18446744073709551616",
                "\"parameters\":",
                "\"object\":",
                "\"lease\":",
                "\"datatype\":\"UINT8\"",
                "\\ud800",
                "\xff"};
  return plan;
}
