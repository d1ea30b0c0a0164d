// SPDX-License-Identifier: Apache-2.0
#include "executor/holdings.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "executor/fault_handler.h"
#include "os/clock.h"

namespace quern::executor {
namespace {

// A lane lets go between two runs: as long as its run may take, and then the daemon ends us.
constexpr Duration kLoadLimit = Duration::seconds(60);
constexpr Duration kLookAgain = Duration::millis(5);

Result<os::Mapping> map_sealed(const os::Fd& fd, uint64_t size, bool writable = false) {
  if (!fd || size == 0) return invalid("frame: comes without its memory");
  QUERN_TRY(os::check_sealed(fd, size));
  return os::map(fd, size, writable);
}

template <class Map, class Key>
auto find_in(const Map& map, Key key) -> typename Map::mapped_type {
  const auto it = map.find(key);
  return it == map.end() ? nullptr : it->second;
}

}  // namespace

Holdings::Holdings(hal::Device& device, bool in_place)
    : device_(device),
      in_place_(in_place && device.caps().unified_memory),
      departures_(std::make_shared<Departures>(std::move(os::Event::create()).value())) {}

Result<std::shared_ptr<hal::Buffer>> Holdings::allocate(uint64_t size_bytes, Duration limit) {
  const Time until = os::now() + limit;
  for (;;) {
    const uint64_t freed = departures_->freed.load(), dropped = departures_->dropped.load();
    auto buffer = device_.allocate(size_bytes);
    if (buffer.ok() || buffer.error().code != ErrorCode::kExhausted || freed == dropped || os::now() >= until)
      return buffer;
    // Another who waits may take the signal: the count decides, and is looked at again soon.
    while (departures_->freed.load() == freed && os::now() < until) {
      departures_->event.wait(std::min(kLookAgain, until - os::now()));
      departures_->event.drain();
    }
  }
}

Status Holdings::map_segment(const ipc::MapSegment& frame, os::Fd fd) {
  auto segment = std::make_shared<MappedSegment>();
  segment->writable = frame.direction == 1;
  QUERN_TRY(segment->mapping, map_sealed(fd, frame.size_bytes, segment->writable));
  tables_.with([&](Tables& tables) { tables.segments[frame.segment] = segment; });
  return {};
}

Status Holdings::load_object(const ipc::LoadObject& frame, os::Fd fd) {
  auto object = std::make_shared<DeviceObject>();
  QUERN_TRY(object->mapping, map_sealed(fd, frame.size_bytes));
  if (in_place_) {
    QUERN_TRY(object->buffer, device_.import(object->mapping.bytes(), false));
  } else {
    QUERN_TRY(object->buffer, allocate(frame.size_bytes, kLoadLimit));
    QUERN_TRY(auto queue, device_.create_queue());
    QUERN_TRY(const uint64_t point, queue->write(*object->buffer, 0, object->mapping.bytes()));
    QUERN_TRY(queue->timeline().wait(point, Duration::forever()));
    object->mapping = {};
  }
  tables_.with([&](Tables& tables) { tables.objects[frame.object] = object; });
  return {};
}

Status Holdings::load_program(const ipc::LoadProgram& frame, os::Fd fd) {
  QUERN_TRY(const os::Mapping binary, map_sealed(fd, frame.size_bytes));
  QUERN_TRY(std::shared_ptr<hal::Program> program, device_.load(binary.bytes()));
  note_code(frame.program, *program);
  tables_.with([&](Tables& tables) { tables.programs[frame.program] = program; });
  return {};
}

Status Holdings::prepare_plan(const ipc::PreparePlan& frame, os::Fd fd) {
  QUERN_TRY(const os::Mapping memory, map_sealed(fd, frame.size_bytes));
  auto plan = std::make_unique<PreparedPlan>();
  QUERN_TRY(plan->frame, ipc::decode_plan(memory.bytes()));
  using Role = ipc::PlanFrame::Role;
  QUERN_TRY(tables_.with([&](Tables& tables) -> Status {
    plan->program = find_in(tables.programs, plan->frame.program);
    if (!plan->program) return internal(fmt::format("plan {}: its program is not loaded", frame.plan));
    for (const auto& buffer : plan->frame.buffers) {
      if (buffer.role == Role::kInput || buffer.role == Role::kOutput) ++plan->bound_buffers;
      if (buffer.role != Role::kConstant) continue;
      auto object = find_in(tables.objects, buffer.object);
      if (!object || object->buffer->size_bytes() < buffer.size_bytes)
        return internal(fmt::format("plan {}: a constant is not loaded", frame.plan));
      plan->constants[buffer.object] = std::move(object);
    }
    if (tables.plans.contains(frame.plan)) ++departures_->dropped;
    tables.plans[frame.plan] = {plan.release(), [departures = departures_](PreparedPlan* left) {
                                  delete left;
                                  ++departures->freed;
                                  departures->event.signal();
                                }};
    return {};
  }));
  return {};
}

void Holdings::drop_segment(uint32_t id) {
  tables_.with([&](Tables& tables) { tables.segments.erase(id); });
}
void Holdings::drop_object(uint64_t id) {
  tables_.with([&](Tables& tables) { tables.objects.erase(id); });
}
void Holdings::drop_program(uint64_t id) {
  tables_.with([&](Tables& tables) { tables.programs.erase(id); });
}
void Holdings::drop_plan(uint64_t id) {
  tables_.with([&](Tables& tables) {
    const auto it = tables.plans.find(id);
    if (it == tables.plans.end()) return;
    ++departures_->dropped;
    tables.plans.erase(it);
  });
}

std::shared_ptr<MappedSegment> Holdings::segment(uint32_t id) const {
  return tables_.with([&](const Tables& tables) { return find_in(tables.segments, id); });
}
std::shared_ptr<PreparedPlan> Holdings::plan(uint64_t id) const {
  return tables_.with([&](const Tables& tables) { return find_in(tables.plans, id); });
}

}  // namespace quern::executor
