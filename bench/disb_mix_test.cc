// SPDX-License-Identifier: Apache-2.0
#include "bench/disb_mix.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace quern::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string task(const std::string& id, const std::string& load, const std::string& model = "vgg19-imagenet") {
  return fmt::format(R"({{"id": "{}", "load": {}, "client": {{"name": "x", "model_name": "{}", "batch_size": 1}}}})",
                     id, load, model);
}
std::string mix_of(const std::string& tasks) { return fmt::format(R"({{"time": 60, "tasks": [{}]}})", tasks); }

std::string problem_of(const std::string& text) {
  const auto mix = parse_disb("A", text);
  EXPECT_FALSE(mix.ok()) << text;
  return mix.ok() ? "" : mix.error().text;
}

const char* const kContinuous = R"({"type": "continuous"})";

TEST(DisbMix, IsReadInItsOrder) {
  const auto mix = parse_disb("D", mix_of(task("vgg19_rt", R"({"type": "periodic", "priority": 0, "frequency": 100})") +
                                          "," + task("bert_rt", R"({"type": "poisson", "frequency": 2.5})") + "," +
                                          task("resnet152_be", kContinuous, "resnet152-imagenet")));
  ASSERT_TRUE(mix.ok()) << mix.error().text;
  EXPECT_EQ(mix->name, "D");
  ASSERT_EQ(mix->clients.size(), 3u);
  const DisbClient &periodic = mix->clients[0], &poisson = mix->clients[1], &continuous = mix->clients[2];
  EXPECT_EQ(periodic.id, "vgg19_rt");
  EXPECT_EQ(periodic.model, "vgg19-imagenet");
  EXPECT_TRUE(periodic.is_urgent);
  EXPECT_EQ(periodic.load, DisbClient::Load::kPeriodic);
  EXPECT_EQ(periodic.per_second, 100) << "written without a point";
  EXPECT_EQ(poisson.load, DisbClient::Load::kPoisson);
  EXPECT_EQ(poisson.per_second, 2.5);
  EXPECT_EQ(continuous.load, DisbClient::Load::kContinuous);
  EXPECT_EQ(continuous.per_second, 0);
  EXPECT_FALSE(continuous.is_urgent);
}

TEST(DisbMix, SaysWhatIsWrong) {
  EXPECT_THAT(problem_of("{"), HasSubstr("mix A: "));
  EXPECT_THAT(problem_of("[]"), HasSubstr("mix A: "));
  EXPECT_THAT(problem_of(mix_of("")), HasSubstr("has 0 clients"));
  EXPECT_THAT(problem_of(mix_of("7")), HasSubstr("mix A: "));
  EXPECT_THAT(problem_of(mix_of(task("vgg19", kContinuous))), HasSubstr("ends neither in _rt nor in _be"));
  EXPECT_THAT(problem_of(mix_of(task("../x_rt", kContinuous))), HasSubstr("no name of a function"));
  EXPECT_THAT(problem_of(mix_of(task("x_rt", R"({"type": "trace"})"))), HasSubstr("load is none of"));
  EXPECT_THAT(problem_of(mix_of(task("x_rt", R"({"type": "periodic"})"))), HasSubstr("mix A: "));
  for (const char* frequency : {"0", "-1", "1e9"})
    EXPECT_THAT(problem_of(mix_of(task("x_rt", fmt::format(R"({{"type": "poisson", "frequency": {}}})", frequency)))),
                HasSubstr("frequency is"));
  EXPECT_THAT(problem_of(mix_of(task("x_rt", kContinuous) + "," + task("x_rt", kContinuous))),
              HasSubstr("client x_rt: is there twice"));
  std::string many = task("c0_be", kContinuous);
  for (size_t i = 1; i <= kMostDisbClients; ++i) many += "," + task(fmt::format("c{}_be", i), kContinuous);
  EXPECT_THAT(problem_of(mix_of(many)), HasSubstr("has 65 clients"));
}

TEST(DisbModel, IsOneOfFive) {
  EXPECT_GT(disb_model("densenet201-imagenet")->alone_ms, disb_model("distilbert")->alone_ms);
  EXPECT_EQ(disb_model("alexnet").error().code, ErrorCode::kNotFound);
}

DisbClient client(DisbClient::Load load, double per_second) {
  DisbClient made{"x_rt", "vgg19-imagenet", true, load, per_second};
  return made;
}

TEST(DisbFirstSends, SetPeriodicOnesOfOneFrequencyApart) {
  DisbMix mix;
  mix.clients = {client(DisbClient::Load::kPeriodic, 20), client(DisbClient::Load::kContinuous, 0),
                 client(DisbClient::Load::kPeriodic, 20), client(DisbClient::Load::kPeriodic, 10),
                 client(DisbClient::Load::kPoisson, 20)};
  const auto first = disb_first_sends(mix, 2);
  ASSERT_TRUE(first.ok());
  const Duration after_one{static_cast<int64_t>(disb_model("vgg19-imagenet")->alone_ms * 2 * 1e6)};
  EXPECT_THAT(*first, ElementsAre(Duration{0}, Duration{0}, after_one, Duration{0}, Duration{0}));
  mix.clients[2].model = "unknown";
  EXPECT_FALSE(disb_first_sends(mix, 2).ok());
}

TEST(DisbClock, IsPeriodicInScaledTime) {
  DisbClock clock(client(DisbClient::Load::kPeriodic, 100), Duration::millis(3), 2, 1);
  EXPECT_EQ(clock.next({0}), Duration::millis(3));
  EXPECT_EQ(clock.next(Duration::millis(4)), Duration::millis(23));
  EXPECT_EQ(clock.next(Duration::millis(50)), Duration::millis(43)) << "late, but the next is not due yet";
  EXPECT_EQ(clock.given_up(), 0u);
}

TEST(DisbClock, GivesUpWhatIsOvertaken) {
  DisbClock clock(client(DisbClient::Load::kPeriodic, 100), {0}, 1, 1);
  EXPECT_EQ(clock.next({0}), Duration{0});
  EXPECT_EQ(clock.next(Duration::millis(35)), Duration::millis(30)) << "those of 10 and 20 ms are too old";
  EXPECT_EQ(clock.given_up(), 2u);
  EXPECT_EQ(clock.next(Duration::millis(36)), Duration::millis(40));
}

TEST(DisbClock, IsPoissonByItsSeed) {
  const auto sends = [](uint64_t seed) {
    DisbClock clock(client(DisbClient::Load::kPoisson, 50), {0}, 1, seed);
    std::vector<Duration> all;
    for (int i = 0; i < 2000; ++i) all.push_back(clock.next(all.empty() ? Duration{0} : all.back()));
    EXPECT_EQ(clock.given_up(), 0u);
    return all;
  };
  const auto one = sends(1);
  EXPECT_EQ(one, sends(1));
  EXPECT_NE(one, sends(2));
  EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
  EXPECT_NEAR(static_cast<double>(one.back().ns) / 1e9, 40, 4) << "2000 at 50 a second";
}

TEST(DisbClock, IsContinuousWheneverAsked) {
  DisbClock clock(client(DisbClient::Load::kContinuous, 0), {0}, 1, 1);
  EXPECT_EQ(clock.next(Duration::millis(7)), Duration::millis(7));
  EXPECT_EQ(clock.given_up(), 0u);
}

}  // namespace
}  // namespace quern::bench
