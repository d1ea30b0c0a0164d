// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "hal/checks.h"
#include "hal/cts/suite.h"
#include "os/shared_memory.h"

namespace quern::hal::cts {
namespace {

class Buffers : public Suite {};

TEST_F(Buffers, KeepTheirSize) {
  for (uint64_t size : {1u, 7u, 128u, 4097u, 1u << 20}) EXPECT_EQ(allocate(size)->size_bytes(), size);
}

TEST_F(Buffers, OfNothingAreRefused) { QUERN_EXPECT_CODE(ErrorCode::kInvalid, device().allocate(0)); }

TEST_F(Buffers, PastTheLargestAllocationAreRefused) {
  QUERN_EXPECT_CODE(ErrorCode::kExhausted, device().allocate(device().caps().max_allocation_bytes + 1));
  QUERN_EXPECT_CODE(ErrorCode::kExhausted, device().allocate(std::numeric_limits<uint64_t>::max()));
}

TEST_F(Buffers, NeverExceedTheMemoryAndComeBack) {
  DeviceOptions options;
  options.memory_bytes = 8 << 20;
  auto small = driver().open(options);
  QUERN_ASSERT_OK(small);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::shared_ptr<Buffer>> held;
    for (int i = 0; i < 8; ++i) {
      auto buffer = (*small)->allocate(1 << 20);
      QUERN_ASSERT_OK(buffer);
      held.push_back(*buffer);
    }
    auto over = (*small)->allocate(1);
    QUERN_EXPECT_CODE(ErrorCode::kExhausted, over);
    EXPECT_NE(over.error().text.find("8388608"), std::string::npos) << over.error().text;
    held.pop_back();
    QUERN_ASSERT_OK((*small)->allocate(1 << 20));
  }
}

TEST_F(Buffers, AreCountedInGranules) {
  DeviceOptions options;
  options.memory_bytes = 1 << 20;
  auto small = driver().open(options);
  QUERN_ASSERT_OK(small);
  std::vector<std::shared_ptr<Buffer>> held;
  const uint64_t most = (1 << 20) / device().caps().allocation_granularity_bytes;
  for (uint64_t i = 0; i <= most; ++i) {
    auto buffer = (*small)->allocate(1);
    if (!buffer.ok()) {
      EXPECT_EQ(i, most);
      return;
    }
    held.push_back(*buffer);
  }
  FAIL() << "more buffers than granules";
}

TEST_F(Buffers, FreshOnesAreZeroWhereTheCapsSaySo) {
  if (!device().caps().fresh_memory_is_zero) GTEST_SKIP() << "the device promises nothing; executors fill it";
  auto lane = queue();
  // So large that no heap has it lying around.
  const auto seen = contents<uint8_t>(*lane, *allocate(64 << 20));
  // A sanitizer writes a pattern of its own to the first page.
  const auto wrong = std::find_if(seen.begin() + 4096, seen.end(), [](uint8_t byte) { return byte != 0; });
  EXPECT_EQ(wrong - seen.begin(), seen.end() - seen.begin());
}

TEST_F(Buffers, ViewsAreTheSameMemory) {
  const uint64_t step = device().caps().alignment_bytes;
  auto lane = queue();
  auto whole = filled(*lane, std::vector<uint8_t>(4 * step, 1));
  auto view = device().view(whole, step, 2 * step);
  QUERN_ASSERT_OK(view);
  EXPECT_EQ((*view)->size_bytes(), 2 * step);
  auto inner = device().view(*view, step, step);  // of a view
  QUERN_ASSERT_OK(inner);
  finish(*lane, lane->write(**inner, 0, bytes_of(std::vector<uint8_t>(step, 7))));
  const uint8_t two[] = {2};
  finish(*lane, lane->fill(**view, 0, step, std::as_bytes(std::span(two))));
  std::vector<uint8_t> wanted(4 * step, 1);
  std::fill_n(wanted.begin() + static_cast<ptrdiff_t>(step), step, 2);
  std::fill_n(wanted.begin() + static_cast<ptrdiff_t>(2 * step), step, 7);
  EXPECT_EQ(contents<uint8_t>(*lane, *whole), wanted);
  // What is left of the whole when its owner lets go of it is the view.
  whole.reset();
  EXPECT_EQ(contents<uint8_t>(*lane, **inner), std::vector<uint8_t>(step, 7));
}

TEST_F(Buffers, ViewsThatDoNotFitAreRefused) {
  const uint64_t step = device().caps().alignment_bytes;
  auto whole = allocate(4 * step);
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, device().view(whole, 0, 0));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, device().view(whole, 1, step));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, device().view(whole, step, 4 * step));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, device().view(whole, 8 * step, step));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, device().view(whole, step, UINT64_MAX));
}

TEST_F(Buffers, ImportedRangesAreUsedInPlace) {
  if (!device().caps().unified_memory) GTEST_SKIP() << "the device has memory of its own";
  auto memory = os::create_shared_memory("cts", 8192);
  QUERN_ASSERT_OK(memory);
  auto mapping = os::map(*memory, 8192, true);
  QUERN_ASSERT_OK(mapping);
  auto* numbers = reinterpret_cast<int32_t*>(mapping->data());
  auto in = device().import(mapping->bytes().first(4096), true);
  QUERN_ASSERT_OK(in);
  auto out = device().import(mapping->bytes().subspan(4096), true);
  QUERN_ASSERT_OK(out);
  // Written after the import, read after the launch, and no copy in between.
  for (int i = 0; i < 1024; ++i) numbers[i] = i;
  auto add = kernel("suite_add");
  auto lane = queue();
  const Argument arguments[] = {in->get(), out->get(), *scalar_of(Dtype::kInt32, int64_t{5})};
  finish(*lane, lane->launch({.kernel = add.get(), .arguments = arguments, .global = {1024, 1, 1}}));
  for (int i = 0; i < 1024; ++i) ASSERT_EQ(numbers[1024 + i], i + 5);
}

TEST_F(Buffers, ReadOnlyMappingsCanBeImported) {
  if (!device().caps().unified_memory) GTEST_SKIP() << "the device has memory of its own";
  std::vector<int32_t> values(1024);
  for (int i = 0; i < 1024; ++i) values[i] = 3 * i;
  auto sealed = os::immutable_copy("cts", bytes_of(values));
  QUERN_ASSERT_OK(sealed);
  auto mapping = os::map(*sealed, 4096, false);
  QUERN_ASSERT_OK(mapping);
  auto in = device().import(mapping->bytes(), false);
  QUERN_ASSERT_OK(in);
  auto lane = queue();
  auto out = allocate(4096);
  auto add = kernel("suite_add");
  const Argument arguments[] = {in->get(), out.get(), *scalar_of(Dtype::kInt32, int64_t{1})};
  finish(*lane, lane->launch({.kernel = add.get(), .arguments = arguments, .global = {1024, 1, 1}}));
  const auto result = contents<int32_t>(*lane, *out);
  for (int i = 0; i < 1024; ++i) ASSERT_EQ(result[i], 3 * i + 1);
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, lane->write(**in, 0, bytes_of(values)));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, lane->copy(*out, 0, **in, 0, 16));
}

TEST_F(Buffers, CrookedRangesAreRefused) {
  if (!device().caps().unified_memory) GTEST_SKIP() << "the device has memory of its own";
  alignas(4096) static std::byte range[4096];
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, device().import(std::span(range).subspan(4), true));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, device().import({}, true));
}

}  // namespace
}  // namespace quern::hal::cts
