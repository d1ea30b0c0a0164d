// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/opencl_queue.h"

#include <fmt/format.h>

#include <algorithm>

#include "hal/checks.h"
#include "hal/opencl/cl_error.h"
#include "hal/opencl/opencl_buffer.h"
#include "hal/opencl/opencl_program.h"
#include "os/clock.h"

namespace quern::hal::opencl {

Result<std::unique_ptr<Queue>> OpenclQueue::create(OpenclDevice& device, cl_device_id id, uint32_t units) {
  const Api& api = device.api();
  cl_int code = CL_SUCCESS;
  Handle<cl_command_queue> object(api.CreateCommandQueue(device.context(), id, CL_QUEUE_PROFILING_ENABLE, &code),
                                  api.ReleaseCommandQueue);
  if (code != CL_SUCCESS) return cl_error(code, fmt::format("device {}: queue", device.caps().name));
  QUERN_TRY(auto timeline, OpenclTimeline::create(device, object.get()));
  return std::unique_ptr<Queue>(new OpenclQueue(device, units, std::move(object), std::move(timeline)));
}

template <class F>
Result<uint64_t> OpenclQueue::submit(const char* what, uint32_t units, F enqueue) {
  QUERN_TRY(timeline_->can_submit());
  cl_event event = nullptr;
  const Time before = units > 0 ? os::now() : Time();
  if (cl_int code = enqueue(&event); code != CL_SUCCESS) {
    timeline_->probe(code);
    return cl_error(code, what);
  }
  return timeline_->submitted(event, units, before);
}

Result<uint64_t> OpenclQueue::write(Buffer& target, uint64_t offset, std::span<const std::byte> source) {
  auto& buffer = static_cast<OpenclBuffer&>(target);
  QUERN_TRY(check_range("write", buffer.size_bytes(), offset, source.size()));
  if (!buffer.writable()) return invalid("write: the buffer was imported read-only");
  return submit("write", 0, [&](cl_event* event) {
    return device_.api().EnqueueWriteBuffer(object_.get(), buffer.object(), CL_FALSE, offset, source.size(),
                                            source.data(), 0, nullptr, event);
  });
}

Result<uint64_t> OpenclQueue::read(Buffer& source, uint64_t offset, std::span<std::byte> target) {
  auto& buffer = static_cast<OpenclBuffer&>(source);
  QUERN_TRY(check_range("read", buffer.size_bytes(), offset, target.size()));
  return submit("read", 0, [&](cl_event* event) {
    return device_.api().EnqueueReadBuffer(object_.get(), buffer.object(), CL_FALSE, offset, target.size(),
                                           target.data(), 0, nullptr, event);
  });
}

Result<uint64_t> OpenclQueue::copy(Buffer& source, uint64_t source_offset, Buffer& target, uint64_t target_offset,
                                   uint64_t size_bytes) {
  auto& from = static_cast<OpenclBuffer&>(source);
  auto& to = static_cast<OpenclBuffer&>(target);
  QUERN_TRY(check_copy(from.size_bytes(), source_offset, to.size_bytes(), target_offset, size_bytes, &from == &to));
  if (!to.writable()) return invalid("copy: the target was imported read-only");
  return submit("copy", 0, [&](cl_event* event) {
    return device_.api().EnqueueCopyBuffer(object_.get(), from.object(), to.object(), source_offset, target_offset,
                                           size_bytes, 0, nullptr, event);
  });
}

Result<uint64_t> OpenclQueue::fill(Buffer& target, uint64_t offset, uint64_t size_bytes,
                                   std::span<const std::byte> pattern) {
  auto& buffer = static_cast<OpenclBuffer&>(target);
  QUERN_TRY(check_fill(buffer.size_bytes(), offset, size_bytes, pattern.size()));
  if (!buffer.writable()) return invalid("fill: the buffer was imported read-only");
  return submit("fill", 0, [&](cl_event* event) {
    return device_.api().EnqueueFillBuffer(object_.get(), buffer.object(), pattern.data(), pattern.size(), offset,
                                           size_bytes, 0, nullptr, event);
  });
}

Result<uint64_t> OpenclQueue::launch(const Launch& launch) {
  if (!launch.kernel) return invalid("launch: no kernel");
  auto& kernel = static_cast<OpenclKernel&>(*launch.kernel);
  QUERN_TRY(const auto local, check_sizes(launch, kernel.entry(), device_.caps(), kernel.max_group_size()));
  QUERN_TRY(kernel.set_arguments(launch.arguments, device_.caps().local_memory_bytes));
  static_assert(sizeof(size_t) == sizeof(uint64_t));
  const auto* offset = reinterpret_cast<const size_t*>(launch.offset.data());
  const auto* global = reinterpret_cast<const size_t*>(launch.global.data());
  const auto* group = local[0] ? reinterpret_cast<const size_t*>(local.data()) : nullptr;
  const bool is_metered = device_.is_metered();
  // With a size of the driver's choice a group has at least one item.
  const uint64_t items = launch.global[0] * launch.global[1] * launch.global[2];
  const uint64_t groups = local[0] ? items / (local[0] * local[1] * local[2]) : items;
  const auto units = static_cast<uint32_t>(std::min<uint64_t>(groups, units_));
  return submit("launch", units, [&](cl_event* event) {
    if (is_metered) device_.meter().launched();
    const cl_int code = device_.api().EnqueueNDRangeKernel(object_.get(), kernel.object(), launch.dimensions, offset,
                                                           global, group, 0, nullptr, event);
    if (code != CL_SUCCESS && is_metered) device_.meter().abandoned(1);
    return code;
  });
}

Status OpenclQueue::wait_for(Queue& other, uint64_t point) {
  auto& theirs = *static_cast<OpenclQueue&>(other).timeline_;
  (void)theirs.reached();  // a failure shows only to who looks
  auto event = theirs.event_of(point);
  if (!event.ok()) {
    // A point that can never be reached: what comes later can never start.
    if (theirs.failure()->is_set()) timeline_->fail(event.error());
    return std::move(event).error();
  }
  timeline_->depend_on(theirs.failure());
  cl_event waited = event->get();
  if (!waited) return {};
  QUERN_TRY(static_cast<OpenclQueue&>(other).flush());
  if (cl_int code = device_.api().EnqueueBarrierWithWaitList(object_.get(), 1, &waited, nullptr); code != CL_SUCCESS)
    return cl_error(code, "queue: wait for another");
  return {};
}

Status OpenclQueue::flush() { return timeline_->flush(); }

}  // namespace quern::hal::opencl
