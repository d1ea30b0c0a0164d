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
  return story;
}

std::string text(const Story& story) { return fmt::format("{}", fmt::join(tell(story, ms(100)), "\n")); }

TEST(Story, OfAWarmOneSaysThatNothingWasSetUp) {
  EXPECT_EQ(text(ended()),
            "r1 of mill ended (done) after 62.0ms.\n"
            "It waited 50.0ms for its turn, then got a place on cpu0.\n"
            "All it needs was there: nothing had to be set up.\n"
            "It was on the device from 51.0ms to 61.0ms after it came, and used 10.0ms of device time.");
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
      "It was on the device from 51.0ms to 61.0ms after it came, and used 10.0ms of device time.");
}

TEST(Story, OfOneWhoseGateWasClosedSaysForWhom) {
  Story story = ended();
  story.times.gated = Duration::millis(4);
  EXPECT_NE(text(story).find("Its gate was closed for 4.00ms in all: another run or program on the device was more "
                             "urgent."),
            std::string::npos)
      << text(story);
  story.times.gated_for = "quick";
  EXPECT_NE(text(story).find(": function quick was more urgent."), std::string::npos) << text(story);
}

TEST(Story, OfOneThatWaitsSaysForWhat) {
  Story story;
  story.status.id = "r1";
  story.status.function = "mill";
  story.status.state = "queued";
  story.times.submitted = ms(0);
  EXPECT_EQ(text(story),
            "r1 of mill is queued, for 100ms.\n"
            "It waits for its turn: the devices are busy with others, or it is not the next.");
}

}  // namespace
}  // namespace quern::daemon
