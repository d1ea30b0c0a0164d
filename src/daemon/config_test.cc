// SPDX-License-Identifier: Apache-2.0
#include "daemon/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/units.h"

namespace quern::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string mistakes(std::string_view text) {
  const auto config = parse_config(text, "quern.yaml");
  return config.ok() ? "" : config.error().text;
}

TEST(Config, ReadsAllKeys) {
  const auto config = parse_config(
      "devices:\n"
      "  - {name: cpu0, driver: opencl, cores: [0, 2], memory: 4GiB, context_memory: 8MiB, in_place: false, index: 1,\n"
      "     platform: Intel(R) OpenCL, library: /opt/lib/libOpenCL.so.1}\n"
      "  - {name: f, driver: fake}\n"
      "tenants: [{name: a, key_sha256: " +
          sha256("k") +
          ", domain: both, weight: 3, limits: {in_flight: 2, queued: 7, memory: 1GiB, priority: 4, "
          "quota: {time: 1.5, units: 0.25}}}]\n"
          "policy: {fairness: fifo, eviction: lru}\n",
      "quern.yaml");
  ASSERT_TRUE(config.ok()) << config.error().text;
  ASSERT_EQ(config->devices.size(), 2U);
  EXPECT_EQ(config->devices[0].name, "cpu0");
  EXPECT_THAT(config->devices[0].cores, ElementsAre(0, 2));
  EXPECT_EQ(config->devices[0].memory_bytes, 4 * kGiB);
  EXPECT_FALSE(config->devices[0].in_place);
  EXPECT_EQ(config->devices[0].index, 1U);
  EXPECT_EQ(config->devices[0].platform, "Intel(R) OpenCL");
  EXPECT_EQ(config->devices[0].library, "/opt/lib/libOpenCL.so.1");
  EXPECT_TRUE(config->devices[1].in_place);
  ASSERT_EQ(config->tenants.size(), 1U);
  EXPECT_EQ(config->tenants[0].domain, "both");
  EXPECT_EQ(config->tenants[0].weight, 3U);
  EXPECT_EQ(config->tenants[0].limits.in_flight, 2U);
  EXPECT_EQ(config->tenants[0].limits.queued, 7U);
  EXPECT_EQ(config->tenants[0].limits.memory_bytes, kGiB);
  EXPECT_EQ(config->tenants[0].limits.priority, 4U);
  EXPECT_EQ(config->tenants[0].limits.quota_time, 1.5);
  EXPECT_EQ(config->tenants[0].limits.quota_units, 0.25);
  EXPECT_EQ(config->devices[0].context_bytes, 8 * kMiB);
  EXPECT_EQ(config->policy.fairness, "fifo");
  EXPECT_EQ(config->policy.placement, "");
  EXPECT_EQ(config->policy.eviction, "lru");
}

TEST(Config, TheLeastShareIsAShare) {
  EXPECT_EQ(parse_config("pool: 1\n", "quern.yaml")->least_share, 10U);
  EXPECT_EQ(parse_config("least_share: 0\n", "quern.yaml")->least_share, 0U);
  EXPECT_EQ(parse_config("least_share: 0.05\n", "quern.yaml")->least_share, 50U);
  for (const char* wrong : {"0.5", "-0.1", "nan", "1%", ""})
    EXPECT_THAT(mistakes(std::string("pool: 1\nleast_share: '") + wrong + "'\n"),
                HasSubstr("quern.yaml:2: error: least_share '"))
        << wrong;
}

TEST(Config, APolicyMayBeAPreset) {
  const auto config = parse_config("policy: exclusive\n", "quern.yaml");
  ASSERT_TRUE(config.ok()) << config.error().text;
  EXPECT_NE(config->policy.fairness, "");
  EXPECT_NE(config->policy.placement, "");
  EXPECT_NE(config->policy.eviction, "");
}

TEST(Config, ChecksPolicies) {
  EXPECT_THAT(mistakes("policy: exclusiv"), HasSubstr("quern.yaml:1: error: policy: 'exclusiv' is none"));
  EXPECT_THAT(mistakes("policy: exclusiv"), HasSubstr("did you mean 'exclusive'?"));
  EXPECT_THAT(mistakes("policy: {fairnes: fifo}"), HasSubstr("did you mean 'fairness'?"));
  EXPECT_THAT(mistakes("policy: {fairness: luck}"), HasSubstr("policy: fairness 'luck' is none"));
  EXPECT_THAT(mistakes("policy: {placement: stiky}"), HasSubstr("did you mean 'sticky'?"));
  EXPECT_THAT(mistakes("policy: {eviction: [lru]}"), HasSubstr("eviction is a list"));
  EXPECT_THAT(mistakes("policy: [kaas]"), HasSubstr("policy: is a list"));
}

