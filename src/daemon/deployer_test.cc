// SPDX-License-Identifier: Apache-2.0
#include "daemon/deployer.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/hash.h"
#include "os/file.h"

namespace quern::daemon {
namespace {

/// A deployer without devices: what it keeps on disk, for functions that are there already and for tenants.
class DeployerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "quern_deployer_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    open();
  }
  void TearDown() override {
    deployer_.reset();
    os::remove_tree(folder_);
  }

  void open(const Config& config = {}) {
    deployer_.reset();
    auto state = State::open(folder_ + "/state");
    ASSERT_TRUE(state.ok()) << state.error().text;
    state_ = state->get();
    deployer_ = std::make_unique<Deployer>(config, folder_ + "/run", std::vector<const DeviceRecord*>{},
                                           std::move(state).value(), os::Event::create().value(), registry_, nullptr);
  }

  std::string path_of(const std::string& hash) const {
    return folder_ + "/state/objects/" + hash.substr(0, 2) + "/" + hash;
  }
  bool is_stored(const std::string& hash) const { return os::exists(path_of(hash)); }

  /// A function as a deploy leaves it; the hash of its one constant.
  std::string add_function(const std::string& name, const std::string& constant) {
    FunctionRecord record;
    record.tenant = "a";
    record.name = name;
    record.version = sha256(constant);
    record.files["function.yaml"] = *state_->objects().put(as_bytes_of("name: " + name));
    const std::string hash = *state_->objects().put(as_bytes_of(constant));
    record.constants["w"] = {hash, constant.size()};
    EXPECT_TRUE(state_->put_function(record).ok());
    auto function = std::make_shared<DeployedFunction>();
    function->tenant = record.tenant;
    function->name = record.name;
    function->version = record.version;
    function->live_settings = std::make_shared<LiveSettings>(function->manifest.settings);
    function->constants = {nullptr, std::make_shared<const Constant>(Constant{1, hash, constant.size()})};
    registry_.put(std::move(function));
    return hash;
  }

  std::string folder_;
  Registry registry_;
  State* state_ = nullptr;  ///< the deployer's: for one thread, before it works
  std::unique_ptr<Deployer> deployer_;
};

TEST_F(DeployerTest, ObjectsOfATenantAreItsOwn) {
  const auto hash = deployer_->put_object("a", as_bytes_of("tensor"));
  ASSERT_TRUE(hash.ok()) << hash.error().text;
  EXPECT_EQ(*hash, sha256("tensor"));
  EXPECT_EQ(as_text(*deployer_->get_object("a", *hash)), "tensor");
  const std::string none = "object " + *hash + ": you have none; put it first";
  for (const Error& error : {deployer_->get_object("b", *hash).error(), deployer_->drop_object("b", *hash).error()}) {
    EXPECT_EQ(error.code, ErrorCode::kNotFound);
    EXPECT_EQ(error.text, none);
  }
  EXPECT_EQ(deployer_->get_object("a", "../../state.db").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(deployer_->list_objects("b")->empty());
  const auto listed = *deployer_->list_objects("a");
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].hash, *hash);
  EXPECT_EQ(listed[0].bytes, 6u);
  EXPECT_FALSE(listed[0].created_at.empty());
}

