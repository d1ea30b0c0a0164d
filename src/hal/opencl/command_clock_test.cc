// SPDX-License-Identifier: Apache-2.0
//
// A device whose clock cannot be asked, as those before OpenCL 2.1: its clock is related to ours by commands, whose
// timestamps lie between two times of ours.
#include <cstring>

#include "hal/cts/suite.h"
#include "hal/opencl/changed_device_test.h"
#include "os/clock.h"

namespace quern::hal::opencl {
namespace {

enum class Queued { kOfAll, kOfLaunches, kOfNone };

// How the driver of the test changes its timestamps. A global, since functions of OpenCL take no pointer of ours.
struct OtherClock {
  decltype(Api::GetEventProfilingInfo) real = nullptr;
  decltype(Api::GetEventInfo) info = nullptr;
  cl_ulong ahead_ns = 0;
  Queued queued = Queued::kOfAll;
} other_clock;

bool has_queued(cl_event event) {
  cl_command_type type = 0;
  other_clock.info(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, nullptr);
  return other_clock.queued == Queued::kOfAll ||
         (other_clock.queued == Queued::kOfLaunches && type == CL_COMMAND_NDRANGE_KERNEL);
}

cl_int CL_API_CALL stamp_by_other_clock(cl_event event, cl_profiling_info what, size_t room, void* into, size_t* size) {
  const cl_int code = other_clock.real(event, what, room, into, size);
  cl_ulong ns = 0;
  if (code != CL_SUCCESS || !into || room < sizeof ns) return code;
  std::memcpy(&ns, into, sizeof ns);
  if (what == CL_PROFILING_COMMAND_QUEUED && !has_queued(event)) ns = 0;
  if (ns != 0) ns += other_clock.ahead_ns;  // 0 is what some drivers say where they have no time
  std::memcpy(into, &ns, sizeof ns);
  return code;
}

constexpr cl_ulong kHour = 3'600'000'000'000;

class CommandClock : public cts::Suite {
 protected:
  void SetUp() override {
    cts::Suite::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto opened = open_changed([](OpenclDevice::Setup& setup) {
      setup.traits.clock = Traits::Clock::kAsked;
      setup.api.GetDeviceAndHostTimer = nullptr;
      other_clock = {setup.api.GetEventProfilingInfo, setup.api.GetEventInfo, kHour, Queued::kOfAll};
      setup.api.GetEventProfilingInfo = stamp_by_other_clock;
    });
    QUERN_ASSERT_OK(opened);
    device_ = std::move(opened).value();
    auto built = device_->build({cts::suite_source(), "", {}});
    QUERN_ASSERT_OK(built);
    program_ = std::move(built).value();
    spin_ = std::move(program_->create_kernel("suite_spin")).value();
    out_ = std::move(device_->allocate(4)).value();
  }

  // Launches a kernel of some 0.1 ms and compares its times with those at which we saw it begin and end.
  void check_launch(Queue& lane) {
    const Time before = os::now();
    const auto point = spin(lane, *spin_, *out_, 50'000);
    finish(lane, point);
    const Time after = os::now();
    const auto interval = lane.timing(*point);
    ASSERT_TRUE(interval);
    EXPECT_GE(interval->start_ns, before.ns);
    EXPECT_LE(interval->end_ns, after.ns);
    EXPECT_LT(interval->start_ns, interval->end_ns);
  }

  std::unique_ptr<OpenclDevice> device_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<Kernel> spin_;
  std::shared_ptr<Buffer> out_;
};

TEST_F(CommandClock, TimesLieBetweenTheSubmissionAndTheSeenEnd) {
  EXPECT_FALSE(device_->timer_ns());
  for (const Queued queued : {Queued::kOfAll, Queued::kOfLaunches, Queued::kOfNone}) {
    other_clock.queued = queued;
    auto lane = std::move(device_->create_queue()).value();
    check_launch(*lane);
    // The clocks are an hour apart. A bracket within which this thread lost its core is too wide to be right, so a row
    // of launches that needed no correction is waited for.
    bool were_right = false;
    for (int round = 0; round < 200 && !were_right && !HasFailure(); ++round) {
      const uint64_t corrected = lane->corrected_timings();
      for (int i = 0; i < 5; ++i) check_launch(*lane);
      were_right = lane->corrected_timings() == corrected;
    }
    EXPECT_TRUE(were_right) << static_cast<int>(queued);
  }
}

TEST_F(CommandClock, AClockThatJumpsIsCorrectedAndCounted) {
  auto lane = std::move(device_->create_queue()).value();
  check_launch(*lane);
  // Not counted where the clock was measured again first, which is due every 10 ms.
  for (int i = 0; i < 1000 && lane->corrected_timings() == 0 && !HasFailure(); ++i) {
    other_clock.ahead_ns += kHour;
    check_launch(*lane);
  }
  EXPECT_GT(lane->corrected_timings(), 0u);
  check_launch(*lane);
}

}  // namespace
}  // namespace quern::hal::opencl
