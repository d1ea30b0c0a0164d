// SPDX-License-Identifier: Apache-2.0
#include "sim/ledger_checker.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "sched/policy/table.h"

namespace quern::sim {

namespace {

using State = Shadow::State;
using Kind = sched::Scheduler::Entry::Kind;

constexpr Duration kForGood = Duration::seconds(300LL * 86400);  // what stays longer needs no timer

const char* name_of(State state) {
  switch (state) {
    case State::kPromised:
      return "promised";
    case State::kLoading:
      return "loading";
    case State::kResident:
      return "resident";
    case State::kLeaving:
      return "leaving";
  }
  return "?";
}

const char* name_of(const Shadow::Object* object) { return object ? name_of(object->state) : "absent"; }

std::string show(const sched::Scheduler::Entry& entry) {
  if (entry.kind == Kind::kContext) return fmt::format("the context of e{}", entry.executor.value);
  if (entry.kind == Kind::kLane) return fmt::format("lane {} of e{}", entry.lane, entry.executor.value);
  return entry.executor.value == 0 ? fmt::format("o{} on the host", entry.object.value)
                                   : fmt::format("o{} on e{}", entry.object.value, entry.executor.value);
}

bool overlaps(const sched::Config& config) {
  const auto setup = sched::make_setup(config.policy.setup);
  return setup && setup->overlap;
}

}  // namespace

LedgerChecker::LedgerChecker(const sched::Config& config)
    : Checker("ledger"), config_(config), overlaps_(overlaps(config)), shadow_(config.granularity_bytes) {}

void LedgerChecker::on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
                            const sched::Scheduler& core) {
  check(now, event);
  shadow_.happened(now, event);
  for (const sched::Action& action : actions) {
    std::visit([&](const auto& what) { check(now, what); }, action);
    shadow_.carry_out(now, action);
  }

  const bool all = ++steps_ % kAllEvery == 0;
  for (const auto& [id, device] : shadow_.devices()) {
    if (!device.is_up || !(all || shadow_.touched().contains(id))) continue;
    const auto books = core.books(id);
    expect(books.has_value(), now, "d{} is up and has no books", id.value);
    if (books) compare(now, id, *books);
  }
  const auto host = core.host_books();
  expect(host.has_value() == (shadow_.host() != nullptr), now, "there is {} host, the core says otherwise",
         shadow_.host() ? "a" : "no");
  if (host && shadow_.host()) compare_host(now, *host);
}

void LedgerChecker::on_restart(Time) { shadow_.restart(); }

void LedgerChecker::compare(Time now, sched::DeviceId id, const sched::Scheduler::Books& books) {
  const Shadow::Device& device = *shadow_.find(id);
  const bool is_doubted = device.is_doubted(now, config_.room_back);
  expect(is_doubted ? books.memory_bytes <= device.memory_bytes : books.memory_bytes == device.memory_bytes, now,
         "d{} has {} bytes, its books say {}", id.value, device.memory_bytes, books.memory_bytes);
  expect(books.held_bytes == device.held_bytes, now, "d{} holds {} bytes, its books say {}", id.value,
         device.held_bytes, books.held_bytes);
  expect(books.leaving_bytes == device.leaving_bytes, now, "of d{} {} bytes are leaving, its books say {}", id.value,
         device.leaving_bytes, books.leaving_bytes);
  // Where memory was lost more may be held than there is, but then nothing is promised on top of it.
  expect(
      books.promised_bytes == 0 || books.held_bytes + books.promised_bytes <= books.memory_bytes + books.leaving_bytes,
      now, "d{} holds {} bytes and promised {}; it has {}, and {} are leaving", id.value, books.held_bytes,
      books.promised_bytes, books.memory_bytes, books.leaving_bytes);

  uint64_t promised = 0, listed = 0;
  std::pair<sched::ExecutorId, Kind> last{};
  std::set<std::tuple<sched::ExecutorId, Kind, sched::ObjectId, uint32_t>> seen;
  for (const Entry& entry : books.entries) {
    expect(last <= std::pair(entry.executor, entry.kind), now, "d{}: {} is out of order in its books", id.value,
           show(entry));
    last = {entry.executor, entry.kind};
    expect(seen.emplace(entry.executor, entry.kind, entry.object, entry.lane).second, now,
           "d{}: {} is in its books twice", id.value, show(entry));
    if (entry.state == State::kPromised) promised += entry.bytes;
    listed += compare(now, id, entry);
    check_stay(now, entry);
  }
  expect(promised <= books.promised_bytes, now, "d{}: {} bytes of what is in it are promised, its books say {}",
         id.value, promised, books.promised_bytes);
  uint64_t there = 0;
  const auto is_here = [&](sched::ExecutorId executor) { return shadow_.find(executor)->device == id; };
  for (const auto& [key, object] : shadow_.objects()) there += is_here(key.first);
  for (const auto& [key, lane] : shadow_.lanes()) there += is_here(key.first);
  for (const auto& [key, executor] : shadow_.executors()) there += executor.device == id;
  expect(listed == there, now, "d{}: {} objects, lanes and contexts are there, {} of them are in its books", id.value,
         there, listed);
}

