// SPDX-License-Identifier: Apache-2.0
#include "daemon/request_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::daemon {
namespace {

using testing::ElementsAre;

class RequestListTest : public testing::Test {
 protected:
  RequestListTest() {
    a_.id = 1;
    a_.name = "a";
    b_.id = 2;
    b_.name = "b";
    auto function = std::make_shared<DeployedFunction>();
    function->name = "saxpy";
    function_ = function;
  }

  std::unique_ptr<LiveCall> call(const Tenant& tenant, std::string id) {
    auto call = std::make_unique<LiveCall>();
    call->id = std::move(id);
    call->tenant = &tenant;
    call->function = function_;
    call->times.submitted = {100};
    call->times.answered = {250};
    return call;
  }

  std::vector<std::string> ids(const Tenant& tenant) const {
    std::vector<std::string> ids;
    for (const auto& one : list_.list(tenant, {1000}, where)) ids.push_back(one.id + " " + one.state);
    return ids;
  }

  static RequestList::Whereabouts where(const LiveCall&) { return {"queued", ""}; }

  Tenant a_, b_;
  DeployedRef function_;
  RequestList list_{2};
};

TEST_F(RequestListTest, OldestFirstThenTheLatestThatEnded) {
  auto one = call(a_, "1"), two = call(a_, "2"), three = call(a_, "3"), four = call(a_, "4");
  for (auto* each : {&one, &two, &three, &four}) list_.add(**each);
  EXPECT_THAT(ids(a_), ElementsAre("1 queued", "2 queued", "3 queued", "4 queued"));
  list_.end(*two, sched::End::kDone, "cpu0");   // from the middle
  list_.end(*four, sched::End::kDone, "cpu0");  // the newest
  list_.end(*one, sched::End::kCancelled, "");  // the oldest
  EXPECT_THAT(ids(a_), ElementsAre("3 queued", "1 ended", "4 ended", "2 ended"));
  const auto all = list_.list(a_, {1000}, where);
  EXPECT_EQ(all[0].function, "saxpy");
  EXPECT_EQ(all[0].tenant, "a");
  EXPECT_EQ(all[0].age.ns, 900);
  EXPECT_EQ(all[0].end, "");
  EXPECT_EQ(all[1].end, "cancelled");
  EXPECT_EQ(all[1].device, "");
  EXPECT_EQ(all[2].device, "cpu0");
  EXPECT_EQ(all[2].took.ns, 150);
  list_.end(*three, sched::End::kDone, "");
  EXPECT_THAT(ids(a_), ElementsAre("3 ended", "1 ended", "4 ended", "2 ended"));
}

TEST_F(RequestListTest, EachTenantSeesItsOwn) {
  auto one = call(a_, "1"), two = call(b_, "2");
  list_.add(*one);
  list_.add(*two);
  EXPECT_THAT(ids(b_), ElementsAre("2 queued"));
  list_.end(*one, sched::End::kDone, "cpu0");
  EXPECT_THAT(ids(a_), ElementsAre("1 ended"));
  EXPECT_THAT(ids(b_), ElementsAre("2 queued"));
  list_.clear();
  EXPECT_THAT(ids(b_), ElementsAre());
}

TEST_F(RequestListTest, IsBounded) {
  std::vector<std::unique_ptr<LiveCall>> calls;
  const size_t many = RequestList::kMostListed + 10;
  for (size_t i = 0; i < many; ++i) list_.add(*calls.emplace_back(call(a_, std::to_string(i))));
  EXPECT_EQ(ids(a_).size(), RequestList::kMostListed);
  for (auto& one : calls) list_.end(*one, sched::End::kDone, "");
  const auto left = ids(a_);
  EXPECT_EQ(left.size(), RequestList::kMostEnded);
  EXPECT_EQ(left.front(), std::to_string(many - 1) + " ended");
  EXPECT_EQ(left.back(), std::to_string(many - RequestList::kMostEnded) + " ended");
}

}  // namespace
}  // namespace quern::daemon
