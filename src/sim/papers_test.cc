// SPDX-License-Identifier: Apache-2.0
//
// What was published of SAGE, in the twin: the files of examples/simulate under its preset, that of what it was
// compared with, and ours. docs/papers.md says what agrees; here it is only kept that way.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "sched/policy/table.h"
#include "sim/model_file.h"
#include "sim/report.h"
#include "sim/world.h"

namespace quern::sim {
namespace {

std::string text_of(const std::string& name) {
  std::stringstream all;
  all << std::ifstream("examples/simulate/" + name).rdbuf();
  return all.str();
}

Model model_of(const std::string& workload) {
  const auto no_files = [](const std::string& path) -> Result<std::string> { return not_found(path); };
  const auto machine = parse_devices(text_of("cold.yaml"), "cold.yaml");
  const auto read = parse_workload(workload, "workload", no_files);
  EXPECT_TRUE(machine.ok() && read.ok());
  if (!machine.ok() || !read.ok()) return {};
  Model model = read->model;
  model.devices = machine->devices;
  model.host = *machine->host;
  model.pool = *machine->pool;
  return model;
}

Summary simulate(Model model, const std::string& policy) {
  model.config.policy = *sched::preset(policy);
  World world(model, 1);
  Report report(model, Duration::seconds(600));
  world.observe(report);
  return report.summary(policy, world.run());
}

TEST(Papers, ColdCallsAreAsMuchShorter) {
  const Model model = model_of(text_of("cold-calls.yaml"));
  std::map<std::string, double> mean;
  for (const char* policy : {"serial", "sage", "quern"}) {
    const Summary summary = simulate(model, policy);
    EXPECT_EQ(summary.all.done(), summary.all.requests) << policy;
    mean[policy] = summary.all.latency.mean_ns();
  }
  EXPECT_NEAR(mean["serial"], 5.36e9, 0.3e9);  // 0.4 + 4.5 + 0.33 + 0.05 + 0.08
  EXPECT_GT(mean["serial"] / mean["sage"], 9) << "11.3 were published";
  EXPECT_LT(mean["serial"] / mean["sage"], 14) << "11.3 were published";
  EXPECT_GT(mean["serial"] / mean["quern"], 15);
}

/// How many functions are served with a p95 of 22 s.
uint32_t density(const std::string& policy) {
  const std::string text = text_of("density.yaml"), copies = "copies: 34";
  const size_t at = text.find(copies);
  EXPECT_NE(at, std::string::npos);
  uint32_t least = 1, most = 128;
  while (least < most) {
    const uint32_t middle = (least + most + 1) / 2;
    std::string changed = text;
    changed.replace(at, copies.size(), "copies: " + std::to_string(middle));
    const Summary summary = simulate(model_of(changed), policy);
    if (summary.all.latency.percentile(0.95) <= Duration::seconds(22))
      least = middle;
    else
      most = middle - 1;
  }
  return least;
}

TEST(Papers, MoreFunctionsShareTheSameDevices) {
  const double serial = density("serial"), sage = density("sage"), ours = density("quern");
  EXPECT_GT(sage / serial, 1.1) << "1.22 were published";
  EXPECT_LT(sage / serial, 1.4) << "1.22 were published";
  EXPECT_GT(ours / serial, 1.5);
}

}  // namespace
}  // namespace quern::sim
