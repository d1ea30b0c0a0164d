// SPDX-License-Identifier: Apache-2.0
//
// What gates, profiles and accounts cost a run that is alone: a graph of many short kernels in a lane, against the same
// launches by OpenCL with none of them.
//
// All sides are in this process, on one device: the same worker executes the same code for them, launched by a thread
// on the same core, with as much in flight. The lane is that of executors, and this file is its daemon: it writes the
// grant that lanes have alone, and reads what the lane tells on the other core. What is compared is the time from the
// first launch wanted to the last known to have ended; of a lane, from the command it read to the report it wrote. In
// between stands the driver's queue without a lane: START and END of each launch and the time of the workers are its.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>

#include "bench/bench.h"
#include "bench/grind_device.h"
#include "bench/pairs.h"
#include "bench/stage.h"
#include "executor/holdings.h"
#include "executor/lane.h"
#include "hal/opencl/cl_error.h"
#include "hal/opencl/opencl_buffer.h"
#include "hal/opencl/opencl_program.h"
#include "ipc/arena.h"
#include "os/clock.h"
#include "os/event.h"
#include "sched/scheduler.h"

namespace quern::bench {
namespace {

constexpr uint64_t kProgram = 1;
constexpr Duration kRunLimit = Duration::seconds(30);
constexpr size_t kWarmUps = 3;

/// How a run went.
struct Took {
  double wall_ns = 0;
  double span_ns = 0;  ///< on the device, from the first START to the last END; 0: nobody knows
};

/// What may be in flight, as a lane does it: once it is `most`, until `keep` are left.
struct Batch {
  uint64_t most = 0, keep = 0;
};

struct Shape {
  uint64_t groups = 0, launches = 0;
};

/// What a lane has when it is alone.
ipc::Grant alone() {
  const sched::Grant first = sched::first_grant({});
  ipc::Grant grant;
  grant.open = first.open;
  grant.depth_ns = static_cast<uint64_t>(first.depth.ns);
  grant.depth = first.launches;
  grant.slice_ns = static_cast<uint32_t>(first.slice.ns);
  return grant;
}

// Launches are let through while less than the depth is in flight, and then a quarter is left to go on with.
Batch batch_of(const ipc::Grant& grant, double kernel_ns) {
  const double most = std::ceil(static_cast<double>(grant.depth_ns) / kernel_ns);
  Batch batch;
  batch.most = static_cast<uint64_t>(std::clamp(most, 2.0, static_cast<double>(grant.depth)));
  batch.keep = std::min(batch.most - 1, std::max<uint64_t>(1, batch.most / 4));
  return batch;
}

/// Plain OpenCL: a queue without timestamps, arguments that are set once, events only where someone waits. The launch
/// thread uses it, once it is open.
class RawSide {
 public:
  static Result<std::unique_ptr<RawSide>> open(GrindDevice& grind, hal::Program& program) {
    std::unique_ptr<RawSide> self(new RawSide(grind));
    const hal::opencl::Api& api = grind.device().api();
    cl_int code = CL_SUCCESS;
    self->queue_ = {api.CreateCommandQueue(grind.device().context(), grind.device().id(), 0, &code),
                    api.ReleaseCommandQueue};
    if (code != CL_SUCCESS) return hal::opencl::cl_error(code, "raw OpenCL: queue");
    QUERN_TRY(self->owner_, program.create_kernel("grind"));
    self->kernel_ = static_cast<hal::opencl::OpenclKernel&>(*self->owner_).object();
    const cl_mem marks = static_cast<hal::opencl::OpenclBuffer&>(grind.marks()).object();
    const cl_uint iterations = grind.iterations(), mark = 1;
    code = api.SetKernelArg(self->kernel_, 0, sizeof marks, &marks);
    code |= api.SetKernelArg(self->kernel_, 1, sizeof iterations, &iterations);
    code |= api.SetKernelArg(self->kernel_, 2, sizeof mark, &mark);
    if (code != CL_SUCCESS) return hal::opencl::cl_error(code, "raw OpenCL: arguments");
    return self;
  }

