// SPDX-License-Identifier: Apache-2.0
#include "hal/guarded.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "os/guarded.h"

namespace quern::hal {
namespace {

constexpr std::string_view kMark = "guards:";

/// Memory with its guards.
struct Memory {
  // Constant after construction.
  std::shared_ptr<Buffer> whole;  ///< guard, contents, guard
  uint64_t size_bytes = 0;        ///< of the contents
  // The thread of the queue that launches with it.
  std::string entry;
  uint32_t argument = 0;
};

class GuardedBuffer final : public Buffer {
 public:
  GuardedBuffer(uint64_t size_bytes, std::shared_ptr<Buffer> inner, std::shared_ptr<Memory> memory)
      : inner(std::move(inner)), memory(std::move(memory)), size_bytes_(size_bytes) {}
  uint64_t size_bytes() const override { return size_bytes_; }

  /// What kernels see. Null for an allocation that nothing was written to yet; the first write makes it.
  std::shared_ptr<Buffer> inner;
  std::shared_ptr<Memory> memory;  ///< null for what was imported: that has no guards

 private:
  uint64_t size_bytes_;
};

GuardedBuffer& guarded(Buffer& buffer) { return static_cast<GuardedBuffer&>(buffer); }

/// Makes, fills and examines memory on a queue of its own.
class Guards {
 public:
  Guards(Device& device, uint8_t poison) : device_(device), poison_(static_cast<std::byte>(poison)) {}

  Result<std::shared_ptr<Memory>> make(uint64_t size_bytes) {
    auto memory = std::make_shared<Memory>();
    memory->size_bytes = size_bytes;
    QUERN_TRY(memory->whole, device_.allocate(size_bytes + 2 * kGuardBytes));
    QUERN_TRY(state_.with([&](State& state) -> Status {
      QUERN_TRY(fill(state, *memory->whole, 0, size_bytes + 2 * kGuardBytes));
      std::erase_if(state.all, [](const std::weak_ptr<Memory>& one) { return one.expired(); });
      state.all.push_back(memory);
      return {};
    }));
    return memory;
  }

  /// The guards of all memory there is.
  Status examine_all() {
    return state_.with([&](State& state) -> Status {
      for (const auto& weak : state.all)
        if (const auto memory = weak.lock()) QUERN_TRY(examine(state, *memory, false));
      return {};
    });
  }
  /// Those of the memory that a launch was given, which has ended.
  Status examine(const std::vector<std::shared_ptr<Memory>>& used) {
    return state_.with([&](State& state) -> Status {
      for (const auto& memory : used) QUERN_TRY(examine(state, *memory, true));
      return {};
    });
  }

 private:
  struct State {
    std::unique_ptr<Queue> queue;
    std::vector<std::weak_ptr<Memory>> all;
    Bytes bytes = Bytes(kGuardBytes);
  };

  Status settle(State& state, uint64_t point) {
    QUERN_TRY(state.queue->flush());
    return state.queue->timeline().wait(point, Duration::forever());
  }
  Status fill(State& state, Buffer& buffer, uint64_t offset, uint64_t size_bytes) {
    if (!state.queue) {
      QUERN_TRY(state.queue, device_.create_queue());
    }
    QUERN_TRY(const uint64_t point, state.queue->fill(buffer, offset, size_bytes, std::span(&poison_, 1)));
    return settle(state, point);
  }

