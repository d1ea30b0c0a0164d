// SPDX-License-Identifier: Apache-2.0
#include "sched/text.h"

#include <gtest/gtest.h>

namespace quern::sched {
namespace {

TEST(Text, EveryEventReadsBackAsItWasWritten) {
  const char* lines[] = {
      "device-up d1 8GiB",
      "device-up d1 8589934593B",
      "device-up d1 8GiB context=300MiB",
      "device-up d1 8GiB in_place units=4 no_classes",
      "device-memory d1 7GiB",
      "device-down d1",
      "tenant t1",
      "tenant t1 weight=3 in_flight=4 queued=5 memory=1GiB priority=2 vtime=1500us",
      "loaded e1 o2",
      "loaded e1 o2 failed",
      "unloaded e1 o2",
      "executor-up e1",
      "executor-lost e1",
      "executor-lost e1 culprit=run7",
      "executor-lost e1 suspects=run7,run8",
      "submit r1 f2 t3 dom4",
      "submit r1 f2 t3 dom4 objects=o1:1GiB",
      "submit r1 f2 t3 dom4 memory=1MiB objects=o1:1GiB,o2:5B deadline=9007199254740993ns device_time=1500us "
      "priority=9",
      "cancel r18446744073709551615",
      "started run1",
      "finished run1",
      "finished run1 failed",
      "finished run1 failed device_time=17ns",
      "finished run1 failed ends_executor",
      "function-gone f1",
      "launcher-up p1 d1 f100 priority=0 quota=200/800/500",
      "launcher-gone p1",
      "work-ready e1.0 kernels=0:400us:cut",
      "gap p1 12ms after=1",
      "used p1 1500us",
      "gaps d1 f1 1ms",
      "gaps d2 f1 after=18446744073709551615 1ms,1500us,17ns",
      "tick",
  };
  for (const std::string_view line : lines) {
    const auto event = parse_event(line);
    ASSERT_TRUE(event.ok()) << event.error().text;
    EXPECT_EQ(to_text(*event), line);
  }
}

TEST(Text, AMistakeIsNamed) {
  const std::pair<const char*, const char*> mistakes[] = {
      {"", "'': has too few words"},
      {"submitt r1", "'submitt r1': there is no event 'submitt'"},
      {"cancel f1", "'cancel f1': 'f1' should be r and a number"},
      {"cancel r", "'cancel r': '' is not a number"},
      {"cancel r1 r2", "'cancel r1 r2': 'r2' is not expected there"},
      {"device-up d1 8GB", "'device-up d1 8GB': '8GB' is not a size; write a whole number with B, KiB, MiB or GiB"},
      {"submit r1 f1 t1 dom1 priority=256", "'submit r1 f1 t1 dom1 priority=256': 256 is too large"},
  };
  for (const auto& [line, text] : mistakes) {
    const auto event = parse_event(line);
    ASSERT_FALSE(event.ok()) << line;
    EXPECT_EQ(event.error().text, text);
  }
}

TEST(Text, ALineOfTheLogHasATime) {
  const auto timed = parse_timed_event("1500us tick");
  ASSERT_TRUE(timed.ok()) << timed.error().text;
  EXPECT_EQ(timed->first, Time{1'500'000});
  EXPECT_EQ(to_text(timed->first), "1500us");
  EXPECT_EQ(to_text(Time{0}), "0ms");
  EXPECT_FALSE(parse_timed_event("tick").ok());
}

TEST(Text, SettingsOfTheCore) {
  Config config;
  ASSERT_TRUE(parse_config("lanes=1 quarantine=5s placement=fifo", config).ok());
  EXPECT_EQ(config.lanes, 1u);
  EXPECT_EQ(config.quarantine, Duration::seconds(5));
  EXPECT_EQ(config.policy.placement, "fifo");
  EXPECT_FALSE(parse_config("lane=1", config).ok());
  Config again;
  const std::string text = to_text(config);
  ASSERT_TRUE(text.starts_with("config "));
  ASSERT_TRUE(parse_config(text.substr(7), again).ok());
  EXPECT_EQ(to_text(again), text);
}

}  // namespace
}  // namespace quern::sched