  Status run(const Shape& shape, const Batch& batch, Took& took) {
    const hal::opencl::Api& api = grind_.device().api();
    const size_t global = shape.groups, local = 1;
    const uint64_t step = batch.most - batch.keep;
    uint64_t in_flight = 0;
    std::deque<hal::opencl::Handle<cl_event>> awaited;
    const Time from = os::now();
    for (uint64_t i = 0; i < shape.launches; ++i) {
      if (in_flight == batch.most) {
        const cl_event event = awaited.front().get();
        if (const cl_int code = api.WaitForEvents(1, &event); code != CL_SUCCESS)
          return hal::opencl::cl_error(code, "raw OpenCL: wait");
        awaited.pop_front();
        in_flight = batch.keep;
      }
      const bool is_awaited = (i + 1) % step == 0 && i + batch.keep + 1 < shape.launches;
      cl_event event = nullptr;
      const cl_int code = api.EnqueueNDRangeKernel(queue_.get(), kernel_, 1, nullptr, &global, &local, 0, nullptr,
                                                   is_awaited ? &event : nullptr);
      if (code != CL_SUCCESS) return hal::opencl::cl_error(code, "raw OpenCL: launch");
      if (is_awaited) awaited.emplace_back(event, api.ReleaseEvent);
      ++in_flight;
    }
    if (const cl_int code = api.Finish(queue_.get()); code != CL_SUCCESS)
      return hal::opencl::cl_error(code, "raw OpenCL: finish");
    took.wall_ns = static_cast<double>((os::now() - from).ns);
    return {};
  }

 private:
  explicit RawSide(GrindDevice& grind) : grind_(grind) {}
  GrindDevice& grind_;
  std::unique_ptr<hal::Kernel> owner_;
  cl_kernel kernel_ = nullptr;
  hal::opencl::Handle<cl_command_queue> queue_;
};

/// The driver's queue, and nothing above it. The launch thread uses it, once it is open.
class DriverSide {
 public:
  static Result<std::unique_ptr<DriverSide>> open(GrindDevice& grind, hal::Program& program) {
    std::unique_ptr<DriverSide> self(new DriverSide(grind));
    QUERN_TRY(self->kernel_, program.create_kernel("grind"));
    QUERN_TRY(self->queue_, grind.device().create_queue());
    return self;
  }

  Status run(const Shape& shape, const Batch& batch, Took& took) {
    uint64_t in_flight = 0, first = 0, last = 0;
    const Time from = os::now();
    for (uint64_t i = 0; i < shape.launches; ++i) {
      if (in_flight == batch.most) {
        QUERN_TRY(queue_->timeline().wait(last - batch.keep, Duration::forever()));
        in_flight = batch.keep;
      }
      QUERN_TRY(last, grind_.launch(*queue_, *kernel_, 0, shape.groups));
      if (i == 0) first = last;
      ++in_flight;
    }
    QUERN_TRY(queue_->timeline().wait(last, Duration::forever()));
    took.wall_ns = static_cast<double>((os::now() - from).ns);
    const auto begun = queue_->timing(first), ended = queue_->timing(last);
    if (!begun || !ended) return internal("driver: launches that ended have no times");
    took.span_ns = static_cast<double>(ended->end_ns - begun->start_ns);
    return {};
  }

 private:
  explicit DriverSide(GrindDevice& grind) : grind_(grind) {}
  GrindDevice& grind_;
  std::unique_ptr<hal::Kernel> kernel_;
  std::unique_ptr<hal::Queue> queue_;
};

/// A lane with its thread, and the daemon's end of its rings and gate.
class LaneSide {
 public:
  static Result<std::unique_ptr<LaneSide>> open(GrindDevice& grind) {
    std::unique_ptr<LaneSide> self(new LaneSide(grind));
    QUERN_TRY(self->start());
    return self;
  }

  // A record that makes no sense ends a lane, which nothing else does.
  ~LaneSide() {
    if (!thread_.joinable()) return;
    const std::byte nonsense[1] = {std::byte{255}};
    (void)commands_->push(nonsense);
    wake_->signal();
    thread_.join();
  }

  hal::Program& program() { return *holdings_->plan(0)->programs[0]; }