  // Also mends what it finds: the next run is not to be blamed for it.
  Status examine(State& state, Memory& memory, bool is_by_kernel) {
    for (const bool behind : {true, false}) {
      const uint64_t at = behind ? kGuardBytes + memory.size_bytes : 0;
      QUERN_TRY(const uint64_t point, state.queue->read(*memory.whole, at, state.bytes));
      QUERN_TRY(settle(state, point));
      const auto is_written = [&](std::byte byte) { return byte != poison_; };
      const auto first = std::find_if(state.bytes.begin(), state.bytes.end(), is_written);
      if (first == state.bytes.end()) continue;
      const auto last = std::find_if(state.bytes.rbegin(), state.bytes.rend(), is_written).base() - 1;
      QUERN_TRY(fill(state, *memory.whole, at, kGuardBytes));
      const int64_t start = static_cast<int64_t>(at) - static_cast<int64_t>(kGuardBytes);
      return Error{ErrorCode::kFaulted,
                   to_text({memory.entry, memory.argument, is_by_kernel, memory.size_bytes,
                            start + (first - state.bytes.begin()), start + (last - state.bytes.begin())})};
    }
    return {};
  }

  // Constant after construction.
  Device& device_;
  const std::byte poison_;

  os::Guarded<State> state_;
};

class GuardedKernel final : public Kernel {
 public:
  GuardedKernel(std::unique_ptr<Kernel> kernel, std::string_view entry) : kernel(std::move(kernel)), entry(entry) {}

  // Constant after construction.
  const std::unique_ptr<Kernel> kernel;
  const std::string entry;
};

class GuardedProgram final : public Program {
 public:
  explicit GuardedProgram(std::unique_ptr<Program> program) : program_(std::move(program)) {}

  const std::vector<EntryInfo>& entries() const override { return program_->entries(); }
  Result<std::unique_ptr<Kernel>> create_kernel(std::string_view entry) override {
    QUERN_TRY(auto kernel, program_->create_kernel(entry));
    return std::unique_ptr<Kernel>(std::make_unique<GuardedKernel>(std::move(kernel), entry));
  }
  Result<Bytes> binary() override { return program_->binary(); }
  std::vector<CodeRange> code() const override { return program_->code(); }

 private:
  std::unique_ptr<Program> program_;
};

class GuardedQueue final : public Queue {
 public:
  GuardedQueue(std::unique_ptr<Queue> queue, Device& device, Guards& guards)
      : queue_(std::move(queue)), device_(device), guards_(guards) {}

  Result<uint64_t> write(Buffer& target, uint64_t offset, std::span<const std::byte> source) override {
    QUERN_TRY(Buffer * inner, inner_of(target));
    return queue_->write(*inner, offset, source);
  }
  Result<uint64_t> read(Buffer& source, uint64_t offset, std::span<std::byte> target) override {
    QUERN_TRY(settle());
    QUERN_TRY(guards_.examine_all());
    QUERN_TRY(Buffer * inner, inner_of(source));
    return queue_->read(*inner, offset, target);
  }
  Result<uint64_t> copy(Buffer& source, uint64_t source_offset, Buffer& target, uint64_t target_offset,
                        uint64_t size_bytes) override {
    QUERN_TRY(Buffer * from, inner_of(source));
    QUERN_TRY(Buffer * to, inner_of(target));
    return queue_->copy(*from, source_offset, *to, target_offset, size_bytes);
  }
  Result<uint64_t> fill(Buffer& target, uint64_t offset, uint64_t size_bytes,
                        std::span<const std::byte> pattern) override {
    QUERN_TRY(Buffer * inner, inner_of(target));
    return queue_->fill(*inner, offset, size_bytes, pattern);
  }
  Result<uint64_t> launch(const Launch& launch) override;
  Status wait_for(Queue& other, uint64_t point) override {
    return queue_->wait_for(*static_cast<GuardedQueue&>(other).queue_, point);
  }
  Status flush() override { return queue_->flush(); }
  Timeline& timeline() override { return queue_->timeline(); }
  std::optional<Interval> timing(uint64_t point) override { return queue_->timing(point); }
  uint64_t device_time_ns() override { return queue_->device_time_ns(); }
  uint64_t corrected_timings() override { return queue_->corrected_timings(); }

