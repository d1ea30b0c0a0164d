// SPDX-License-Identifier: Apache-2.0
#include "hal/cts/suite.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <iostream>

#include "os/file.h"

namespace quern::hal::cts {
namespace {

constexpr const char* kSource = R"(
kernel void suite_add(global const int* in, global int* out, int value) {
  out[get_global_id(0)] = in[get_global_id(0)] + value;
}
kernel void suite_index(global uint* out, uint width, uint height) {
  global uint* cell = out + 4 * (get_global_id(0) + width * (get_global_id(1) + height * get_global_id(2)));
  cell[0] = get_global_id(0) + 1000 * get_global_id(1) + 1000000 * get_global_id(2);
  cell[1] = get_local_id(0);
  cell[2] = get_local_size(0) * get_local_size(1) * get_local_size(2);
  cell[3] = get_global_offset(0);
}
ulong bits(ulong value, uint size) { return size == 8 ? value : value & ((1ul << (8 * size)) - 1); }
kernel void suite_scalars(global ulong* out, char a, uchar b, short c, ushort d, int e, uint f, long g, ulong h,
                          float i) {
  out[0] = bits((ulong)a, 1), out[1] = b, out[2] = bits((ulong)c, 2), out[3] = d;
  out[4] = bits((ulong)e, 4), out[5] = f, out[6] = g, out[7] = h, out[8] = as_uint(i);
}
kernel void suite_reverse(global const uint* in, global uint* out, local uint* scratch) {
  const size_t last = get_local_size(0) - 1;
  scratch[last - get_local_id(0)] = in[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  out[get_global_id(0)] = scratch[get_local_id(0)];
}
kernel __attribute__((reqd_work_group_size(4, 2, 1))) void suite_required(global uint* out) {
  local uint scratch[16];
  scratch[get_local_id(0) + 4 * get_local_id(1)] = 1;
  barrier(CLK_LOCAL_MEM_FENCE);
  uint sum = 0;
  for (int i = 0; i < 8; ++i) sum += scratch[i];
  out[get_global_id(0) + get_global_size(0) * get_global_id(1)] = sum;
}
kernel void suite_table(constant uint* table, global uint* out) {
  out[get_global_id(0)] = table[get_global_id(0) % 16];
}
kernel void suite_spin(global uint* out, uint rounds) {
  uint state = get_global_id(0) + 1;
  for (uint i = 0; i < rounds; ++i) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
  }
  out[get_global_id(0)] = state;
}
kernel void suite_groups(global uint* out, uint width) {
  out[get_global_id(0) + width * get_global_id(1)] = get_group_id(0) + 1000 * get_group_id(1);
}
)";

// What all tests of a process share. Never ended: vendors' threads may outlive main.
struct Shared {
  Backend backend = cts::backend();
  std::string folder;
  std::unique_ptr<Driver> driver;
  std::unique_ptr<Device> device;
  std::unique_ptr<Program> program;
  Bytes binary;
  std::optional<Error> failure;

  Shared() {
    if (Status status = start(); !status.ok()) failure = status.error();
  }
  Status start() {
    char name[] = "/tmp/quern-cts-XXXXXX";
    if (!mkdtemp(name)) return internal("no folder for tests");
    folder = name;
    QUERN_TRY(driver, backend.create_driver());
    auto options = backend.options;
    options.group_sizes = group_sizes();
    if (options.cache_folder.empty()) options.cache_folder = folder + "/cache";
    QUERN_TRY(device, driver->open(options));
    QUERN_TRY(auto built, device->build({suite_source(), "", group_sizes()}));
    QUERN_TRY(binary, built->binary());
    built.reset();
    QUERN_TRY(program, device->load(binary));
    return {};
  }
};

std::string folder_to_remove;  // "" if no test of the suite ran

Shared& shared() {
  static Shared& all = *new Shared;
  folder_to_remove = all.folder;
  return all;
}

class RemoveFolder : public testing::Environment {
 public:
  void TearDown() override {
    if (!folder_to_remove.empty()) os::remove_tree(folder_to_remove);
  }
};
[[maybe_unused]] const auto* const kRemoveFolder = testing::AddGlobalTestEnvironment(new RemoveFolder);

const std::string* reason_in(const std::vector<Exception>& exceptions, const std::string& test) {
  for (const auto& exception : exceptions)
    if (exception.test == test) return &exception.reason;
  return nullptr;
}

}  // namespace

const std::vector<Size3>& group_sizes() {
  static const std::vector<Size3> sizes = {{64, 1, 1}, {8, 4, 2}, {4, 2, 1}};
  return sizes;
}

const std::string& suite_source() {
  static const std::string source = kSource;
  return source;
}

void Suite::SetUp() {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  const std::string test = fmt::format("{}.{}", info->test_suite_name(), info->name());
  if (const auto* reason = reason_in(shared().backend.unsupported, test)) GTEST_SKIP() << "unsupported: " << *reason;
  if (const auto& failure = shared().failure) {
    if (failure->code != ErrorCode::kUnavailable) FAIL() << failure->text;
    std::cerr << "\n*** driver " << shared().backend.name << " IS NOT TESTED: " << failure->text << " ***\n\n";
    GTEST_SKIP() << failure->text;
  }
  if (const auto* reason = reason_in(shared().backend.expected_failures, test)) {
    reason_ = *reason;
    interceptor_ = std::make_unique<testing::ScopedFakeTestPartResultReporter>(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &intercepted_);
  }
}

void Suite::TearDown() {
  if (!interceptor_) return;
  interceptor_.reset();
  for (int i = 0; i < intercepted_.size(); ++i)
    if (intercepted_.GetTestPartResult(i).failed()) {
      std::cerr << "expected failure (" << reason_ << "): " << intercepted_.GetTestPartResult(i).message() << "\n";
      return;
    }
  ADD_FAILURE() << "passed, though it is listed as a failure (" << reason_ << "); take it off the list";
}

Driver& Suite::driver() { return *shared().driver; }
Device& Suite::device() { return *shared().device; }
Program& Suite::program() { return *shared().program; }
const Bytes& Suite::binary() { return shared().binary; }
const std::string& Suite::folder() { return shared().folder; }

std::unique_ptr<Queue> Suite::queue() {
  auto made = device().create_queue();
  QUERN_CHECK(made.ok(), made.error().text);
  return std::move(made).value();
}

std::unique_ptr<Kernel> Suite::kernel(const std::string& entry) {
  auto made = program().create_kernel(entry);
  QUERN_CHECK(made.ok(), made.error().text);
  return std::move(made).value();
}

std::shared_ptr<Buffer> Suite::allocate(uint64_t size_bytes) {
  auto made = device().allocate(size_bytes);
  QUERN_CHECK(made.ok(), made.error().text);
  return std::move(made).value();
}

void Suite::finish(Queue& queue, const Result<uint64_t>& point) {
  QUERN_ASSERT_OK(point);
  QUERN_ASSERT_OK(queue.timeline().wait(*point, Duration::forever()));
}

Result<uint64_t> Suite::spin(Queue& queue, Kernel& kernel, Buffer& out, uint32_t rounds) {
  const Argument arguments[] = {&out, *scalar_of(Dtype::kUint32, int64_t{rounds})};
  return queue.launch({.kernel = &kernel, .arguments = arguments});
}

}  // namespace quern::hal::cts