TEST(Config, EmptyFileIsTheDefault) { EXPECT_TRUE(parse_config("# nothing\n", "quern.yaml").ok()); }

TEST(Config, TellsEveryMistakeWithItsLine) {
  const auto text = mistakes(
      "devicez: []\n"
      "devices:\n"
      "  - {name: cpu0, core: [0]}\n"
      "  - {name: cpu0, memory: 4GB}\n"
      "  - {driver: opencll}\n"
      "tenants:\n"
      "  - {name: a, key_sha256: secret}\n");
  EXPECT_THAT(text, HasSubstr("quern.yaml:1: error: quern.yaml: 'devicez' is no key; did you mean 'devices'?"));
  EXPECT_THAT(text, HasSubstr("quern.yaml:3: error: device cpu0: 'core' is no key; did you mean 'cores'?"));
  EXPECT_THAT(text, HasSubstr("quern.yaml:4: error: device: name 'cpu0' is given twice"));
  EXPECT_THAT(text, HasSubstr("quern.yaml:4: error: device cpu0: memory '4GB'"));
  EXPECT_THAT(text, HasSubstr("quern.yaml:5: error: device: has no name"));
  EXPECT_THAT(text, HasSubstr("driver 'opencll' is none; did you mean 'opencl'?"));
  EXPECT_THAT(text, HasSubstr("quern.yaml:7: error: tenant a: key_sha256 is no hash"));
  EXPECT_EQ(text.find("secret"), std::string::npos);
}

TEST(Config, ChecksCores) {
  EXPECT_THAT(mistakes("devices: [{name: a, cores: [0, 0]}]"), HasSubstr("core 0 is given twice"));
  EXPECT_THAT(mistakes("devices: [{name: a, cores: []}]"), HasSubstr("cores is empty"));
  EXPECT_THAT(mistakes("devices: [{name: a, cores: 1}]"), HasSubstr("write a list"));
  EXPECT_THAT(mistakes("devices: [{name: a, cores: [-1]}]"), HasSubstr("'-1' is no whole number"));
}

TEST(Config, ChecksTenants) {
  const std::string hash = sha256("k");
  EXPECT_THAT(mistakes("tenants: [{name: a}]"), HasSubstr("has no key_sha256"));
  EXPECT_THAT(mistakes("tenants: [{name: a, key_sha256: " + hash + "}, {name: b, key_sha256: " + hash + "}]"),
              HasSubstr("is that of another tenant"));
  EXPECT_THAT(mistakes("tenants: [{name: a, weight: 0, key_sha256: " + hash + "}]"), HasSubstr("from 1 to"));
  EXPECT_THAT(mistakes("tenants: [{name: a, weight: 10001, key_sha256: " + hash + "}]"), HasSubstr("to 10000"));
  EXPECT_THAT(mistakes("tenants: []"), HasSubstr("is empty"));
  const auto limits = [&](const std::string& text) {
    return mistakes("tenants: [{name: a, key_sha256: " + hash + ", limits: " + text + "}]");
  };
  EXPECT_THAT(limits("{quued: 1}"), HasSubstr("tenant a: limits: 'quued' is no key; did you mean 'queued'?"));
  EXPECT_THAT(limits("{in_flight: 0}"), HasSubstr("tenant a: limits: in_flight: '0' is no whole number from 1 to"));
  EXPECT_THAT(limits("{memory: 4GB}"), HasSubstr("tenant a: limits: memory '4GB'"));
  EXPECT_THAT(limits("{memory: 0}"), HasSubstr("memory is 0; leave it out for no limit"));
  EXPECT_THAT(limits("{priority: 10}"), HasSubstr("priority: '10' is no whole number from 0 to 9"));
  EXPECT_THAT(limits("{quota: {time: -1}}"), HasSubstr("tenant a: limits: quota: time '-1' is no share from 0 to"));
  EXPECT_THAT(limits("{quota: {units: 1.5}}"),
              HasSubstr("quota: units '1.5' is no share from 0 to 1; write one as 0.5"));
  EXPECT_THAT(limits("{quota: {unit: 1}}"), HasSubstr("limits: quota: 'unit' is no key; did you mean 'units'?"));
  EXPECT_THAT(limits("{quota: 1}"), HasSubstr("write keys and values"));
  EXPECT_THAT(limits("7"), HasSubstr("write keys and values"));
}

TEST(Config, BrokenYamlHasItsLine) {
  EXPECT_THAT(mistakes("devices: [\n"), HasSubstr("quern.yaml:"));
  EXPECT_THAT(mistakes("- a\n"), HasSubstr("is a list"));
}

}  // namespace
}  // namespace quern::daemon
