// SPDX-License-Identifier: Apache-2.0
#include "hal/sliced.h"

#include <algorithm>
#include <atomic>
#include <set>

namespace quern::hal {
namespace {

class SlicedKernel final : public Kernel {
 public:
  SlicedKernel(std::unique_ptr<Kernel> kernel, bool sliceable) : kernel(std::move(kernel)), sliceable(sliceable) {}

  // Constant after construction.
  const std::unique_ptr<Kernel> kernel;
  const bool sliceable;
};

class SlicedProgram final : public Program {
 public:
  explicit SlicedProgram(std::unique_ptr<Program> program) : program_(std::move(program)) {}

  const std::vector<EntryInfo>& entries() const override { return program_->entries(); }
  Result<std::unique_ptr<Kernel>> create_kernel(std::string_view entry) override {
    QUERN_TRY(auto kernel, program_->create_kernel(entry));
    const bool sliceable = std::any_of(entries().begin(), entries().end(), [&](const EntryInfo& info) {
      return info.name == entry && info.unsliceable.empty();
    });
    return std::unique_ptr<Kernel>(std::make_unique<SlicedKernel>(std::move(kernel), sliceable));
  }
  Result<Bytes> binary() override { return program_->binary(); }
  std::vector<CodeRange> code() const override { return program_->code(); }

 private:
  std::unique_ptr<Program> program_;
};

class SlicedQueue final : public Queue {
 public:
  SlicedQueue(std::unique_ptr<Queue> queue, uint64_t seed) : queue_(std::move(queue)), prng_(seed) {}

  Result<uint64_t> write(Buffer& target, uint64_t offset, std::span<const std::byte> source) override {
    return queue_->write(target, offset, source);
  }
  Result<uint64_t> read(Buffer& source, uint64_t offset, std::span<std::byte> target) override {
    return queue_->read(source, offset, target);
  }
  Result<uint64_t> copy(Buffer& source, uint64_t source_offset, Buffer& target, uint64_t target_offset,
                        uint64_t size_bytes) override {
    return queue_->copy(source, source_offset, target, target_offset, size_bytes);
  }
  Result<uint64_t> fill(Buffer& target, uint64_t offset, uint64_t size_bytes,
                        std::span<const std::byte> pattern) override {
    return queue_->fill(target, offset, size_bytes, pattern);
  }
  Result<uint64_t> launch(const Launch& launch) override;
  Status wait_for(Queue& other, uint64_t point) override {
    return queue_->wait_for(*static_cast<SlicedQueue&>(other).queue_, point);
  }
  Status flush() override { return queue_->flush(); }
  Timeline& timeline() override { return queue_->timeline(); }
  std::optional<Interval> timing(uint64_t point) override { return queue_->timing(point); }
  uint64_t device_time_ns() override { return queue_->device_time_ns(); }
  uint64_t corrected_timings() override { return queue_->corrected_timings(); }

 private:
  std::unique_ptr<Queue> queue_;
  Prng prng_;
};

// One submission became several, of which a queue takes kTimingsKept: half of them are left for who counts its own.
Result<uint64_t> SlicedQueue::launch(const Launch& launch) {
  if (!launch.kernel) return queue_->launch(launch);
  const auto& kernel = static_cast<const SlicedKernel&>(*launch.kernel);
  Launch whole = launch;
  whole.kernel = kernel.kernel.get();
  if (!kernel.sliceable) return queue_->launch(whole);
  uint64_t last = 0;
  for (const Launch& slice : random_slices(whole, prng_)) {
    QUERN_TRY(last, queue_->launch(slice));
  }
  if (last > kTimingsKept / 2) {
    QUERN_TRY(queue_->flush());
    QUERN_TRY(queue_->timeline().wait(last - kTimingsKept / 2, Duration::forever()));
  }
  return last;
}

class SlicedDevice final : public Device {
 public:
  SlicedDevice(std::unique_ptr<Device> device, uint64_t seed) : device_(std::move(device)), seed_(seed) {}

  const Caps& caps() const override { return device_->caps(); }
  Result<std::shared_ptr<Buffer>> allocate(uint64_t size_bytes) override { return device_->allocate(size_bytes); }
  Result<std::shared_ptr<Buffer>> import(std::span<std::byte> range, bool writable) override {
    return device_->import(range, writable);
  }
  Result<std::shared_ptr<Buffer>> view(const std::shared_ptr<Buffer>& whole, uint64_t offset,
                                       uint64_t size_bytes) override {
    return device_->view(whole, offset, size_bytes);
  }
  Result<std::unique_ptr<Program>> build(const Source& source) override {
    QUERN_TRY(auto program, device_->build(source));
    return std::unique_ptr<Program>(std::make_unique<SlicedProgram>(std::move(program)));
  }
  Result<std::unique_ptr<Program>> load(std::span<const std::byte> binary) override {
    QUERN_TRY(auto program, device_->load(binary));
    return std::unique_ptr<Program>(std::make_unique<SlicedProgram>(std::move(program)));
  }
  using Device::create_queue;
  Result<std::unique_ptr<Queue>> create_queue(uint32_t units, uint32_t first) override {
    QUERN_TRY(auto queue, device_->create_queue(units, first));
    const uint64_t seed = Prng(seed_ + queues_++).next();
    return std::unique_ptr<Queue>(std::make_unique<SlicedQueue>(std::move(queue), seed));
  }
  Status on_each_worker(const std::function<void()>& work) override { return device_->on_each_worker(work); }
  std::vector<int> worker_threads() const override { return device_->worker_threads(); }

 private:
  // Constant after construction.
  std::unique_ptr<Device> device_;
  uint64_t seed_;
  // Any thread.
  std::atomic<uint64_t> queues_{0};
};

class SlicedDriver final : public Driver {
 public:
  SlicedDriver(std::unique_ptr<Driver> driver, uint64_t seed) : driver_(std::move(driver)), seed_(seed) {}

  Result<std::vector<Found>> enumerate() override { return driver_->enumerate(); }
  Result<std::unique_ptr<Device>> open(const DeviceOptions& options) override {
    QUERN_TRY(auto device, driver_->open(options));
    if (!device->caps().launch_offset) return unsupported("device " + device->caps().name + ": has no launch offset");
    return std::unique_ptr<Device>(std::make_unique<SlicedDevice>(std::move(device), seed_));
  }

 private:
  std::unique_ptr<Driver> driver_;
  uint64_t seed_;
};

}  // namespace

std::vector<Launch> random_slices(const Launch& whole, Prng& prng) {
  uint32_t along = 0;
  uint64_t groups = 1;
  for (uint32_t i = 0; i < std::min(whole.dimensions, 3u); ++i) {
    const uint64_t here = whole.local[i] == 0 ? 1 : whole.global[i] / whole.local[i];
    if (here >= groups) groups = here, along = i;
  }
  if (groups == 1) return {whole};
  const uint64_t parts = 2 + prng.below(std::min(groups, kMostSlices) - 1);
  std::set<uint64_t> ends = {groups};
  while (ends.size() < parts) ends.insert(1 + prng.below(groups - 1));
  std::vector<Launch> slices;
  uint64_t begin = 0;
  for (const uint64_t end : ends) {
    Launch slice = whole;
    slice.offset[along] += begin * whole.local[along];
    slice.global[along] = (end - begin) * whole.local[along];
    slices.push_back(slice);
    begin = end;
  }
  return slices;
}

std::unique_ptr<Driver> create_sliced_driver(std::unique_ptr<Driver> driver, uint64_t seed) {
  return std::make_unique<SlicedDriver>(std::move(driver), seed);
}

}  // namespace quern::hal
