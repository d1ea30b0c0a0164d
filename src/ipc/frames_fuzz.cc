// SPDX-License-Identifier: Apache-2.0
#include "base/fuzz_main.h"
#include "ipc/bound_plan.h"
#include "ipc/frames.h"

using namespace quern;

// The same bytes as every kind of message: what decodes must encode to bytes that decode again.
void fuzz_one(std::span<const std::byte> input) {
  if (const auto frame = ipc::decode(input); frame.ok()) QUERN_CHECK(ipc::decode(ipc::encode(*frame)).ok(), "frame");
  if (const auto plan = ipc::decode_plan(input); plan.ok())
    QUERN_CHECK(ipc::decode_plan(ipc::encode(plan->plan, plan->binding)).ok(), "plan");
  if (const auto build = ipc::decode_build(input); build.ok())
    QUERN_CHECK(ipc::decode_build(ipc::encode(*build)).ok(), "build");
  (void)ipc::decode_signatures(input);
  if (const auto event = ipc::decode_lane_event(input); event.ok()) {
    ByteWriter writer;
    std::visit([&](const auto& one) { ipc::encode(one, writer); }, *event);
    QUERN_CHECK(ipc::decode_lane_event(writer.bytes()).ok(), "event");
  }
  ipc::Command command;
  if (ipc::decode(input, command).ok()) {
    ByteWriter writer;
    ipc::encode(command, writer);
    QUERN_CHECK(ipc::decode(writer.bytes(), command).ok(), "command");
  }
}

FuzzPlan fuzz_plan() {
  const auto text = [](const Bytes& bytes) { return std::string(as_text(bytes)); };
  FuzzPlan plan;
  plan.seeds.push_back(text(ipc::encode(ipc::Frame(ipc::Start{{"opencl", "Portable", "", 0, {1}, 1, true, "x"}, 2}))));
  plan.seeds.push_back(text(ipc::encode(ipc::Frame(ipc::Hello{{"opencl", "cpu", "key"}, {1, 2}}))));
  plan.seeds.push_back(text(ipc::encode(ipc::Frame(ipc::Loaded{}))));
  plan.seeds.push_back(text(ipc::encode(ipc::Frame(ipc::Dropped{3}))));
  plan.seeds.push_back(text(ipc::encode(ipc::Frame(ipc::Flight{{{7, 3, 5, 9}, {8, 1, 2, 3}}}))));
  ipc::BoundPlan bound;
  bound.plan.buffers.resize(1);
  bound.plan.buffers[0].role = Role::kOutput;
  bound.plan.buffers[0].size_bytes = 64;
  bound.plan.launches.resize(1);
  bound.plan.launches[0].entry = "k";
  bound.plan.launches[0].arguments.resize(1);
  bound.plan.repeats.resize(1);
  bound.plan.repeats[0].rounds = 3;
  bound.plan.repeats[0].bodies = {1};
  bound.plan.repeats[0].checks = {2};
  bound.plan.repeats[0].until.emplace().value.fixed.dtype = Dtype::kFp64;
  bound.plan.steps = {{PlannedStep::Kind::kRepeat, 0, 2, 1}, {PlannedStep::Kind::kLaunch, 0, 2, 1}};
  bound.binding.programs = {1};
  bound.binding.objects.resize(1);
  bound.binding.placement.places.resize(1);
  bound.binding.launches.resize(1);
  plan.seeds.push_back(text(ipc::encode(bound.plan, bound.binding)));
  const auto add = [&](const auto& message) {
    ByteWriter writer;
    ipc::encode(message, writer);
    plan.seeds.push_back(text(writer.take()));
  };
  ipc::RunCommand run;
  run.run = 1, run.plan = 2, run.lane_bytes = 4096;
  run.bindings = {{1, 256}};
  run.scalars = {7};
  add(ipc::Command(run));
  add(ipc::Command(ipc::TrimCommand{}));
  ipc::RunEnded ended;
  ended.rounds = {3};
  ended.kernels = {{1, 100}};
  add(ended);
  add(ipc::LaneTrimmed{});
  plan.words = {std::string("\xff\xff\xff\xff"), std::string("\0\0\0\0", 4)};
  return plan;
}
