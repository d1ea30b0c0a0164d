// SPDX-License-Identifier: Apache-2.0
#include "sim/replay.h"

#include <gtest/gtest.h>

#include "sched/text.h"
#include "sim/world.h"

namespace quern::sim {
namespace {

class Log : public Observer {
 public:
  explicit Log(const sched::Config& config) : text(sched::to_text(config) + "\n") {}
  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
               const sched::Scheduler&) override {
    text += sched::to_text(now) + " " + sched::to_text(event) + "\n";
    for (const sched::Action& action : actions) text += "  > " + sched::to_text(action) + "\n";
    ++events, all += actions.size();
  }
  std::string text;
  uint64_t events = 0, all = 0;
};

std::string log_of(uint64_t& events, uint64_t& actions) {
  Model model;
  model.devices = {DeviceModel{}};
  model.tenants = {TenantModel{}};
  model.objects = {{"o", 1 << 20}};
  FunctionModel function;
  function.objects = {0};
  function.spread = 0.3;
  model.functions = {function};
  LoadModel load;
  load.clients = 3;
  model.loads = {load};
  model.config.runs_in_flight = 1;
  model.most_requests = 20;
  World world(model, 1);
  Log log(model.config);
  world.observe(log);
  world.run();
  events = log.events, actions = log.all;
  return log.text;
}

TEST(Replay, OfWhatTheCoreDidAgrees) {
  uint64_t events = 0, actions = 0;
  const std::string log = log_of(events, actions);
  const auto replayed = replay("# a comment\n\n" + log);
  ASSERT_TRUE(replayed.ok()) << replayed.error().text;
  EXPECT_EQ(replayed->line, 0U) << replayed->difference;
  EXPECT_EQ(replayed->events, events);
  EXPECT_EQ(replayed->actions, actions);
  EXPECT_FALSE(replayed->is_cut);
}

TEST(Replay, TellsTheFirstDifference) {
  const std::string base =
      "config lanes=1\n"
      "0ms device-up d1 1GiB\n"
      "1ms submit r1 f1 t1 dom1\n";
  const auto wrong = replay(base + "  > start-executor e2 d1 dom1\n  > prepare run1 r1 e1\n2ms tick\n");
  ASSERT_TRUE(wrong.ok());
  EXPECT_EQ(wrong->line, 4U);
  EXPECT_NE(
      wrong->difference.find("of the event in line 3, action 1: the log has 'start-executor e2 d1 dom1', the core "
                             "does 'start-executor e1 d1 dom1'"),
      std::string::npos)
      << wrong->difference;
  EXPECT_EQ(wrong->events, 1U);
  const auto missing = replay(base + "2ms tick\n");
  ASSERT_TRUE(missing.ok());
  EXPECT_EQ(missing->line, 4U);
  EXPECT_NE(missing->difference.find("the log has no more"), std::string::npos);
  const auto missing_at_end = replay(base);
  ASSERT_TRUE(missing_at_end.ok());
  EXPECT_EQ(missing_at_end->line, 4U);
  const auto more = replay("0ms device-up d1 1GiB\n  > run run1 r1 e1 lane=0\n");
  ASSERT_TRUE(more.ok());
  EXPECT_EQ(more->line, 2U);
  EXPECT_NE(more->difference.find("the core does nothing more"), std::string::npos);
}

TEST(Replay, OfALogThatIsCutLeavesItsLastEventOut) {
  uint64_t events = 0, actions = 0;
  std::string log = log_of(events, actions);
  log.resize(log.size() - 3);
  const auto replayed = replay(log);
  ASSERT_TRUE(replayed.ok());
  EXPECT_EQ(replayed->line, 0U);
  EXPECT_TRUE(replayed->is_cut);
  EXPECT_EQ(replayed->events, events - 1);
}

TEST(Replay, RefusesWhatIsNoLog) {
  const auto text = [](const char* log) { return replay(log).ok() ? "" : replay(log).error().text; };
  EXPECT_EQ(text("  > run run1 r1 e1 lane=0\n"), "1: an action before the first event; a log begins with config");
  EXPECT_EQ(text("0ms tick\nconfig lanes=1\n"), "2: config comes first; cut the log in two here");
  EXPECT_EQ(text("1ms tick\n0ms tick\n"), "2: time goes backwards; a log is in order");
  EXPECT_TRUE(text("config lans=1\n").starts_with("1: "));
  EXPECT_TRUE(text("0ms dance\n").starts_with("1: "));
  const auto empty = replay("");
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->events, 0U);
}

}  // namespace
}  // namespace quern::sim
