// SPDX-License-Identifier: Apache-2.0
#include "executor/holdings.h"

#include <fmt/format.h>

#include "executor/fault_handler.h"

namespace quern::executor {
namespace {

using LoadedKind = ipc::Loaded::Kind;

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

template <class Map, class Key>
auto take_from(Map& map, Key key) -> typename Map::mapped_type {
  auto taken = map.extract(key);
  return taken ? std::move(taken.mapped()) : nullptr;
}

}  // namespace

ipc::Loaded loaded(LoadedKind kind, uint64_t id, const Status& status) {
  ipc::Loaded frame;
  frame.kind = kind;
  frame.id = id;
  frame.ok = status.ok();
  if (!status.ok()) {
    frame.code = status.error().code;
    frame.text = status.error().text.substr(0, 4096);
  }
  return frame;
}

Result<std::unique_ptr<Holdings>> Holdings::create(hal::Device& device, bool in_place, Tell tell,
                                                   Loader::Broken broken) {
  std::unique_ptr<Holdings> holdings(new Holdings(device, in_place, std::move(tell)));
  if (!holdings->in_place_) {
    const auto ended = [self = holdings.get()](Loader::Load load, auto buffer) {
      self->load_ended(std::move(load), std::move(buffer));
    };
    QUERN_TRY(holdings->loader_, Loader::create(device, ended, std::move(broken)));
  }
  return holdings;
}

Holdings::Holdings(hal::Device& device, bool in_place, Tell tell)
    : device_(device), in_place_(in_place && device.caps().unified_memory), tell_(std::move(tell)) {}

Status Holdings::map_segment(const ipc::MapSegment& frame, os::Fd fd) {
  auto segment = std::make_shared<MappedSegment>();
  segment->writable = frame.direction == 1;
  QUERN_TRY(segment->mapping, map_sealed(fd, frame.size_bytes, segment->writable));
  tables_.with([&](Tables& tables) { tables.segments[frame.segment] = segment; });
  return {};
}

void Holdings::load_object(const ipc::LoadObject& frame, os::Fd fd) {
  const Status begun = begin_load(frame, fd);
  if (!begun.ok()) {
    const auto expected = tables_.with([&](Tables& tables) {
      note_failed(tables, frame.object);
      return take_from(tables.objects, frame.object);
    });
    if (expected) expected->fail();  // a run waits for it already
  }
  if (!begun.ok() || in_place_) tell_(loaded(LoadedKind::kObject, frame.object, begun));
}

// Ids are given in order, so the oldest is the lowest.
void Holdings::note_failed(Tables& tables, uint64_t id) {
  tables.failed.insert(id);
  if (tables.failed.size() > kMostFailed) tables.failed.erase(tables.failed.begin());
}

Status Holdings::begin_load(const ipc::LoadObject& frame, const os::Fd& fd) {
  QUERN_TRY(os::Mapping mapping, map_sealed(fd, frame.memory_bytes ? frame.memory_bytes : frame.size_bytes));
  if (frame.size_bytes == 0 || frame.offset > mapping.size() || frame.size_bytes > mapping.size() - frame.offset)
    return invalid("object: lies outside its memory");
  std::shared_ptr<DeviceObject> object = this->object(frame.object, frame.size_bytes);
  if (object->size_bytes() != frame.size_bytes) return invalid("object: has another size than a run expects");
  if (in_place_) {
    const auto memory = std::make_shared<os::Mapping>(std::move(mapping));
    QUERN_TRY(auto buffer, device_.import(memory->bytes().subspan(frame.offset, frame.size_bytes), false));
    object->become_ready(std::move(buffer), memory);
    return {};
  }
  tables_.with([&](Tables& tables) { tables.loading.insert(frame.object); });
  if (loader_->add({frame.object, std::move(object), std::move(mapping), frame.offset})) return {};
  tables_.with([&](Tables& tables) { tables.loading.erase(frame.object); });
  return unavailable(fmt::format("object: {} others wait to be loaded; try again later", Loader::kMostLoads));
}

void Holdings::load_ended(Loader::Load load, Result<std::shared_ptr<hal::Buffer>> buffer) {
  if (buffer.ok() && load.object->is_abandoned())
    buffer = Error{ErrorCode::kCancelled, "object: was dropped when it had just been loaded"};
  const Status status = buffer.ok() ? Status() : Status(buffer.error());
  load.memory = {};
  // The daemon hears of it before any lane: a run that needs it cannot be reported ended before its load is.
  tell_(loaded(LoadedKind::kObject, load.id, status));
  if (status.ok())
    load.object->become_ready(*std::move(buffer));
  else
    load.object->fail();
  const bool was_dropped = tables_.with([&](Tables& tables) {
    tables.loading.erase(load.id);
    if (load.object->is_abandoned()) return true;
    if (!status.ok()) {
      tables.objects.erase(load.id);
      note_failed(tables, load.id);
    }
    // Who drops it from now on says that its memory is free: no owner is left here.
    load.object.reset();
    return false;
  });
  if (!was_dropped) return;
  load.object.reset();
  tell_(ipc::Dropped{load.id});
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
  QUERN_TRY(ipc::BoundPlan bound, ipc::decode_plan(memory.bytes()));
  auto prepared = std::make_shared<PreparedPlan>();
  prepared->plan = std::move(bound.plan);
  prepared->binding = std::move(bound.binding);
  const auto& buffers = prepared->plan.buffers;
  prepared->constants.resize(buffers.size());
  return tables_.with([&](Tables& tables) -> Status {
    for (const uint64_t program : prepared->binding.programs) {
      prepared->programs.push_back(find_in(tables.programs, program));
      if (!prepared->programs.back()) return internal(fmt::format("plan {}: its program is not loaded", frame.plan));
    }
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i].role == Role::kInput || buffers[i].role == Role::kOutput) ++prepared->bound_buffers;
      if (buffers[i].role != Role::kConstant) continue;
      prepared->constants[i] = find_in(tables.objects, prepared->binding.objects[i]);
      if (prepared->constants[i] && prepared->constants[i]->size_bytes() < buffers[i].size_bytes)
        return internal(fmt::format("plan {}: a constant is smaller than its buffer", frame.plan));
    }
    tables.plans[frame.plan] = std::move(prepared);
    return {};
  });
}

