// SPDX-License-Identifier: Apache-2.0
#include "bench/site.h"

#include <gtest/gtest.h>

#include <set>

namespace quern::bench {
namespace {

TEST(Served, CountsWhatEndedWell) {
  Served served;
  EXPECT_EQ(served.per_second(), 0);
  EXPECT_EQ(served.percentile_ms(0.95), 0);
  for (int i = 100; i > 0; --i) served.micros.push_back(i * 1000);
  served.seconds = 4;
  EXPECT_EQ(served.per_second(), 25);
  EXPECT_EQ(served.percentile_ms(0.5), 51);
  EXPECT_EQ(served.percentile_ms(0.95), 96);
  EXPECT_EQ(served.percentile_ms(1), 100);
}

TEST(Rates, MakeARunAsLongAsWanted) {
  Rates rates;
  rates.launch_ns = 1000;
  rates.iteration_ns = 2;
  EXPECT_EQ(rates.iterations_for(100, 9), 4500) << "10 us a kernel, 1 us of it to launch it";
  EXPECT_EQ(rates.iterations_for(1, 9), 1) << "there is no less";
}

TEST(Tenants, ShareADomainOrDoNot) {
  const auto apart = tenants_of(3, false), together = tenants_of(3, true);
  std::set<std::string> keys;
  for (const auto& tenant : apart) {
    EXPECT_TRUE(tenant.domain.empty()) << "its own";
    keys.insert(tenant.key_sha256);
  }
  EXPECT_EQ(keys.size(), 3u);
  for (const auto& tenant : together) EXPECT_EQ(tenant.domain, together[0].domain);
}

TEST(Policy, IsThatOfThePreset) {
  const auto serial = policy_of("serial"), ours = policy_of("quern");
  EXPECT_EQ(serial.setup, "serial");
  EXPECT_EQ(serial.exit, "at-once");
  EXPECT_EQ(ours.eviction, "cost");
}

}  // namespace
}  // namespace quern::bench
