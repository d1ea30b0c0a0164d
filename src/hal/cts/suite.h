// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hal/cts/backend.h"

namespace quern::hal::cts {

/// Every local size that a test launches with.
const std::vector<Size3>& group_sizes();

/// The kernels of the suite, in OpenCL C.
const std::string& suite_source();

/// A buffer that starts as `values`.
template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

/// Fails the test with the error's text.
#define QUERN_ASSERT_OK(expression) \
  if (const auto& checked = (expression); !checked.ok()) FAIL() << #expression ": " << checked.error().text
#define QUERN_EXPECT_CODE(expected, expression)                                          \
  if (const auto& checked = (expression); checked.ok()) {                                \
    ADD_FAILURE() << #expression ": succeeded";                                          \
  } else {                                                                               \
    EXPECT_EQ(name_of(checked.error().code), name_of(expected)) << checked.error().text; \
  }

/// One device, opened once per process, and one program, built once and loaded from its binary: vendors read their
/// environment once. What a driver lists as exceptions is skipped or turned round.
class Suite : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  Driver& driver();
  Device& device();
  /// The suite's kernels, from `binary`.
  Program& program();
  const Bytes& binary();
  /// Private to this process.
  const std::string& folder();

  std::unique_ptr<Queue> queue();
  std::unique_ptr<Kernel> kernel(const std::string& entry);
  std::shared_ptr<Buffer> allocate(uint64_t size_bytes);

  /// Allocated and written; waits.
  template <class T>
  std::shared_ptr<Buffer> filled(Queue& queue, const std::vector<T>& values) {
    auto buffer = allocate(values.size() * sizeof(T));
    finish(queue, queue.write(*buffer, 0, bytes_of(values)));
    return buffer;
  }
  template <class T>
  std::vector<T> contents(Queue& queue, Buffer& buffer) {
    std::vector<T> values(buffer.size_bytes() / sizeof(T));
    finish(queue, queue.read(buffer, 0, std::as_writable_bytes(std::span(values))));
    return values;
  }
  /// Waits for a submission that must succeed.
  void finish(Queue& queue, const Result<uint64_t>& point);
  /// A launch of suite_spin long enough to be seen (some 10 ms).
  Result<uint64_t> spin(Queue& queue, Kernel& kernel, Buffer& out, uint32_t rounds);

 private:
  std::string reason_;  // why this test must fail
  testing::TestPartResultArray intercepted_;
  std::unique_ptr<testing::ScopedFakeTestPartResultReporter> interceptor_;
};

}  // namespace quern::hal::cts
