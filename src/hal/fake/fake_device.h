// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "hal/checks.h"
#include "hal/device.h"
#include "hal/fake/fake_driver.h"
#include "hal/fake/host_kernels.h"
#include "os/event.h"
#include "os/guarded.h"
#include "os/thread.h"

namespace quern::hal::fake {

class FakeDevice;
class FakeLane;

class FakeBuffer final : public Buffer {
 public:
  /// Of its own if `device` is given, which gets the bytes back.
  FakeBuffer(FakeDevice* device, std::span<std::byte> range, bool writable, std::shared_ptr<Buffer> whole = nullptr)
      : device_(device), range_(range), writable_(writable), whole_(std::move(whole)) {}
  ~FakeBuffer() override;

  uint64_t size_bytes() const override { return range_.size(); }
  std::byte* data() const { return range_.data(); }
  bool writable() const { return writable_; }

 private:
  // Constant after construction.
  FakeDevice* device_;
  std::span<std::byte> range_;
  bool writable_;
  std::shared_ptr<Buffer> whole_;  // of a view: what it is a part of
};

class FakeKernel final : public Kernel {
 public:
  FakeKernel(EntryInfo entry, HostKernel host) : check(std::move(entry)), host(host) {}
  // Constant after construction.
  const ArgumentCheck check;
  const HostKernel host;
};

class FakeProgram final : public Program {
 public:
  FakeProgram(std::string build_key, std::string text, std::vector<EntryInfo> entries, bool was_built)
      : build_key_(std::move(build_key)), text_(std::move(text)), entries_(std::move(entries)), was_built_(was_built) {}

  const std::vector<EntryInfo>& entries() const override { return entries_; }
  Result<std::unique_ptr<Kernel>> create_kernel(std::string_view entry) override;
  Result<Bytes> binary() override;
  std::vector<CodeRange> code() const override { return {}; }

 private:
  // Constant after construction.
  std::string build_key_, text_;
  std::vector<EntryInfo> entries_;
  bool was_built_;
};

/// One thing for the worker to do.
struct Command {
  std::function<Status()> work;
  bool is_launch = false;
  uint64_t write_bytes = 0;         ///< of a write
  std::shared_ptr<FakeLane> after;  ///< starts only when this lane is at `after_point`
  uint64_t after_point = 0;
  bool is_held = false;  ///< does not start before Faults::hold_launch is 0
  bool is_misdated = false;  ///< of a launch: its timestamps are to be counted as corrected
};

/// What a queue and the worker share.
class FakeLane {
 public:
  static Result<std::shared_ptr<FakeLane>> create();

  Result<uint64_t> submit(Command command);
  struct Progress {
    uint64_t submitted = 0, reached = 0;
    std::optional<Error> failure;
  };
  Progress progress() const;
  void fail(Error error);
  std::optional<Interval> timing(uint64_t point) const;
  uint64_t device_time_ns() const;
  uint64_t corrected_timings() const;

  /// The worker: runs the first command if it may start; true if something changed.
  bool run_one(const Faults& faults);
  /// Signalled whenever something ended.
  const os::Event& ended() const { return ended_; }

 private:
  explicit FakeLane(os::Event ended) : ended_(std::move(ended)) {}
  struct Timed {
    Interval interval;
    bool is_launch = false;
  };
  struct State {
    Progress progress;
    std::deque<Command> commands;
    std::vector<Timed> timed = std::vector<Timed>(Queue::kTimingsKept);
    uint64_t device_time_ns = 0, corrected_timings = 0;
  };
  // Constant after construction.
  os::Event ended_;
  os::Guarded<State> state_;
};

class FakeDevice final : public Device {
 public:
  static Result<std::unique_ptr<Device>> create(const DeviceOptions& options, std::shared_ptr<Faults> faults);
  ~FakeDevice() override;

  const Caps& caps() const override { return caps_; }
  Result<std::shared_ptr<Buffer>> allocate(uint64_t size_bytes) override;
  Result<std::shared_ptr<Buffer>> import(std::span<std::byte> range, bool writable) override;
  Result<std::shared_ptr<Buffer>> view(const std::shared_ptr<Buffer>& whole, uint64_t offset,
                                       uint64_t size_bytes) override;
  Result<std::unique_ptr<Program>> build(const Source& source) override;
  Result<std::unique_ptr<Program>> load(std::span<const std::byte> binary) override;
  using Device::create_queue;
  Result<std::unique_ptr<Queue>> create_queue(uint32_t units, uint32_t first) override;
  Status on_each_worker(const std::function<void()>& work) override;
  std::vector<int> worker_threads() const override { return {worker_id_}; }

  Faults& faults() { return *faults_; }
  const os::Event& stop() const { return stop_; }
  void wake() const { wake_.signal(); }
  void give_back(uint64_t bytes) { used_bytes_ -= bytes; }

 private:
  FakeDevice(Caps caps, std::shared_ptr<Faults> faults, os::Event wake, os::Event stop)
      : caps_(std::move(caps)), faults_(std::move(faults)), wake_(std::move(wake)), stop_(std::move(stop)) {}
  void work();
  Result<std::shared_ptr<FakeLane>> add_lane();

  // Constant after construction.
  Caps caps_;
  std::shared_ptr<Faults> faults_;
  os::Event wake_, stop_;
  // Each guards itself.
  std::atomic<int> worker_id_{0};
  std::atomic<bool> is_stopping_{false};
  std::atomic<uint64_t> used_bytes_{0};
  os::Guarded<std::vector<std::weak_ptr<FakeLane>>> lanes_;
  os::Thread worker_;
};

}  // namespace quern::hal::fake
