// SPDX-License-Identifier: Apache-2.0
#include "base/fuzz_main.h"
#include "function/npy.h"

using namespace quern;

void fuzz_one(std::span<const std::byte> input) {
  auto npy = read_npy_header(input);
  if (!npy.ok()) return;
  uint64_t bytes = size_of(npy->dtype);
  for (int64_t size : npy->shape) bytes *= static_cast<uint64_t>(size);
  QUERN_CHECK(npy->data_offset + bytes == input.size(), "the shape is that of the data");
  auto header = npy_header(npy->dtype, npy->shape);
  QUERN_CHECK(header.ok() && header->size() % 64 == 0, "a header is aligned");
}

FuzzPlan fuzz_plan() {
  auto seed = [](Dtype dtype, Shape shape, size_t bytes) {
    return *npy_header(dtype, shape) + std::string(bytes, '\1');
  };
  FuzzPlan plan;
  plan.rounds = 200'000;
  plan.seeds = {seed(Dtype::kFp32, {2, 3}, 24), seed(Dtype::kBool, {}, 1), seed(Dtype::kInt64, {1}, 8),
                seed(Dtype::kUint8, {0, 5}, 0)};
  plan.words = {"'",          "\"", "(",    ")",        "{",     "}",
                ",",          ":",  "True", "'descr'",  "'<f8'", "9223372036854775807",
                "4294967296", "-1", "L",    "\x93NUMPY"};
  return plan;
}
