// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/opencl_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "base/units.h"
#include "hal/checks.h"
#include "hal/opencl/cl_error.h"
#include "hal/opencl/opencl_buffer.h"
#include "hal/opencl/opencl_program.h"
#include "hal/opencl/opencl_queue.h"
#include "hal/opencl/opencl_timeline.h"
#include "hal/opencl/portable_ir.h"
#include "os/event.h"
#include "os/thread.h"

namespace quern::hal::opencl {
namespace {

// What a process uses before its first buffer where nobody measured it. Devices with memory of their own keep contexts
// there; no OpenCL call tells how much.
constexpr uint64_t kCpuContextBytes = 64 * kMiB;
constexpr uint64_t kOtherContextBytes = 256 * kMiB;

bool has_partitions(const Api& api, cl_device_id id) {
  cl_device_partition_property properties[16] = {};
  size_t size = 0;
  return api.GetDeviceInfo(id, CL_DEVICE_PARTITION_PROPERTIES, sizeof properties, properties, &size) == CL_SUCCESS &&
         size > 0 && properties[0] != 0 && device_number<cl_uint>(api, id, CL_DEVICE_PARTITION_MAX_SUB_DEVICES) > 1;
}

}  // namespace

std::string device_text(const Api& api, cl_device_id id, cl_device_info what) {
  size_t size = 0;
  if (api.GetDeviceInfo(id, what, 0, nullptr, &size) != CL_SUCCESS || size == 0) return "";
  std::string text(size, '\0');
  api.GetDeviceInfo(id, what, size, text.data(), nullptr);
  text.resize(text.find_last_not_of(std::string("\0 ", 2)) + 1);
  return text;
}

std::string name_of_platform(const Api& api, cl_platform_id platform) {
  char name[256] = {};
  api.GetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, nullptr);
  return name;
}

std::string platform_of(const Api& api, cl_device_id id) {
  return name_of_platform(api, device_number<cl_platform_id>(api, id, CL_DEVICE_PLATFORM));
}

const Traits& traits_of(const Api& api, cl_device_id id) {
  return traits_of(platform_of(api, id), device_text(api, id, CL_DRIVER_VERSION));
}

// A device of OpenCL 2.1 or later has a timer, or says that it has none (PoCL 3.1: CL_INVALID_OPERATION). An older one
// may bring a table of functions that ends before it.
bool has_timer(const Api& api, cl_device_id id) {
  const auto version = device_text(api, id, CL_DEVICE_VERSION);
  const bool is_older = version.starts_with("OpenCL 1.") || version.starts_with("OpenCL 2.0");
  cl_ulong device_ns = 0, host_ns = 0;
  return api.GetDeviceAndHostTimer && !is_older && api.GetDeviceAndHostTimer(id, &device_ns, &host_ns) == CL_SUCCESS &&
         device_ns > 0;
}