bool LedgerChecker::compare(Time now, sched::DeviceId id, const Entry& entry) {
  const Shadow::Executor* executor = shadow_.find(entry.executor);
  State state = State::kPromised;
  uint64_t bytes = 0;
  if (entry.kind == Kind::kContext && executor) {
    state = executor->is_up ? State::kResident : State::kLoading;
    bytes = executor->context_bytes;
  } else if (const auto* lane = shadow_.find(Shadow::LaneKey{entry.executor, entry.lane});
             entry.kind == Kind::kLane && lane) {
    state = lane->is_leaving ? State::kLeaving : State::kResident;
    bytes = lane->bytes;
  } else if (const auto* object = shadow_.find(Shadow::ObjectKey{entry.executor, entry.object});
             entry.kind == Kind::kObject && object) {
    state = object->state;
    bytes = object->bytes;
  } else {
    expect(entry.state == State::kPromised, now, "d{}: {} is not there, its books say {}", id.value, show(entry),
           name_of(entry.state));
    return false;
  }
  if (executor->is_killed) state = State::kLeaving;
  expect(entry.kind != Kind::kObject || !shadow_.is_gone(entry.object) || entry.pins > 0 || state == State::kLeaving,
         now, "d{}: {} stays, and nobody will ask for it any more", id.value, show(entry));
  expect(entry.state == state && entry.bytes == bytes, now, "d{}: {} is {} with {} bytes, its books say {} with {}",
         id.value, show(entry), name_of(state), bytes, name_of(entry.state), entry.bytes);
  return true;
}

void LedgerChecker::compare_host(Time now, const sched::Scheduler::Books& books) {
  const Shadow::Host& host = *shadow_.host();
  expect(books.memory_bytes == host.memory_bytes, now, "the host has {} bytes, its books say {}", host.memory_bytes,
         books.memory_bytes);
  expect(books.held_bytes == host.held_bytes, now, "the host holds {} bytes, its books say {}", host.held_bytes,
         books.held_bytes);
  uint64_t listed = 0, leaving = 0;
  for (const Entry& entry : books.entries) {
    const Shadow::Object* object = shadow_.find(entry.object);
    expect(entry.executor.value == 0 && entry.kind == Kind::kObject, now, "the books of the host have {}", show(entry));
    // A run that goes on may be who decides how long it stays.
    if (shadow_.runs().empty() && shadow_.requests().empty()) check_stay(now, entry);
    if (entry.state == State::kLeaving) leaving += entry.bytes;
    if (!object) {
      expect(entry.state == State::kPromised, now, "{} is not there, its books say {}", show(entry),
             name_of(entry.state));
      continue;
    }
    ++listed;
    expect((entry.state == object->state || entry.state == State::kLeaving) && entry.bytes == object->bytes, now,
           "{} is {} with {} bytes, its books say {} with {}", show(entry), name_of(object->state), object->bytes,
           name_of(entry.state), entry.bytes);
  }
  expect(listed == host.objects.size(), now, "{} objects are on the host, {} of them are in its books",
         host.objects.size(), listed);
  expect(leaving == books.leaving_bytes, now, "{} bytes leave the host, its books say {}", leaving,
         books.leaving_bytes);
}

