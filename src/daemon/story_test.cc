// SPDX-License-Identifier: Apache-2.0
#include "daemon/story.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace quern::daemon {
namespace {

Time ms(int64_t since) { return Time{1'000'000'000} + Duration::millis(since); }

Story ended() {
  Story story;
  story.status.id = "r1";
  story.status.function = "mill";
  story.status.device = "cpu0";
  story.status.state = "ended";
  story.status.end = "done";
  story.times.submitted = ms(0);
  story.times.pushed = ms(50);
  story.times.started = ms(51);
  story.times.finished = ms(61);
  story.times.answered = ms(62);
  story.times.device_time_ns = 10'000'000;
  story.account.runs = 1;
  story.account.device_time_ns = 10'000'000;
  story.account.bytes_in = 512;
  story.account.bytes_out = 256;
  return story;
}

std::string text(const Story& story) { return fmt::format("{}", fmt::join(tell(story, ms(100)), "\n")); }

bool has(const Story& story, const std::string& words) { return text(story).find(words) != std::string::npos; }

TEST(Story, OfAWarmOneSaysThatNothingWasSetUp) {
  EXPECT_EQ(text(ended()),
            "r1 of mill ended (done) after 62.0ms.\n"
            "It waited 50.0ms for its turn, then got a place on cpu0.\n"
            "All it needs was there: nothing had to be set up.\n"
            "It was on the device from 51.0ms to 61.0ms after it came, and used 10.0ms of device time.\n"
            "Its account: 10.0ms of device time in 1 run, 512B in, 256B out.");
}

TEST(Story, OfAColdOneTellsThePartsTheirSumAndTheLongest) {
  Story story = ended();
  story.times.placed = ms(5);
  story.setup = {{"executor", ms(5), ms(45), "a new process"}, {"fetch", ms(5), ms(15), "1 constant, 4MiB"}};
  EXPECT_EQ(
      text(story),
      "r1 of mill ended (done) after 62.0ms.\n"
      "It waited 5.00ms for its turn, then got a place on cpu0.\n"
      "  executor took 40.0ms, from 0ns after its place: a new process.\n"
      "  fetch took 10.0ms, from 0ns after its place: 1 constant, 4MiB.\n"
      "Set-up took 45.0ms in all; one after another its parts would have taken 50.0ms. The longest was executor.\n"
      "It was on the device from 51.0ms to 61.0ms after it came, and used 10.0ms of device time.\n"
      "Its account: 10.0ms of device time in 1 run, 512B in, 256B out.");
}

TEST(Story, OfAQuarantinedOneSaysWhatHappenedUntilWhenAndWhatToDo) {
  Story story = ended();
  story.status.end = "quarantined";
  story.times = {};
  story.times.submitted = ms(0);
  story.times.answered = ms(1);
  story.times.quarantine = {20, ms(1) + Duration::seconds(60)};
  story.account = {};
  EXPECT_EQ(
      text(story),
      "r1 of mill ended (quarantined) after 1.00ms.\n"
      "Its function was quarantined: its kernels crashed or hung 20 times in a row, with no good run between, and "
      "each time an executor process was lost.\n"
      "Until the quarantine ends, in 59.9s, every call of this version is refused.\n"
      "Deploy a mended version, which is let in at once, or call again after that time; one further crash or hang "
      "then begins another quarantine. 'quern requests' lists the calls that failed before.\n"
      "Its account: 0B in, 0B out.");
  story.times.quarantine->until = ms(40);
  EXPECT_TRUE(has(story, "The quarantine ended 60.0ms ago, unless the function crashed or hung again since."));
}

TEST(Story, TellsWhatItUsedInAllItsRuns) {
  Story story = ended();
  story.account = {.bytes_in = 1 << 20,
                   .bytes_out = 0,
                   .runs = 3,
                   .device_time_ns = 25'000'000,
                   .loads = 2,
                   .loaded_bytes = 8 << 20,
                   .evictions = 1,
                   .evicted_bytes = 4 << 20};
  EXPECT_TRUE(has(story, "and used 10.0ms of device time.")) << "the last run";
  EXPECT_TRUE(has(story,
                  "Its account: 25.0ms of device time in 3 runs, 1MiB in, 0B out, 2 loads (8MiB), 1 eviction to make "
                  "room for it (4MiB)."));
}

TEST(Story, OfOneWhoseGateWasClosedSaysForWhom) {
  Story story = ended();
  story.times.waits.add_urgent("", Duration::millis(4));
  story.times.waits.add_urgent("quick", Duration::millis(7));
  story.times.waits.add_urgent("brief", Duration::micros(500));
  story.times.waits.add(Cause::kQuota, Duration::millis(9));
  EXPECT_TRUE(
      has(story, "Its gate was closed for 4.00ms in all: another tenant's run, or a program, was more urgent."));
  EXPECT_TRUE(has(story, "Its gate was closed for 7.00ms in all: function quick was more urgent."));
  EXPECT_FALSE(has(story, "brief")) << "neither a millisecond nor a twentieth of its life";
  EXPECT_TRUE(has(
      story,
      "Its gate was closed for 9.00ms in all: its function had none of its share left, of time or of units (quota)."));
}

TEST(Story, OfOneThatWaitedForItsTurnSaysBehindWhom) {
  Story story = ended();
  EXPECT_FALSE(has(story, "(queue)"));
  EXPECT_FALSE(has(story, "(fairness)"));
  story.times.waits.add(Cause::kQueue, Duration::millis(30));
  story.times.waits.add(Cause::kFairness, Duration::millis(20));
  EXPECT_TRUE(has(story, "It waited 30.0ms behind earlier work of its own tenant (queue)."));
  EXPECT_TRUE(has(story, "It waited 20.0ms while other tenants had their turn (fairness)."));
}

TEST(Story, OfOneThatWaitedForRoomOrAPlanSaysSo) {
  Story story = ended();
  EXPECT_FALSE(has(story, "(memory)"));
  story.times.waits.add(Cause::kMemory, Duration::millis(3));
  story.times.waits.add(Cause::kSetup, Duration::millis(2));
  EXPECT_TRUE(has(story, "It waited 3.00ms for room: what was in memory had to leave first (memory)."));
  EXPECT_TRUE(has(story, "It took 2.00ms to get ready (setup)."));
  EXPECT_FALSE(has(story, "nothing had to be set up"));
}

TEST(Story, AShortWaitIsToldInAShortLife) {
  Story story = ended();
  story.times.answered = story.times.submitted + Duration::micros(1000);
  story.times.waits.add(Cause::kFairness, Duration::micros(49));
  EXPECT_FALSE(has(story, "(fairness)"));
  story.times.waits.add(Cause::kFairness, Duration::micros(2));
  EXPECT_TRUE(has(story, "It waited 51.0us while other tenants had their turn (fairness)."));
}

TEST(Story, OfOneWithAKernelThatCouldNotBeCutSaysWhoseTimeThatTook) {
  Story story = ended();
  story.times.whole = WholeKernel{"sum", "uses get_num_groups", Duration::micros(900)};
  EXPECT_FALSE(has(story, "sum"));
  story.times.whole->held = Duration::millis(12);
  EXPECT_TRUE(has(story,
                  "Its kernel sum kept more urgent work waiting for 12.0ms: it cannot be cut (uses "
                  "get_num_groups)."));
}

TEST(Story, OfOneThatWaitsSaysForWhat) {
  Story story;
  story.status.id = "r1";
  story.status.function = "mill";
  story.status.state = "queued";
  story.times.submitted = ms(0);
  EXPECT_EQ(text(story),
            "r1 of mill is queued, for 100ms.\n"
            "It waits for its turn: the devices are busy with others, or it is not the next.\n"
            "Its account: 0B in, 0B out.");
  story.times.waits.add(Cause::kFairness, Duration::millis(90));
  EXPECT_TRUE(has(story, "It waited 90.0ms while other tenants had their turn (fairness)."));
}

}  // namespace
}  // namespace quern::daemon