  /// A graph of `launches` kernels, each after the one before, whose times are known as they are after some runs.
  Status prepare(uint64_t id, const Shape& shape) {
    Plan plan;
    ipc::PlanBinding binding;
    binding.programs = {kProgram};
    binding.objects.resize(1);
    binding.placement.places.resize(1);
    plan.buffers.resize(1);
    plan.buffers[0].role = Role::kOutput;
    plan.buffers[0].size_bytes = output_.size();
    PlannedLaunch launch;
    launch.entry = "grind";
    launch.global = {shape.groups, 1, 1};
    launch.local = {1, 1, 1};
    launch.arguments.resize(3);
    const auto scalar = [](uint32_t value) {
      PlannedArgument argument;
      argument.kind = ArgumentDecl::Kind::kScalar;
      argument.scalar.fixed = {Dtype::kUint32, value};
      return argument;
    };
    launch.arguments[1] = scalar(grind_.iterations());
    launch.arguments[2] = scalar(1);
    for (uint32_t i = 0; i < shape.launches; ++i) {
      launch.kernel = i;
      plan.launches.push_back(launch);
      plan.steps.push_back({PlannedStep::Kind::kLaunch, i, i + 1, 0});
      binding.launches.push_back({shape.groups, true, static_cast<uint64_t>(grind_.group_ns() * 1e3)});
    }
    const Bytes bytes = ipc::encode(plan, binding);
    QUERN_TRY(os::Fd fd, os::immutable_copy("plan", bytes));
    return holdings_->prepare_plan({id, bytes.size()}, std::move(fd));
  }

  Status run(uint64_t plan, const Shape& shape, const ipc::Grant& grant, Took& took) {
    std::memset(output_.bytes().data(), 0, shape.groups * sizeof(uint32_t));
    ipc::write_grant(pages_.daemon().lanes[0].gate, epoch_, grant);
    ipc::RunCommand command;
    command.run = ++runs_;
    command.plan = plan;
    command.bindings = {{output_.segment()->id, output_.offset()}};
    writer_.clear();
    ipc::encode(command, writer_);
    QUERN_TRY(commands_->push(writer_.bytes()));
    if (commands_->consumer_sleeps()) wake_->signal();
    QUERN_TRY(const ipc::RunEnded ended, wait_ended());
    if (!ended.ok) return Error{ended.code, fmt::format("lane: {}", ended.text)};
    uint32_t mark = 0;
    std::memcpy(&mark, output_.bytes().data() + (shape.groups - 1) * sizeof mark, sizeof mark);
    if (mark != 1) return internal("lane: the last group was not executed");
    took.wall_ns = static_cast<double>(ended.reported_ns - ended.taken_ns);
    took.span_ns = static_cast<double>(ended.ended_ns - ended.started_ns);
    return {};
  }

  /// Events beside the ends of runs, so far.
  uint64_t told() const { return told_; }

 private:
  explicit LaneSide(GrindDevice& grind) : grind_(grind) {}

  Status start() {
    QUERN_TRY(pages_, ipc::create_shared_pages());
    QUERN_TRY(os::Event wake, os::Event::create());
    QUERN_TRY(os::Event daemon_wake, os::Event::create());
    wake_ = std::make_unique<os::Event>(std::move(wake));
    daemon_wake_ = std::make_unique<os::Event>(std::move(daemon_wake));
    auto& ours = pages_.daemon().lanes[0];
    auto& theirs = pages_.executor().lanes[0];
    commands_ = std::make_unique<ipc::RingProducer>(ours.command_head, theirs.command_tail, ours.commands);
    events_ = std::make_unique<ipc::RingConsumer>(theirs.event_head, ours.event_tail, theirs.events);

    QUERN_TRY(holdings_, executor::Holdings::create(
                             grind_.device(), true, [](const ipc::Frame&) {}, [](const Error&) {}));
    QUERN_TRY(os::Fd binary, os::immutable_copy("binary", grind_.binary()));
    QUERN_TRY(holdings_->load_program({kProgram, grind_.binary().size()}, std::move(binary)));
    const auto arena = ipc::Arena::create("bench-marks", ipc::Direction::kOutput, ipc::Arena::kSegmentBytes);
    QUERN_TRY(output_, arena->take(GrindDevice::kMostGroups * sizeof(uint32_t)));
    const ipc::Segment& segment = *output_.segment();
    QUERN_TRY(holdings_->map_segment({segment.id, static_cast<uint8_t>(segment.direction), segment.size_bytes},
                                     os::Fd(::dup(segment.fd.get()))));
    QUERN_TRY(prepare(0, {1, 1}));  // by which the program can be asked for
    QUERN_TRY(lane_, executor::Lane::create(*holdings_, {ours, theirs, *wake_, *daemon_wake_, busy_lanes_}));
    thread_ = os::Thread("bench-lane", [this] {
      become_launch_thread(grind_.core());
      (void)lane_->serve();
    });
    return {};
  }

