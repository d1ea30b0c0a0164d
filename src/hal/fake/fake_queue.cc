// SPDX-License-Identifier: Apache-2.0
#include "hal/fake/fake_queue.h"

#include <fmt/format.h>

#include <cstring>

#include "os/clock.h"

namespace quern::hal::fake {
namespace {

/// Counts an order of a test down by one; true if this was the one that is to fail.
bool is_ordered(std::atomic<uint64_t>& order) {
  uint64_t left = order;
  while (left > 0 && !order.compare_exchange_weak(left, left - 1)) {
  }
  return left == 1;
}

}  // namespace

Result<uint64_t> FakeTimeline::reached() {
  auto progress = lane_->progress();
  if (progress.failure) return *std::move(progress.failure);
  return progress.reached;
}

Status FakeTimeline::wait(uint64_t point, Duration limit) {
  const Time deadline = os::now() + limit;
  device_.wake();
  for (;;) {
    lane_->ended().drain();
    auto progress = lane_->progress();
    if (progress.failure) return *std::move(progress.failure);
    if (point > progress.submitted)
      return invalid(fmt::format("timeline: point {} was never submitted; the last is {}", point, progress.submitted));
    if (progress.reached >= point) return {};
    const Time now = os::now();
    if (now >= deadline)
      return Error{ErrorCode::kDeadline,
                   fmt::format("timeline: at {} of {} after {}", progress.reached, point, to_string(limit))};
    lane_->ended().wait(limit == Duration::forever() ? limit : deadline - now);
  }
}

void FakeTimeline::fail(Error error) {
  lane_->fail(std::move(error));
  device_.wake();
}

Result<uint64_t> FakeQueue::submit(Command command) {
  command.after = std::exchange(after_, nullptr);
  command.after_point = after_point_;
  auto point = lane_->submit(std::move(command));
  if (point.ok()) device_.wake();
  return point;
}

Result<uint64_t> FakeQueue::submit_move(std::function<void()> move, uint64_t write_bytes) {
  return submit({[&device = device_, move = std::move(move)]() -> Status {
                   if (const int64_t delay = device.faults().copy_delay_ns) device.stop().wait({delay});
                   if (is_ordered(device.faults().fail_copy)) return unavailable("command: fails by order of a test");
                   move();
                   return {};
                 },
                 false, write_bytes, nullptr, 0});
}

Result<uint64_t> FakeQueue::write(Buffer& target, uint64_t offset, std::span<const std::byte> source) {
  auto& buffer = static_cast<FakeBuffer&>(target);
  QUERN_TRY(check_range("write", buffer.size_bytes(), offset, source.size()));
  if (!buffer.writable()) return invalid("write: the buffer was imported read-only");
  return submit_move([to = buffer.data() + offset, source] { std::memcpy(to, source.data(), source.size()); },
                     source.size());
}

Result<uint64_t> FakeQueue::read(Buffer& source, uint64_t offset, std::span<std::byte> target) {
  auto& buffer = static_cast<FakeBuffer&>(source);
  QUERN_TRY(check_range("read", buffer.size_bytes(), offset, target.size()));
  return submit_move([from = buffer.data() + offset, target] { std::memcpy(target.data(), from, target.size()); });
}

Result<uint64_t> FakeQueue::copy(Buffer& source, uint64_t source_offset, Buffer& target, uint64_t target_offset,
                                 uint64_t size_bytes) {
  auto& from = static_cast<FakeBuffer&>(source);
  auto& to = static_cast<FakeBuffer&>(target);
  QUERN_TRY(check_copy(from.size_bytes(), source_offset, to.size_bytes(), target_offset, size_bytes, &from == &to));
  if (!to.writable()) return invalid("copy: the target was imported read-only");
  return submit_move(
      [a = from.data() + source_offset, b = to.data() + target_offset, size_bytes] { std::memcpy(b, a, size_bytes); });
}

Result<uint64_t> FakeQueue::fill(Buffer& target, uint64_t offset, uint64_t size_bytes,
                                 std::span<const std::byte> pattern) {
  auto& buffer = static_cast<FakeBuffer&>(target);
  QUERN_TRY(check_fill(buffer.size_bytes(), offset, size_bytes, pattern.size()));
  if (!buffer.writable()) return invalid("fill: the buffer was imported read-only");
  return submit_move([to = buffer.data() + offset, size_bytes, pattern = Bytes(pattern.begin(), pattern.end())] {
    for (uint64_t at = 0; at < size_bytes; at += pattern.size()) std::memcpy(to + at, pattern.data(), pattern.size());
  });
}

Result<uint64_t> FakeQueue::launch(const Launch& launch) {
  if (!launch.kernel) return invalid("launch: no kernel");
  auto& kernel = static_cast<FakeKernel&>(*launch.kernel);
  const Caps& caps = device_.caps();
  QUERN_TRY(auto local, check_sizes(launch, kernel.check.entry(), caps, caps.max_group_size));
  QUERN_TRY(kernel.check(launch.arguments, caps.local_memory_bytes));
  if (local[0] == 0) local = {1, 1, 1};

  std::vector<HostLaunch::Value> values;
  for (const auto& argument : launch.arguments) {
    HostLaunch::Value value;
    if (const auto* buffer = std::get_if<Buffer*>(&argument)) {
      auto& given = static_cast<FakeBuffer&>(**buffer);
      value.data = given.data();
      value.size_bytes = given.size_bytes();
    } else if (const auto* scalar = std::get_if<Scalar>(&argument)) {
      value.scalar = *scalar;
    } else {
      value.size_bytes = std::get<LocalMemory>(argument).size_bytes;
    }
    values.push_back(value);
  }
  const bool is_held = ++device_.faults().launches == device_.faults().hold_launch;
  // The kernel and the queue may be gone before this runs: the entry and the values are copies.
  auto work = [&device = device_, entry = kernel.check.entry(), host = kernel.host, values = std::move(values),
               offset = launch.offset, global = launch.global, local]() mutable -> Status {
    if (is_ordered(device.faults().fail_launch))
      return Error{ErrorCode::kFaulted, fmt::format("kernel {}: fails by order of a test", entry.name)};
    return host({entry, std::move(values), offset, global, local, device.stop()});
  };
  const bool has_wrong_times = is_misdated(kernel.check.entry().name);
  return submit({std::move(work), true, 0, nullptr, 0, is_held, has_wrong_times});
}

Status FakeQueue::wait_for(Queue& other, uint64_t point) {
  auto lane = static_cast<FakeQueue&>(other).lane_;
  auto theirs = lane->progress();
  if (theirs.failure) {
    timeline_.fail(*theirs.failure);
    return *std::move(theirs.failure);
  }
  if (point == 0 || point > theirs.submitted)
    return invalid(fmt::format("timeline: point {} was never submitted; the last is {}", point, theirs.submitted));
  // A command of its own if one is waited for already: each waits for one lane.
  if (after_) QUERN_TRY(submit({[]() -> Status { return {}; }, false, 0, nullptr, 0}));
  after_ = std::move(lane);
  after_point_ = point;
  return {};
}

Status FakeQueue::flush() {
  device_.wake();
  return {};
}

}  // namespace quern::hal::fake
