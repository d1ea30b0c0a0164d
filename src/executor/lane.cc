// SPDX-License-Identifier: Apache-2.0
//
// The loop of a lane; lane_steps.cc walks through a plan, lane_gate.cc waits for grants and for what was launched,
// lane_memory.cc has what it computes in, lane_constants.cc waits for what is not there yet. A warm run costs: one
// record read, the buffers found among those imported before, one launch per kernel, one wait, one record written. What
// is in flight is bounded in expected device time (the gate's depth), since nothing that was enqueued can be recalled.
#include "executor/lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <string_view>

#include "os/clock.h"
#include "os/thread.h"

namespace quern::executor {
namespace {

// Blocks come and go at the same places, so a few imports serve nearly all requests; each costs some 100 bytes.
constexpr size_t kMostImports = 256;
constexpr size_t kMostKernels = 1024;
// From the end of a run until whoever fills the pause after it is on the core.
constexpr Duration kHandOver = Duration::micros(100);

/// Whatever order: two launches of an entry are alike if all their arguments are.
struct SameLaunch {
  template <class Key>
  bool operator()(const Key& one, const Key& two) const {
    if (one.first != two.first) return one.first < two.first;
    const auto key = [](const PlannedArgument& a) {
      const Scalar& fixed = a.scalar.fixed;
      return std::tuple(a.kind, a.is_view, a.buffer, a.offset_bytes, a.size_bytes, a.scalar.slot, fixed.dtype,
                        fixed.bits, a.local_bytes);
    };
    return std::lexicographical_compare(one.second.begin(), one.second.end(), two.second.begin(), two.second.end(),
                                        [&](const auto& a, const auto& b) { return key(a) < key(b); });
  }
};

bool is_bound(Role role) { return role == Role::kInput || role == Role::kOutput; }

}  // namespace

Result<std::unique_ptr<Lane>> Lane::create(Holdings& holdings, Links links) {
  QUERN_TRY(auto queue, holdings.device().create_queue());
  return std::unique_ptr<Lane>(new Lane(holdings, links, std::move(queue)));
}

Lane::Lane(Holdings& holdings, Links links, std::unique_ptr<hal::Queue> queue)
    : holdings_(holdings),
      links_(links),
      queue_(queue.get()),
      commands_(links.daemon.command_head, links.own.command_tail, links.daemon.commands),
      events_(links.own.event_head, links.daemon.event_tail, links.own.events) {
  queues_.emplace(std::pair(0U, 0U), std::move(queue));
}

Status Lane::use_units(uint32_t units, uint32_t first) {
  auto& queue = queues_[{units, first}];
  if (!queue) {
    QUERN_TRY(queue, holdings_.device().create_queue(units, first));
  }
  queue_ = queue.get();
  seen_device_ns_ = told_device_ns_ = queue_->device_time_ns();
  return {};
}

Status Lane::serve() {
  Bytes record;
  ipc::Command command;
  for (;;) {
    QUERN_TRY(const bool got, next_command(record));
    if (!got) continue;
    const Time taken = os::now();
    QUERN_TRY(ipc::decode(record, command));
    if (const auto* start = std::get_if<ipc::RunCommand>(&command)) {
      if (!run(*start, taken)) return {Error{ErrorCode::kFaulted, broken_}};
    } else if (const auto* plan = std::get_if<ipc::ForgetPlanCommand>(&command)) {
      ready_.erase(plan->plan);
    } else if (const auto* segment = std::get_if<ipc::ForgetSegmentCommand>(&command)) {
      forget_segment(segment->segment);
    } else if (std::holds_alternative<ipc::TrimCommand>(command)) {
      trim();
    }
    // A StopCommand here is for a run that has ended.
  }
}

// Looks for a while where the daemon allows it, then sleeps. A spin saves the 30-40 us it takes to wake an idle core.
Result<bool> Lane::next_command(Bytes& record) {
  QUERN_TRY(const bool got, commands_.pop(record));
  if (got) return true;
  if (const uint64_t spin_ns = links_.daemon.gate.spin_ns.load(std::memory_order_relaxed); spin_ns > 0) {
    const Time until = os::now() + Duration{static_cast<int64_t>(spin_ns)};
    // A neighbour's kernel comes first: it has this core for as long as it wants it. Who sleeps meanwhile is owed its
    // turn when it wakes up; who looks now and then gives it away (Linux 6.18: sched_yield).
    while (commands_.empty() && links_.busy_lanes.load(std::memory_order_relaxed) == 0 && os::now() < until)
      __builtin_ia32_pause();
    if (!commands_.empty()) return commands_.pop(record);
  } else if (ipc::is_telling(links_.daemon.gate.word.load(std::memory_order_relaxed))) {
    // Whoever may fill the pause is about to be let through.
    linger(kHandOver, [&] { return !commands_.empty(); });
    if (!commands_.empty()) return commands_.pop(record);
  }
  if (commands_.prepare_sleep()) links_.wake.wait(Duration::forever());
  commands_.woke();
  links_.wake.drain();
  return commands_.pop(record);
}

// Besides stops there are only things to forget, and to free afterwards.
Result<bool> Lane::heed(uint64_t run) {
  Bytes record;
  QUERN_TRY(const bool got, commands_.pop(record));
  if (!got) return true;
  ipc::Command command;
  QUERN_TRY(ipc::decode(record, command));
  if (const auto* stop = std::get_if<ipc::StopCommand>(&command); stop && stop->run == run) return false;
  if (const auto* segment = std::get_if<ipc::ForgetSegmentCommand>(&command)) forget_segment(segment->segment);
  if (const auto* plan = std::get_if<ipc::ForgetPlanCommand>(&command)) ready_.erase(plan->plan);
  if (std::holds_alternative<ipc::TrimCommand>(command)) trim_after_run_ = true;
  return true;
}

template <class Event>
void Lane::report(const Event& event) {
  writer_.clear();
  ipc::encode(event, writer_);
  // Full only if the daemon let kRingBytes of answers lie: it reads one before it sends the next command.
  (void)events_.push(writer_.bytes());
  if (events_.consumer_sleeps()) links_.daemon_wake.signal();
}

bool Lane::run(const ipc::RunCommand& command, Time taken) {
  links_.busy_lanes.fetch_add(1, std::memory_order_relaxed);
  shown_.first.store(0, std::memory_order_relaxed);
  shown_.last.store(0, std::memory_order_relaxed);
  shown_.used_ns.store(0, std::memory_order_relaxed);
  links_.own.running_launch.store(0, std::memory_order_relaxed);
  links_.own.running_run.store(command.run, std::memory_order_release);
  ipc::RunEnded ended;
  ended.run = command.run;
  ended.taken_ns = taken.ns;
  Status status = use_units(command.units, command.first_unit);
  const uint64_t before_ns = queue_->device_time_ns();
  first_start_ns_ = last_end_ns_ = waited_ns_ = 0;
  stand_back(false);
  is_confirmed_ = false;
  scale_ = 1;
  path_.clear();
  told_ = {};
  last_identity_ = pause_.after = 0;
  profile_.clear();
  if (status.ok()) status = execute(command, ended);
  if (!status.ok()) {
    if (const auto broken = breakage(command.plan)) {
      broken_ = fmt::format("{}: failed on the device: {}", broken->entry ? "kernel " + *broken->entry : "a copy",
                            broken->why.text);
      // The end of the process tells that the run is lost. Nobody is to blame, and the run is worth another attempt.
      if (!broken->entry) return false;
      ended.ends_executor = true;
      status = {Error{broken->why.code, broken_}};
    }
    // Nothing of this run may still touch its buffers when it is reported ended. Where the queue failed, only the end
    // of the process makes sure.
    (void)drain();
  }
  in_use_.clear();
  made_.clear();
  objects_.clear();
  if (!status.ok()) {
    ended.ok = false;
    ended.code = status.error().code;
    ended.text = status.error().text.substr(0, 4096);
  }
  ended.started_ns = first_start_ns_;
  ended.ended_ns = last_end_ns_;
  ended.waited_ns = waited_ns_;
  ended.device_time_ns = queue_->device_time_ns() - before_ns;
  while (!profile_.empty() && profile_.back().launches == 0) profile_.pop_back();
  tell_traced();
  tell_used(Moment::kRunEnd);
  told_device_ns_ = queue_->device_time_ns();
  ended.kernels = profile_;
  links_.own.running_launch.store(ipc::kNoLaunch, std::memory_order_relaxed);
  links_.own.running_run.store(0, std::memory_order_release);
  links_.busy_lanes.fetch_sub(1, std::memory_order_relaxed);
  ended.reported_ns = os::now().ns;
  report(ended);
  if (ended.ends_executor) return false;
  if (std::exchange(trim_after_run_, false)) trim();
  return true;
}

void Lane::trim() {
  release_memory();
  report(ipc::LaneTrimmed{});
}

Status Lane::execute(const ipc::RunCommand& command, ipc::RunEnded& ended) {
  QUERN_TRY(Ready * ready, make_ready(command.plan));
  const Plan& plan = ready->plan();
  if (command.bindings.size() != ready->prepared->bound_buffers || command.scalars.size() != plan.slots.size())
    return internal(fmt::format("run {}: does not fit its plan", command.run));
  if (Status taken = take_memory(*ready, command.lane_bytes); !taken.ok()) {
    ended.no_room = taken.error().code == ErrorCode::kExhausted;
    return taken;
  }
  rounds_.assign(plan.reported.size(), 0);
  if (command.profile) profile_.assign(ipc::RunEnded::kMostKernels, {});
  QUERN_TRY(bind(*ready, command));
  if (Status made = make_objects(*ready); !made.ok()) {
    ended.no_room = made.error().code == ErrorCode::kExhausted;
    if (ended.no_room) {
      (void)drain();
      release_memory();
    }
    return made;
  }
  QUERN_TRY(copy_in(*ready));
  QUERN_TRY(bool went_through, walk(*ready, command, {0, static_cast<uint32_t>(plan.steps.size())}));
  // Also for what no kernel used: a run that ended has all it needs.
  if (went_through) {
    QUERN_TRY(went_through, await_constants(*ready, command.run));
  }
  ended.stopped = !went_through;
  if (went_through && holdings_.in_place()) QUERN_TRY(bring_home(*ready));
  QUERN_TRY(queue_->flush());
  // Outputs that are copied back wait in order behind the kernels, so that one wait serves all.
  if (went_through && !holdings_.in_place()) QUERN_TRY(fill_objects(*ready));
  if (went_through && !holdings_.in_place()) QUERN_TRY(copy_out(*ready));
  QUERN_TRY(retire(*ready, 0));
  if (ended.stopped) return {Error{ErrorCode::kCancelled, "the run was stopped between two kernels"}};
  leave_objects(*ready);
  ended.rounds = rounds_;
  return {};
}

Result<Lane::Ready*> Lane::make_ready(uint64_t plan_id) {
  if (const auto it = ready_.find(plan_id); it != ready_.end()) return &it->second;
  Ready ready;
  ready.prepared = holdings_.plan(plan_id);
  if (!ready.prepared) return internal(fmt::format("plan {}: is not here", plan_id));
  const Plan& plan = ready.plan();
  // A kernel object per entry and arguments keeps these set, and stays in the caches where it is launched again and
  // again. Where there are very many, those of one entry share.
  using Entry = std::pair<uint32_t, std::string_view>;  // program, name
  std::map<std::pair<Entry, std::span<const PlannedArgument>>, uint32_t, SameLaunch> same;
  std::map<Entry, uint32_t> of_entry;
  for (const auto& launch : plan.launches) {
    const Entry entry{launch.program, launch.entry};
    const auto [known, is_new] = same.try_emplace({entry, launch.arguments});
    if (is_new) {
      const auto any = of_entry.find(entry);
      if (ready.kernels.size() >= kMostKernels && any != of_entry.end()) {
        known->second = any->second;
      } else {
        known->second = of_entry[entry] = static_cast<uint32_t>(ready.kernels.size());
        hal::Program& program = *ready.prepared->programs[launch.program];
        QUERN_TRY(ready.kernels.emplace_back(), program.create_kernel(launch.entry));
      }
    }
    ready.kernel_of.push_back(known->second);
  }
  const ipc::PlanBinding& binding = ready.prepared->binding;
  for (size_t i = 0; i < plan.launches.size(); ++i)
    ready.cuts.push_back(cut_of(plan.launches[i], binding.launches[i], holdings_.device().caps().launch_offset));
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].role == Role::kOutput && plan.buffers[i].size_bytes > 0 &&
        binding.placement.places[i].arena == Placement::kElsewhere && !holdings_.in_place())
      return internal(fmt::format("plan {}: has no memory for a tensor", plan_id));
  return &ready_.emplace(plan_id, std::move(ready)).first->second;
}