void LedgerChecker::check_stay(Time now, const Entry& entry) {
  const bool may_leave = entry.pins == 0 && (entry.state == State::kResident || entry.state == State::kLoading);
  if (!may_leave || entry.until == Time::never()) return;
  expect(entry.until > now, now, "{} is to leave at {}ns, and is still there", show(entry), entry.until.ns);
  if (entry.until < now + kForGood)
    expect(shadow_.wake() <= entry.until, now, "nobody wakes the core for {}, which is to leave at {}ns", show(entry),
           entry.until.ns);
}

void LedgerChecker::check_room(Time now, const char* what, sched::DeviceId id, uint64_t bytes) {
  const Shadow::Device& device = *shadow_.find(id);
  expect(bytes == 0 || device.held_bytes + bytes <= device.memory_bytes, now,
         "{} of {} bytes on d{}, which holds {} of {}", what, bytes, id.value, device.held_bytes, device.memory_bytes);
}

const Shadow::Executor* LedgerChecker::check_up(Time now, const char* what, sched::ExecutorId id) {
  const Shadow::Executor* executor = shadow_.find(id);
  expect(executor && executor->is_up && !executor->is_killed, now, "{} on e{}, which is not up", what, id.value);
  return executor;
}

// Before the shadow takes it in: what a shell must not say.
void LedgerChecker::check(Time now, const sched::Event& event) {
  unread_.reset();
  if (const auto* fetched = std::get_if<sched::Fetched>(&event); fetched && fetched->failed) unread_ = fetched->object;
  const auto* finished = std::get_if<sched::Finished>(&event);
  const Shadow::Run* run = finished && !finished->failed ? shadow_.find(finished->run) : nullptr;
  if (!run || shadow_.find(run->executor)->is_killed) return;
  for (const sched::ObjectNeed& need : run->submit->objects) {
    const Shadow::Object* object = shadow_.find(Shadow::ObjectKey{run->executor, need.object});
    expect(object && object->state == State::kResident, now,
           "the pool, not the core: run{} ended well, and its o{} is {}", finished->run.value, need.object.value,
           name_of(object));
  }
}

void LedgerChecker::check(Time now, const sched::StartExecutor& action) {
  const Shadow::Device* device = shadow_.find(action.device);
  expect(device && device->is_up, now, "e{} starts on d{}, which is down", action.executor.value, action.device.value);
  if (!device) return;
  check_room(now, "a context", action.device, device->context_bytes);
  expect(!shadow_.find(action.executor), now, "e{} starts twice", action.executor.value);
  for (const auto& [id, other] : shadow_.executors())
    expect(other.is_killed || other.device != action.device || other.domain != action.domain ||
               other.own_function != action.own_function,
           now, "e{} starts beside e{} of the same domain on d{}", action.executor.value, id.value,
           action.device.value);
}

void LedgerChecker::check(Time now, const sched::KillExecutor& action) {
  const Shadow::Executor* executor = shadow_.find(action.executor);
  expect(executor && !executor->is_killed, now, "e{} is killed and is no more", action.executor.value);
}

void LedgerChecker::check(Time now, const sched::Fetch& action) {
  const Shadow::Host* host = shadow_.host();
  expect(host != nullptr, now, "o{} is fetched, and there is no host tier", action.object.value);
  expect(!shadow_.is_passing(action.object), now, "o{} is fetched, and only passes from call to call",
         action.object.value);
  if (!host) return;
  const Shadow::Object* object = shadow_.find(action.object);
  expect(!object, now, "o{} is fetched, and is {} on the host", action.object.value, name_of(object));
  expect(host->held_bytes + action.bytes <= host->memory_bytes, now,
         "a fetch of {} bytes to the host, which holds {} of {}", action.bytes, host->held_bytes, host->memory_bytes);
}

