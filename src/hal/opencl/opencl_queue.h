// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "hal/opencl/opencl_device.h"
#include "hal/opencl/opencl_timeline.h"
#include "hal/queue.h"

namespace quern::hal::opencl {

class OpenclBuffer;
class OpenclKernel;

class OpenclQueue final : public Queue {
 public:
  /// On the device, or on a partition of it that has so many units.
  static Result<std::unique_ptr<Queue>> create(OpenclDevice& device, cl_device_id id, uint32_t units);

  Result<uint64_t> write(Buffer& target, uint64_t offset, std::span<const std::byte> source) override;
  Result<uint64_t> read(Buffer& source, uint64_t offset, std::span<std::byte> target) override;
  Result<uint64_t> copy(Buffer& source, uint64_t source_offset, Buffer& target, uint64_t target_offset,
                        uint64_t size_bytes) override;
  Result<uint64_t> fill(Buffer& target, uint64_t offset, uint64_t size_bytes,
                        std::span<const std::byte> pattern) override;
  Result<uint64_t> launch(const Launch& launch) override;
  Status wait_for(Queue& other, uint64_t point) override;
  Status flush() override;

  Timeline& timeline() override { return *timeline_; }
  std::optional<Interval> timing(uint64_t point) override { return timeline_->timing(point); }
  uint64_t device_time_ns() override { return timeline_->device_time_ns(); }
  uint64_t corrected_timings() override { return timeline_->corrected_timings(); }

 private:
  OpenclQueue(OpenclDevice& device, uint32_t units, Handle<cl_command_queue> object,
              std::unique_ptr<OpenclTimeline> timeline)
      : device_(device), units_(units), object_(std::move(object)), timeline_(std::move(timeline)) {}

  /// `enqueue(&event)` puts one command into the queue; `units` as in OpenclTimeline::submitted.
  template <class F>
  Result<uint64_t> submit(const char* what, uint32_t units, F enqueue);

  // Constant after construction.
  OpenclDevice& device_;
  uint32_t units_;
  Handle<cl_command_queue> object_;
  std::unique_ptr<OpenclTimeline> timeline_;
};

}  // namespace quern::hal::opencl