  Result<ipc::RunEnded> wait_ended() {
    for (;;) {
      QUERN_TRY(const bool got, events_->pop(record_));
      if (got) {
        QUERN_TRY(ipc::LaneEvent event, ipc::decode_lane_event(record_));
        if (auto* ended = std::get_if<ipc::RunEnded>(&event)) return std::move(*ended);
        ++told_;
        continue;
      }
      const bool is_late = events_->prepare_sleep() && !daemon_wake_->wait(kRunLimit);
      events_->woke();
      daemon_wake_->drain();
      if (is_late)
        return Error{ErrorCode::kDeadline, fmt::format("lane: no end of a run within {}", to_string(kRunLimit))};
    }
  }

  GrindDevice& grind_;
  ipc::SharedPages pages_;
  std::unique_ptr<os::Event> wake_, daemon_wake_;
  std::unique_ptr<ipc::RingProducer> commands_;
  std::unique_ptr<ipc::RingConsumer> events_;
  std::unique_ptr<executor::Holdings> holdings_;
  ipc::Block output_;
  std::atomic<uint32_t> busy_lanes_{0};
  ByteWriter writer_;
  Bytes record_;
  uint64_t epoch_ = 0, runs_ = 0, told_ = 0;
  std::unique_ptr<executor::Lane> lane_;
  os::Thread thread_;
};

enum class Side : uint8_t { kRaw, kUnbounded, kDriver, kQuern, kMetered, kTraced };

/// A row: one side against another.
struct Compared {
  std::string_view suffix;
  Side ours, theirs;
  std::string_view goal;
};
constexpr Compared kWhole{"", Side::kQuern, Side::kRaw, ""}, kJudged{"", Side::kQuern, Side::kRaw, "< 1.01"},
    kDriver{"_driver", Side::kDriver, Side::kRaw, ""}, kLane{"_lane", Side::kQuern, Side::kDriver, ""},
    kUnbounded{"_unbounded", Side::kQuern, Side::kUnbounded, ""}, kMetered{"_metered", Side::kMetered, Side::kRaw, ""},
    kTraced{"_traced", Side::kTraced, Side::kRaw, ""};

struct Length {
  std::string_view name;
  double us = 0;
  uint64_t launches = 0;
  size_t rounds = 0;
  std::vector<Compared> rows;
};

std::vector<Length> lengths() {
  // Of runs below 50 ms 200 rounds, else 42.
  return {{"overhead_10us", 10, 400, 200, {kWhole, kDriver, kLane}},
          {"overhead_50us", 50, 400, 200, {kJudged, kDriver, kLane, kUnbounded, kMetered, kTraced}},
          {"overhead_200us", 200, 400, 42, {kWhole, kDriver, kLane}},
          {"overhead_1ms", 1000, 100, 42, {kWhole, kDriver, kLane}}};
}

class Gates {
 public:
  Gates(const Options& options, Report& report, GrindDevice& grind)
      : options_(options), report_(report), grind_(grind), grant_(alone()) {}

  Status run() {
    std::vector<Length> wanted = lengths();
    for (Length& length : wanted)
      std::erase_if(length.rows, [&](const Compared& row) {
        return !options_.wants(std::string(length.name) + std::string(row.suffix));
      });
    std::erase_if(wanted, [](const Length& length) { return length.rows.empty(); });
    if (wanted.empty()) return not_found(fmt::format("row {}: there is none", options_.row));
    QUERN_TRY(lane_, LaneSide::open(grind_));
    QUERN_TRY(raw_, RawSide::open(grind_, lane_->program()));
    QUERN_TRY(driver_, DriverSide::open(grind_, lane_->program()));
    report_.notes.push_back(fmt::format("{:<8}{:>10}{:>12}{:>12}{:>12}{:>14}{:>22}", "kernel", "launches", "raw ns",
                                        "driver ns", "quern ns", "quern - raw", "span driver, quern ns"));
    for (size_t i = 0; i < wanted.size(); ++i) QUERN_TRY(compare(i + 1, wanted[i]));
    report_.notes.push_back(fmt::format(
        "ns are per launch, with the kernel; a span is from the first START to the last END. raw: OpenCL without "
        "timestamps, events or accounts, as much in flight as the lane ({} of device time, {} launches). driver: the "
        "HAL's queue, which checks arguments, keeps START and END and asks for the time of the workers. quern: a lane, "
        "which also walks its plan, asks its gate, learns and tells.",
        to_string(Duration{static_cast<int64_t>(grant_.depth_ns)}), grant_.depth));
    report_.notes.push_back(fmt::format(
        "_driver: driver against raw; _lane: quern against driver; _unbounded: quern against raw that enqueues all at "
        "once; _metered, _traced: quern with a quota's account, and with every launch told, against raw. The lane sent "
        "{} events beside the ends of its runs.",
        lane_->told()));
    return {};
  }