void LedgerChecker::check(Time now, const sched::Forget& action) {
  const Shadow::Object* there = shadow_.find(action.object);
  expect((there && there->state == State::kResident) || unread_ == action.object, now, "o{} is forgotten, and is {}",
         action.object.value, name_of(there));
  for (const auto& [key, object] : shadow_.objects()) {
    if (key.second != action.object) continue;
    const Shadow::Executor& executor = *shadow_.find(key.first);
    const bool in_place = shadow_.find(executor.device)->in_place;
    expect(!in_place, now, "o{} is forgotten, and e{} reads it in place", action.object.value, key.first.value);
    expect(in_place || executor.is_killed || object.state != State::kLoading, now,
           "o{} is forgotten while it is on its way to e{}", action.object.value, key.first.value);
  }
}

void LedgerChecker::check(Time now, const sched::Load& action) {
  const Shadow::Executor* executor = check_up(now, "a load", action.executor);
  if (!executor) return;
  check_room(now, "a load", executor->device, shadow_.round_up(action.bytes));
  const Shadow::Object* object = shadow_.find(Shadow::ObjectKey{action.executor, action.object});
  expect(!object, now, "o{} is loaded on e{}, where it is {}", action.object.value, action.executor.value,
         name_of(object));
  const Shadow::Object* there = shadow_.find(action.object);
  expect(!shadow_.host() || shadow_.is_passing(action.object) || (there && there->state == State::kResident), now,
         "o{} is loaded on e{}, and is {} on the host", action.object.value, action.executor.value, name_of(there));
}

void LedgerChecker::check(Time now, const sched::Unload& action) {
  check_up(now, "an unload", action.executor);
  const Shadow::Object* object = shadow_.find(Shadow::ObjectKey{action.executor, action.object});
  expect(object && object->state != State::kLeaving, now, "o{} is unloaded from e{}, where it is {}",
         action.object.value, action.executor.value, name_of(object));
}

void LedgerChecker::check(Time now, const sched::Trim& action) {
  check_up(now, "a trim", action.executor);
  const Shadow::Lane* lane = shadow_.find(Shadow::LaneKey{action.executor, action.lane});
  expect(lane && !lane->is_leaving, now, "lane {} of e{} is trimmed, and {}", action.lane, action.executor.value,
         lane ? "was told already" : "has no memory");
}

void LedgerChecker::check(Time now, const sched::Run& action) {
  const Shadow::Executor* executor = check_up(now, "a run", action.executor);
  const Shadow::Request* request = shadow_.find(action.request);
  if (!executor || !request) return;
  const sched::Submit& submit = *request->submit;
  const Shadow::Lane* lane = shadow_.find(Shadow::LaneKey{action.executor, action.lane});
  const uint64_t has = lane ? lane->bytes : 0;
  uint64_t grows = action.lane_bytes - std::min(action.lane_bytes, has);
  for (const sched::Made& made : submit.makes) grows += shadow_.round_up(made.bytes);
  check_room(now, "what a run computes in and leaves behind", executor->device, grows);
  // What needs no memory leaves its lane as it is; else the lane is as large as it was, or larger.
  const uint64_t least = submit.memory_bytes == 0 ? 0 : std::max(has, shadow_.round_up(submit.memory_bytes));
  const uint64_t most = submit.memory_bytes == 0 ? has : UINT64_MAX;
  expect(action.lane_bytes >= least && action.lane_bytes <= most, now,
         "run{} may have {} bytes in lane {}; it needs {}, and the lane has {}", action.run.value, action.lane_bytes,
         action.lane, submit.memory_bytes, has);
  expect(!lane || !lane->is_leaving || action.lane_bytes == 0, now,
         "run{} is sent to lane {}, the memory of which leaves", action.run.value, action.lane);
  expect(executor->domain == submit.domain && (!executor->own_function || *executor->own_function == submit.function),
         now, "r{} runs on e{}, which is another's", action.request.value, action.executor.value);
  for (const sched::ObjectNeed& need : submit.objects) {
    const Shadow::Object* object = shadow_.find(Shadow::ObjectKey{action.executor, need.object});
    const bool is_there =
        object && (object->state == State::kResident || (overlaps_ && object->state == State::kLoading));
    expect(is_there && object->bytes == shadow_.round_up(need.bytes), now, "run{} runs on e{}, where its o{} is {}",
           action.run.value, action.executor.value, need.object.value, name_of(object));
  }
}

}  // namespace quern::sim
