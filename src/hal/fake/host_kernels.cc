// SPDX-License-Identifier: Apache-2.0
#include "hal/fake/host_kernels.h"

#include <cstdint>
#include <cstring>

namespace quern::hal::fake {
namespace {

Status saxpy(const HostLaunch& launch) {
  const auto* x = launch.buffer<const float>("x", 0);
  const auto* y = launch.buffer<const float>("y", 1);
  auto* z = launch.buffer<float>("z", 2);
  const auto alpha = launch.scalar<float>("alpha", 1.0f);
  const auto n = launch.scalar<uint32_t>("n", UINT32_MAX);
  launch.each([&](const Size3& id) {
    if (id[0] < n) z[id[0]] = alpha * x[id[0]] + y[id[0]];
  });
  return {};
}

// C[m][n] = A[m][k] * B[k][n]. The range may be tiled, so it is the sizes that count.
Status sgemm(const HostLaunch& launch) {
  const auto* a = launch.buffer<const float>("a", 0);
  const auto* b = launch.buffer<const float>("b", 1);
  auto* c = launch.buffer<float>("c", 2);
  const auto m = launch.scalar<uint32_t>("m", 0), n = launch.scalar<uint32_t>("n", 0);
  const auto k = launch.scalar<uint32_t>("k", 0);
  for (uint32_t row = 0; row < m; ++row)
    for (uint32_t column = 0; column < n; ++column) {
      float sum = 0;
      for (uint32_t i = 0; i < k; ++i) sum += a[size_t{row} * k + i] * b[size_t{i} * n + column];
      c[size_t{row} * n + column] = sum;
    }
  return {};
}

Status copy(const HostLaunch& launch) {
  const auto* input = launch.buffer<const std::byte>("input", 0);
  auto* output = launch.buffer<std::byte>("output", 1);
  std::memcpy(output, input, launch.scalar<uint32_t>("n", 0));
  return {};
}

uint32_t chain(uint32_t state, uint32_t rounds) {
  for (uint32_t i = 0; i < rounds; ++i) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
  }
  return state;
}

Status spin(const HostLaunch& launch) {
  const auto* input = launch.buffer<const float>("input", 0);
  auto* output = launch.buffer<float>("output", 1);
  const auto n = launch.scalar<uint32_t>("n", 0), items = launch.scalar<uint32_t>("items", 1);
  const auto iterations = launch.scalar<uint32_t>("iterations", 0);
  launch.each([&](const Size3& id) {
    const uint32_t state = chain(static_cast<uint32_t>(id[0]) + 1, iterations);
    for (uint64_t i = id[0]; i < n; i += items) output[i] = state == 0 ? 0.0f : input[i];
  });
  return {};
}

Status suite_spin(const HostLaunch& launch) {
  auto* out = launch.buffer<uint32_t>("out", 0);
  const auto rounds = launch.scalar<uint32_t>("rounds", 0);
  launch.each([&](const Size3& id) { out[id[0]] = chain(static_cast<uint32_t>(id[0]) + 1, rounds); });
  return {};
}

Status fault_store(const HostLaunch&) {
  // Far out of bounds, and past what any sanitizer shadows as valid: page 1.
  volatile auto* nowhere = reinterpret_cast<volatile uint32_t*>(uintptr_t{0x1000});
  *nowhere = 42;
  return {};
}

Status hang(const HostLaunch& launch) {
  launch.stop.wait(Duration::forever());
  return Error{ErrorCode::kCancelled, "kernel hang: the device ended"};
}

Status fail(const HostLaunch& launch) {
  return Error{ErrorCode::kFaulted, "kernel " + launch.entry.name + ": fails by order"};
}

Status suite_add(const HostLaunch& launch) {
  const auto* in = launch.buffer<const int32_t>("in", 0);
  auto* out = launch.buffer<int32_t>("out", 1);
  const auto value = launch.scalar<int32_t>("value", 0);
  launch.each([&](const Size3& id) { out[id[0]] = in[id[0]] + value; });
  return {};
}

Status suite_index(const HostLaunch& launch) {
  auto* out = launch.buffer<uint32_t>("out", 0);
  const auto width = launch.scalar<uint32_t>("width", 1), height = launch.scalar<uint32_t>("height", 1);
  launch.each([&](const Size3& id) {
    auto* cell = out + 4 * (id[0] + width * (id[1] + height * id[2]));
    cell[0] = static_cast<uint32_t>(id[0] + 1000 * id[1] + 1000000 * id[2]);
    cell[1] = static_cast<uint32_t>((id[0] - launch.offset[0]) % launch.local[0]);
    cell[2] = static_cast<uint32_t>(launch.local[0] * launch.local[1] * launch.local[2]);
    cell[3] = static_cast<uint32_t>(launch.offset[0]);
  });
  return {};
}

Status suite_scalars(const HostLaunch& launch) {
  auto* out = launch.buffer<uint64_t>("out", 0);
  for (size_t i = 1; i < launch.values.size(); ++i) out[i - 1] = launch.values[i].scalar.bits;
  return {};
}

Status suite_reverse(const HostLaunch& launch) {
  const auto* in = launch.buffer<const uint32_t>("in", 0);
  auto* out = launch.buffer<uint32_t>("out", 1);
  const uint64_t group = launch.local[0];
  launch.each([&](const Size3& id) {
    const uint64_t first = (id[0] - launch.offset[0]) / group * group + launch.offset[0];
    out[id[0]] = in[first + group - 1 - (id[0] - first)];
  });
  return {};
}

Status suite_required(const HostLaunch& launch) {
  auto* out = launch.buffer<uint32_t>("out", 0);
  launch.each([&](const Size3& id) { out[id[0] + launch.global[0] * id[1]] = 8; });
  return {};
}

Status suite_table(const HostLaunch& launch) {
  const auto* table = launch.buffer<const uint32_t>("table", 0);
  auto* out = launch.buffer<uint32_t>("out", 1);
  launch.each([&](const Size3& id) { out[id[0]] = table[id[0] % 16]; });
  return {};
}

// As with the prelude of a real device: the group of the whole, in every slice of it.
Status suite_groups(const HostLaunch& launch) {
  auto* out = launch.buffer<uint32_t>("out", 0);
  const auto width = launch.scalar<uint32_t>("width", 1);
  launch.each([&](const Size3& id) {
    out[id[0] + width * id[1]] = static_cast<uint32_t>(id[0] / launch.local[0] + 1000 * (id[1] / launch.local[1]));
  });
  return {};
}

constexpr std::string_view kAtOnce = "its host version does all of it at once";

constexpr struct {
  std::string_view name;
  HostKernel kernel;
  std::string_view unsliceable = "";
  bool is_misdated = false;
} kKernels[] = {
    {"saxpy", saxpy},
    {"sgemm", sgemm, kAtOnce},
    {"copy", copy, kAtOnce},
    {"copy_too", copy, kAtOnce},
    {"misdated", copy, kAtOnce, true},
    {"spin", spin},
    {"fault_store", fault_store},
    {"hang", hang},
    {"fail", fail},
    {"suite_add", suite_add},
    {"suite_index", suite_index, "uses get_global_offset"},
    {"suite_scalars", suite_scalars},
    {"suite_reverse", suite_reverse},
    {"suite_required", suite_required, "uses get_global_size"},
    {"suite_table", suite_table},
    {"suite_spin", suite_spin},
    {"suite_groups", suite_groups},
};

}  // namespace

const HostLaunch::Value* HostLaunch::find(std::string_view name) const {
  for (size_t i = 0; i < values.size(); ++i)
    if (entry.arguments[i].name == name) return &values[i];
  return nullptr;
}

void HostLaunch::each(const std::function<void(const Size3& id)>& item) const {
  for (uint64_t z = 0; z < global[2]; ++z)
    for (uint64_t y = 0; y < global[1]; ++y)
      for (uint64_t x = 0; x < global[0]; ++x) item({offset[0] + x, offset[1] + y, offset[2] + z});
}

HostKernel find_host_kernel(std::string_view name) {
  for (const auto& row : kKernels)
    if (row.name == name) return row.kernel;
  return nullptr;
}

std::string_view unsliceable_of(std::string_view name) {
  for (const auto& row : kKernels)
    if (row.name == name) return row.unsliceable;
  return "";
}

bool is_misdated(std::string_view name) {
  for (const auto& row : kKernels)
    if (row.name == name) return row.is_misdated;
  return false;
}

}  // namespace quern::hal::fake