 private:
  Result<Buffer*> inner_of(Buffer& buffer) {
    GuardedBuffer& one = guarded(buffer);
    if (!one.inner) {
      QUERN_TRY(one.memory, guards_.make(one.size_bytes()));
      QUERN_TRY(one.inner, device_.view(one.memory->whole, kGuardBytes, one.size_bytes()));
    }
    return one.inner.get();
  }

  // Waits for the last launch and examines what it was given.
  Status settle() {
    if (last_ == 0) return {};
    QUERN_TRY(queue_->flush());
    QUERN_TRY(queue_->timeline().wait(std::exchange(last_, 0), Duration::forever()));
    return guards_.examine(std::exchange(used_, {}));
  }

  // Constant after construction.
  std::unique_ptr<Queue> queue_;
  Device& device_;
  Guards& guards_;
  // The thread that submits.
  uint64_t last_ = 0;  ///< the point of the last launch; 0: it was examined
  std::vector<std::shared_ptr<Memory>> used_;
};

// Not at once behind the launch: whoever submits it may want to know that it is under way.
Result<uint64_t> GuardedQueue::launch(const Launch& launch) {
  QUERN_TRY(settle());
  if (!launch.kernel) return queue_->launch(launch);
  const auto& kernel = static_cast<const GuardedKernel&>(*launch.kernel);
  std::vector<Argument> arguments(launch.arguments.begin(), launch.arguments.end());
  std::vector<std::shared_ptr<Memory>> used;
  for (size_t i = 0; i < arguments.size(); ++i) {
    Buffer** const buffer = std::get_if<Buffer*>(&arguments[i]);
    if (!buffer || !*buffer) continue;
    QUERN_TRY(Buffer * inner, inner_of(**buffer));
    if (const auto& memory = guarded(**buffer).memory) {
      memory->entry = kernel.entry;
      memory->argument = static_cast<uint32_t>(i);
      used.push_back(memory);
    }
    *buffer = inner;
  }
  Launch inner = launch;
  inner.kernel = kernel.kernel.get();
  inner.arguments = arguments;
  QUERN_TRY(last_, queue_->launch(inner));
  used_ = std::move(used);
  return last_;
}

class GuardedDevice final : public Device {
 public:
  GuardedDevice(std::unique_ptr<Device> device, uint8_t poison)
      : device_(std::move(device)), caps_(device_->caps()), guards_(*device_, poison) {
    // Nobody else's bytes are ever seen: all is poisoned. An owner that cleared it would undo that.
    caps_.fresh_memory_is_zero = true;
    caps_.max_allocation_bytes -= std::min(caps_.max_allocation_bytes, 2 * kGuardBytes);
  }

