// SPDX-License-Identifier: Apache-2.0
#include "hal/fake/fake_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "base/suggest.h"
#include "base/units.h"
#include "hal/checks.h"
#include "hal/fake/fake_queue.h"
#include "hal/fake/signatures.h"
#include "os/clock.h"

namespace quern::hal::fake {
namespace {

constexpr std::string_view kMagic = "quern-fk";
constexpr size_t kHashBytes = 64;
constexpr size_t kMostText = 16 * kMiB;

Result<std::vector<EntryInfo>> entries_of(std::string_view text) {
  QUERN_TRY(auto entries, read_signatures(text));
  for (auto& entry : entries) {
    if (!find_host_kernel(entry.name)) return invalid(fmt::format("fake: no host version of {}", entry.name));
    entry.unsliceable = unsliceable_of(entry.name);
  }
  return entries;
}

}  // namespace

FakeBuffer::~FakeBuffer() {
  if (!device_) return;
  std::free(range_.data());
  device_->give_back(round_up(range_.size(), device_->caps().allocation_granularity_bytes));
}

Result<std::unique_ptr<Kernel>> FakeProgram::create_kernel(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& entry : entries_) {
    if (entry.name == name) return std::unique_ptr<Kernel>(new FakeKernel(entry, find_host_kernel(name)));
    names.push_back(entry.name);
  }
  return not_found(fmt::format("kernel {}: the program has none of this name{}", name, did_you_mean(name, names)));
}

Result<Bytes> FakeProgram::binary() {
  if (!was_built_) return unsupported("program: was loaded from a binary; keep that one");
  ByteWriter writer;
  writer.raw(as_bytes_of(kMagic));
  writer.put_text(build_key_);
  writer.put_text(text_);
  writer.raw(as_bytes_of(sha256(writer.bytes())));
  return writer.take();
}

Result<std::shared_ptr<FakeLane>> FakeLane::create() {
  QUERN_TRY(auto ended, os::Event::create());
  return std::shared_ptr<FakeLane>(new FakeLane(std::move(ended)));
}

Result<uint64_t> FakeLane::submit(Command command) {
  return state_.with([&](State& state) -> Result<uint64_t> {
    if (state.progress.failure) return *state.progress.failure;
    if (state.commands.size() >= Queue::kTimingsKept)
      return exhausted(fmt::format("queue: {} submissions are under way; wait for some", Queue::kTimingsKept));
    state.commands.push_back(std::move(command));
    return ++state.progress.submitted;
  });
}

FakeLane::Progress FakeLane::progress() const {
  return state_.with([](const State& state) { return state.progress; });
}

void FakeLane::fail(Error error) {
  state_.with([&](State& state) {
    if (!state.progress.failure) state.progress.failure = std::move(error);
  });
  ended_.signal();
}

std::optional<Interval> FakeLane::timing(uint64_t point) const {
  return state_.with([&](const State& state) -> std::optional<Interval> {
    if (point == 0 || point > state.progress.reached || state.progress.submitted - point >= Queue::kTimingsKept)
      return std::nullopt;
    const auto& timed = state.timed[point % Queue::kTimingsKept];
    return timed.is_launch ? std::optional(timed.interval) : std::nullopt;
  });
}

uint64_t FakeLane::device_time_ns() const {
  return state_.with([](const State& state) { return state.device_time_ns; });
}

uint64_t FakeLane::corrected_timings() const {
  return state_.with([](const State& state) { return state.corrected_timings; });
}

