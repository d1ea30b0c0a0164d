// SPDX-License-Identifier: Apache-2.0
#include "base/fuzz_main.h"
#include "function/safetensors.h"

using namespace quern;

void fuzz_one(std::span<const std::byte> input) {
  const auto tensors = read_safetensors(input);
  if (!tensors.ok()) return;
  for (const SafeTensor& tensor : *tensors) {
    uint64_t bytes = size_of(tensor.dtype);
    for (const int64_t size : tensor.shape) bytes *= static_cast<uint64_t>(size);
    QUERN_CHECK(bytes == tensor.size_bytes, "the shape is that of the data");
    QUERN_CHECK(tensor.offset <= input.size() && tensor.size_bytes <= input.size() - tensor.offset,
                "it is in the file");
  }
}

FuzzPlan fuzz_plan() {
  const auto seed = [](const std::string& header, size_t bytes) {
    const uint64_t length = header.size();
    return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + std::string(bytes, 'x');
  };
  FuzzPlan plan;
  plan.seeds = {seed(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 24),
                seed(R"({"__metadata__":{"k":"v"},"b":{"dtype":"BOOL","shape":[],"data_offsets":[3,4]}})", 8),
                seed("{}", 0)};
  plan.words = {
      "\"", "[", "]", "{", "}", ",", ":", "9223372036854775808", "4294967296", "-1", "\"F32\"", "\"shape\":[0]", "1e3"};
  return plan;
}