TEST_F(DeployerTest, ObjectsStayUntilTheLastWhoHasThemDropsThem) {
  const std::string hash = *deployer_->put_object("a", as_bytes_of("tensor"));
  ASSERT_TRUE(deployer_->put_object("b", as_bytes_of("tensor")).ok());
  open();
  EXPECT_EQ(as_text(*deployer_->get_object("a", hash)), "tensor");
  ASSERT_TRUE(deployer_->drop_object("a", hash).ok());
  EXPECT_EQ(deployer_->get_object("a", hash).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(deployer_->drop_object("a", hash).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(as_text(*deployer_->get_object("b", hash)), "tensor");
  ASSERT_TRUE(deployer_->drop_object("b", hash).ok());
  EXPECT_FALSE(is_stored(hash));
}

TEST_F(DeployerTest, ADamagedObjectIsNamedUntilItIsPutAgain) {
  const std::string hash = *deployer_->put_object("a", as_bytes_of("tensor"));
  ASSERT_TRUE(os::write_file(path_of(hash), as_bytes_of("tensos")).ok());
  const auto bytes = deployer_->get_object("a", hash);
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().code, ErrorCode::kInternal);
  EXPECT_NE(bytes.error().text.find(hash), std::string::npos) << bytes.error().text;
  ASSERT_TRUE(deployer_->put_object("a", as_bytes_of("tensor")).ok());
  EXPECT_EQ(as_text(*deployer_->get_object("a", hash)), "tensor");
}

TEST_F(DeployerTest, WhatIsPutIsNotCollectedBeforeItsRecord) {
  // Each drop collects, while the other is between the bytes and the record of the same object.
  const auto put_and_drop = [&](const std::string& tenant) {
    for (int i = 0; i < 100; ++i) {
      const auto hash = deployer_->put_object(tenant, as_bytes_of("tensor"));
      ASSERT_TRUE(hash.ok()) << hash.error().text;
      const auto bytes = deployer_->get_object(tenant, *hash);
      ASSERT_TRUE(bytes.ok()) << bytes.error().text;
      ASSERT_TRUE(deployer_->drop_object(tenant, *hash).ok());
    }
  };
  {
    os::Thread one("one", [&] { put_and_drop("a"); });
    os::Thread two("two", [&] { put_and_drop("b"); });
  }
  EXPECT_FALSE(is_stored(sha256("tensor")));
}

TEST_F(DeployerTest, FunctionsAskForNoMoreThanTheOperatorLetsTheirTenant) {
  Config config;
  config.tenants.resize(1);
  config.tenants[0].name = "a";
  config.tenants[0].limits.quota_time = config.tenants[0].limits.quota_units = 0.5;
  open(config);
  add_function("one", "1");
  add_function("two", "2");
  const auto set = [&](const char* name, const char* time, const char* units) {
    return deployer_->set("a", name, {{"quota.time.request", time}, {"quota.units", units}});
  };
  ASSERT_TRUE(set("one", "0.3", "0.5").ok());
  const auto sum = set("two", "0.3", "0.5");
  ASSERT_FALSE(sum.ok());
  EXPECT_EQ(sum.error().code, ErrorCode::kDenied);
  EXPECT_EQ(sum.error().text,
            "function two: asks for 30 % of a device's time, and others of tenant a for 30 %; 50 % is what it may ask "
            "for in all; lower quota.time.request, or that of others");
  const auto units = set("two", "", "0.75");
  ASSERT_FALSE(units.ok());
  EXPECT_EQ(units.error().text,
            "function two: asks for 75 % of a device's units, and a function of tenant a may have 50 %; lower "
            "quota.units");
  EXPECT_EQ(set("two", "0.1", "").error().code, ErrorCode::kDenied) << "that time of all units";
  EXPECT_FALSE(registry_.current("a", "two")->settings().time_request) << "what is refused changes nothing";
  EXPECT_TRUE(set("two", "0.2", "0.5").ok()) << "all there is";
  EXPECT_TRUE(set("one", "", "").ok());
  EXPECT_TRUE(set("two", "0.5", "0.5").ok()) << "what the other gave back";
}

TEST_F(DeployerTest, AVersionThatACallHoldsKeepsItsConstants) {
  const std::string idle = add_function("idle", "weights of idle");
  const std::string busy = add_function("busy", "weights of busy");
  DeployedRef call = registry_.current("a", "busy");
  ASSERT_TRUE(deployer_->remove("a", "idle").ok());
  EXPECT_FALSE(is_stored(idle));
  ASSERT_TRUE(deployer_->remove("a", "busy").ok());
  EXPECT_TRUE(is_stored(busy)) << "the call may still have to load it";
  const std::string other = *deployer_->put_object("a", as_bytes_of("tensor"));
  call = nullptr;
  ASSERT_TRUE(deployer_->drop_object("a", other).ok());
  EXPECT_FALSE(is_stored(busy)) << "gone with the next collection";
}

}  // namespace
}  // namespace quern::daemon
