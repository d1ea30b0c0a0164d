// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <stdlib.h>

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/hash.h"
#include "daemon/state.h"
#include "os/file.h"

namespace quern::daemon {
namespace {

class StateCollectTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "quern_state_collect_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { os::remove_tree(folder_); }

  std::unique_ptr<State> open() {
    auto state = State::open(folder_);
    if (!state.ok()) ADD_FAILURE() << state.error().text;
    return std::move(state).value();
  }
  static ConstantRecord constant(State& state, const std::string& bytes) {
    return {*state.objects().put(as_bytes_of(bytes)), bytes.size()};
  }
  static FunctionRecord function(State& state, const std::string& tenant, const std::string& name,
                                 const std::string& source) {
    FunctionRecord record;
    record.tenant = tenant;
    record.name = name;
    record.version = sha256(source);
    record.files = {{"function.yaml", *state.objects().put(as_bytes_of("name: " + name))},
                    {"src/kernel.cl", *state.objects().put(as_bytes_of(source))}};
    record.constants = {{"w", constant(state, "weights of " + source)}};
    return record;
  }

  std::string folder_;
};

TEST_F(StateCollectTest, ACollectionOfTheReleasedTouchesNoOtherObject) {
  auto state = open();
  FunctionRecord one = function(*state, "a", "saxpy", "one"), two = function(*state, "a", "saxpy", "two");
  const ConstantRecord shared = constant(*state, "shared");
  one.constants["v"] = two.constants["v"] = shared;
  ASSERT_TRUE(state->put_function(one).ok());
  ASSERT_TRUE(state->put_function(two).ok());
  const std::string unnamed = *state->objects().put(as_bytes_of("no record names this"));
  const auto released = [&](const std::set<std::string>& also) {
    const auto aside = state->collect_released(also);
    EXPECT_TRUE(aside.ok());
    return aside.ok() ? aside->size() : 0;
  };
  EXPECT_EQ(released({}), 0u) << "no change took a record away";

  ASSERT_TRUE(state->remove_version("a", "saxpy", one.version).ok());
  EXPECT_EQ(released({one.constants.at("w").object}), 1u) << "the source alone";
  EXPECT_FALSE(state->objects().has(one.files.at("src/kernel.cl")));
  EXPECT_TRUE(state->objects().has(one.constants.at("w").object)) << "a call that runs may need it";
  EXPECT_TRUE(state->objects().has(shared.object)) << "the other version names it";
  EXPECT_EQ(released({}), 1u);
  EXPECT_FALSE(state->objects().has(one.constants.at("w").object));

  // The same version with another source, as where only a comment of the manifest differs.
  const std::string old_source = two.files.at("src/kernel.cl");
  two.files["src/kernel.cl"] = *state->objects().put(as_bytes_of("two, with a comment"));
  ASSERT_TRUE(state->put_function(two).ok());
  EXPECT_EQ(released({}), 1u);
  EXPECT_FALSE(state->objects().has(old_source));
  ASSERT_TRUE(*state->remove_function("a", "saxpy"));
  EXPECT_EQ(released({}), 4u) << "two sources and two constants";

  const std::string binary = *state->objects().put(as_bytes_of("binary"));
  ASSERT_TRUE(state->put_binary({"key", binary, {}}).ok());
  ASSERT_TRUE(state->put_binary({"key", *state->objects().put(as_bytes_of("built again")), {}}).ok());
  ASSERT_TRUE(state->put_tenant_object("a", sha256("built again"), 11, "then").ok());
  ASSERT_TRUE(state->remove_tenant_object("a", sha256("built again")).ok());
  EXPECT_EQ(released({}), 1u);
  EXPECT_FALSE(state->objects().has(binary));
  EXPECT_TRUE(state->objects().has(sha256("built again"))) << "the record of a binary names it";

  EXPECT_TRUE(state->objects().has(unnamed));
  state = nullptr;
  EXPECT_FALSE(open()->objects().has(unnamed)) << "the start looks through the whole store";
}

}  // namespace
}  // namespace quern::daemon
