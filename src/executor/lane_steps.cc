// SPDX-License-Identifier: Apache-2.0
//
// What a plan does, step by step. A plan was checked when it was decoded: every index here is in range, and repeats
// nest at most some levels deep.
#include <fmt/format.h>

#include <compare>
#include <cstring>

#include "executor/lane.h"
#include "os/clock.h"

namespace quern::executor {
namespace {

constexpr double kFillBytesPerNs = 4;  // memory of every device is at least as fast

using Kind = ArgumentDecl::Kind;

Scalar value_of(const PlannedScalar& value, const ipc::RunCommand& command) {
  if (value.slot == PlannedScalar::kFixed) return value.fixed;
  return {value.fixed.dtype, command.scalars[value.slot]};
}

std::string_view word_of(UntilDecl::Compare compare) {
  switch (compare) {
    case UntilDecl::Compare::kBelow:
      return "below";
    case UntilDecl::Compare::kAbove:
      return "above";
    case UntilDecl::Compare::kEquals:
      break;
  }
  return "equal to";
}

}  // namespace

Result<bool> Lane::walk(Ready& ready, const ipc::RunCommand& command, Level level) {
  const Plan& plan = ready.plan();
  const size_t depth = path_.size();
  path_.push_back(level);
  while (path_[depth].next < level.end) {
    const PlannedStep& step = plan.steps[path_[depth].next];
    path_[depth].next = step.end;
    Result<bool> goes_on = true;
    switch (step.kind) {
      case PlannedStep::Kind::kLaunch:
        goes_on = launch(ready, command, step.index);
        break;
      case PlannedStep::Kind::kFill:
        goes_on = fill(ready, command, plan.fills[step.index]);
        break;
      case PlannedStep::Kind::kCopy:
        goes_on = copy(ready, command, plan.copies[step.index]);
        break;
      case PlannedStep::Kind::kRepeat:
        goes_on = repeat(ready, command, step);
        break;
    }
    if (!goes_on.ok() || !*goes_on) return goes_on;
  }
  path_.pop_back();
  return true;
}

Result<hal::Buffer*> Lane::resolve(Ready& ready, const PlannedArgument& argument) {
  const uint32_t buffer = names_[argument.buffer];
  if (!argument.is_view) return bound_[buffer];
  if (argument.size_bytes == 0) return nothing();
  const uint64_t offset = argument.offset_bytes, size = argument.size_bytes;
  const auto& decl = ready.plan().buffers[buffer];
  if (objects_[buffer] && decl.role != Role::kConstant) {
    QUERN_TRY(auto view, holdings_.device().view(objects_[buffer]->buffer(), offset, size));
    return in_use_.emplace_back(std::move(view)).get();
  }
  if (holdings_.in_place() && bindings_[buffer]) {
    QUERN_TRY(auto view,
              import(bindings_[buffer]->segment, bindings_[buffer]->offset + offset, size, decl.role == Role::kOutput));
    in_use_.push_back(view);
    return view.get();
  }
  const ViewKey key{buffer, offset, size};
  if (decl.role == Role::kConstant) {
    if (const auto known = ready.constant_views.find(key); known != ready.constant_views.end()) return known->second;
    QUERN_TRY(auto view, holdings_.device().view(ready.prepared->constants[buffer]->buffer(), offset, size));
    ready.constant_views.emplace(key, view.get());
    return ready.prepared->views.with([&](auto& views) { return views.emplace_back(std::move(view)).get(); });
  }
  if (const auto known = ready.own_views.find(key); known != ready.own_views.end()) return known->second.get();
  QUERN_TRY(auto view, holdings_.device().view(ready.own[buffer], offset, size));
  return ready.own_views.emplace(key, std::move(view)).first->second.get();
}

Result<bool> Lane::launch(Ready& ready, const ipc::RunCommand& command, uint32_t index) {
  const PlannedLaunch& launch = ready.plan().launches[index];
  // Before the gates, which may close meanwhile.
  if (!has_constants_) {
    QUERN_TRY(const bool goes_on, await_constants(command.run, launch));
    if (!goes_on) return false;
  }
  arguments_.clear();
  for (const auto& argument : launch.arguments) {
    switch (argument.kind) {
      case Kind::kBuffer: {
        QUERN_TRY(hal::Buffer * buffer, resolve(ready, argument));
        arguments_.push_back(buffer);
        break;
      }
      case Kind::kScalar:
        arguments_.push_back(value_of(argument.scalar, command));
        break;
      case Kind::kLocal:
        arguments_.push_back(hal::LocalMemory{argument.local_bytes});
        break;
    }
  }
  hal::Launch what;
  what.kernel = ready.kernels[ready.kernel_of[index]].get();
  what.arguments = arguments_;
  what.dimensions = launch.dimensions;
  what.global = launch.global;
  what.local = launch.local;
  const Cut& cut = ready.cuts[index];
  for (uint64_t done = 0; done < cut.parts;) {
    QUERN_TRY(const uint64_t parts, pass_gate(ready, command.run, index, cut, cut.parts - done));
    if (parts == 0) return false;
    if (parts < cut.parts) {
      what.offset[cut.axis] = done * cut.step;
      what.global[cut.axis] = parts * cut.step;
    }
    if (!std::exchange(may_launch_, false)) ++used_.past_gate;
    const Time made = os::now();
    Result<uint64_t> point = queue_->launch(what);
    if (!point.ok()) return {Error{point.error().code, fmt::format("kernel {}: {}", launch.entry, point.error().text)}};
    if (kernels_in_flight_ == 0) links_.own.running_launch.store(index, std::memory_order_relaxed);
    const uint64_t expected = expected_ns(cut, parts);
    submitted({*point, expected, index, done, parts, links_.daemon.gate.word.load(std::memory_order_relaxed)}, made);
    ++kernels_in_flight_;
    done += parts;
  }
  return true;
}

// Nobody learns how long one takes. What takes for ever to all appearance would wait while every gap passes.
Lane::Cut Lane::cut_of(uint64_t size_bytes) {
  Cut cut;
  cut.part_ns = std::max(1.0, static_cast<double>(size_bytes) / kFillBytesPerNs);
  return cut;
}

Result<bool> Lane::fill(Ready& ready, const ipc::RunCommand& command, const PlannedFill& fill) {
  const Cut cut = cut_of(fill.size_bytes);
  QUERN_TRY(const uint64_t go, pass_gate(ready, command.run, ipc::kNoLaunch, cut, 1));
  if (go == 0) return false;
  const Scalar value = value_of(fill.value, command);
  const Time made = os::now();
  QUERN_TRY(const uint64_t point, queue_->fill(*bound_[names_[fill.buffer]], fill.offset_bytes, fill.size_bytes,
                                               std::as_bytes(std::span(&value.bits, 1)).first(size_of(value.dtype))));
  const auto expected = static_cast<uint64_t>(cut.part_ns);
  submitted({.point = point, .expected_ns = expected, .launch = ipc::kNoLaunch}, made);
  return true;
}

Result<bool> Lane::copy(Ready& ready, const ipc::RunCommand& command, const PlannedCopy& copy) {
  if (!bound_[names_[copy.from]]) {
    QUERN_TRY(const bool goes_on, await_constant(command.run, names_[copy.from]));
    if (!goes_on) return false;
  }
  const Cut cut = cut_of(copy.size_bytes);
  QUERN_TRY(const uint64_t go, pass_gate(ready, command.run, ipc::kNoLaunch, cut, 1));
  if (go == 0) return false;
  const Time made = os::now();
  QUERN_TRY(const uint64_t point, queue_->copy(*bound_[names_[copy.from]], copy.from_offset, *bound_[names_[copy.to]],
                                               copy.to_offset, copy.size_bytes));
  submitted({.point = point, .expected_ns = static_cast<uint64_t>(cut.part_ns), .launch = ipc::kNoLaunch}, made);
  return true;
}

Result<bool> Lane::repeat(Ready& ready, const ipc::RunCommand& command, const PlannedStep& step) {
  const PlannedRepeat& repeat = ready.plan().repeats[step.index];
  const std::optional<PlannedUntil>& until = repeat.until;
  if (until && !bound_[names_[until->buffer]]) {
    QUERN_TRY(const bool goes_on, await_constant(command.run, names_[until->buffer]));
    if (!goes_on) return false;
  }
  bool met = false;
  uint64_t round = 0;
  while (round < repeat.rounds && !met) {
    const Plan& plan = ready.plan();
    QUERN_TRY(const bool went, walk(ready, command, round_of(plan, step, round, false)));
    if (!went) return false;
    ++round;
    if (until && round % until->every == 0) {
      QUERN_TRY(const bool checked, walk(ready, command, round_of(plan, step, round - 1, true)));
      if (!checked) return false;
      QUERN_TRY(met, is_met(ready, command, *until, round));
    }
    for (const auto& [one, two] : repeat.swaps) std::swap(names_[one], names_[two]);
  }
  if (repeat.report != PlannedRepeat::kNoReport) rounds_[repeat.report] = round;
  if (!met && repeat.limit_is_error)
    return Error{ErrorCode::kFaulted,
                 fmt::format("'{}' was not {} {} after {} rounds; allow more rounds, or ask for less", until->name,
                             word_of(until->compare), text_of(value_of(until->value, command)), round)};
  return true;
}

// Waits for all that was launched: what is looked at must be there.
Result<bool> Lane::is_met(Ready& ready, const ipc::RunCommand& command, const PlannedUntil& until, uint64_t round) {
  element_ = {};
  const Time made = os::now();
  QUERN_TRY(const uint64_t point, queue_->read(*bound_[names_[until.buffer]], until.offset_bytes,
                                               std::span(element_).first(size_of(until.dtype))));
  submitted({.point = point, .launch = ipc::kNoLaunch}, made);
  QUERN_TRY(queue_->flush());
  QUERN_TRY(retire(ready, 0));
  begin_pause();
  Scalar seen{until.dtype, 0};
  std::memcpy(&seen.bits, element_.data(), element_.size());
  const std::partial_ordering order = compare_scalars(seen, value_of(until.value, command));
  if (order == std::partial_ordering::unordered)
    return Error{ErrorCode::kFaulted, fmt::format("'{}' is NaN after round {}; check the input", until.name, round)};
  switch (until.compare) {
    case UntilDecl::Compare::kBelow:
      return order < 0;
    case UntilDecl::Compare::kAbove:
      return order > 0;
    case UntilDecl::Compare::kEquals:
      break;
  }
  return order == 0;
}

}  // namespace quern::executor
