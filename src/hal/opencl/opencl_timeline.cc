// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/opencl_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "hal/opencl/cl_error.h"
#include "os/clock.h"

namespace quern::hal::opencl {
namespace {

// The vendor's callback may come a moment before the status says so.
constexpr Duration kLookAgain = Duration::millis(1);

bool profiling_ns(const Api& api, cl_event event, cl_profiling_info what, int64_t& ns) {
  static_assert(sizeof(cl_ulong) == sizeof ns);
  return api.GetEventProfilingInfo(event, what, sizeof ns, &ns, nullptr) == CL_SUCCESS;
}

bool read_stamps(const Api& api, cl_event event, Stamps& stamps) {
  return profiling_ns(api, event, CL_PROFILING_COMMAND_QUEUED, stamps.queued_ns) &&
         profiling_ns(api, event, CL_PROFILING_COMMAND_START, stamps.start_ns) &&
         profiling_ns(api, event, CL_PROFILING_COMMAND_END, stamps.end_ns);
}

}  // namespace

Result<std::unique_ptr<OpenclTimeline>> OpenclTimeline::create(OpenclDevice& device, cl_command_queue queue) {
  QUERN_TRY(auto woken, os::Event::create());
  std::unique_ptr<OpenclTimeline> timeline(new OpenclTimeline(device, queue, std::move(woken)));
  QUERN_TRY(timeline->find_clock());
  if (device.traits().waiting_thread_computes)
    timeline->waiting_ = std::make_unique<WaitingThread>(device.api(), queue);
  device.add(*timeline);
  return timeline;
}

OpenclTimeline::OpenclTimeline(OpenclDevice& device, cl_command_queue queue, os::Event woken)
    : device_(device),
      queue_(queue),
      account_(device.meter().open_account()),
      bell_(std::make_shared<Bell>(std::move(woken))) {
  state_.with([](State& state) { state.slots.resize(Queue::kTimingsKept); });
}

OpenclTimeline::~OpenclTimeline() {
  device_.remove(*this);
  waiting_.reset();
  look();
  state_.with([&](State& state) {
    for (auto& slot : state.slots)
      if (slot.event) device_.api().ReleaseEvent(slot.event);
    if (device_.is_metered()) device_.meter().abandoned(state.launches_under_way);
  });
  device_.meter().close_account(account_);
}

void OpenclTimeline::read_clock(const OpenclDevice& device, DeviceClock& clock, Time now) {
  if (!clock.is_stale(now)) return;
  if (device.traits().clock == Traits::Clock::kMonotonicRaw) return clock.set(os::monotonic_minus_raw(), now);
  // The first question after a while takes longer than the next.
  for (int i = 0; i < 3; ++i) {
    const Time before = os::now();
    if (const auto device_ns = device.timer_ns()) clock.saw(before, *device_ns, os::now());
  }
}

// A clock that cannot be asked is read from the timestamps of a marker, and later of launches.
Status OpenclTimeline::find_clock() {
  state_.with([&](State& state) { read_clock(device_, state.clock, os::now()); });
  if (state_.with([](State& state) { return state.clock.is_known(); })) return {};
  clock_by_commands_ = true;
  const Api& api = device_.api();
  cl_event marker = nullptr;
  const Time before = os::now();
  if (cl_int code = api.EnqueueMarkerWithWaitList(queue_, 0, nullptr, &marker); code != CL_SUCCESS)
    return cl_error(code, "queue: marker");
  const Time after = os::now();
  Handle<cl_event> event(marker, api.ReleaseEvent);
  if (cl_int code = api.WaitForEvents(1, &marker); code != CL_SUCCESS) return cl_error(code, "queue: marker");
  const Time seen = os::now();
  Stamps stamps;
  if (!read_stamps(api, marker, stamps)) return unsupported("queue: has no clock");
  state_.with([&](State& state) { state.clock.saw_command(before, after, seen, stamps); });
  return {};
}

Status OpenclTimeline::can_submit() {
  if (failure_->is_set()) return failure_->error();
  if (submitted_ - reached_ < Queue::kTimingsKept) return {};
  look();
  if (submitted_ - reached_ < Queue::kTimingsKept) return {};
  return exhausted(fmt::format("queue: {} submissions are under way; wait for some", Queue::kTimingsKept));
}

uint64_t OpenclTimeline::submitted(cl_event event, uint32_t units, Time before) {
  submitter_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  return state_.with([&](State& state) {
    const uint64_t point = ++state.submitted;
    const Time after = clock_by_commands_ && units > 0 ? os::now() : before;
    state.slots[point % Queue::kTimingsKept] = {event, {}, units, before, after};
    state.launches_under_way += units > 0;
    submitted_.store(point, std::memory_order_release);
    return point;
  });
}

void OpenclTimeline::depend_on(std::shared_ptr<const Failure> other) {
  state_.with([&](State& state) { state.dependencies.push_back({state.submitted, std::move(other)}); });
}

Result<Handle<cl_event>> OpenclTimeline::event_of(uint64_t point) {
  if (point == 0 || point > submitted_)
    return invalid(fmt::format("timeline: point {} was never submitted; the last is {}", point, submitted_.load()));
  if (failure_->is_set()) return failure_->error();
  return state_.with([&](State& state) -> Result<Handle<cl_event>> {
    if (point <= state.reached) return Handle<cl_event>();
    cl_event event = state.slots[point % Queue::kTimingsKept].event;
    device_.api().RetainEvent(event);
    return Handle<cl_event>(event, device_.api().ReleaseEvent);
  });
}

bool OpenclTimeline::advance() {
  const Api& api = device_.api();
  if (failure_->is_set()) return false;
  return state_.with([&](State& state) {
    uint64_t launches = 0, wall_ns = 0, most_ns = 0;
    while (state.reached < state.submitted) {
      auto& slot = state.slots[(state.reached + 1) % Queue::kTimingsKept];
      cl_int status = CL_COMPLETE, code = CL_SUCCESS;
      // Only a command that ended well has an END: of a launch that one question is enough.
      int64_t end_ns = 0;
      const bool has_end = slot.units > 0 && profiling_ns(api, slot.event, CL_PROFILING_COMMAND_END, end_ns);
      if (!has_end)
        code = api.GetEventInfo(slot.event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
      if (code == CL_SUCCESS && status > CL_COMPLETE) break;
      while (!state.dependencies.empty() && state.dependencies.front().after <= state.reached) {
        if (state.dependencies.front().failure->is_set()) failure_->set(state.dependencies.front().failure->error());
        state.dependencies.pop_front();
      }
      if (code != CL_SUCCESS || status < 0)
        failure_->set(cl_command_error(code != CL_SUCCESS ? code : status, slot.units > 0));
      if (failure_->is_set()) break;
      if (slot.units > 0) {
        Stamps stamps{.end_ns = end_ns};
        // It may have ended between the two questions.
        if (!has_end) profiling_ns(api, slot.event, CL_PROFILING_COMMAND_END, stamps.end_ns);
        profiling_ns(api, slot.event, CL_PROFILING_COMMAND_START, stamps.start_ns);
        const Time seen = os::now();
        if (!clock_by_commands_) {
          read_clock(device_, state.clock, seen);
        } else if (state.clock.is_stale(seen)) {
          profiling_ns(api, slot.event, CL_PROFILING_COMMAND_QUEUED, stamps.queued_ns);
          state.clock.saw_command(slot.before, slot.after, seen, stamps);
        }
        slot.interval = state.clock.place(stamps, slot.before, seen);
        const auto took = static_cast<uint64_t>(std::max<int64_t>(0, slot.interval.end_ns - slot.interval.start_ns));
        wall_ns += took;
        most_ns += took * slot.units;
        ++launches;
      }
      api.ReleaseEvent(slot.event);
      slot.event = nullptr;
      ++state.reached;
    }
    reached_.store(state.reached, std::memory_order_release);
    if (launches == 0) return false;
    state.launches_under_way -= launches;
    state.wall_ns += wall_ns;
    if (device_.is_metered()) device_.meter().ended(account_, launches, most_ns);
    return true;
  });
}

void OpenclTimeline::look() {
  if (advance() && device_.is_metered()) device_.settle();
}

Result<uint64_t> OpenclTimeline::reached() {
  look();
  if (failure_->is_set()) return failure_->error();
  return reached_.load();
}

uint64_t OpenclTimeline::last_reached() {
  look();
  return reached_.load();
}

Status OpenclTimeline::wait(uint64_t point, Duration limit) {
  if (point > submitted_)
    return invalid(fmt::format("timeline: point {} was never submitted; the last is {}", point, submitted_.load()));
  const Api& api = device_.api();
  if (failure_->is_set()) return failure_->error();
  if (reached_.load(std::memory_order_acquire) >= point) return {};
  if (limit != Duration::forever() || waiting_) return wait_at_most(point, limit);

  // No look at the event first: it would contend with the worker that is about to take it (PoCL 3.1: +5 us).
  // clFinish wakes its caller sooner than an event does (PoCL 3.1: 52 against 68 us), but it waits for all that anyone
  // submits meanwhile, so only who submits may use it.
  if (point == submitted_ && submitter_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
    if (cl_int code = api.Finish(queue_); code != CL_SUCCESS) fail_next(code);
  } else {
    QUERN_TRY(auto event, event_of(point));
    cl_event waited = event.get();
    if (cl_int code = waited ? api.WaitForEvents(1, &waited) : CL_SUCCESS; code != CL_SUCCESS) fail_next(code);
  }
  QUERN_TRY(const uint64_t reached, this->reached());
  if (reached < point) return internal(fmt::format("timeline: at {} after a wait for {}", reached, point));
  return {};
}

void OpenclTimeline::fail_next(cl_int code) {
  look();
  state_.with([&](State& state) {
    const bool is_launch =
        state.reached < state.submitted && state.slots[(state.reached + 1) % Queue::kTimingsKept].units > 0;
    failure_->set(cl_command_error(code, is_launch));
  });
}

void OpenclTimeline::probe(cl_int code) {
  switch (code) {
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_INVALID_CONTEXT:
    case CL_INVALID_COMMAND_QUEUE:
      break;
    default:
      return;
  }
  const Api& api = device_.api();
  cl_event marker = nullptr;
  cl_int answer = api.EnqueueMarkerWithWaitList(queue_, 0, nullptr, &marker);
  if (answer == CL_SUCCESS) {
    Handle<cl_event> event(marker, api.ReleaseEvent);
    answer = api.WaitForEvents(1, &marker);
  }
  if (answer != CL_SUCCESS) failure_->set(cl_command_error(answer, false));
}

Status OpenclTimeline::flush() {
  if (cl_int code = device_.api().Flush(queue_); code != CL_SUCCESS) return cl_error(code, "queue: flush");
  if (waiting_ && reached_.load(std::memory_order_relaxed) < submitted_.load(std::memory_order_relaxed))
    waiting_->wake();
  return {};
}

void CL_CALLBACK OpenclTimeline::ring(cl_event, cl_int, void* bell) {
  std::unique_ptr<std::shared_ptr<Bell>> mine(static_cast<std::shared_ptr<Bell>*>(bell));
  (*mine)->event.signal();
}

Status OpenclTimeline::wait_at_most(uint64_t point, Duration limit) {
  const Api& api = device_.api();
  const Time deadline = limit == Duration::forever() ? Time{std::numeric_limits<int64_t>::max()} : os::now() + limit;
  QUERN_TRY(flush());
  if (point > belled_) {
    QUERN_TRY(auto event, event_of(point));
    if (!event.get()) return {};
    auto bell = std::make_unique<std::shared_ptr<Bell>>(bell_);
    if (cl_int code = api.SetEventCallback(event.get(), CL_COMPLETE, ring, bell.get()); code != CL_SUCCESS)
      return cl_error(code, "queue: callback");
    bell.release();
    belled_ = point;
  }
  for (bool rung = false;;) {
    QUERN_TRY(auto reached, this->reached());
    if (reached >= point) return {};
    const Time now = os::now();
    if (now >= deadline)
      return Error{ErrorCode::kDeadline,
                   fmt::format("timeline: at {} of {} after {}", reached, point, to_string(limit))};
    const Duration left = deadline - now;
    // A point past the waited one rings for it too late; then, as after an early ring, it is looked at now and then.
    rung = bell_->event.wait(rung || point != belled_ ? std::min(left, kLookAgain) : left) || rung;
    if (rung) bell_->event.drain();
  }
}

std::optional<Interval> OpenclTimeline::timing(uint64_t point) {
  return state_.with([&](State& state) -> std::optional<Interval> {
    if (point == 0 || point > state.reached || state.submitted - point >= Queue::kTimingsKept) return std::nullopt;
    const auto& slot = state.slots[point % Queue::kTimingsKept];
    if (slot.units == 0) return std::nullopt;
    return slot.interval;
  });
}

uint64_t OpenclTimeline::corrected_timings() {
  return state_.with([](State& state) { return state.clock.corrected(); });
}

uint64_t OpenclTimeline::device_time_ns() {
  if (device_.is_metered()) {
    // Another queue may have taken in what ended here, and not settled yet.
    device_.meter().settle();
    return device_.meter().charged_ns(account_);
  }
  return state_.with([](State& state) { return state.wall_ns; });
}

}  // namespace quern::hal::opencl