Status Lane::bind(Ready& ready, const ipc::RunCommand& command) {
  const auto& buffers = ready.plan().buffers;
  bound_.assign(buffers.size(), nullptr);
  host_.assign(buffers.size(), nullptr);
  bindings_.assign(buffers.size(), nullptr);
  objects_.assign(buffers.size(), nullptr);
  names_.resize(buffers.size());
  std::iota(names_.begin(), names_.end(), 0U);
  QUERN_TRY(bind_constants(ready));
  size_t next = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const auto& buffer = buffers[i];
    if (buffer.role == Role::kConstant) continue;
    bound_[i] = ready.own[i].get();
    if (is_bound(buffer.role)) bindings_[i] = &command.bindings[next++];
    if (buffer.size_bytes == 0) {
      QUERN_TRY(bound_[i], nothing());
      continue;
    }
    if (!is_bound(buffer.role)) continue;
    const ipc::Binding& binding = *bindings_[i];
    const bool writable = buffer.role == Role::kOutput;
    if (binding.object != 0 && !writable) {
      QUERN_TRY(bind_object(ready, i));
      continue;
    }
    if (holdings_.in_place()) {
      QUERN_TRY(auto imported, import(binding.segment, binding.offset, buffer.size_bytes, writable));
      bound_[i] = imported.get();
      continue;
    }
    const auto segment = holdings_.segment(binding.segment);
    if (!segment || segment->writable != writable || binding.offset > segment->mapping.size() ||
        buffer.size_bytes > segment->mapping.size() - binding.offset || !bound_[i])
      return internal(fmt::format("segment {}: has no such piece", binding.segment));
    host_[i] = segment->mapping.data() + binding.offset;
  }
  return {};
}

