// SPDX-License-Identifier: Apache-2.0
#include "sim/ledger_checker.h"

namespace quern::sim {

namespace {

using State = Shadow::State;

constexpr uint64_t kAllEvery = 64;  // steps: books of devices that a step did not concern are looked at now and then

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

}  // namespace

void LedgerChecker::on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
                            const sched::Scheduler& core) {
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
}

void LedgerChecker::on_restart(Time) { shadow_.restart(); }

void LedgerChecker::compare(Time now, sched::DeviceId id, const sched::Scheduler::Books& books) {
  const Shadow::Device& device = *shadow_.find(id);
  expect(books.memory_bytes == device.memory_bytes, now, "d{} has {} bytes, its books say {}", id.value,
         device.memory_bytes, books.memory_bytes);
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
  const sched::Scheduler::Entry* last = nullptr;
  for (const sched::Scheduler::Entry& entry : books.entries) {
    expect(!last || std::pair(last->executor, last->object) < std::pair(entry.executor, entry.object), now,
           "d{}: o{} is in the books of e{} twice", id.value, entry.object.value, entry.executor.value);
    last = &entry;
    if (entry.state == State::kPromised) promised += entry.bytes;
    const Shadow::Object* object = shadow_.find({entry.executor, entry.object});
    if (!object) {
      expect(entry.state == State::kPromised, now, "d{}: o{} is not on e{}, its books say {}", id.value,
             entry.object.value, entry.executor.value, name_of(entry.state));
      continue;
    }
    ++listed;
    const State state = shadow_.find(entry.executor)->is_killed ? State::kLeaving : object->state;
    expect(entry.state == state && entry.bytes == object->bytes, now,
           "d{}: o{} on e{} is {} with {} bytes, its books say {} with {}", id.value, entry.object.value,
           entry.executor.value, name_of(state), object->bytes, name_of(entry.state), entry.bytes);
  }
  expect(promised <= books.promised_bytes, now, "d{}: {} bytes of objects are promised, its books say {}", id.value,
         promised, books.promised_bytes);
  uint64_t there = 0;
  for (const auto& [key, object] : shadow_.objects()) there += shadow_.find(key.first)->device == id;
  expect(listed == there, now, "d{}: {} objects are there, {} of them are in its books", id.value, there, listed);
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

void LedgerChecker::check(Time now, const sched::Load& action) {
  const Shadow::Executor* executor = check_up(now, "a load", action.executor);
  if (!executor) return;
  check_room(now, "a load", executor->device, action.bytes);
  const Shadow::Object* object = shadow_.find({action.executor, action.object});
  expect(!object, now, "o{} is loaded on e{}, where it is {}", action.object.value, action.executor.value,
         object ? name_of(object->state) : "absent");
}

void LedgerChecker::check(Time now, const sched::Unload& action) {
  check_up(now, "an unload", action.executor);
  const Shadow::Object* object = shadow_.find({action.executor, action.object});
  expect(object && object->state != State::kLeaving, now, "o{} is unloaded from e{}, where it is {}",
         action.object.value, action.executor.value, object ? name_of(object->state) : "absent");
}

void LedgerChecker::check(Time now, const sched::Run& action) {
  const Shadow::Executor* executor = check_up(now, "a run", action.executor);
  const Shadow::Request* request = shadow_.find(action.request);
  if (!executor || !request) return;
  const sched::Submit& submit = *request->submit;
  check_room(now, "a run", executor->device, submit.memory_bytes);
  expect(executor->domain == submit.domain && (!executor->own_function || *executor->own_function == submit.function),
         now, "r{} runs on e{}, which is another's", action.request.value, action.executor.value);
  for (const sched::ObjectNeed& need : submit.objects) {
    const Shadow::Object* object = shadow_.find({action.executor, need.object});
    expect(object && object->state == State::kResident && object->bytes == need.bytes, now,
           "run{} runs on e{}, where its o{} is {}", action.run.value, action.executor.value, need.object.value,
           object ? name_of(object->state) : "absent");
  }
}

}  // namespace quern::sim
