// SPDX-License-Identifier: Apache-2.0
#include "daemon/accounts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace quern::daemon {
namespace {

Time ms(int64_t since) { return Time{1'000'000'000} + Duration::millis(since); }

TEST(Accounts, SumsAreTheSameHoweverTheyAreGrouped) {
  Accounts accounts(2, ms(0));
  accounts.of("a", "mill", "cpu0").device_time_ns = 5;
  accounts.of("a", "mill", "cpu1").device_time_ns = 7;
  accounts.of("a", "bake", "cpu0").device_time_ns = 11;
  accounts.of("a", "bake", "").failed = 3;
  accounts.of("b", "mill", "cpu0").device_time_ns = 1000;
  for (const AccountBy by : {AccountBy::kTenant, AccountBy::kFunction, AccountBy::kDevice}) {
    const AccountTable table = accounts.table("a", by, ms(9));
    uint64_t sum = 0, failed = 0;
    for (const auto& row : table.rows) sum += row.account.device_time_ns, failed += row.account.failed;
    EXPECT_EQ(sum, 23U) << name_of(by);
    EXPECT_EQ(failed, 3U);
    EXPECT_EQ(table.total.device_time_ns, 23U);
    EXPECT_EQ(table.age, Duration::millis(9));
  }
}

TEST(Accounts, RowsHaveTheNamesThatWereAskedFor) {
  Accounts accounts(1, ms(0));
  accounts.of("a", "mill", "cpu1").runs = 2;
  accounts.of("a", "mill", "cpu0").runs = 1;
  accounts.of("a", "bake", "").failed = 1;
  const AccountTable functions = accounts.table("a", AccountBy::kFunction, ms(0));
  ASSERT_EQ(functions.rows.size(), 2U);
  EXPECT_EQ(functions.rows[0].function, "bake");
  EXPECT_EQ(functions.rows[1].function, "mill");
  EXPECT_EQ(functions.rows[1].account.runs, 3U);
  EXPECT_EQ(functions.rows[1].device, "");
  const AccountTable devices = accounts.table("a", AccountBy::kDevice, ms(0));
  ASSERT_EQ(devices.rows.size(), 3U);
  EXPECT_EQ(devices.rows[0].device, "-");
  EXPECT_EQ(devices.rows[0].account.failed, 1U);
  EXPECT_EQ(devices.rows[2].device, "cpu1");
  EXPECT_EQ(devices.rows[2].function, "");
  const AccountTable tenant = accounts.table("a", AccountBy::kTenant, ms(0));
  ASSERT_EQ(tenant.rows.size(), 1U);
  EXPECT_EQ(tenant.rows[0].tenant, "a");
  EXPECT_TRUE(accounts.table("b", AccountBy::kTenant, ms(0)).rows.empty()) << "who never called has no account";
}

TEST(Accounts, OfTooManyFunctionsTheRestIsOneRowAndTheSumIsRight) {
  constexpr size_t kTenants = 64, kEach = Accounts::kMostRows / kTenants;
  Accounts accounts(kTenants, ms(0));
  for (size_t i = 0; i < kEach + 100; ++i) accounts.of("a", fmt::format("f{}", i), "cpu0").runs += 1;
  const AccountTable table = accounts.table("a", AccountBy::kFunction, ms(0));
  EXPECT_EQ(table.rows.size(), kEach + 1);
  EXPECT_EQ(table.total.runs, kEach + 100);
  EXPECT_EQ(accounts.of("a", Accounts::kOthers, "cpu0").runs, 100U);
  // Those that have a row keep it, and another tenant has its own share.
  accounts.of("a", "f0", "cpu0").runs += 1;
  EXPECT_EQ(accounts.of("a", "f0", "cpu0").runs, 2U);
  accounts.of("b", "f0", "cpu0").runs = 9;
  EXPECT_EQ(accounts.table("b", AccountBy::kFunction, ms(0)).rows.at(0).function, "f0");
}

TEST(Accounts, ARowStaysWhereItIs) {
  Accounts accounts(1, ms(0));
  Account& first = accounts.of("a", "mill", "cpu0");
  for (int i = 0; i < 1000; ++i) accounts.of("a", fmt::format("f{}", i), "cpu0");
  EXPECT_EQ(&accounts.of("a", "mill", "cpu0"), &first);
}

TEST(Accounts, ByWhatIsSpelledOut) {
  EXPECT_EQ(*parse_account_by("tenant"), AccountBy::kTenant);
  EXPECT_EQ(*parse_account_by("device"), AccountBy::kDevice);
  const auto wrong = parse_account_by("functoin");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, ErrorCode::kInvalid);
  EXPECT_NE(wrong.error().text.find("did you mean 'function'?"), std::string::npos) << wrong.error().text;
}

TEST(Accounts, WaitsAreAddedByCause) {
  Waits waits;
  waits.add(Cause::kSetup, Duration::millis(2));
  waits.add(Cause::kSetup, Duration{-5});
  waits.add_urgent("quick", Duration::millis(3));
  Account account;
  account.add(waits);
  account.add(waits);
  EXPECT_EQ(account.waited_ns[static_cast<size_t>(Cause::kSetup)], 4'000'000U);
  EXPECT_EQ(account.waited_ns[static_cast<size_t>(Cause::kUrgent)], 6'000'000U);
  EXPECT_EQ(account.waited_ns[static_cast<size_t>(Cause::kQueue)], 0U);
}

TEST(Waits, NamesOfTheUrgentAreFewAndTheirSumIsRight) {
  Waits waits;
  for (int i = 0; i < 40; ++i) waits.add_urgent(fmt::format("f{}", i), Duration{10});
  waits.add_urgent("f0", Duration{5});
  EXPECT_EQ(waits.urgent.size(), Waits::kMostNamed);
  EXPECT_EQ(waits.urgent.front().time.ns, 15);
  EXPECT_EQ(waits.urgent.back().function, "");
  EXPECT_EQ(waits.of(Cause::kUrgent).ns, 405);
  Waits twice = waits;
  twice.add(waits);
  EXPECT_EQ(twice.of(Cause::kUrgent).ns, 810);
  EXPECT_EQ(twice.urgent.size(), Waits::kMostNamed);
  int64_t sum = 0;
  for (const auto& one : twice.urgent) sum += one.time.ns;
  EXPECT_EQ(sum, 810);
}

TEST(Turns, AWaitIsDividedByWhoHadPlacesMeanwhile) {
  Turns turns(2);
  turns.begin(1, ms(0));  // long before anyone asks
  const Turns::Mark mark = turns.mark(1, ms(1000));
  turns.end(1, ms(1010));
  turns.begin(2, ms(1010));
  Waits waits;
  ASSERT_TRUE(turns.divide(1, mark, ms(1040), Duration::millis(40), false, waits));
  EXPECT_EQ(waits.of(Cause::kQueue), Duration::millis(10));
  EXPECT_EQ(waits.of(Cause::kFairness), Duration::millis(30));
}

TEST(Turns, AloneIsQueueAndAmongOthersIsFairness) {
  Turns turns(3);
  turns.begin(1, ms(0));
  Waits own, others;
  ASSERT_TRUE(turns.divide(1, turns.mark(1, ms(0)), ms(10), Duration::millis(10), false, own));
  EXPECT_EQ(own.of(Cause::kQueue), Duration::millis(10));
  EXPECT_EQ(own.of(Cause::kFairness).ns, 0);
  turns.begin(2, ms(5));  // tenant 3 waits for both
  ASSERT_TRUE(turns.divide(3, turns.mark(3, ms(0)), ms(10), Duration::millis(10), false, others));
  EXPECT_EQ(others.of(Cause::kFairness), Duration::millis(10));
}

TEST(Turns, OnesOwnPlaceIsNotWaitedFor) {
  Turns turns(2);
  turns.begin(1, ms(0));
  Waits waits;
  EXPECT_FALSE(turns.divide(1, turns.mark(1, ms(0)), ms(10), Duration::millis(10), true, waits));
  EXPECT_EQ(waits.of(Cause::kQueue).ns, 0);
  turns.begin(2, ms(0));
  ASSERT_TRUE(turns.divide(1, Turns::Mark{ms(0), 0, 0}, ms(10), Duration::millis(4), true, waits));
  EXPECT_EQ(waits.of(Cause::kFairness), Duration::millis(4));
}

TEST(Turns, WhereNobodyHasAPlaceNothingIsAdded) {
  Turns turns(1);
  Waits waits;
  EXPECT_FALSE(turns.divide(1, turns.mark(1, ms(0)), ms(10), Duration::millis(10), false, waits));
}

TEST(RunWaits, AClosedGateCountsFromThePushOn) {
  RunWaits waits;
  waits.closed_at = ms(10);
  waits.closed_for = "quick";
  EXPECT_EQ(waits.at_gate(ms(20)).gated().ns, 0) << "it is still being set up";
  waits.pushed.at = ms(15);
  EXPECT_EQ(waits.at_gate(ms(20)).of(Cause::kUrgent), Duration::millis(5));
  EXPECT_EQ(waits.at_gate(ms(20)).urgent.at(0).function, "quick");
  waits.gate = waits.at_gate(ms(20));
  waits.closed_at = ms(20);
  waits.closed_by = Cause::kQuota;
  EXPECT_EQ(waits.at_gate(ms(27)).of(Cause::kQuota), Duration::millis(7));
  EXPECT_EQ(waits.at_gate(ms(27)).gated(), Duration::millis(12));
}

TEST(RunWaits, WhatItWaitedForAtItsGateItDidNotWaitForBehindOthers) {
  RunWaits waits;
  waits.pushed.at = ms(10);
  waits.closed_at = ms(5);
  waits.settle(ms(14));
  waits.closed_at = Time{0};  // open
  EXPECT_EQ(waits.open_between(ms(10), ms(20), ms(50)), Duration::millis(6));
  // Its first kernel began at 20: what comes later is another matter.
  waits.closed_at = ms(30);
  EXPECT_EQ(waits.open_between(ms(10), ms(20), ms(50)), Duration::millis(6));
  EXPECT_EQ(waits.open_between(ms(10), ms(40), ms(50)), Duration::millis(16));
  EXPECT_EQ(waits.at_gate(ms(50)).gated(), Duration::millis(24));
  for (int i = 0; i < 1000; ++i) waits.settle(ms(60 + i));
  EXPECT_EQ(waits.spans.size(), RunWaits::kMostSpans);
}

TEST(Uncovered, IsWhatNoSpanHas) {
  EXPECT_EQ(uncovered(ms(0), ms(10), {}), Duration::millis(10));
  EXPECT_EQ(uncovered(ms(0), ms(10), {{ms(-5), ms(20)}}).ns, 0);
  EXPECT_EQ(uncovered(ms(0), ms(10), {{ms(6), ms(8)}, {ms(-3), ms(2)}, {ms(7), ms(9)}}), Duration::millis(5));
  EXPECT_EQ(uncovered(ms(0), ms(10), {{ms(12), ms(14)}}), Duration::millis(10));
  EXPECT_EQ(uncovered(ms(10), ms(10), {{ms(0), ms(4)}}).ns, 0);
}

}  // namespace
}  // namespace quern::daemon
