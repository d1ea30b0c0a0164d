// SPDX-License-Identifier: Apache-2.0
//
// A run that got a slot needs an executor, objects and memory of its own. All of it is pinned or promised at once, and
// what stands in its way begins to leave; then each part is asked for as soon as its memory is really there. Since no
// more is promised than there will be, everything promised comes, whatever the order.
#include <algorithm>

#include "sched/core.h"
#include "sched/mutant.h"

namespace quern::sched {

void Scheduler::Impl::on(const DeviceMemory& event) {
  Device* device = devices_.find(event.device);
  if (!device || device->memory_bytes == event.memory_bytes) return;
  tenants_.remove_size(device->usable_bytes());
  devices_.set_memory(*device, event.memory_bytes);
  tenants_.add_size(device->usable_bytes());
  if (!device->up) return;
  make_room(*device);
  touched_.insert(device->id);
  // What was promised and cannot be kept is taken back, the newest first.
  while (device->serving && device->ledger.shortage(0) > 0) {
    const auto& runs = devices_.find(*device->serving)->runs;
    const auto newest = std::find_if(runs.rbegin(), runs.rend(), [](const auto& entry) { return !entry.second->sent; });
    if (newest == runs.rend()) break;
    withdraw(*newest->second);
    make_room(*device);
  }
}

void Scheduler::Impl::on(const Loaded& event) {
  Executor* executor = devices_.find(event.executor);
  if (!executor) return;
  Device& device = *devices_.find(executor->device);
  const Ledger::Key key{event.executor, event.object};
  const Ledger::Item* item = device.ledger.find(key);
  if (!item || item->state != Ledger::State::kLoading) return;
  touched_.insert(device.id);
  if (!event.failed) {
    device.ledger.loaded(key);
    return;
  }
  device.ledger.absent(key);
  std::vector<RunRecord*> without;
  for (const auto& [id, run] : executor->runs)
    if (std::any_of(run->objects.begin(), run->objects.end(),
                    [&](const ObjectNeed& need) { return need.object == event.object; }))
      without.push_back(run);
  for (RunRecord* run : without) {
    Request& request = requests_.at(run->request);
    erase(*run);
    give_back(request);
  }
}

void Scheduler::Impl::on(const Unloaded& event) {
  const Executor* executor = devices_.find(event.executor);
  if (!executor) return;
  Device& device = *devices_.find(executor->device);
  const Ledger::Key key{event.executor, event.object};
  const Ledger::Item* item = device.ledger.find(key);
  if (!item || item->state != Ledger::State::kLeaving) return;
  device.ledger.absent(key);
  touched_.insert(device.id);
}

void Scheduler::Impl::reserve(Device& device, Executor& executor, RunRecord& run) {
  Ledger& ledger = device.ledger;
  if (executor.state == Executor::State::kPlanned) {
    if (executor.runs.size() == 1) ledger.promise_context(executor.id, device.context_bytes);
  } else if (!QUERN_MUTANT(30)) {
    ledger.set_idle(executor.id, false, next_use_);
  }
  for (const ObjectNeed& need : run.objects) ledger.pin({executor.id, need.object}, need.bytes, next_use_++);
  ledger.promise(run.memory_bytes);
  make_room(device);
}

void Scheduler::Impl::make_room(Device& device) {
  Ledger& ledger = device.ledger;
  while (ledger.shortage(0) > 0) {
    const auto victim = eviction_->choose(ledger);
    if (!victim) return;
    ++evictions_;
    if (const auto* key = std::get_if<Ledger::Key>(&*victim)) {
      ledger.leaving(*key);
      act(Unload{.executor = key->first, .object = key->second});
    } else {
      kill(*devices_.find(std::get<ExecutorId>(*victim)), std::nullopt);
    }
  }
}

void Scheduler::Impl::advance(Device& device) {
  if (!device.serving) return;
  Executor& executor = *devices_.find(*device.serving);
  for (const auto& [id, run] : executor.runs)
    if (!run->sent) advance(device, executor, *run);
}

void Scheduler::Impl::advance(Device& device, Executor& executor, RunRecord& run) {
  Ledger& ledger = device.ledger;
  const bool is_alone = !placement_->wants_device_alone() || devices_.executors_of(device.id).size() == 1;
  if (executor.state == Executor::State::kPlanned && is_alone && ledger.has_now(device.context_bytes)) {
    ledger.start_context(executor.id);
    executor.state = Executor::State::kStarting;
    act(StartExecutor{.executor = executor.id,
                      .device = device.id,
                      .domain = executor.group.domain,
                      .own_function = executor.group.own_function});
  }
  if (executor.state != Executor::State::kUp) return;
  bool has_all = true;
  for (const ObjectNeed& need : run.objects) {
    const Ledger::Key key{executor.id, need.object};
    const Ledger::State state = ledger.find(key)->state;
    if (state == Ledger::State::kPromised && (ledger.has_now(need.bytes) || QUERN_MUTANT(26))) {
      ledger.loading(key);
      act(Load{.executor = executor.id, .object = need.object, .bytes = need.bytes});
    }
    has_all = has_all && (state == Ledger::State::kResident || (QUERN_MUTANT(27) && state == Ledger::State::kLoading));
  }
  if (!has_all || !ledger.has_now(run.memory_bytes)) return;
  ledger.unpromise(run.memory_bytes);
  ledger.hold(run.memory_bytes);
  send(run);
}

bool Scheduler::Impl::fits_beside(const Device& device, const Request& request) const {
  uint64_t more = request.submit.memory_bytes;
  for (const ObjectNeed& need : request.submit.objects) {
    const Ledger::Item* item = device.ledger.find({*device.serving, need.object});
    if (!item || item->pins == 0) more += need.bytes;
  }
  return device.ledger.could_promise(more);
}

}  // namespace quern::sched
