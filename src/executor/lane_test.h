// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "executor/lane.h"
#include "executor/told_test.h"
#include "hal/fake/fake_driver.h"
#include "ipc/arena.h"
#include "os/thread.h"

namespace quern::executor {

constexpr uint64_t kBytes = 1024, kProgram = 1, kPlan = 1, kRun = 77;

/// One lane over the fake device, with the daemon's half of its rings and gate in the test's hands.
class LaneTest : public testing::Test {
 protected:
  void SetUp() override { open(true); }

  void open(bool in_place, uint64_t memory_bytes = 0) {
    holdings_.reset();
    device_.reset();
    driver_ = std::move(*hal::fake::create_driver(faults_));
    hal::DeviceOptions options;
    options.memory_bytes = memory_bytes;
    device_ = std::move(*driver_->open(options));
    holdings_ = std::move(*Holdings::create(*device_, in_place, told_.tell(), [](const Error& why) {
      ADD_FAILURE() << "the loader's queue failed: " << why.text;
    }));
    pages_ = std::move(*ipc::create_shared_pages());
    auto& ours = pages_.daemon().lanes[0];
    auto& theirs = pages_.executor().lanes[0];
    commands_ = std::make_unique<ipc::RingProducer>(ours.command_head, theirs.command_tail, ours.commands);
    events_ = std::make_unique<ipc::RingConsumer>(theirs.event_head, ours.event_tail, theirs.events);
    set_gate(true);
    hal::Source source;
    source.text =
        "kernel void copy(global const uchar* input, global uchar* output, uint n) {}\n"
        "kernel void copy_too(global const uchar* input, global uchar* output, uint n) {}\n"
        "kernel void fail(global uchar* output) {}\n";
    const Bytes binary = *(*device_->build(source))->binary();
    ASSERT_TRUE(holdings_->load_program({kProgram, binary.size()}, *os::immutable_copy("binary", binary)).ok());
    input_ = *ipc::Arena::create("in", ipc::Direction::kInput, uint64_t{1} << 30)->take(kBytes);
    output_ = *ipc::Arena::create("out", ipc::Direction::kOutput, uint64_t{1} << 30)->take(kBytes);
    for (const ipc::Block* block : {&input_, &output_}) {
      const ipc::Segment& segment = *block->segment();
      ASSERT_TRUE(holdings_
                      ->map_segment({segment.id, static_cast<uint8_t>(segment.direction), segment.size_bytes},
                                    os::Fd(dup(segment.fd.get())))
                      .ok());
    }
  }

  /// A plan with an input (buffer 0) and an output (buffer 1), and no launch yet.
  ipc::BoundPlan plan() const {
    ipc::BoundPlan bound;
    bound.binding.programs = {kProgram};
    const bool is_elsewhere = holdings_->in_place();
    add_buffer(bound, Role::kInput, kBytes, is_elsewhere ? Placement::Place{} : Placement::Place{0, 0});
    add_buffer(bound, Role::kOutput, kBytes, is_elsewhere ? Placement::Place{} : Placement::Place{0, kBytes});
    if (!is_elsewhere) bound.binding.placement.arenas = {2 * kBytes};
    bound.plan.slots.resize(1);
    return bound;
  }
  static void add_buffer(ipc::BoundPlan& bound, Role role, uint64_t size_bytes, Placement::Place place,
                         uint64_t object = 0) {
    PlannedBuffer buffer;
    buffer.role = role;
    buffer.size_bytes = size_bytes;
    bound.plan.buffers.push_back(std::move(buffer));
    bound.binding.placement.places.push_back(place);
    bound.binding.objects.push_back(object);
  }
  /// One more launch: kBytes from one buffer to another.
  static void add_copy(ipc::BoundPlan& bound, uint32_t from, uint32_t to) {
    PlannedLaunch launch;
    launch.entry = "copy";
    launch.global = launch.local = {16, 1, 1};
    launch.arguments.resize(3);
    launch.arguments[0].buffer = from;
    launch.arguments[1].buffer = to;
    launch.arguments[2].kind = ArgumentDecl::Kind::kScalar;
    launch.arguments[2].scalar = {0, {Dtype::kUint32, 0}};
    const auto index = static_cast<uint32_t>(bound.plan.launches.size());
    bound.plan.launches.push_back(std::move(launch));
    bound.binding.launches.emplace_back();
    bound.plan.steps.push_back({PlannedStep::Kind::kLaunch, index, index + 1, 0});
  }
  /// One more fill, of the output, without a step.
  static void add_fill(ipc::BoundPlan& bound, Scalar value) {
    bound.plan.fills.push_back({1, 0, kBytes, {PlannedScalar::kFixed, value}});
  }
  void prepare(uint64_t id, const ipc::BoundPlan& bound) {
    const Bytes bytes = ipc::encode(bound.plan, bound.binding);
    const Status prepared = holdings_->prepare_plan({id, bytes.size()}, *os::immutable_copy("plan", bytes));
    ASSERT_TRUE(prepared.ok()) << prepared.error().text;
  }