 private:
  Status compare(uint64_t plan, const Length& length) {
    const Shape shape{grind_.groups_for(length.us), options_.quick ? length.launches / 4 : length.launches};
    const Batch batch = batch_of(grant_, grind_.group_ns() * static_cast<double>(shape.groups));
    QUERN_TRY(lane_->prepare(plan, shape));
    // The table has these, whatever rows are wanted.
    std::set<Side> sides{Side::kRaw, Side::kDriver, Side::kQuern};
    for (const Compared& row : length.rows) sides.insert({row.ours, row.theirs});
    const std::vector<Side> order(sides.begin(), sides.end());
    const size_t rounds = options_.quick ? std::max<size_t>(3, length.rounds / 10) : length.rounds;
    std::map<Side, std::vector<double>> walls, spans;
    for (size_t round = 0; round < kWarmUps + rounds; ++round) {
      if (round % 10 == 0) options_.progress(fmt::format("gate: {}, round {} of {}", length.name, round, rounds));
      for (size_t turn = 0; turn < order.size(); ++turn) {
        const Side side = order[(round + turn) % order.size()];
        settle();
        QUERN_TRY(const Took took, measure(side, plan, shape, batch));
        if (round < kWarmUps) continue;
        walls[side].push_back(took.wall_ns / static_cast<double>(shape.launches));
        spans[side].push_back(took.span_ns / static_cast<double>(shape.launches));
      }
    }
    for (const Compared& row : length.rows) {
      const Samples samples{walls[row.ours], walls[row.theirs]};
      report_.rows.push_back(
          samples.row(std::string(length.name) + std::string(row.suffix), "ns/launch", std::string(row.goal)));
    }
    std::vector<double> apart;
    for (size_t i = 0; i < walls[Side::kRaw].size(); ++i)
      apart.push_back(walls[Side::kQuern][i] - walls[Side::kRaw][i]);
    const auto middle = [](const std::vector<double>& samples) { return middle_of(samples).median; };
    report_.notes.push_back(fmt::format("{:<8}{:>10}{:>12.0f}{:>12.0f}{:>12.0f}{:>14.0f}{:>14.0f}{:>8.0f}",
                                        length.name.substr(length.name.find('_') + 1), shape.launches,
                                        middle(walls[Side::kRaw]), middle(walls[Side::kDriver]),
                                        middle(walls[Side::kQuern]), middle(apart), middle(spans[Side::kDriver]),
                                        middle(spans[Side::kQuern])));
    return {};
  }

  Result<Took> measure(Side side, uint64_t plan, const Shape& shape, const Batch& batch) {
    Took took;
    ipc::Grant grant = grant_;
    const auto launched = [&](const std::function<Status()>& work) -> Status {
      grind_.clear_marks();
      QUERN_TRY(grind_.on_launch_thread(work));
      return grind_.check_marks(shape.groups);
    };
    switch (side) {
      case Side::kRaw:
        QUERN_TRY(launched([&] { return raw_->run(shape, batch, took); }));
        return took;
      case Side::kUnbounded:
        QUERN_TRY(launched([&] { return raw_->run(shape, {shape.launches + 1, 1}, took); }));
        return took;
      case Side::kDriver:
        QUERN_TRY(launched([&] { return driver_->run(shape, batch, took); }));
        return took;
      case Side::kQuern:
        break;
      case Side::kMetered:
        grant.meters = true;
        break;
      case Side::kTraced:
        grant.traces = true;
        break;
    }
    QUERN_TRY(lane_->run(plan, shape, grant, took));
    return took;
  }

  // Constant after construction.
  const Options& options_;
  Report& report_;
  GrindDevice& grind_;
  const ipc::Grant grant_;
  // Constant once it runs. The lane goes last: the others use its program.
  std::unique_ptr<LaneSide> lane_;
  std::unique_ptr<RawSide> raw_;
  std::unique_ptr<DriverSide> driver_;
};

}  // namespace

Status run_gate(const Options& options, Report& report) {
  const Layout layout = Layout::here();
  report.layout = layout.text;
  QUERN_TRY(const auto folder, Folder::create());
  options.progress("gate: open the device, build, see how fast it is");
  QUERN_TRY(auto grind, GrindDevice::open(layout, folder.path() + "/code"));  // first: it sets variables
  os::want_exact_timers();
  return Gates(options, report, *grind).run();
}

}  // namespace quern::bench
