// SPDX-License-Identifier: Apache-2.0
#include "sim/trace.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace quern::sim {
namespace {

constexpr std::string_view kSmall =
    "gmt_create,predict_type,exec_time_seconds,groupId,checkpoint_model_version_id,num_lora\n"
    "2024-02-28 23:59:50,A,2.5,G1,M1,0\r\n"
    "2024-02-29 00:00:00,A,1.0,G2,M1,0\n"
    "2024-03-01 00:00:00,A,3.0,G1,M2,0\n"
    "2024-02-28 23:59:55,A,3.5,G1,M1,1\n"
    "2024-02-29 00:00:01,A,0.0,G2,M1,0\n"
    "2024-02-29 00:00:02,A,1.0,G2,,0\n"
    "yesterday,A,1.0,G2,M1,0\n"
    "2024-02-29 00:00:02\n"
    "\n";

TEST(Trace, MakesTenantsFunctionsObjectsAndCalls) {
  Model model;
  const auto read = add_trace(kSmall, {.time_scale = 0.5, .object_bytes = 7, .memory_bytes = 9, .most_rows = 0}, model);
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_EQ(read->rows, 4U);
  EXPECT_EQ(read->skipped, 4U);
  EXPECT_EQ(read->why, (std::vector<std::string>{"6: exec_time_seconds '0.0' is no length of time above 0",
                                                 "7: checkpoint_model_version_id '' is no name",
                                                 "8: gmt_create 'yesterday' is no time",
                                                 "9: exec_time_seconds '' is no length of time above 0"}));
  ASSERT_EQ(model.tenants.size(), 2U);
  EXPECT_EQ(model.tenants[0].name, "G1");
  EXPECT_EQ(model.tenants[1].name, "G2");
  ASSERT_EQ(model.objects.size(), 2U);
  EXPECT_EQ(model.objects[0].name, "M1");
  EXPECT_EQ(model.objects[0].bytes, 7U);
  ASSERT_EQ(model.functions.size(), 3U);
  EXPECT_EQ(model.functions[0].tenant, 0U);
  EXPECT_EQ(model.functions[0].device_time, Duration::seconds(3));  // the mean
  EXPECT_EQ(model.functions[1].tenant, 1U);
  EXPECT_EQ(model.functions[1].objects, std::vector<uint32_t>{0});
  EXPECT_EQ(model.functions[1].memory_bytes, 9U);
  EXPECT_EQ(model.functions[2].objects, std::vector<uint32_t>{1});
  ASSERT_EQ(model.loads.size(), 3U);
  // In order of time, half as long apart.
  EXPECT_EQ(model.loads[0].times, (std::vector<Time>{Time{0}, Time{2'500'000'000}}));
  EXPECT_EQ(model.loads[0].device_times, (std::vector<Duration>{Duration::millis(2500), Duration::millis(3500)}));
  EXPECT_EQ(model.loads[1].times, (std::vector<Time>{Time{5'000'000'000}}));
  EXPECT_EQ(model.loads[2].times, (std::vector<Time>{Time{43'205'000'000'000}}));  // over a leap day
  EXPECT_EQ(read->last, Time{43'205'000'000'000});
}

TEST(Trace, AddsToWhatIsThereAndStopsAfterSoManyRows) {
  Model model;
  model.tenants.emplace_back();
  model.objects.emplace_back();
  model.functions.emplace_back();
  model.loads.emplace_back();
  const auto read = add_trace(kSmall, {.time_scale = 1, .object_bytes = 1, .memory_bytes = 0, .most_rows = 2}, model);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->rows, 2U);
  EXPECT_EQ(model.functions[1].tenant, 1U);
  EXPECT_EQ(model.functions[1].objects, std::vector<uint32_t>{1});
  EXPECT_EQ(model.loads[2].function, 2U);
}

TEST(Trace, RefusesWhatIsNoTrace) {
  Model model;
  const auto text = [&](std::string_view trace) {
    const auto read = add_trace(trace, {}, model);
    return read.ok() ? "" : read.error().text;
  };
  EXPECT_EQ(text("gmt_create,exec_time_second,groupId,checkpoint_model_version_id\n"),
            "1: there is no column 'exec_time_seconds'; did you mean 'exec_time_second'?; a trace has gmt_create, "
            "exec_time_seconds, groupId, checkpoint_model_version_id");
  EXPECT_EQ(text("gmt_create,exec_time_seconds,groupId,checkpoint_model_version_id\n2024-13-01 00:00:00,1,G,M\n"),
            "2: gmt_create '2024-13-01 00:00:00' is no time; there is no row of which calls can be made");
  EXPECT_EQ(text(""), "1: holds no rows; there is no row of which calls can be made");
  EXPECT_TRUE(model.tenants.empty());
}

TEST(Trace, OfPublicDataIsRead) {
  const char* set = std::getenv("QUERN_DATA");
  const std::filesystem::path folder = set ? set : "../shared/data";
  std::ifstream file(folder / "traces" / "lora_request_trace.csv");
  if (!file) GTEST_SKIP() << "no traces/lora_request_trace.csv in $QUERN_DATA nor in ../shared/data";
  std::stringstream all;
  all << file.rdbuf();
  Model model;
  const auto read = add_trace(all.str(), {}, model);
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_GT(read->rows, 20'000U);
  EXPECT_LT(read->skipped, read->rows / 10);
  EXPECT_GT(model.tenants.size(), 1000U);
  EXPECT_GT(model.functions.size(), model.tenants.size());
  EXPECT_LT(model.objects.size(), 100U);
  uint64_t calls = 0;
  for (const LoadModel& load : model.loads) calls += load.times.size();
  EXPECT_EQ(calls, read->rows);
}

}  // namespace
}  // namespace quern::sim