  void start() {
    lane_ = std::move(*Lane::create(
        *holdings_, {pages_.daemon().lanes[0], pages_.executor().lanes[0], wake_, daemon_wake_, busy_, shares_core_}));
    thread_ = os::Thread("lane", [this] { ended_ = lane_->serve(); });
  }

  ipc::RunCommand run_command(uint64_t plan = kPlan) const {
    ipc::RunCommand run;
    run.run = kRun;
    run.plan = plan;
    run.scalars = {kBytes};
    for (const ipc::Block* block : {&input_, &output_}) run.bindings.push_back({block->segment()->id, block->offset()});
    return run;
  }
  ipc::RunEnded run(const ipc::RunCommand& command) {
    push(command);
    return wait_ended();
  }

  void push(const ipc::Command& command) {
    ByteWriter writer;
    ipc::encode(command, writer);
    ASSERT_TRUE(commands_->push(writer.bytes()).ok());
    wake_.signal();
  }

  void set_gate(bool open) { set_gate(ipc::Grant{.open = open, .depth_ns = 2'000'000, .depth = 2}); }
  void set_gate(const ipc::Grant& grant) { ipc::write_grant(gate(), epoch_, grant); }
  ipc::Gate& gate() { return pages_.daemon().lanes[0].gate; }
  ipc::ExecutorPage::Lane& published() { return pages_.executor().lanes[0]; }

  /// Sleeps on the wake-up of the daemon until an event is there.
  ipc::LaneEvent wait_event() {
    Bytes record;
    for (;;) {
      if (*events_->pop(record)) return *ipc::decode_lane_event(record);
      if (events_->prepare_sleep()) daemon_wake_.wait(Duration::forever());
      events_->woke();
      daemon_wake_.drain();
    }
  }
  /// What the lane tells of its launches before that is kept.
  ipc::RunEnded wait_ended() {
    for (;;) {
      ipc::LaneEvent event = wait_event();
      if (auto* ended = std::get_if<ipc::RunEnded>(&event)) return std::move(*ended);
      if (auto* used = std::get_if<ipc::DeviceUsed>(&event)) used_.push_back(std::move(*used));
      if (auto* traced = std::get_if<ipc::Traced>(&event)) traced_.push_back(std::move(*traced));
    }
  }

  template <class F>
  void until(F is_so) {
    while (!is_so()) std::this_thread::yield();  // the test's own time limit ends what never comes
  }

  /// All that the device was told to hold goes on.
  void release_device() {
    faults_->is_stopped = false;
    faults_->held_write_bytes = UINT64_MAX;
    ASSERT_TRUE(device_->create_queue().value()->flush().ok());
  }

  // A record that makes no sense ends `serve`, which nothing else does.
  void TearDown() override {
    release_device();
    if (!thread_.joinable()) return;
    const std::byte nonsense[1] = {std::byte{255}};
    ASSERT_TRUE(commands_->push(nonsense).ok());
    wake_.signal();
    thread_.join();
    EXPECT_FALSE(ended_.ok());
  }

  bool shares_core_ = false;
  std::vector<ipc::DeviceUsed> used_;
  std::vector<ipc::Traced> traced_;
  std::shared_ptr<hal::fake::Faults> faults_ = std::make_shared<hal::fake::Faults>();
  std::unique_ptr<hal::Driver> driver_;
  std::unique_ptr<hal::Device> device_;
  Told told_;
  std::unique_ptr<Holdings> holdings_;
  ipc::SharedPages pages_;
  std::unique_ptr<ipc::RingProducer> commands_;
  std::unique_ptr<ipc::RingConsumer> events_;
  ipc::Block input_, output_;
  os::Event wake_ = *os::Event::create(), daemon_wake_ = *os::Event::create();
  std::atomic<uint32_t> busy_{0};
  std::unique_ptr<Lane> lane_;
  os::Thread thread_;
  Status ended_;
  uint64_t epoch_ = 0;
};

}  // namespace quern::executor