bool FakeLane::run_one(const Faults& faults) {
  std::shared_ptr<FakeLane> after;
  uint64_t after_point = 0;
  const bool has_work = state_.with([&](State& state) {
    if (state.progress.failure) state.commands.clear();
    if (state.commands.empty()) return false;
    if (state.commands.front().write_bytes >= faults.held_write_bytes) return false;
    if (state.commands.front().is_held && faults.hold_launch != 0) return false;
    after = state.commands.front().after;
    after_point = state.commands.front().after_point;
    return true;
  });
  if (!has_work) return false;
  if (after) {
    const auto theirs = after->progress();
    if (theirs.failure) {
      fail(*theirs.failure);
      return true;
    }
    if (theirs.reached < after_point) return false;
  }
  // Only the worker takes commands out, so the first one stays where it is while it runs.
  Command* command = state_.with([](State& state) { return &state.commands.front(); });
  const Time start = os::now();
  Status status = command->work();
  const Time end = os::now();
  state_.with([&](State& state) {
    if (status.ok() && !state.progress.failure) {
      const uint64_t point = ++state.progress.reached;
      state.timed[point % Queue::kTimingsKept] = {{start.ns, end.ns}, command->is_launch};
      if (command->is_launch) state.device_time_ns += static_cast<uint64_t>((end - start).ns);
      state.corrected_timings += command->is_misdated;
    } else if (!state.progress.failure) {
      state.progress.failure = std::move(status).error();
    }
    state.commands.pop_front();
  });
  ended_.signal();
  return true;
}

Result<std::unique_ptr<Device>> FakeDevice::create(const DeviceOptions& options, std::shared_ptr<Faults> faults) {
  Caps caps;
  caps.driver = "fake";
  caps.name = fmt::format("fake-{}", options.index);
  caps.build_key = "fake/2";
  caps.memory_bytes = options.memory_bytes ? options.memory_bytes : kGiB;
  caps.context_bytes = kMiB;
  caps.max_allocation_bytes = caps.memory_bytes;
  caps.allocation_granularity_bytes = 128;
  caps.alignment_bytes = 128;
  caps.local_memory_bytes = 64 * kKiB;
  caps.max_group_size = 1024;
  for (auto& size : caps.max_group_sizes) size = 1024;
  caps.launch_offset = true;
  caps.unified_memory = true;
  caps.fresh_memory_is_zero = faults->fresh_memory_is_zero;
  caps.overlap = Overlap::kNone;
  caps.fault_scope = FaultScope::kProcess;
  caps.timestamps = Timestamps::kDevice;
  // Its worker stands for a device of its own, which the operating system knows nothing of.
  caps.worker_classes = false;
  QUERN_TRY(auto wake, os::Event::create());
  QUERN_TRY(auto stop, os::Event::create());
  std::unique_ptr<FakeDevice> device(
      new FakeDevice(std::move(caps), std::move(faults), std::move(wake), std::move(stop)));
  device->worker_ = os::Thread("fake-device", [device = device.get()] {
    device->worker_id_ = os::thread_id();
    device->worker_id_.notify_all();
    device->work();
  });
  device->worker_id_.wait(0);
  return std::unique_ptr<Device>(std::move(device));
}

FakeDevice::~FakeDevice() {
  is_stopping_ = true;
  stop_.signal();
  wake_.signal();
  worker_.join();
}

void FakeDevice::work() {
  while (!is_stopping_) {
    wake_.drain();
    const auto lanes = lanes_.with([](auto& all) {
      std::erase_if(all, [](const auto& lane) { return lane.expired(); });
      return all;
    });
    bool changed = false;
    if (!faults_->is_stopped)
      for (const auto& lane : lanes)
        if (const auto held = lane.lock(); held && !is_stopping_) changed |= held->run_one(*faults_);
    if (!changed) wake_.wait(Duration::forever());
  }
}

Result<std::shared_ptr<FakeLane>> FakeDevice::add_lane() {
  QUERN_TRY(auto lane, FakeLane::create());
  lanes_.with([&](auto& all) { all.push_back(lane); });
  return lane;
}

