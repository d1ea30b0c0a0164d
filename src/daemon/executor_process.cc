// SPDX-License-Identifier: Apache-2.0
#include "daemon/executor_process.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "daemon/plan_binding.h"
#include "os/clock.h"
#include "os/env.h"
#include "os/file.h"
#include "os/log.h"
#include "os/shared_memory.h"

namespace quern::daemon {
namespace {

// A work-group's private data lives on the worker's stack: what 8 MiB cannot hold would jump over the guard page.
constexpr uint64_t kStackBytes = 64 * kMiB;

}  // namespace

Result<std::unique_ptr<ExecutorProcess>> ExecutorProcess::start(const DeviceConfig& device, uint32_t lanes,
                                                                const ipc::Grant& first,
                                                                const std::string& cache_folder) {
  QUERN_TRY(os::make_folders(cache_folder, 0700));
  QUERN_TRY(auto sockets, os::socket_pair());
  QUERN_TRY(auto log, os::pipe());
  QUERN_TRY(os::Event wake, os::Event::create());
  QUERN_TRY(ipc::SharedPages pages, ipc::create_shared_pages());

  os::ProcessOptions options;
  options.arguments = {"executor"};
  // Memory of a CPU device is malloc's. In huge pages it has 512 times fewer faults when it is first written to: a load
  // of 80 MiB takes 30 ms instead of 70. An executor without any is 2 MiB larger for it.
  options.environment = os::vendor_environment();
  options.environment.insert(
      {{"HOME", cache_folder}, {"TMPDIR", cache_folder}, {"GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"}});
  options.cores = device.cores;
  options.stack_bytes = kStackBytes;
  options.socket = sockets.second.get();
  options.log = log.second.get();
  QUERN_TRY(os::Process process, os::Process::spawn(options));

  std::unique_ptr<ExecutorProcess> self(new ExecutorProcess(std::move(process), ipc::Channel(std::move(sockets.first)),
                                                            std::move(log.first), std::move(wake), std::move(pages),
                                                            cache_folder));
  self->in_place_ = device.in_place;
  std::vector<int> fds = {self->pages_.daemon_fd.get(), self->pages_.executor_fd.get(), self->wake_.fd()};
  for (uint32_t i = 0; i < lanes; ++i) {
    auto& ours = self->pages_.daemon().lanes[i];
    auto& theirs = self->pages_.executor().lanes[i];
    Lane lane;
    lane.commands = std::make_unique<ipc::RingProducer>(ours.command_head, theirs.command_tail, ours.commands);
    lane.events = std::make_unique<ipc::RingConsumer>(theirs.event_head, ours.event_tail, theirs.events);
    QUERN_TRY(os::Event lane_wake, os::Event::create());
    lane.wake.emplace(std::move(lane_wake));
    fds.push_back(lane.wake->fd());
    self->lanes_.push_back(std::move(lane));
    self->grant(i, first);
  }
  ipc::Start start;
  start.device = {
      device.driver,       device.platform, device.library, device.index, {device.cores.begin(), device.cores.end()},
      device.memory_bytes, device.in_place, cache_folder};
  start.lanes = lanes;
  QUERN_TRY(self->channel_.send(start, fds));
  return self;
}

ExecutorProcess::ExecutorProcess(os::Process process, ipc::Channel channel, os::Fd log, os::Event wake,
                                 ipc::SharedPages pages, std::string cache_folder)
    : process_(std::move(process)),
      channel_(std::move(channel)),
      log_(std::move(log)),
      wake_(std::move(wake)),
      pages_(std::move(pages)),
      cache_folder_(std::move(cache_folder)) {}

ExecutorProcess::~ExecutorProcess() {
  process_.kill();
  (void)process_.wait(Duration::forever());
  os::remove_tree(cache_folder_);
}

Result<bool> ExecutorProcess::take_frame() {
  auto received = channel_.receive();
  if (!received.ok()) {
    if (received.error().code == ErrorCode::kExhausted) return false;
    return std::move(received).error();
  }
  if (auto* hello = std::get_if<ipc::Hello>(&received->frame)) {
    if (caps_) return invalid("executor: greets twice");
    caps_ = std::move(hello->caps);
    workers_ = std::move(hello->workers);
    in_place_ = in_place_ && caps_->unified_memory;
    return true;
  }
  if (auto* workers = std::get_if<ipc::Workers>(&received->frame)) {
    if (!caps_) return invalid("executor: tells of its workers before it greets");
    workers_ = std::move(workers->workers);
    ++workers_told_;
    return true;
  }
  if (const auto* dropped = std::get_if<ipc::Dropped>(&received->frame)) {
    const auto it = dropped_objects_.find(dropped->object);
    if (it == dropped_objects_.end()) return invalid("executor: drops what it was not told to");
    drop_end_ = it->second;
    dropped_objects_.erase(it);
    return true;
  }
  if (auto* flight = std::get_if<ipc::Flight>(&received->frame)) {
    flight_ = std::move(*flight);
    return true;
  }
  auto* loaded = std::get_if<ipc::Loaded>(&received->frame);
  if (!loaded) return invalid("executor: sends a frame that is not its own");
  using Kind = ipc::Loaded::Kind;
  if (!loaded->ok && loaded->code != ErrorCode::kCancelled) os::log_warning("executor {}: {}", pid(), loaded->text);
  // The first reason is the true one: a plan fails again after what it needs.
  const auto fail = [&](uint64_t plan) { failed_plans_.emplace(plan, Error{loaded->code, loaded->text}); };
  const auto by_id = [&](auto& items) {
    return std::find_if(items.begin(), items.end(), [&](auto& item) { return item.second.id == loaded->id; });
  };
  switch (loaded->kind) {
    case Kind::kSegment:
      if (auto it = segments_.find(static_cast<uint32_t>(loaded->id)); it != segments_.end()) {
        if (!loaded->ok) return unavailable("executor: cannot map a segment: " + loaded->text);
        it->second.state = State::kLoaded;
      }
      break;
    case Kind::kObject:
      if (auto it = by_id(objects_); it != objects_.end() && it->second.loading) {
        load_end_ = LoadEnd{it->first, std::nullopt};
        it->second.loading.reset();
        it->second.span.to = os::now();
        --loading_;
        if (!loaded->ok) {
          load_end_->error = Error{loaded->code, loaded->text};
          // Plans that were made with it are of no use.
          for (auto plan = plans_.begin(); plan != plans_.end();) {
            auto& [id, item] = *plan++;
            if (std::count(item.objects.begin(), item.objects.end(), it->first) == 0) continue;
            item.unwanted = true;
            if (item.pins == 0) evict(id);
          }
          objects_.erase(it);
        }
      }
      break;
    case Kind::kProgram:
      if (auto it = by_id(programs_); it != programs_.end()) {
        it->second.span.to = os::now();
        if (loaded->ok) {
          it->second.state = State::kLoaded;
        } else {
          for (auto& [id, plan] : plans_)
            if (std::count(plan.programs.begin(), plan.programs.end(), it->first) > 0) fail(id);
          // Forgotten, so that the next plan that needs it tries again.
          programs_.erase(it);
        }
      }
      break;
    case Kind::kPlan:
      if (auto dropped = dropped_plans_.find(loaded->id); dropped != dropped_plans_.end()) {
        if (--dropped->second == 0) dropped_plans_.erase(dropped);
      } else if (auto it = plans_.find(loaded->id); it != plans_.end()) {
        if (loaded->ok) {
          it->second.state = State::kLoaded;
        } else {
          fail(loaded->id);
          it->second.state = State::kLoaded;  // answered: nothing more comes for it
          evict(loaded->id);
        }
      }
      break;
  }
  return true;
}

Result<std::optional<ipc::LaneEvent>> ExecutorProcess::take_event(uint32_t lane) {
  QUERN_TRY(const bool got, lanes_[lane].events->pop(record_));
  if (!got) return std::optional<ipc::LaneEvent>();
  QUERN_TRY(ipc::LaneEvent event, ipc::decode_lane_event(record_));
  if (std::holds_alternative<ipc::LaneTrimmed>(event) && !std::exchange(lanes_[lane].trims, false))
    return invalid("executor: trims what it was not told to");
  return std::optional(std::move(event));
}

Status ExecutorProcess::trim(uint32_t lane) {
  lanes_[lane].trims = true;
  return push(lane, ipc::TrimCommand{});
}

bool ExecutorProcess::prepare_sleep() {
  bool sleep = true;
  for (Lane& lane : lanes_) sleep = lane.events->prepare_sleep() && sleep;
  return sleep;
}

void ExecutorProcess::woke() {
  for (Lane& lane : lanes_) lane.events->woke();
  wake_.drain();
}

bool ExecutorProcess::take_log() {
  const std::string text = os::read_available(log_, 64 * kKiB);
  if (text.empty()) return false;  // it was ready: nothing to read means that nobody can write any more
  os::log_debug("executor {}: {}", pid(), text);
  last_words_ += text;
  if (last_words_.size() > kLastWords) last_words_.erase(0, last_words_.size() - kLastWords);
  return true;
}

Result<bool> ExecutorProcess::require(const DeployedFunction& function, const CachedPlanRef& plan, const Binary& binary,
                                      const Tensors& tensors, const Complete& complete) {
  if (!failed_plans_.empty() && !plans_.contains(plan->id))
    if (auto failed = failed_plans_.extract(plan->id)) return std::move(failed.mapped());
  QUERN_TRY(const bool all_there, require_segments(tensors));
  auto it = plans_.find(plan->id);
  if (it == plans_.end()) {
    QUERN_TRY(prepare(function, *plan, binary, complete));
    it = plans_.find(plan->id);
  }
  ages_.splice(ages_.end(), ages_, it->second.age);
  if (it->second.state != State::kLoaded || !all_there) return false;
  ++it->second.pins;
  return true;
}

Status ExecutorProcess::require_segment(const std::shared_ptr<ipc::Segment>& segment) {
  if (segments_.contains(segment->id)) return {};
  for (auto it = segments_.begin(); it != segments_.end();) {
    if (!it->second.segment.expired()) {
      ++it;
      continue;
    }
    for (uint32_t lane = 0; lane < lanes_.size(); ++lane)
      if (lanes_[lane].has_run) QUERN_TRY(push(lane, ipc::ForgetSegmentCommand{it->first}));
    QUERN_TRY(channel_.send(ipc::UnmapSegment{it->first}));
    it = segments_.erase(it);
  }
  const int fd = segment->fd.get();
  QUERN_TRY(channel_.send(ipc::MapSegment{segment->id, static_cast<uint8_t>(segment->direction), segment->size_bytes},
                          {&fd, 1}));
  segments_[segment->id] = {State::kLoading, segment};
  return {};
}

Result<ExecutorProcess::ProgramItem*> ExecutorProcess::load_program(const HostObject& object) {
  auto [it, fresh] = programs_.try_emplace(object.hash);
  if (fresh) {
    it->second.id = next_id_++;
    it->second.span.from = os::now();
    const int fd = object.fd.get();
    QUERN_TRY(channel_.send(ipc::LoadProgram{it->second.id, object.size_bytes}, {&fd, 1}));
  }
  return &it->second;
}

Status ExecutorProcess::load_object(uint64_t number, ObjectBytes bytes) {
  const uint64_t id = next_id_++;
  QUERN_TRY(channel_.send(ipc::LoadObject{id, bytes.size_bytes, bytes.offset, bytes.memory_bytes}, {&bytes.fd, 1}));
  objects_[number] = {id, std::move(bytes.owner), {os::now(), {0}}};
  ++loading_;
  return {};
}

uint64_t ExecutorProcess::id_of(uint64_t object) const {
  const auto it = objects_.find(object);
  return it == objects_.end() ? 0 : it->second.id;
}

void ExecutorProcess::add_made(uint64_t object, uint64_t id) { objects_[object] = {id, nullptr, {}}; }

bool ExecutorProcess::drop_object(uint64_t object) {
  const auto it = objects_.find(object);
  if (it == objects_.end()) return false;
  for (auto plan = plans_.begin(); plan != plans_.end();) {
    const auto& [id, item] = *plan++;
    if (std::count(item.objects.begin(), item.objects.end(), object) == 0) continue;
    QUERN_CHECK(item.pins == 0, "an object is dropped while a run uses it");
    evict(id);
  }
  (void)channel_.send(ipc::DropObject{it->second.id});
  dropped_objects_[it->second.id] = object;
  if (it->second.loading) --loading_;
  objects_.erase(it);
  return true;
}

bool ExecutorProcess::is_loading(std::span<const sched::ObjectNeed> objects) const {
  if (loading_ == 0) return false;
  return std::any_of(objects.begin(), objects.end(), [&](const sched::ObjectNeed& need) {
    const auto it = objects_.find(need.object.value);
    return it != objects_.end() && it->second.loading;
  });
}

std::optional<Span> ExecutorProcess::program_span(const std::string& hash) const {
  const auto it = programs_.find(hash);
  return it == programs_.end() ? std::nullopt : std::optional(it->second.span);
}

std::optional<Span> ExecutorProcess::object_span(uint64_t object) const {
  const auto it = objects_.find(object);
  return it == objects_.end() ? std::nullopt : std::optional(it->second.span);
}

Result<bool> ExecutorProcess::require_segments(const Tensors& tensors) {
  bool all_there = true;
  for (size_t i = 0; i < tensors.blocks.size(); ++i) {
    if (tensors.is_passed(i)) continue;
    const auto& segment = tensors.blocks[i].segment();
    QUERN_TRY(require_segment(segment));
    all_there = all_there && segments_[segment->id].state == State::kLoaded;
  }
  return all_there;
}

Status ExecutorProcess::require_early(const Binary& binary, const Tensors& tensors) {
  QUERN_TRY(require_segments(tensors));
  for (const CompiledProgram& program : binary.programs) QUERN_TRY(load_program(*program.object));
  return {};
}

// All frames of a plan go out at once: the executor takes them in order, and the answers come while we go on.
Status ExecutorProcess::prepare(const DeployedFunction& function, const CachedPlan& plan, const Binary& binary,
                                const Complete& complete) {
  PlanItem item;
  item.function = function.id;
  make_room_for_plan();
  std::map<std::string, uint64_t> object_ids;
  for (const ConstantRef& constant : function.constants) {
    if (!constant) continue;
    const auto object = objects_.find(constant->number);
    if (object == objects_.end()) return internal(fmt::format("object {}: is not loaded", constant->number));
    object_ids[constant->hash] = object->second.id;
    item.objects.push_back(constant->number);
  }
  std::vector<uint64_t> programs;
  for (const CompiledProgram& program : binary.programs) {
    QUERN_TRY(const ProgramItem* loaded, load_program(*program.object));
    programs.push_back(loaded->id);
    item.programs.push_back(program.object->hash);
  }
  for (const std::string& hash : item.programs) ++programs_.at(hash).uses;
  ipc::PlanBinding binding = bind_plan(function, plan.plan, binary, in_place_, std::move(programs), object_ids);
  complete(plan.plan, binding);
  const Bytes bytes = ipc::encode(plan.plan, binding);
  QUERN_TRY(const os::Fd memory, os::immutable_copy("quern-plan", bytes));
  const int fd = memory.get();
  QUERN_TRY(channel_.send(ipc::PreparePlan{plan.id, bytes.size()}, {&fd, 1}));
  item.age = ages_.insert(ages_.end(), plan.id);
  plans_.emplace(plan.id, std::move(item));
  return {};
}

void ExecutorProcess::make_room_for_plan() {
  for (auto it = ages_.begin(); it != ages_.end() && plans_.size() >= kMostPlans;) {
    const uint64_t plan = *it++;
    const PlanItem& item = plans_.at(plan);
    if (item.pins == 0 && item.state == State::kLoaded) evict(plan);
  }
}

void ExecutorProcess::evict(uint64_t plan) {
  auto item = plans_.extract(plan);
  if (!item) return;
  if (item.mapped().state == State::kLoading) ++dropped_plans_[plan];
  ages_.erase(item.mapped().age);
  for (uint32_t lane = 0; lane < lanes_.size(); ++lane)
    if (lanes_[lane].has_run) (void)push(lane, ipc::ForgetPlanCommand{plan});
  (void)channel_.send(ipc::DropPlan{plan});
  for (const std::string& hash : item.mapped().programs) release_program(hash);
}

void ExecutorProcess::release_program(const std::string& hash) {
  const auto it = programs_.find(hash);
  if (it == programs_.end() || --it->second.uses > 0) return;
  (void)channel_.send(ipc::DropProgram{it->second.id});
  programs_.erase(it);
}

Status ExecutorProcess::push(uint32_t lane, const ipc::Command& command) {
  writer_.clear();
  ipc::encode(command, writer_);
  QUERN_TRY(lanes_[lane].commands->push(writer_.bytes()));
  if (lanes_[lane].commands->consumer_sleeps()) lanes_[lane].wake->signal();
  return {};
}

Status ExecutorProcess::push_run(uint32_t lane, const ipc::RunCommand& command) {
  lanes_[lane].has_run = true;
  return push(lane, command);
}

Status ExecutorProcess::stop_run(uint32_t lane, uint64_t run) {
  Lane& state = lanes_[lane];
  state.is_stopping = true;
  ipc::write_grant(pages_.daemon().lanes[lane].gate, state.epoch, {});
  QUERN_TRY(push(lane, ipc::StopCommand{run}));
  state.wake->signal();  // it may sleep at the gate rather than at its ring
  return {};
}

void ExecutorProcess::stopped(uint32_t lane) {
  lanes_[lane].is_stopping = false;
  grant(lane, ipc::Grant{lanes_[lane].grant});
}

void ExecutorProcess::grant(uint32_t lane, const ipc::Grant& grant) {
  Lane& state = lanes_[lane];
  state.grant = grant;
  if (state.is_stopping) return;
  ipc::write_grant(pages_.daemon().lanes[lane].gate, state.epoch, grant);
  if (pages_.executor().lanes[lane].waits_at_gate.load(std::memory_order_seq_cst)) state.wake->signal();
}

void ExecutorProcess::allow_spin(uint64_t spin_ns) {
  for (uint32_t lane = 0; lane < lanes_.size(); ++lane)
    pages_.daemon().lanes[lane].gate.spin_ns.store(static_cast<uint32_t>(spin_ns), std::memory_order_relaxed);
}

bool ExecutorProcess::has_events() const {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return !lane.events->empty(); });
}