Result<std::shared_ptr<hal::Buffer>> Lane::import(uint32_t segment_id, uint64_t offset, uint64_t size, bool writable) {
  const ImportKey key{segment_id, offset, size};
  if (const auto it = imports_.find(key); it != imports_.end()) return it->second.buffer;
  auto segment = holdings_.segment(segment_id);
  if (!segment || segment->writable != writable || offset > segment->mapping.size() ||
      size > segment->mapping.size() - offset)
    return internal(fmt::format("segment {}: has no such piece", segment_id));
  QUERN_TRY(auto buffer, holdings_.device().import(segment->mapping.bytes().subspan(offset, size), writable));
  // All but those of the run being bound are given up at once: rare, and simpler than an order that every hit would
  // have to keep.
  if (imports_.size() >= kMostImports) {
    std::erase_if(imports_, [&](const auto& item) {
      return std::none_of(bound_.begin(), bound_.end(), [&](hal::Buffer* b) { return b == item.second.buffer.get(); });
    });
  }
  imports_[key] = {std::move(segment), buffer};
  return buffer;
}

Status Lane::copy_in(Ready& ready) {
  const auto& buffers = ready.plan().buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!host_[i] || buffers[i].role != Role::kInput) continue;
    QUERN_TRY(const uint64_t point, queue_->write(*bound_[i], 0, {host_[i], buffers[i].size_bytes}));
    in_flight_.push_back({.point = point, .launch = ipc::kNoLaunch});
  }
  return {};
}

