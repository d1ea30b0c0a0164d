// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "hal/fake/fake_device.h"
#include "hal/queue.h"
#include "hal/timeline.h"

namespace quern::hal::fake {

class FakeTimeline final : public Timeline {
 public:
  FakeTimeline(FakeDevice& device, std::shared_ptr<FakeLane> lane) : device_(device), lane_(std::move(lane)) {}

  Result<uint64_t> reached() override;
  uint64_t last_reached() override { return lane_->progress().reached; }
  Status wait(uint64_t point, Duration limit) override;
  void fail(Error error) override;

 private:
  // Constant after construction.
  FakeDevice& device_;
  std::shared_ptr<FakeLane> lane_;
};

class FakeQueue final : public Queue {
 public:
  FakeQueue(FakeDevice& device, std::shared_ptr<FakeLane> lane)
      : device_(device), lane_(std::move(lane)), timeline_(device, lane_) {}

  Result<uint64_t> write(Buffer& target, uint64_t offset, std::span<const std::byte> source) override;
  Result<uint64_t> read(Buffer& source, uint64_t offset, std::span<std::byte> target) override;
  Result<uint64_t> copy(Buffer& source, uint64_t source_offset, Buffer& target, uint64_t target_offset,
                        uint64_t size_bytes) override;
  Result<uint64_t> fill(Buffer& target, uint64_t offset, uint64_t size_bytes,
                        std::span<const std::byte> pattern) override;
  Result<uint64_t> launch(const Launch& launch) override;
  Status wait_for(Queue& other, uint64_t point) override;
  Status flush() override;

  Timeline& timeline() override { return timeline_; }
  std::optional<Interval> timing(uint64_t point) override { return lane_->timing(point); }
  uint64_t device_time_ns() override { return lane_->device_time_ns(); }
  uint64_t corrected_timings() override { return lane_->corrected_timings(); }

  /// Work of ours on the worker.
  Result<uint64_t> submit_host(std::function<void()> work) { return submit_move(std::move(work)); }

 private:
  Result<uint64_t> submit(Command command);
  /// A command that moves bytes, slowed down if the faults say so; `write_bytes`: those that come from the host.
  Result<uint64_t> submit_move(std::function<void()> move, uint64_t write_bytes = 0);

  // Constant after construction.
  FakeDevice& device_;
  std::shared_ptr<FakeLane> lane_;
  FakeTimeline timeline_;
  // The thread that submits.
  std::shared_ptr<FakeLane> after_;
  uint64_t after_point_ = 0;
};

}  // namespace quern::hal::fake
