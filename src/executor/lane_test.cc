// SPDX-License-Identifier: Apache-2.0
//
// One lane over the fake device, with the daemon's half of its rings and gate in the test's hands.
#include "executor/lane.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "hal/fake/fake_driver.h"
#include "ipc/arena.h"
#include "os/clock.h"
#include "os/thread.h"

namespace quern::executor {
namespace {

constexpr const char* kSource =
    "kernel void copy(global const uchar* input, global uchar* output, uint n) {}\n"
    "kernel void fail(global uchar* output) {}\n";
constexpr uint64_t kBytes = 1024, kProgram = 1, kPlan = 1, kRun = 77;

class LaneTest : public testing::Test {
 protected:
  void SetUp() override { open(true); }

  void open(bool in_place) {
    driver_ = std::move(*hal::fake::create_driver(faults_));
    device_ = std::move(*driver_->open({}));
    holdings_ = std::make_unique<Holdings>(*device_, in_place);
    pages_ = std::move(*ipc::create_shared_pages());
    auto& ours = pages_.daemon().lanes[0];
    auto& theirs = pages_.executor().lanes[0];
    commands_ = std::make_unique<ipc::RingProducer>(ours.command_head, theirs.command_tail, ours.commands);
    events_ = std::make_unique<ipc::RingConsumer>(theirs.event_head, ours.event_tail, theirs.events);
    gate().depth_ns = 2'000'000;
    gate().depth = 1;
    set_gate(true);
    hal::Source source;
    source.text = kSource;
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

  // `copies` launches of copy, each from the input to the output.
  void prepare(size_t copies, const char* entry = "copy") {
    ipc::PlanFrame plan;
    plan.program = kProgram;
    plan.buffers = {{.role = ipc::PlanFrame::Role::kInput, .size_bytes = kBytes},
                    {.role = ipc::PlanFrame::Role::kOutput, .size_bytes = kBytes}};
    if (!holdings_->in_place()) {
      plan.arenas = {2 * kBytes};
      plan.buffers[0].arena = plan.buffers[1].arena = 0;
      plan.buffers[1].offset = kBytes;
    }
    plan.slots = 1;
    using Kind = ipc::PlanFrame::Argument::Kind;
    ipc::PlanFrame::Launch launch{0, entry, 1, {16, 1, 1}, {16, 1, 1}, {}};
    launch.arguments.resize(std::string(entry) == "copy" ? 3 : 1);
    launch.arguments[launch.arguments.size() == 3 ? 1 : 0].buffer = 1;
    if (launch.arguments.size() == 3) {
      launch.arguments[2].kind = Kind::kScalar;
      launch.arguments[2].value = {.slot = 0, .dtype = Dtype::kUint32, .bits = 0};
    }
    plan.launches.assign(copies, launch);
    for (uint32_t i = 0; i < copies; ++i) plan.steps.push_back({ipc::PlanFrame::Step::Kind::kLaunch, i, i + 1});
    const Bytes bytes = ipc::encode(plan);
    const Status prepared = holdings_->prepare_plan({kPlan, bytes.size()}, *os::immutable_copy("plan", bytes));
    ASSERT_TRUE(prepared.ok()) << prepared.error().text;
  }

  void start() {
    lane_ = std::move(
        *Lane::create(*holdings_, {pages_.daemon().lanes[0], pages_.executor().lanes[0], wake_, daemon_wake_, busy_}));
    thread_ = os::Thread("lane", [this] { ended_ = lane_->serve(); });
  }

  ipc::RunCommand run_command() const {
    ipc::RunCommand run{kRun, kPlan, false, {}, {kBytes}};
    for (const ipc::Block* block : {&input_, &output_}) run.bindings.push_back({block->segment()->id, block->offset()});
    return run;
  }

  void push(const ipc::Command& command) {
    ByteWriter writer;
    ipc::encode(command, writer);
    ASSERT_TRUE(commands_->push(writer.bytes()).ok());
    wake_.signal();
  }

  void set_gate(bool open) { gate().word = (++epoch_ << 1) | (open ? 1 : 0); }
  ipc::Gate& gate() { return pages_.daemon().lanes[0].gate; }
  ipc::ExecutorPage::Lane& published() { return pages_.executor().lanes[0]; }

  // Sleeps on the wake-up of the daemon until an event is there.
  ipc::RunEnded wait_ended() {
    Bytes record;
    for (;;) {
      if (*events_->pop(record)) return *ipc::decode_run_ended(record);
      if (events_->prepare_sleep()) daemon_wake_.wait(Duration::forever());
      events_->woke();
      daemon_wake_.drain();
    }
  }

  template <class F>
  void until(F is_so) {
    while (!is_so()) std::this_thread::yield();  // the test's own time limit ends what never comes
  }

  // A record that makes no sense ends `serve`, which nothing else does.
  void TearDown() override {
    if (!thread_.joinable()) return;
    const std::byte nonsense[1] = {std::byte{255}};
    ASSERT_TRUE(commands_->push(nonsense).ok());
    wake_.signal();
    thread_.join();
    EXPECT_FALSE(ended_.ok());
  }

  std::shared_ptr<hal::fake::Faults> faults_ = std::make_shared<hal::fake::Faults>();
  std::unique_ptr<hal::Driver> driver_;
  std::unique_ptr<hal::Device> device_;
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

TEST_F(LaneTest, RunsAGraphFromArenaToArena) {
  prepare(3);
  std::memset(input_.bytes().data(), 42, kBytes);
  start();
  push(run_command());
  const auto ended = wait_ended();
  EXPECT_TRUE(ended.ok) << ended.text;
  EXPECT_EQ(ended.run, kRun);
  EXPECT_EQ(std::memcmp(input_.bytes().data(), output_.bytes().data(), kBytes), 0);
  EXPECT_LE(ended.taken_ns, ended.started_ns);
  EXPECT_LE(ended.started_ns, ended.ended_ns);
}

TEST_F(LaneTest, CopiesWhereTheDeviceHasMemoryOfItsOwn) {
  open(false);
  prepare(1);
  std::memset(input_.bytes().data(), 17, kBytes);
  start();
  push(run_command());
  const auto ended = wait_ended();
  EXPECT_TRUE(ended.ok) << ended.text;
  EXPECT_EQ(std::memcmp(input_.bytes().data(), output_.bytes().data(), kBytes), 0);
}

TEST_F(LaneTest, AGateClosedInTheMiddleOfAGraphStopsItThereUntilItOpens) {
  prepare(5);
  faults_->is_stopped = true;  // the first launch stays in flight, and depth 1 keeps the lane before the second
  start();
  push(run_command());
  until([&] { return published().running_run.load() == kRun; });
  set_gate(false);
  faults_->is_stopped = false;
  ASSERT_TRUE(device_->create_queue().value()->flush().ok());
  until([&] { return published().waits_at_gate.load() == 1; });
  EXPECT_TRUE(events_->empty());
  EXPECT_LT(published().running_launch.load(), 4U) << "it went on past a closed gate";
  set_gate(true);
  wake_.signal();
  EXPECT_TRUE(wait_ended().ok);
}

TEST_F(LaneTest, AStopAtAClosedGateEndsTheRun) {
  prepare(3);
  set_gate(false);
  start();
  push(run_command());
  until([&] { return published().waits_at_gate.load() == 1; });
  push(ipc::StopCommand{kRun + 1});  // for another run: of no effect
  push(ipc::StopCommand{kRun});
  const auto ended = wait_ended();
  EXPECT_FALSE(ended.ok);
  EXPECT_TRUE(ended.stopped);
  EXPECT_EQ(ended.code, ErrorCode::kCancelled);
  set_gate(true);
  push(run_command());
  EXPECT_TRUE(wait_ended().ok) << "the lane serves on";
}

TEST_F(LaneTest, ARunThatDoesNotFitItsPlanOrNamesNoPlanIsAnError) {
  prepare(1);
  start();
  auto run = run_command();
  run.plan = 99;
  push(run);
  EXPECT_FALSE(wait_ended().ok);
  run = run_command();
  run.scalars.clear();
  push(run);
  EXPECT_FALSE(wait_ended().ok);
  run = run_command();
  run.bindings[0].offset = ~uint64_t{0};
  push(run);
  EXPECT_FALSE(wait_ended().ok);
  run = run_command();
  std::swap(run.bindings[0], run.bindings[1]);  // an output where only reading is allowed
  push(run);
  EXPECT_FALSE(wait_ended().ok);
}

TEST_F(LaneTest, AKernelThatFailsIsNamed) {
  prepare(1, "fail");
  start();
  push(run_command());
  const auto ended = wait_ended();
  EXPECT_FALSE(ended.ok);
  EXPECT_NE(ended.text.find("fail"), std::string::npos) << ended.text;
}

}  // namespace
}  // namespace quern::executor