Status Lane::copy_out(Ready& ready) {
  const auto& buffers = ready.plan().buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!host_[i] || buffers[i].role != Role::kOutput) continue;
    QUERN_TRY(const uint64_t point, queue_->read(*bound_[names_[i]], 0, {host_[i], buffers[i].size_bytes}));
    in_flight_.push_back({.point = point, .launch = ipc::kNoLaunch});
  }
  return {};
}

// An output whose name was swapped away is copied to where its caller looks for it. Two that stand in each other's
// place go by way of a third.
Status Lane::bring_home(Ready& ready) {
  const auto& buffers = ready.plan().buffers;
  std::vector<std::pair<hal::Buffer*, uint32_t>> moves;  // from, to
  bool cross = false;
  for (uint32_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].role != Role::kOutput || names_[i] == i || buffers[i].size_bytes == 0) continue;
    moves.emplace_back(bound_[names_[i]], i);
    cross |= buffers[names_[i]].role == Role::kOutput;
  }
  const auto copy = [&](hal::Buffer& from, hal::Buffer& to) -> Status {
    QUERN_TRY(const uint64_t point, queue_->copy(from, 0, to, 0, to.size_bytes()));
    in_flight_.push_back({.point = point, .launch = ipc::kNoLaunch});
    return {};
  };
  for (auto& [from, to] : moves) {
    if (!cross) break;
    // All of it is overwritten before it is read.
    QUERN_TRY(auto third, holdings_.device().allocate(buffers[to].size_bytes));
    QUERN_TRY(copy(*from, *third));
    from = third.get();
    in_use_.push_back(std::move(third));
  }
  for (const auto& [from, to] : moves) QUERN_TRY(copy(*from, *bound_[to]));
  return {};
}