  const Caps& caps() const override { return caps_; }
  Result<std::shared_ptr<Buffer>> allocate(uint64_t size_bytes) override {
    if (size_bytes == 0) return invalid(fmt::format("device {}: an allocation has 0 bytes", caps_.name));
    if (size_bytes > caps_.max_allocation_bytes)
      return exhausted(fmt::format("device {}: allocates at most {} bytes at a time, not {}", caps_.name,
                                   caps_.max_allocation_bytes, size_bytes));
    return std::shared_ptr<Buffer>(std::make_shared<GuardedBuffer>(size_bytes, nullptr, nullptr));
  }
  Result<std::shared_ptr<Buffer>> import(std::span<std::byte> range, bool writable) override {
    QUERN_TRY(auto inner, device_->import(range, writable));
    return std::shared_ptr<Buffer>(std::make_shared<GuardedBuffer>(range.size(), std::move(inner), nullptr));
  }
  Result<std::shared_ptr<Buffer>> view(const std::shared_ptr<Buffer>& whole, uint64_t offset,
                                       uint64_t size_bytes) override {
    const GuardedBuffer& of = guarded(*whole);
    if (of.inner) {
      QUERN_TRY(auto inner, device_->view(of.inner, offset, size_bytes));
      return std::shared_ptr<Buffer>(std::make_shared<GuardedBuffer>(size_bytes, std::move(inner), of.memory));
    }
    if (offset % caps_.alignment_bytes != 0 || offset > of.size_bytes() || size_bytes > of.size_bytes() - offset)
      return invalid(fmt::format("device {}: a view of {} bytes at {} does not fit", caps_.name, size_bytes, offset));
    QUERN_TRY(auto memory, guards_.make(size_bytes));
    QUERN_TRY(auto inner, device_->view(memory->whole, kGuardBytes, size_bytes));
    return std::shared_ptr<Buffer>(std::make_shared<GuardedBuffer>(size_bytes, std::move(inner), std::move(memory)));
  }
  Result<std::unique_ptr<Program>> build(const Source& source) override {
    QUERN_TRY(auto program, device_->build(source));
    return std::unique_ptr<Program>(std::make_unique<GuardedProgram>(std::move(program)));
  }
  Result<std::unique_ptr<Program>> load(std::span<const std::byte> binary) override {
    QUERN_TRY(auto program, device_->load(binary));
    return std::unique_ptr<Program>(std::make_unique<GuardedProgram>(std::move(program)));
  }
  using Device::create_queue;
  Result<std::unique_ptr<Queue>> create_queue(uint32_t units, uint32_t first) override {
    QUERN_TRY(auto queue, device_->create_queue(units, first));
    return std::unique_ptr<Queue>(std::make_unique<GuardedQueue>(std::move(queue), *device_, guards_));
  }
  Status on_each_worker(const std::function<void()>& work) override { return device_->on_each_worker(work); }
  std::vector<int> worker_threads() const override { return device_->worker_threads(); }

 private:
  // Constant after construction.
  std::unique_ptr<Device> device_;
  Caps caps_;
  // Any thread.
  Guards guards_;
};

class GuardedDriver final : public Driver {
 public:
  GuardedDriver(std::unique_ptr<Driver> driver, uint8_t poison) : driver_(std::move(driver)), poison_(poison) {}

  Result<std::vector<Found>> enumerate() override { return driver_->enumerate(); }
  Result<std::unique_ptr<Device>> open(const DeviceOptions& options) override {
    QUERN_TRY(auto device, driver_->open(options));
    return std::unique_ptr<Device>(std::make_unique<GuardedDevice>(std::move(device), poison_));
  }

 private:
  std::unique_ptr<Driver> driver_;
  uint8_t poison_;
};

// The number behind `key`, and moves past it.
template <class T>
bool take_number(std::string_view& text, std::string_view key, T& value) {
  if (!text.starts_with(key)) return false;
  const auto parsed = std::from_chars(text.data() + key.size(), text.data() + text.size(), value);
  if (parsed.ec != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(parsed.ptr - text.data()));
  return true;
}

}  // namespace

std::string to_text(const GuardFinding& finding) {
  return fmt::format("{} argument={} written={} size={} first={} last={} kernel={};", kMark, finding.argument,
                     finding.is_by_kernel ? 1 : 0, finding.size_bytes, finding.first, finding.last, finding.entry);
}

std::optional<GuardFinding> finding_in(std::string_view text) {
  const size_t at = text.find(kMark);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + kMark.size());
  GuardFinding finding;
  int written = 0;
  constexpr std::string_view kKernel = " kernel=";
  if (!take_number(text, " argument=", finding.argument) || !take_number(text, " written=", written) ||
      !take_number(text, " size=", finding.size_bytes) || !take_number(text, " first=", finding.first) ||
      !take_number(text, " last=", finding.last) || !text.starts_with(kKernel))
    return std::nullopt;
  finding.is_by_kernel = written != 0;
  finding.entry = text.substr(kKernel.size(), text.find(';') - kKernel.size());
  return finding;
}

std::unique_ptr<Driver> create_guarded_driver(std::unique_ptr<Driver> driver, uint8_t poison) {
  return std::make_unique<GuardedDriver>(std::move(driver), poison);
}

}  // namespace quern::hal