Result<Caps> caps_of(const Api& api, cl_device_id id, uint64_t memory_bytes) {
  Caps caps;
  caps.driver = "opencl";
  caps.name = device_text(api, id, CL_DEVICE_NAME);
  const auto version = device_text(api, id, CL_DEVICE_VERSION);
  if (version.starts_with("OpenCL 1.0") || version.starts_with("OpenCL 1.1"))
    return unsupported(fmt::format("opencl device {}: has {}; 1.2 is the least", caps.name, version));
  const auto platform = platform_of(api, id);
  caps.build_key =
      fmt::format("opencl/{}|{}|{}|{}|{}|{}|{}", kEnvelopeFormat, clang_key(), platform, caps.name,
                  device_text(api, id, CL_DEVICE_VENDOR), version, device_text(api, id, CL_DRIVER_VERSION));
  const bool is_cpu = (device_number<cl_device_type>(api, id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
  const uint64_t device_bytes = device_number<cl_ulong>(api, id, CL_DEVICE_GLOBAL_MEM_SIZE);
  caps.memory_bytes = memory_bytes ? memory_bytes : device_bytes;
  const Traits& traits = traits_of(api, id);
  caps.context_bytes = traits.context_bytes;
  if (caps.context_bytes == 0) caps.context_bytes = is_cpu ? kCpuContextBytes : kOtherContextBytes;
  caps.max_allocation_bytes =
      std::min<uint64_t>(device_number<cl_ulong>(api, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE), caps.memory_bytes);
  caps.alignment_bytes = std::max(128u, device_number<cl_uint>(api, id, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8);
  caps.allocation_granularity_bytes = caps.alignment_bytes;
  caps.units = std::max(1u, device_number<cl_uint>(api, id, CL_DEVICE_MAX_COMPUTE_UNITS));
  caps.local_memory_bytes = device_number<cl_ulong>(api, id, CL_DEVICE_LOCAL_MEM_SIZE);
  caps.max_group_size = static_cast<uint32_t>(device_number<size_t>(api, id, CL_DEVICE_MAX_WORK_GROUP_SIZE));
  size_t sizes[16] = {1, 1, 1};
  api.GetDeviceInfo(id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof sizes, sizes, nullptr);
  for (int i = 0; i < 3; ++i) caps.max_group_sizes[i] = static_cast<uint32_t>(sizes[i]);
  caps.launch_offset = true;
  // An integrated GPU shares memory too, but its caches need map and unmap around each use: it copies.
  caps.unified_memory = is_cpu && device_number<cl_bool>(api, id, CL_DEVICE_HOST_UNIFIED_MEMORY) == CL_TRUE;
  // There buffers are memory of ours: pages that the system hands to a process are zero, and what the heap gives out
  // again was this process's. Of a device's own memory no version of OpenCL promises anything.
  caps.fresh_memory_is_zero = caps.unified_memory;
  caps.partitions = !traits.parts_share_workers && has_partitions(api, id);
  // A CPU device is its cores: the system runs kernels of several processes beside each other there, and PoCL those
  // of several queues on its workers. Of a GPU OpenCL only promises queues.
  caps.overlap = is_cpu ? Overlap::kAcrossProcesses : Overlap::kWithinProcess;
  caps.fault_scope = is_cpu ? FaultScope::kProcess : FaultScope::kDevice;
  caps.worker_classes = is_cpu;
  caps.timestamps = is_cpu ? Timestamps::kWall : Timestamps::kDevice;
  return caps;
}

namespace {

Found::Kind kind_of(const Api& api, cl_device_id id) {
  const auto type = device_number<cl_device_type>(api, id, CL_DEVICE_TYPE);
  if (type & CL_DEVICE_TYPE_GPU) return Found::Kind::kGpu;
  return type & CL_DEVICE_TYPE_CPU ? Found::Kind::kCpu : Found::Kind::kOther;
}

// As OpenclTimeline chooses it.
const char* clock_of(const Api& api, cl_device_id id) {
  if (traits_of(api, id).clock == Traits::Clock::kMonotonicRaw) return "the host's monotonic clock";
  return has_timer(api, id) ? "the device's timer" : "by commands";
}

}  // namespace

Found found_of(const Api& api, cl_device_id id) {
  Found found;
  found.name = device_text(api, id, CL_DEVICE_NAME);
  found.kind = kind_of(api, id);
  found.platform = platform_of(api, id);
  found.version = device_text(api, id, CL_DRIVER_VERSION);
  const auto caps = caps_of(api, id, 0);
  if (!caps.ok()) {
    found.error = caps.error().text;
    return found;
  }
  found.units = caps->units;
  found.memory_bytes = caps->memory_bytes;
  if (clang_path().empty()) found.unsliceable = "clang-15 is not installed";
  if (traits_of(api, id).parts_share_workers)
    found.undivided = "its parts share workers";
  else if (!caps->partitions)
    found.undivided = caps->units == 1 ? "it has one unit" : "the driver does not divide it";
  found.clock = clock_of(api, id);
  found.classes = caps->worker_classes;
  found.in_place = caps->unified_memory;
  return found;
}

OpenclDevice::OpenclDevice(Setup setup)
    : api_(setup.api),
      id_(setup.id),
      partitions_(std::move(setup.partitions)),
      context_(std::move(setup.context)),
      caps_(std::move(setup.caps)),
      threads_before_(std::move(setup.threads_before)),
      group_sizes_(std::move(setup.group_sizes)),
      cache_folder_(std::move(setup.cache_folder)),
      traits_(setup.traits),
      has_timer_(has_timer(api_, id_)) {}

std::optional<int64_t> OpenclDevice::timer_ns() const {
  cl_ulong device_ns = 0, host_ns = 0;
  if (!has_timer_ || api_.GetDeviceAndHostTimer(id_, &device_ns, &host_ns) != CL_SUCCESS) return std::nullopt;
  return static_cast<int64_t>(device_ns);
}

void OpenclDevice::add(OpenclTimeline& timeline) {
  timelines_.with([&](auto& all) { all.push_back(&timeline); });
}

void OpenclDevice::remove(OpenclTimeline& timeline) {
  timelines_.with([&](auto& all) { std::erase(all, &timeline); });
}

void OpenclDevice::settle() {
  // What ended in other queues, and nobody asked for yet, has its share. Locks are taken in the order device, timeline,
  // meter; the lock held here keeps the timelines alive.
  if (meter_.under_way() > 0)
    timelines_.with([](auto& all) {
      for (auto* timeline : all) timeline->advance();
    });
  meter_.settle();
}

Result<std::shared_ptr<Buffer>> OpenclDevice::allocate(uint64_t size_bytes) {
  if (size_bytes == 0) return invalid("buffer: has no bytes");
  if (size_bytes > caps_.max_allocation_bytes)
    return exhausted(fmt::format("buffer: {} bytes are more than device {} allows at once ({})", size_bytes, caps_.name,
                                 caps_.max_allocation_bytes));
  const uint64_t bytes = round_up(size_bytes, caps_.allocation_granularity_bytes);
  uint64_t used = used_bytes_;
  do {
    if (bytes > caps_.memory_bytes - std::min(used, caps_.memory_bytes))
      return exhausted(fmt::format("buffer: {} bytes do not fit device {}: {} of {} are in use", size_bytes, caps_.name,
                                   used, caps_.memory_bytes));
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes));

  // PoCL allocates at first use and aborts when that fails; memory of ours fails here, as an error.
  OpenclBuffer::Memory memory;
  cl_mem_flags flags = CL_MEM_READ_WRITE;
  if (caps_.unified_memory) {
    memory.reset(static_cast<std::byte*>(std::aligned_alloc(caps_.alignment_bytes, bytes)));
    flags |= CL_MEM_USE_HOST_PTR;
  }
  cl_int code = caps_.unified_memory && !memory ? CL_OUT_OF_HOST_MEMORY : CL_SUCCESS;
  Handle<cl_mem> object;
  if (code == CL_SUCCESS)
    object = {api_.CreateBuffer(context_.get(), flags, size_bytes, memory.get(), &code), api_.ReleaseMemObject};
  if (code != CL_SUCCESS) {
    give_back(bytes);
    return cl_error(code, fmt::format("buffer of {} bytes on device {}", size_bytes, caps_.name));
  }
  return std::shared_ptr<Buffer>(std::make_shared<OpenclBuffer>(*this, std::move(object), std::move(memory),
                                                                ++buffers_made_, size_bytes, bytes, true));
}

Result<std::shared_ptr<Buffer>> OpenclDevice::import(std::span<std::byte> range, bool writable) {
  if (!caps_.unified_memory)
    return unsupported(fmt::format("device {}: cannot read host memory in place; copy it", caps_.name));
  if (range.empty()) return invalid("imported range: has no bytes");
  if (reinterpret_cast<uintptr_t>(range.data()) % caps_.alignment_bytes != 0)
    return invalid(fmt::format("imported range: starts at {}, which is no multiple of {}",
                               static_cast<void*>(range.data()), caps_.alignment_bytes));
  cl_int code = CL_SUCCESS;
  const cl_mem_flags flags = CL_MEM_USE_HOST_PTR | (writable ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY);
  Handle<cl_mem> object(api_.CreateBuffer(context_.get(), flags, range.size(), range.data(), &code),
                        api_.ReleaseMemObject);
  if (code != CL_SUCCESS)
    return cl_error(code, fmt::format("imported range of {} bytes on device {}", range.size(), caps_.name));
  return std::shared_ptr<Buffer>(
      std::make_shared<OpenclBuffer>(*this, std::move(object), nullptr, ++buffers_made_, range.size(), 0, writable));
}

Result<std::shared_ptr<Buffer>> OpenclDevice::view(const std::shared_ptr<Buffer>& of, uint64_t offset,
                                                   uint64_t size_bytes) {
  QUERN_TRY(check_view(of->size_bytes(), offset, size_bytes, caps_.alignment_bytes));
  auto whole = std::static_pointer_cast<OpenclBuffer>(of);
  const uint64_t origin = whole->origin() + offset;
  if (whole->whole()) whole = whole->whole();  // OpenCL has no views of views
  const cl_buffer_region region{origin, size_bytes};
  cl_int code = CL_SUCCESS;
  Handle<cl_mem> object(api_.CreateSubBuffer(whole->object(), 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code),
                        api_.ReleaseMemObject);
  if (code != CL_SUCCESS) return cl_error(code, fmt::format("view of {} bytes on device {}", size_bytes, caps_.name));
  return std::shared_ptr<Buffer>(
      std::make_shared<OpenclBuffer>(*this, std::move(object), std::move(whole), origin, ++buffers_made_, size_bytes));
}

Result<std::unique_ptr<Queue>> OpenclDevice::create_queue(uint32_t units, uint32_t first) {
  if (units == 0 || units == caps_.units) return OpenclQueue::create(*this, id_, caps_.units);
  if (units > caps_.units || !caps_.partitions)
    return invalid(fmt::format("queue of {} units: device {} {}", units, caps_.name,
                               caps_.partitions ? fmt::format("has {}", caps_.units) : "cannot be divided"));
  // The largest that is not too large; of those the one that `first` is in, or the last one before it.
  const Partition* best = nullptr;
  for (const Partition& one : partitions_)
    if (one.units <= units && (!best || one.units > best->units || one.first <= first)) best = &one;
  if (!best) return invalid(fmt::format("queue of {} units: device {} has no such part", units, caps_.name));
  return OpenclQueue::create(*this, best->id.get(), best->units);
}

namespace {

// How long workers may take to come; they come at once unless a kernel keeps them.
constexpr Duration kMusterTakes = Duration::seconds(10);

// Shared with the vendor's workers, and with those that come too late: they leave at once.
struct Muster {
  explicit Muster(os::Event complete) : complete(std::move(complete)) {}
  std::function<void()> work;
  std::vector<int> expected;
  std::atomic<size_t> arrived{0};
  std::atomic<bool> over{false};
  os::Event complete;

  void end() {
    over = true;
    over.notify_all();
    complete.signal();
  }
};

void CL_CALLBACK answer_muster(void* argument) {
  const auto muster = **static_cast<std::shared_ptr<Muster>**>(argument);
  if (!muster->over) {
    const auto& expected = muster->expected;
    if (std::find(expected.begin(), expected.end(), os::thread_id()) == expected.end()) return;
    muster->work();
    if (++muster->arrived == expected.size()) muster->end();
  }
  // Nobody leaves before all are there, so each is a thread of its own.
  muster->over.wait(false);
}

}  // namespace

std::vector<int> OpenclDevice::worker_threads() const {
  if (!caps_.worker_classes) return {};
  const auto now = os::threads_of_libraries();
  std::vector<int> workers;
  std::set_difference(now.begin(), now.end(), threads_before_.begin(), threads_before_.end(),
                      std::back_inserter(workers));
  return workers;
}

// A native kernel per worker reaches the driver's own threads. The caller waits outside of the driver meanwhile, which
// would else execute such a kernel on it (Traits::waiting_thread_computes).
Status OpenclDevice::on_each_worker(const std::function<void()>& work) {
  const auto abilities = device_number<cl_device_exec_capabilities>(api_, id_, CL_DEVICE_EXECUTION_CAPABILITIES);
  QUERN_TRY(auto complete, os::Event::create());
  auto muster = std::make_shared<Muster>(std::move(complete));
  muster->work = work;
  muster->expected = worker_threads();
  timelines_.with([&](auto& all) {
    for (auto* timeline : all)
      if (WaitingThread* waiting = timeline->waiting_thread()) {
        waiting->run(work);
        std::erase(muster->expected, waiting->id());
      }
  });
  if (muster->expected.empty() || !(abilities & CL_EXEC_NATIVE_KERNEL)) return {};

  std::vector<Handle<cl_command_queue>> queues;
  std::vector<cl_event> events;
  cl_int code = CL_SUCCESS;
  for (size_t i = 0; i < muster->expected.size() && code == CL_SUCCESS; ++i) {
    queues.emplace_back(api_.CreateCommandQueue(context_.get(), id_, 0, &code), api_.ReleaseCommandQueue);
    if (code != CL_SUCCESS) break;
    auto* argument = &muster;  // copied by the vendor: a pointer to ours, which lives until all events are waited for
    cl_event event = nullptr;
    code = api_.EnqueueNativeKernel(queues.back().get(), answer_muster, &argument, sizeof argument, 0, nullptr, nullptr,
                                    0, nullptr, &event);
    if (code == CL_SUCCESS) events.push_back(event), api_.Flush(queues.back().get());
  }
  const bool all_came = code == CL_SUCCESS && muster->complete.wait(kMusterTakes);
  if (!all_came) muster->end();
  if (!events.empty()) api_.WaitForEvents(static_cast<cl_uint>(events.size()), events.data());
  for (auto event : events) api_.ReleaseEvent(event);
  if (code != CL_SUCCESS) return cl_error(code, fmt::format("device {}: work on each worker", caps_.name));
  if (!all_came)
    return unavailable(fmt::format("device {}: {} of {} workers were reached; wait for its kernels to end", caps_.name,
                                   muster->arrived.load(), muster->expected.size()));
  return {};
}

}  // namespace quern::hal::opencl