Status Lane::drain() {
  if (in_flight_.empty()) return {};
  const uint64_t point = in_flight_.back().point;
  in_flight_.clear();
  in_flight_ns_ = 0;
  kernels_in_flight_ = 0;
  return queue_->timeline().wait(point, Duration::forever());
}

std::optional<Lane::Breakage> Lane::breakage(uint64_t plan) {
  if (!in_flight_.empty()) (void)queue_->timeline().wait(in_flight_.back().point, Duration::forever());
  const auto reached = queue_->timeline().reached();
  if (reached.ok()) return std::nullopt;
  Breakage broken{reached.error(), std::nullopt};
  if (reached.error().code != ErrorCode::kFaulted) return broken;  // not the doing of a kernel
  const uint64_t failed = queue_->timeline().last_reached() + 1;
  const auto ready = ready_.find(plan);
  for (const InFlight& one : in_flight_)
    if (one.point == failed && one.launch != ipc::kNoLaunch && ready != ready_.end())
      broken.entry = ready->second.plan().launches[one.launch].entry;
  return broken;
}

void Lane::forget_segment(uint32_t segment) {
  std::erase_if(imports_, [&](const auto& item) { return std::get<0>(item.first) == segment; });
}

template void Lane::report(const ipc::WorkReady& event);
template void Lane::report(const ipc::DeviceUsed& event);
template void Lane::report(const ipc::Traced& event);

}  // namespace quern::executor
