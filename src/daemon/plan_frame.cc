// SPDX-License-Identifier: Apache-2.0
#include "daemon/plan_frame.h"

#include "base/hash.h"

namespace quern::daemon {
namespace {

using Frame = ipc::PlanFrame;

// `function` and `ipc` do not see each other; here both do, and their words must mean the same.
template <class To, class From>
constexpr To same(From from) {
  return static_cast<To>(from);
}
static_assert(same<int>(Role::kConstant) == same<int>(Frame::Role::kConstant) &&
              same<int>(Role::kInput) == same<int>(Frame::Role::kInput) &&
              same<int>(Role::kOutput) == same<int>(Frame::Role::kOutput) &&
              same<int>(Role::kScratch) == same<int>(Frame::Role::kScratch));
static_assert(same<int>(ArgumentDecl::Kind::kBuffer) == same<int>(Frame::Argument::Kind::kBuffer) &&
              same<int>(ArgumentDecl::Kind::kLocal) == same<int>(Frame::Argument::Kind::kLocal));
static_assert(same<int>(PlannedStep::Kind::kLaunch) == same<int>(Frame::Step::Kind::kLaunch) &&
              same<int>(PlannedStep::Kind::kRepeat) == same<int>(Frame::Step::Kind::kRepeat));
static_assert(same<int>(UntilDecl::Compare::kBelow) == same<int>(Frame::Until::Compare::kBelow) &&
              same<int>(UntilDecl::Compare::kEquals) == same<int>(Frame::Until::Compare::kEquals));
static_assert(PlannedScalar::kFixed == Frame::kNone && Placement::kElsewhere == Frame::kNone &&
              PlannedRepeat::kNoReport == Frame::kNone);

Frame::Value value_of(const PlannedScalar& scalar) { return {scalar.slot, scalar.fixed.dtype, scalar.fixed.bits}; }

// What is launched and how large it is, not where it stands in a plan: launches that are alike take as long.
uint64_t identity_of(const PlannedLaunch& launch, const Plan& plan, Fnv1a hash) {
  hash.add(launch.entry).add(uint64_t{launch.dimensions});
  for (size_t i = 0; i < 3; ++i) hash.add(launch.global[i]).add(launch.local[i]);
  for (const PlannedArgument& argument : launch.arguments)
    if (argument.kind == ArgumentDecl::Kind::kBuffer)
      hash.add(argument.size_bytes ? argument.size_bytes : plan.buffers[argument.buffer].size_bytes);
  return hash.value() ? hash.value() : 1;  // 0 is that of no kernel
}

Frame::Launch launch_of(const PlannedLaunch& from, const Plan& plan, const Binary& binary, const Fnv1a& program) {
  Frame::Launch launch;
  launch.kernel = from.kernel;
  launch.entry = from.entry;
  launch.dimensions = from.dimensions;
  launch.global = from.global;
  launch.local = from.local;
  launch.identity = identity_of(from, plan, program);
  launch.sliceable =
      from.kernel < binary.unsliceable.size() && binary.unsliceable[from.kernel].empty() && most_groups(from) > 1;
  launch.arguments.reserve(from.arguments.size());
  for (const PlannedArgument& one : from.arguments)
    launch.arguments.push_back({same<Frame::Argument::Kind>(one.kind), one.buffer, one.offset_bytes, one.size_bytes,
                                value_of(one.scalar), one.local_bytes});
  return launch;
}

Frame::Repeat repeat_of(const Manifest& manifest, const PlannedRepeat& from) {
  Frame::Repeat repeat;
  repeat.rounds = from.rounds;
  repeat.bodies = from.bodies;
  repeat.checks = from.checks;
  repeat.swaps = from.swaps;
  repeat.limit_is_error = from.limit_is_error;
  repeat.report = from.report;
  if (!from.until) return repeat;
  repeat.until.compare = same<Frame::Until::Compare>(from.until->compare);
  repeat.until.buffer = from.until->buffer;
  repeat.until.dtype = from.until->dtype;
  repeat.until.offset = from.until->offset_bytes;
  repeat.until.every = from.until->every;
  repeat.until.value = value_of(from.until->value);
  repeat.until.name = manifest.buffers[from.until->buffer].name;
  return repeat;
}

}  // namespace

ipc::PlanFrame plan_frame(const DeployedFunction& function, const Plan& plan, const Binary& binary, bool in_place,
                          uint64_t program, const std::map<std::string, uint64_t>& object_ids) {
  Frame frame;
  frame.program = program;
  frame.slots = static_cast<uint32_t>(plan.slots.size());
  frame.reports = static_cast<uint32_t>(plan.reported.size());
  const Placement& placement = in_place ? plan.in_place : plan.own;
  frame.arenas = placement.arenas;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlannedBuffer& from = plan.buffers[i];
    Frame::Buffer buffer{same<Frame::Role>(from.role), from.size_bytes, 0, placement.places[i].arena,
                         placement.places[i].offset};
    if (from.role == Role::kConstant) buffer.object = object_ids.at(function.constants[i]->hash);
    frame.buffers.push_back(buffer);
  }
  Fnv1a hash;
  hash.add(binary.object->hash);
  for (const PlannedLaunch& launch : plan.launches) frame.launches.push_back(launch_of(launch, plan, binary, hash));
  for (const PlannedFill& fill : plan.fills)
    frame.fills.push_back({fill.buffer, fill.offset_bytes, fill.size_bytes, value_of(fill.value)});
  for (const PlannedRepeat& repeat : plan.repeats) frame.repeats.push_back(repeat_of(function.manifest, repeat));
  for (const PlannedStep& step : plan.steps)
    frame.steps.push_back({same<Frame::Step::Kind>(step.kind), step.index, step.end});
  return frame;
}

}  // namespace quern::daemon