void Holdings::drop_segment(uint32_t id) {
  tables_.with([&](Tables& tables) { tables.segments.erase(id); });
}

void Holdings::drop_object(uint64_t id) {
  std::shared_ptr<DeviceObject> object;
  const bool is_loading = tables_.with([&](Tables& tables) {
    object = take_from(tables.objects, id);
    if (object) object->abandon();
    if (!tables.loading.contains(id)) return false;
    object.reset();  // the loader is to be the last owner, and tells
    return true;
  });
  if (is_loading) return;
  object.reset();
  tell_(ipc::Dropped{id});
}

void Holdings::drop_program(uint64_t id) {
  tables_.with([&](Tables& tables) { tables.programs.erase(id); });
}

void Holdings::drop_plan(uint64_t id) {
  const auto plan = tables_.with([&](Tables& tables) { return take_from(tables.plans, id); });
  if (!plan) return;
  plan->views.with([](auto& views) { views.clear(); });
  plan->constants.assign(plan->constants.size(), nullptr);
}

std::shared_ptr<DeviceObject> Holdings::object(uint64_t id, uint64_t size_bytes) {
  return tables_.with([&](Tables& tables) {
    if (tables.failed.contains(id)) {
      auto failed = std::make_shared<DeviceObject>(size_bytes);
      failed->fail();
      return failed;
    }
    auto& object = tables.objects[id];
    if (!object) object = std::make_shared<DeviceObject>(size_bytes);
    return object;
  });
}

void Holdings::add_object(uint64_t id, std::shared_ptr<hal::Buffer> buffer, std::shared_ptr<const void> memory) {
  auto object = std::make_shared<DeviceObject>(buffer->size_bytes());
  object->become_ready(std::move(buffer), std::move(memory));
  tables_.with([&](Tables& tables) { tables.objects[id] = std::move(object); });
}

std::shared_ptr<MappedSegment> Holdings::segment(uint32_t id) const {
  return tables_.with([&](const Tables& tables) { return find_in(tables.segments, id); });
}
std::shared_ptr<PreparedPlan> Holdings::plan(uint64_t id) const {
  return tables_.with([&](const Tables& tables) { return find_in(tables.plans, id); });
}

}  // namespace quern::executor