Result<std::shared_ptr<Buffer>> FakeDevice::allocate(uint64_t size_bytes) {
  if (size_bytes == 0) return invalid("buffer: has no bytes");
  if (size_bytes > caps_.max_allocation_bytes)
    return exhausted(fmt::format("buffer: {} bytes are more than device {} allows at once ({})", size_bytes, caps_.name,
                                 caps_.max_allocation_bytes));
  const uint64_t bytes = round_up(size_bytes, caps_.allocation_granularity_bytes);
  uint64_t left = faults_->bytes_until_failure;
  do {
    if (left < bytes) return exhausted(fmt::format("buffer: {} bytes fail by order of a test", size_bytes));
  } while (!faults_->bytes_until_failure.compare_exchange_weak(left, left - bytes));
  uint64_t used = used_bytes_;
  do {
    if (bytes > caps_.memory_bytes - std::min(used, caps_.memory_bytes))
      return exhausted(fmt::format("buffer: {} bytes do not fit device {}: {} of {} are in use", size_bytes, caps_.name,
                                   used, caps_.memory_bytes));
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes));
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(caps_.alignment_bytes, bytes));
  if (!memory) {
    give_back(bytes);
    return exhausted(fmt::format("buffer: this machine has no {} bytes", size_bytes));
  }
  std::memset(memory, caps_.fresh_memory_is_zero ? 0 : kPoison, bytes);
  return std::shared_ptr<Buffer>(new FakeBuffer(this, {memory, size_bytes}, true));
}

Result<std::shared_ptr<Buffer>> FakeDevice::import(std::span<std::byte> range, bool writable) {
  if (range.empty()) return invalid("imported range: has no bytes");
  if (reinterpret_cast<uintptr_t>(range.data()) % caps_.alignment_bytes != 0)
    return invalid(fmt::format("imported range: starts at {}, which is no multiple of {}",
                               static_cast<void*>(range.data()), caps_.alignment_bytes));
  return std::shared_ptr<Buffer>(new FakeBuffer(nullptr, range, writable));
}

Result<std::shared_ptr<Buffer>> FakeDevice::view(const std::shared_ptr<Buffer>& whole, uint64_t offset,
                                                 uint64_t size_bytes) {
  QUERN_TRY(check_view(whole->size_bytes(), offset, size_bytes, caps_.alignment_bytes));
  const auto& of = static_cast<const FakeBuffer&>(*whole);
  return std::shared_ptr<Buffer>(new FakeBuffer(nullptr, {of.data() + offset, size_bytes}, of.writable(), whole));
}

Result<std::unique_ptr<Program>> FakeDevice::build(const Source& source) {
  QUERN_TRY(auto entries, entries_of(source.text));
  return std::unique_ptr<Program>(new FakeProgram(caps_.build_key, source.text, std::move(entries), true));
}

Result<std::unique_ptr<Program>> FakeDevice::load(std::span<const std::byte> binary) {
  if (binary.size() < kMagic.size() + kHashBytes || as_text(binary.first(kMagic.size())) != kMagic)
    return invalid("binary: was not made by this driver; build the program again");
  const auto body = binary.first(binary.size() - kHashBytes);
  if (sha256(body) != as_text(binary.last(kHashBytes))) return invalid("binary: damaged; build the program again");
  ByteReader reader(body.subspan(kMagic.size()));
  const auto key = reader.get_text();
  auto text = reader.get_text(kMostText);
  if (!reader.ok() || !reader.at_end()) return invalid("binary: damaged; build the program again");
  if (key != caps_.build_key) return invalid(fmt::format("binary: is for '{}', not for '{}'", key, caps_.build_key));
  QUERN_TRY(auto entries, entries_of(text));
  return std::unique_ptr<Program>(new FakeProgram(caps_.build_key, std::move(text), std::move(entries), false));
}

Result<std::unique_ptr<Queue>> FakeDevice::create_queue(uint32_t units, uint32_t) {
  if (units > 0 && units != caps_.units)
    return invalid(fmt::format("queue of {} units: device {} cannot be divided", units, caps_.name));
  QUERN_TRY(auto lane, add_lane());
  return std::unique_ptr<Queue>(new FakeQueue(*this, std::move(lane)));
}

Status FakeDevice::on_each_worker(const std::function<void()>& work) {
  QUERN_TRY(auto queue, create_queue());
  auto& fake = static_cast<FakeQueue&>(*queue);
  QUERN_TRY(auto point, fake.submit_host(work));
  return queue->timeline().wait(point, Duration::forever());
}

}  // namespace quern::hal::fake