void ExecutorProcess::learn(uint64_t plan, Duration round_trip) {
  const auto it = plans_.find(plan);
  if (it == plans_.end()) return;
  // Down at once, up slowly: being early costs a short spin, being late a wake-up.
  Duration& known = it->second.round_trip;
  known = known.ns == 0 || round_trip < known ? round_trip : Duration{known.ns + (round_trip.ns - known.ns) / 8};
}

Duration ExecutorProcess::round_trip(uint64_t plan) const {
  const auto it = plans_.find(plan);
  return it == plans_.end() ? Duration{0} : it->second.round_trip;
}

void ExecutorProcess::unpin(uint64_t plan) {
  const auto it = plans_.find(plan);
  if (it == plans_.end()) return;
  QUERN_CHECK(it->second.pins > 0, "a plan is unpinned more often than pinned");
  if (--it->second.pins == 0 && it->second.unwanted) evict(plan);
}

void ExecutorProcess::forget_function(uint64_t function) {
  for (auto it = plans_.begin(); it != plans_.end();) {
    auto& [id, item] = *it++;
    if (item.function != function) continue;
    item.unwanted = true;
    if (item.pins == 0 && item.state == State::kLoaded) evict(id);
  }
}

std::optional<uint32_t> ExecutorProcess::running_launch(uint32_t lane, uint64_t run) const {
  const auto& theirs = pages_.executor().lanes[lane];
  if (theirs.running_run.load(std::memory_order_acquire) != run) return std::nullopt;
  return theirs.running_launch.load(std::memory_order_relaxed);
}

std::optional<size_t> ExecutorProcess::program_number(uint64_t plan, uint64_t id) const {
  const auto it = plans_.find(plan);
  if (it == plans_.end() || id == 0) return std::nullopt;
  const auto& hashes = it->second.programs;
  const auto found = std::find_if(hashes.begin(), hashes.end(), [&](const std::string& hash) {
    const auto program = programs_.find(hash);
    return program != programs_.end() && program->second.id == id;
  });
  if (found == hashes.end()) return std::nullopt;
  return static_cast<size_t>(found - hashes.begin());
}

ExecutorEnd ExecutorProcess::end() {
  ExecutorEnd end;
  end.exit = process_.wait(Duration::forever()).value_or(os::Exit{});
  take_log();
  const ipc::FaultRecord& fault = pages_.executor().fault;
  end.signal = fault.signal.load();
  end.address = fault.address.load();
  end.program = fault.program.load();
  end.entry = fault.entry.load();
  end.last_words = last_words_;
  return end;
}

}  // namespace quern::daemon
