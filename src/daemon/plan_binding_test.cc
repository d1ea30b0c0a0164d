// SPDX-License-Identifier: Apache-2.0
#include "daemon/plan_binding.h"

#include <gtest/gtest.h>

namespace quern::daemon {
namespace {

// One kernel over one buffer, in ten groups.
struct World {
  DeployedFunction function;
  Plan plan;
  Binary binary;

  World() {
    auto object = std::make_shared<HostObject>();
    object->hash = "program";
    binary.programs = {{object, {}}};
    binary.unsliceable = {""};
    PlannedBuffer buffer;
    buffer.size_bytes = 4096;
    plan.buffers = {buffer};
    plan.own.places.resize(1);
    PlannedLaunch launch;
    launch.entry = "saxpy";
    launch.global = {640, 1, 1};
    launch.local = {64, 1, 1};
    launch.arguments.resize(1);
    plan.launches = {launch};
  }

  ipc::PlanBinding::Launch launch() { return bind_plan(function, plan, binary, false, {1}, {}).launches.at(0); }
};

TEST(PlanBinding, SaysWhatCanBeSliced) {
  World world;
  EXPECT_TRUE(world.launch().sliceable);
  world.binary.unsliceable = {"uses get_global_size"};
  EXPECT_FALSE(world.launch().sliceable);
  world.binary.unsliceable.clear();
  EXPECT_FALSE(world.launch().sliceable) << "nothing is known of it";
  world.binary.unsliceable = {""};
  world.plan.launches[0].local = {0, 0, 0};
  EXPECT_FALSE(world.launch().sliceable) << "the driver picks";
  world.plan.launches[0].local = {640, 1, 1};
  EXPECT_FALSE(world.launch().sliceable) << "one group";
}

TEST(PlanBinding, LaunchesThatAreAlikeAreOneKernel) {
  World world;
  const uint64_t identity = world.launch().identity;
  EXPECT_NE(identity, 0u);
  EXPECT_EQ(world.launch().identity, identity);
  const auto differs = [&](auto change) {
    World other;
    change(other);
    return other.launch().identity != identity;
  };
  EXPECT_FALSE(differs([](World& w) { w.plan.launches[0].kernel = 0, w.plan.buffers[0].first = 7; }));
  EXPECT_TRUE(differs([](World& w) { w.plan.launches[0].entry = "sgemm"; }));
  EXPECT_TRUE(differs([](World& w) { w.plan.launches[0].dimensions = 2; }));
  EXPECT_TRUE(differs([](World& w) { w.plan.launches[0].global[0] = 1280; }));
  EXPECT_TRUE(differs([](World& w) { w.plan.launches[0].local[0] = 32; }));
  EXPECT_TRUE(differs([](World& w) { w.plan.buffers[0].size_bytes = 8192; }));
  EXPECT_TRUE(differs([](World& w) {
    w.plan.launches[0].arguments[0].is_view = true;
    w.plan.launches[0].arguments[0].size_bytes = 256;
  }));
  EXPECT_TRUE(differs([](World& w) {
    auto object = std::make_shared<HostObject>();
    object->hash = "another";
    w.binary.programs[0].object = object;
  }));
}

}  // namespace
}  // namespace quern::daemon
