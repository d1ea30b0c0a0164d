// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "os/file.h"
#include "sched/text.h"

namespace quern::daemon {
namespace {

class RecorderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "quern_record_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    file_ = folder_ + "/record.txt";
  }
  void TearDown() override { os::remove_tree(folder_); }
  std::string text() const { return std::string(as_text(*os::read_file(file_))); }

  const sched::Config config_;
  const std::string first_ = sched::to_text(config_) + "\n";
  std::string folder_, file_;
};

TEST_F(RecorderTest, AStepIsItsEventAndItsActions) {
  auto recorder = Recorder::create(file_, 1 << 20, config_);
  ASSERT_TRUE(recorder.ok()) << recorder.error().text;
  EXPECT_EQ(text(), first_);
  EXPECT_EQ((*recorder)->due(), Time::never());
  const Time now{1'500'000};
  (*recorder)->add(now, sched::Cancel{{7}}, {sched::StopRun{{3}}, sched::WakeAt{Time::never()}});
  (*recorder)->add(now, sched::Tick{}, {});
  EXPECT_EQ(text(), first_) << "gathered first";
  EXPECT_EQ((*recorder)->due(), now + Duration::seconds(1));
  recorder->reset();
  const std::string time = sched::to_text(now);
  EXPECT_EQ(text(), first_ + time + " cancel r7\n  > stop-run run3\n  > wake-at never\n" + time + " tick\n");
}

TEST_F(RecorderTest, WhatIsWrittenFastIsTheSameText) {
  auto recorder = Recorder::create(file_, 1 << 20, config_);
  std::string wanted = first_;
  const auto add = [&](Time now, const sched::Event& event, const std::vector<sched::Action>& actions) {
    (*recorder)->add(now, event, actions);
    wanted += sched::to_text(now) + " " + sched::to_text(event) + "\n";
    for (const sched::Action& action : actions) wanted += "  > " + sched::to_text(action) + "\n";
  };
  sched::Submit plain;
  plain.request = {1};
  plain.function = {2};
  plain.tenant = {3};
  plain.domain = {4};
  const sched::Run run{{UINT64_MAX}, {2}, {3}, 1};
  sched::Run part = run;
  part.units = 2;
  part.first_unit = 4;
  add({0}, plain, {part});
  const sched::Answer done{{2}, sched::End::kDone, sched::RunId{1}, {0}};
  for (const int64_t ns : {INT64_C(0), INT64_C(1), INT64_C(1'000), INT64_C(1'500'000), INT64_C(7'000'000),
                           INT64_C(3'000'000'000), INT64_C(5'239'701'778'326), INT64_MAX - 1}) {
    sched::Submit submit = plain;
    add({ns}, submit, {run});
    for (const uint64_t bytes :
         {UINT64_C(1), UINT64_C(1) << 10, UINT64_C(3) << 20, UINT64_C(1) << 40, UINT64_C(1025)}) {
      submit.memory_bytes = bytes;
      submit.deadline = {ns};
      submit.device_time = {ns};
      submit.priority = 9;
      add({ns}, submit, {run, run, done, done});
      add({ns}, submit, {run, run, done, done, done});
    }
    submit.objects = {{{5}, 6}};
    add({ns}, submit, {});
    add({ns}, sched::Started{{7}}, {});
    for (const bool failed : {false, true}) {
      add({ns}, sched::Finished{{7}, failed, false, {ns}}, {done, run});
      add({ns}, sched::Finished{{7}, failed, false, {ns}, {ns}, failed}, {done, run});
    }
  }
  for (const auto& answer : {sched::Answer{{2}, sched::End::kDone, std::nullopt, {0}},
                             sched::Answer{{2}, sched::End::kLost, sched::RunId{1}, {5}},
                             sched::Answer{{2}, sched::End::kFailed, sched::RunId{1}, {0}}})
    add({1}, sched::Started{{7}}, {answer, sched::WakeAt{{2}}});
  add({1}, plain, {});
  recorder->reset();
  EXPECT_EQ(text(), wanted);
}

TEST_F(RecorderTest, WritesWhenItHasEnough) {
  auto recorder = Recorder::create(file_, 1 << 20, config_);
  const sched::Cancel event{{7}};
  size_t steps = 0;
  while (text().size() == first_.size() && steps < 100'000) (*recorder)->add({1}, event, {}), ++steps;
  EXPECT_GT(steps, 1000u);
  EXPECT_LT(steps, 10'000u);
  EXPECT_EQ((*recorder)->due(), Time::never());
}

TEST_F(RecorderTest, EndsAtItsLimitWithAWholeStep) {
  const uint64_t limit = first_.size() + 100;
  auto recorder = Recorder::create(file_, limit, config_);
  for (int i = 0; i < 100; ++i) (*recorder)->add({1}, sched::Cancel{{7}}, {sched::StopRun{{3}}});
  recorder->reset();
  const std::string all = text();
  EXPECT_LE(all.size(), limit);
  EXPECT_GT(all.size(), limit - 50);
  EXPECT_TRUE(all.ends_with("  > stop-run run3\n# limit reached\n")) << all;
}

TEST_F(RecorderTest, AFileThatCannotBeMadeIsNamed) {
  const auto recorder = Recorder::create(folder_ + "/none/record.txt", 1 << 20, config_);
  ASSERT_FALSE(recorder.ok());
  EXPECT_NE(recorder.error().text.find("/none/record.txt"), std::string::npos);
}

}  // namespace
}  // namespace quern::daemon
