// SPDX-License-Identifier: Apache-2.0
//
// The order of the start is the one a sandbox needs (limits and no_new_privs came with the process): vendor context and
// queues, then our own threads, alternate stacks on every thread that runs kernels, fault handlers over the vendor's,
// and only then anything of a tenant.
#include "executor/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "executor/fault_handler.h"
#include "executor/holdings.h"
#include "executor/lane.h"
#include "ipc/channel.h"
#include "ipc/shared_page.h"
#include "os/event.h"
#include "os/log.h"
#include "os/process.h"
#include "os/signals.h"
#include "os/thread.h"
#include "os/work_queue.h"

namespace quern::executor {
namespace {

// Frames that wait to be set up: more than the objects, programs and plans that a daemon ever asks for at once.
constexpr size_t kMostOrders = 1 << 17;

ipc::DeviceCaps caps_frame(const hal::Caps& caps) {
  ipc::DeviceCaps frame;
  frame.driver = caps.driver;
  frame.name = caps.name;
  frame.build_key = caps.build_key;
  frame.memory_bytes = caps.memory_bytes;
  frame.context_bytes = caps.context_bytes;
  frame.max_allocation_bytes = caps.max_allocation_bytes;
  frame.local_memory_bytes = caps.local_memory_bytes;
  frame.units = caps.units;
  frame.alignment_bytes = caps.alignment_bytes;
  frame.max_group_size = caps.max_group_size;
  for (size_t i = 0; i < 3; ++i) frame.max_group_sizes[i] = caps.max_group_sizes[i];
  frame.unified_memory = caps.unified_memory;
  frame.launch_offset = caps.launch_offset;
  frame.partitions = caps.partitions;
  frame.worker_classes = caps.worker_classes;
  static_assert(static_cast<uint8_t>(hal::Overlap::kAcrossProcesses) == ipc::kOverlapAcrossProcesses);
  frame.overlap = static_cast<uint8_t>(caps.overlap);
  frame.fault_scope = static_cast<uint8_t>(caps.fault_scope);
  frame.timestamps = static_cast<uint8_t>(caps.timestamps);
  return frame;
}

ipc::Discovered::Found found_frame(const hal::Found& found) {
  using Kind = ipc::Discovered::Found::Kind;
  static_assert(static_cast<Kind>(hal::Found::Kind::kCpu) == Kind::kCpu);
  static_assert(static_cast<Kind>(hal::Found::Kind::kGpu) == Kind::kGpu);
  static_assert(static_cast<Kind>(hal::Found::Kind::kOther) == Kind::kOther);
  ipc::Discovered::Found frame;
  frame.index = found.index;
  frame.name = found.name;
  frame.kind = static_cast<Kind>(found.kind);
  frame.units = found.units;
  frame.memory_bytes = found.memory_bytes;
  frame.platform = found.platform;
  frame.version = found.version;
  frame.unsliceable = found.unsliceable;
  frame.undivided = found.undivided;
  frame.clock = found.clock;
  frame.classes = found.classes;
  frame.in_place = found.in_place;
  frame.error = found.error;
  return frame;
}

/// Everything of one executor process; torn down by the end of the process alone, since a kernel may hang in it.
struct Process {
  explicit Process(os::Fd socket) : channel(std::move(socket)) {}
  ipc::Channel channel;
  ipc::SharedPages pages;
  std::unique_ptr<hal::Driver> driver;
  std::unique_ptr<hal::Device> device;
  std::unique_ptr<Holdings> holdings;
  std::unique_ptr<os::Event> daemon_wake;
  std::vector<os::Event> wakes;
  std::atomic<uint32_t> busy_lanes{0};
  std::vector<std::unique_ptr<Lane>> lanes;
  os::WorkQueue<ipc::Received> orders{kMostOrders};
  std::vector<int32_t> workers;  ///< as the daemon was told; the control thread's
  std::vector<os::Thread> threads;
};

std::vector<int32_t> workers_of(const hal::Device& device) {
  const std::vector<int> threads = device.worker_threads();
  std::vector<int32_t> workers(threads.begin(), threads.end());
  std::sort(workers.begin(), workers.end());
  return workers;
}

// A queue that failed stays failed, and other drivers than PoCL may have broken their whole context with it. The daemon
// starts another executor.
[[noreturn]] void end_broken(const Error& why) {
  os::log_warning("executor: {}", why.text);
  os::end_process(1);
}

Result<ipc::Received> wait_for_frame(ipc::Channel& channel) {
  for (;;) {
    auto received = channel.receive();
    if (received.ok() || received.error().code != ErrorCode::kExhausted) return received;
    os::wait_readable(channel.fd(), Duration::forever());
  }
}

Status discover(const ipc::Discover& wanted, ipc::Channel& channel, const CreateDriver& create_driver) {
  QUERN_TRY(auto driver, create_driver(wanted.driver));
  QUERN_TRY(const auto found, driver->enumerate());
  ipc::Discovered frame;
  for (const hal::Found& device : found) frame.devices.push_back(found_frame(device));
  return channel.send(frame);
}

Status start(Process& process, ipc::Received first, const CreateDriver& create_driver) {
  const auto* start = std::get_if<ipc::Start>(&first.frame);
  if (!start || start->lanes < 1 || start->lanes > ipc::kMostLanes || first.fds.size() != 3 + start->lanes)
    return invalid("the first frame is not a start");
  QUERN_TRY(process.pages, ipc::open_shared_pages(std::move(first.fds[0]), std::move(first.fds[1])));
  process.daemon_wake = std::make_unique<os::Event>(os::Event::adopt(std::move(first.fds[2])));
  for (uint32_t i = 0; i < start->lanes; ++i) process.wakes.push_back(os::Event::adopt(std::move(first.fds[3 + i])));

  const ipc::DeviceSpec& spec = start->device;
  hal::DeviceOptions options;
  options.platform = spec.platform;
  options.library = spec.library;
  options.index = spec.index;
  options.cores.assign(spec.cores.begin(), spec.cores.end());
  options.memory_bytes = spec.memory_bytes;
  options.cache_folder = spec.cache_folder;
  QUERN_TRY(process.driver, create_driver(spec.driver));
  QUERN_TRY(process.device, process.driver->open(options));
  // One datagram per frame, sent by one call: two threads may.
  const auto tell = [&process](const ipc::Frame& frame) {
    const Status sent = process.channel.send(frame);
    // A daemon that is gone is the control thread's business.
    QUERN_CHECK(sent.ok() || sent.error().code == ErrorCode::kUnavailable, sent.error().text);
  };
  QUERN_TRY(process.holdings, Holdings::create(*process.device, spec.in_place, tell, end_broken));

  for (uint32_t i = 0; i < start->lanes; ++i) {
    Lane::Links links{process.pages.daemon().lanes[i],
                      process.pages.executor().lanes[i],
                      process.wakes[i],
                      *process.daemon_wake,
                      process.busy_lanes,
                      !spec.cores.empty()};
    QUERN_TRY(auto lane, Lane::create(*process.holdings, links));
    process.lanes.push_back(std::move(lane));
  }
  for (uint32_t i = 0; i < start->lanes; ++i)
    process.threads.emplace_back(fmt::format("lane{}", i), [lane = process.lanes[i].get()] {
      os::use_alternate_stack();
      os::want_exact_timers();
      os::want_short_turns();
      const Status ended = lane->serve();
      QUERN_CHECK(ended.error().code == ErrorCode::kFaulted, ended.error().text);
      end_broken(ended.error());
    });
  os::use_alternate_stack();
  QUERN_TRY(process.device->on_each_worker([] { os::use_alternate_stack(); }));
  watch_faults(process.pages.executor().fault);
  process.threads.emplace_back("faults", [&process] {
    look_at_fault([&process] {
      for (const auto& lane : process.lanes) lane->publish_front();
    });
  });
  if (process.device->caps().worker_classes)
    for (const int worker : process.device->worker_threads()) os::set_worker_class(worker, os::WorkerClass::kNormal);

  process.workers = workers_of(*process.device);
  return process.channel.send(ipc::Hello{caps_frame(process.device->caps()), process.workers});
}

// A driver may start workers after its first kernels. The daemon gives workers their class and counts their time, so it
// has to know them; to list them takes some 10 us, which is nothing beside what the callers of this do.
Status tell_workers(Process& process) {
  auto workers = workers_of(*process.device);
  if (workers == process.workers) return {};
  process.workers = std::move(workers);
  return process.channel.send(ipc::Workers{process.workers});
}

ipc::Flight flight_of(const std::vector<std::unique_ptr<Lane>>& lanes) {
  ipc::Flight flight;
  for (const auto& lane : lanes)
    if (const auto launch = lane->flight()) flight.launches.push_back(*launch);
  return flight;
}

// What takes time: the vendor reads a program, a plan gets its kernels. In the order in which it came, on a thread of
// its own, so that the control thread always answers what is in flight.
Status set_up(Process& process, ipc::Received& received) {
  Holdings& holdings = *process.holdings;
  ipc::Channel& channel = process.channel;
  using LoadedKind = ipc::Loaded::Kind;
  os::Fd fd = received.fds.empty() ? os::Fd() : std::move(received.fds[0]);
  if (auto* frame = std::get_if<ipc::MapSegment>(&received.frame)) {
    QUERN_TRY(channel.send(loaded(LoadedKind::kSegment, frame->segment, holdings.map_segment(*frame, std::move(fd)))));
  } else if (auto* frame = std::get_if<ipc::LoadObject>(&received.frame)) {
    holdings.load_object(*frame, std::move(fd));
  } else if (auto* frame = std::get_if<ipc::LoadProgram>(&received.frame)) {
    QUERN_TRY(channel.send(loaded(LoadedKind::kProgram, frame->program, holdings.load_program(*frame, std::move(fd)))));
  } else if (auto* frame = std::get_if<ipc::PreparePlan>(&received.frame)) {
    QUERN_TRY(channel.send(loaded(LoadedKind::kPlan, frame->plan, holdings.prepare_plan(*frame, std::move(fd)))));
  } else if (auto* frame = std::get_if<ipc::UnmapSegment>(&received.frame)) {
    holdings.drop_segment(frame->segment);
  } else if (auto* frame = std::get_if<ipc::DropObject>(&received.frame)) {
    holdings.drop_object(frame->object);
  } else if (auto* frame = std::get_if<ipc::DropProgram>(&received.frame)) {
    holdings.drop_program(frame->program);
  } else if (auto* frame = std::get_if<ipc::DropPlan>(&received.frame)) {
    holdings.drop_plan(frame->plan);
  } else {
    return invalid("a frame that executors do not take");
  }
  return {};
}

Status serve(Process& process) {
  process.threads.emplace_back("setup", [&process] {
    os::use_alternate_stack();
    while (auto received = process.orders.pop()) {
      const Status done = set_up(process, *received);
      // A daemon that is gone is the control thread's business.
      QUERN_CHECK(done.ok() || done.error().code == ErrorCode::kUnavailable, done.error().text);
    }
  });
  for (;;) {
    QUERN_TRY(ipc::Received received, wait_for_frame(process.channel));
    if (std::holds_alternative<ipc::PreparePlan>(received.frame)) QUERN_TRY(tell_workers(process));
    if (std::holds_alternative<ipc::AskFlight>(received.frame)) {
      QUERN_TRY(process.channel.send(flight_of(process.lanes)));
      QUERN_TRY(tell_workers(process));
    } else if (!process.orders.push(std::move(received))) {
      return exhausted("too many frames wait to be set up");
    }
  }
}

}  // namespace

int run(os::Fd socket, const CreateDriver& create_driver) {
  // Leaked on purpose: lanes and the loader may sit in a vendor's call for ever, and the end of the process frees all.
  auto& process = *new Process(std::move(socket));
  auto first = wait_for_frame(process.channel);
  if (!first.ok()) return 1;
  if (const auto* wanted = std::get_if<ipc::Discover>(&first->frame)) {
    const Status told = discover(*wanted, process.channel, create_driver);
    if (!told.ok()) os::log_error("executor: {}", told.error().text);
    return told.ok() ? 0 : 1;
  }
  Status status = start(process, *std::move(first), create_driver);
  if (status.ok()) status = serve(process);
  if (status.error().code == ErrorCode::kUnavailable && process.holdings) return 0;  // the daemon is gone
  os::log_error("executor: {}", status.error().text);
  return 1;
}

}  // namespace quern::executor
