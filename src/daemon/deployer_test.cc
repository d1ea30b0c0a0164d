// SPDX-License-Identifier: Apache-2.0
#include "daemon/deployer.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <future>
#include <semaphore>

#include "base/hash.h"
#include "function/tar.h"
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

  void open(Config config = {}) {
    deployer_.reset();
    config.state_folder = folder_ + "/state";
    auto state = State::open(folder_ + "/state", config.before_disk);
    ASSERT_TRUE(state.ok()) << state.error().text;
    state_ = state->get();
    deployer_ = std::make_unique<Deployer>(config, folder_ + "/run", std::vector<const DeviceRecord*>{},
                                           std::move(state).value(), os::Event::create().value(), registry_, nullptr,
                                           counters_);
  }

  std::string path_of(const std::string& hash) const {
    return folder_ + "/state/objects/" + hash.substr(0, 2) + "/" + hash;
  }
  /// Files in the store that are no objects yet, or none any more.
  size_t temporaries() const {
    size_t count = 0;
    for (const std::string& name : os::list_folder(folder_ + "/state/objects")) count += name.ends_with(".tmp");
    return count;
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

  /// What `ask` is told.
  template <class T, class Ask>
  static Result<T> wait_for(Ask ask) {
    std::promise<Result<T>> promise;
    ask([&](Result<T> told) { promise.set_value(std::move(told)); });
    return promise.get_future().get();
  }
  static Status write(Upload& upload, std::span<const std::byte> bytes) {
    const auto written =
        wait_for<Bytes>([&](auto done) { upload.write(Bytes(bytes.begin(), bytes.end()), std::move(done)); });
    return written.ok() ? Status() : Status(written.error());
  }
  Result<std::string> put_object(const std::string& tenant, std::span<const std::byte> bytes) {
    QUERN_TRY(auto upload, deployer_->begin_object(tenant, bytes.size()));
    QUERN_TRY(write(*upload, bytes));
    QUERN_TRY(const ConstantRecord stored, deployer_->put_object(tenant, std::move(upload)));
    return stored.object;
  }
  Result<Bytes> get_object(const std::string& tenant, const std::string& hash) {
    QUERN_TRY(const uint64_t size, deployer_->object_bytes(tenant, hash));
    QUERN_TRY(const os::Fd file, os::create_file(folder_ + "/copy-" + tenant));
    QUERN_TRY(deployer_->copy_object(hash, size, file));
    return os::read_file(folder_ + "/copy-" + tenant);
  }
  Result<DeployedRef> set_settings(const std::string& name, std::map<std::string, std::string> changes) {
    return wait_for<DeployedRef>([&](auto done) { deployer_->set("a", name, std::move(changes), std::move(done)); });
  }
  Result<std::vector<DeployedRef>> remove(const std::string& name) {
    return wait_for<std::vector<DeployedRef>>([&](auto done) { deployer_->remove("a", name, std::move(done)); });
  }
  Result<Deployed> deploy(const std::string& id, const std::string& name, std::span<const std::byte> tar) {
    QUERN_TRY(auto upload, deployer_->begin_deploy("a", tar.size()));
    QUERN_TRY(write(*upload, tar));
    return wait_for<Deployed>([&](auto done) { deployer_->deploy("a", id, name, std::move(upload), std::move(done)); });
  }

  std::string folder_;
  LiveCounters counters_;
  Registry registry_;
  State* state_ = nullptr;  ///< the deployer's: for one thread, before it works
  std::unique_ptr<Deployer> deployer_;
};

TEST_F(DeployerTest, ObjectsOfATenantAreItsOwn) {
  const auto hash = put_object("a", as_bytes_of("tensor"));
  ASSERT_TRUE(hash.ok()) << hash.error().text;
  EXPECT_EQ(*hash, sha256("tensor"));
  EXPECT_EQ(as_text(*get_object("a", *hash)), "tensor");
  const std::string none = "object " + *hash + ": you have none; put it first";
  for (const Error& error : {get_object("b", *hash).error(), deployer_->drop_object("b", *hash).error()}) {
    EXPECT_EQ(error.code, ErrorCode::kNotFound);
    EXPECT_EQ(error.text, none);
  }
  EXPECT_EQ(get_object("a", "../../state.db").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(deployer_->list_objects("b")->empty());
  const auto listed = *deployer_->list_objects("a");
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].hash, *hash);
  EXPECT_EQ(listed[0].bytes, 6u);
  EXPECT_FALSE(listed[0].created_at.empty());
}

TEST_F(DeployerTest, ObjectsStayUntilTheLastWhoHasThemDropsThem) {
  const std::string hash = *put_object("a", as_bytes_of("tensor"));
  ASSERT_TRUE(put_object("b", as_bytes_of("tensor")).ok());
  open();
  EXPECT_EQ(as_text(*get_object("a", hash)), "tensor");
  ASSERT_TRUE(deployer_->drop_object("a", hash).ok());
  EXPECT_EQ(get_object("a", hash).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(deployer_->drop_object("a", hash).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(as_text(*get_object("b", hash)), "tensor");
  ASSERT_TRUE(deployer_->drop_object("b", hash).ok());
  EXPECT_FALSE(is_stored(hash));
}

TEST_F(DeployerTest, ADamagedObjectIsNamedUntilItIsPutAgain) {
  const std::string hash = *put_object("a", as_bytes_of("tensor"));
  ASSERT_TRUE(os::write_file(path_of(hash), as_bytes_of("tensos")).ok());
  const auto bytes = get_object("a", hash);
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().code, ErrorCode::kInternal);
  EXPECT_NE(bytes.error().text.find(hash), std::string::npos) << bytes.error().text;
  ASSERT_TRUE(put_object("a", as_bytes_of("tensor")).ok());
  EXPECT_EQ(as_text(*get_object("a", hash)), "tensor");
}

TEST_F(DeployerTest, WhatIsPutIsNotCollectedBeforeItsRecord) {
  // Each drop collects, while the other is between the bytes and the record of the same object.
  const auto put_and_drop = [&](const std::string& tenant) {
    for (int i = 0; i < 100; ++i) {
      const auto hash = put_object(tenant, as_bytes_of("tensor"));
      ASSERT_TRUE(hash.ok()) << hash.error().text;
      const auto bytes = get_object(tenant, *hash);
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
    return set_settings(name, {{"quota.time.request", time}, {"quota.units", units}});
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

TEST_F(DeployerTest, WhatAFunctionThatIsNotReadyAsksForIsNotTakenForNothing) {
  Config config;
  config.tenants.resize(1);
  config.tenants[0].name = "a";
  config.tenants[0].limits.quota_time = 0.5;
  open(config);
  add_function("one", "1");
  const auto set = [&](const char* time) {
    return set_settings("one", {{"quota.time.request", time}, {"quota.units", "0.5"}});
  };
  registry_.announce("a", "two", VersionSlot{sha256("two"), "then", 1, 1, nullptr, unavailable("is being made ready")});
  const auto early = set("0.3");
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(early.error().text,
            "function one: asks for 30 % of a device's time, and what function two asks for is not known while it is "
            "being made ready; retry in a moment");
  registry_.fail("a", "two", sha256("two"), internal("is damaged"));
  const auto late = set("0.3");
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(late.error().text.find("damaged; deploy that function again, or remove it"), std::string::npos);
  EXPECT_TRUE(set("").ok()) << "asks for nothing";
  registry_.announce("b", "three", VersionSlot{sha256("3"), "then", 1, 1, nullptr, unavailable("is being made ready")});
  registry_.remove("a", "two");
  EXPECT_TRUE(set("0.5").ok()) << "what another tenant has does not count";
}

TEST_F(DeployerTest, AVersionThatACallHoldsKeepsItsConstants) {
  const std::string idle = add_function("idle", "weights of idle");
  const std::string busy = add_function("busy", "weights of busy");
  DeployedRef call = registry_.current("a", "busy");
  ASSERT_TRUE(remove("idle").ok());
  EXPECT_FALSE(is_stored(idle));
  ASSERT_TRUE(remove("busy").ok());
  EXPECT_TRUE(is_stored(busy)) << "the call may still have to load it";
  const std::string other = *put_object("a", as_bytes_of("tensor"));
  call = nullptr;
  ASSERT_TRUE(deployer_->drop_object("a", other).ok());
  EXPECT_FALSE(is_stored(busy)) << "gone with the next collection";
}

TEST_F(DeployerTest, ARemovalLooksAtNoFileOfOthers) {
  const std::string unnamed = *state_->objects().put(as_bytes_of("no record names this"));
  const std::string constant = add_function("one", "weights");
  const std::string object = *put_object("a", as_bytes_of("tensor"));
  ASSERT_TRUE(deployer_->drop_object("a", object).ok());
  EXPECT_FALSE(is_stored(object));
  ASSERT_TRUE(remove("one").ok());
  EXPECT_FALSE(is_stored(constant));
  // A put whose record fails takes its own bytes away again, and nothing else.
  ASSERT_TRUE(state_
                  ->execute_for_test("CREATE TRIGGER full BEFORE INSERT ON tenant_objects "
                                     "BEGIN SELECT RAISE(ABORT, 'no space'); END")
                  .ok());
  EXPECT_FALSE(put_object("a", as_bytes_of("for nothing")).ok());
  EXPECT_FALSE(is_stored(sha256("for nothing")));
  EXPECT_TRUE(is_stored(unnamed)) << "the whole store is looked through at the start alone";
  open();
  EXPECT_FALSE(is_stored(unnamed));
}

TEST_F(DeployerTest, ADiskThatBlocksHoldsUpNobodyElse) {
  std::counting_semaphore<> is_blocked{0}, may_go{0};
  std::atomic<bool> blocks{false};
  Config config;
  config.before_disk = [&] {
    if (!blocks.exchange(false)) return;
    is_blocked.release();
    may_go.acquire();
  };
  open(config);
  add_function("one", "1");
  auto upload = deployer_->begin_object("a", 6);
  ASSERT_TRUE(upload.ok());
  blocks = true;
  std::promise<Result<Bytes>> written;
  (*upload)->write(Bytes(6), [&](Result<Bytes> piece) { written.set_value(std::move(piece)); });
  is_blocked.acquire();
  // The disk has the bytes of one, and all others go on.
  EXPECT_TRUE(set_settings("one", {{"priority", "3"}}).ok());
  EXPECT_TRUE(registry_.find("a", "one", "").ok());
  EXPECT_TRUE(put_object("b", as_bytes_of("tensor")).ok());
  EXPECT_TRUE(remove("one").ok());
  may_go.release();
  ASSERT_TRUE(written.get_future().get().ok());
  EXPECT_TRUE(deployer_->put_object("a", *std::move(upload)).ok());
}

TEST_F(DeployerTest, ManyChangesOfOneTenantDoNotDelayThoseOfAnother) {
  add_function("one", "1");
  std::binary_semaphore has_begun{0}, may_go{0};
  deployer_->history("a", "one", [&](const Result<History>&) {
    has_begun.release();
    may_go.acquire();
  });
  has_begun.acquire();
  // The thread of the state is busy, and what is asked for waits.
  constexpr int kMany = 200;
  std::string order;
  for (int i = 0; i < kMany; ++i)
    deployer_->set("a", "one", {{"priority", "3"}}, [&](const Result<DeployedRef>&) { order += 'a'; });
  deployer_->set("b", "none", {{"priority", "3"}}, [&](const Result<DeployedRef>&) { order += 'b'; });
  may_go.release();
  ASSERT_TRUE(set_settings("one", {{"priority", "3"}}).ok());
  EXPECT_EQ(order.size(), kMany + 1u);
  EXPECT_EQ(order.find('b'), 1u) << "one tenant's turn comes after one change of the other";
}

TEST_F(DeployerTest, SettingsAreChangedTogetherOrNotAtAll) {
  add_function("one", "1");
  ASSERT_TRUE(set_settings("one", {{"priority", "3"}}).ok());
  // A disk that fails within: the second record of the history is refused.
  ASSERT_TRUE(state_->atomically([&]() -> Status { return {}; }).ok());
  ASSERT_TRUE(state_
                  ->execute_for_test("CREATE TRIGGER full BEFORE INSERT ON history WHEN NEW.what LIKE 'set quota%' "
                                     "BEGIN SELECT RAISE(ABORT, 'no space'); END")
                  .ok());
  const auto failed = set_settings("one", {{"limits.timeout", "2s"}, {"priority", "7"}, {"quota.units", "0.5"}});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().text.find(folder_), std::string::npos) << failed.error().text;
  EXPECT_EQ(*state_->settings("a", "one"), (std::map<std::string, std::string>{{"priority", "3"}}));
  EXPECT_EQ(registry_.current("a", "one")->settings().priority, 3);
}

TEST_F(DeployerTest, UploadsAndStoredBytesAreBounded) {
  Config config;
  config.tenants.resize(2);
  config.tenants[0].name = "a";
  config.tenants[0].limits.storage_bytes = 100;
  config.tenants[1].name = "b";
  config.storage_bytes = 150;
  open(config);
  ASSERT_TRUE(put_object("a", Bytes(60, std::byte{1})).ok());
  const auto refused = deployer_->begin_object("a", 41);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kExhausted);
  EXPECT_EQ(refused.error().text,
            "tenant a: stores or uploads 60B, may have 100B, and this is 41B; remove objects or functions, or raise "
            "limits.storage");
  EXPECT_FALSE(deployer_->begin_object("a", UINT64_MAX).ok());
  {
    // What is only announced counts, too.
    const auto announced = deployer_->begin_deploy("a", 40);
    ASSERT_TRUE(announced.ok());
    EXPECT_FALSE(deployer_->begin_object("a", 1).ok());
    EXPECT_TRUE(deployer_->begin_object("b", 50).ok());
    EXPECT_FALSE(deployer_->begin_object("b", 51).ok()) << "all together";
  }
  ASSERT_TRUE(deployer_->drop_object("a", sha256(Bytes(60, std::byte{1}))).ok());
  EXPECT_TRUE(put_object("a", Bytes(100)).ok()) << "what was dropped, and what was let go of, is room again";
  std::vector<std::unique_ptr<Upload>> many;
  for (uint32_t i = 0; i < Storage::kMostUploadsOfTenant; ++i) many.push_back(*deployer_->begin_object("b", 0));
  EXPECT_FALSE(deployer_->begin_object("b", 0).ok()) << "uploads of nothing are uploads";
}

TEST_F(DeployerTest, AnObjectThatIsNotSentWholeLeavesNothing) {
  {
    auto upload = deployer_->begin_object("a", 6);
    ASSERT_TRUE(write(**upload, as_bytes_of("ten")).ok());
    EXPECT_EQ(temporaries(), 1u);
  }
  deployer_->stop();  // does what waits
  EXPECT_EQ(temporaries(), 0u);
}

TEST_F(DeployerTest, WhatIsNotReadyIsToldAndCanBeReplaced) {
  const std::string constant = add_function("one", "1");
  const std::string manifest = sha256("name: one");
  ASSERT_TRUE(os::write_file(path_of(manifest), as_bytes_of("name: two")).ok());
  registry_.remove("a", "one");
  open();
  ASSERT_TRUE(deployer_->recover().ok());
  const auto early = registry_.find("a", "one", "");
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.error().code, ErrorCode::kUnavailable) << "it is stored, and nobody has looked at it yet";
  ASSERT_EQ(registry_.problems("a").size(), 1u);
  EXPECT_TRUE(registry_.problems("a")[0].is_starting);
  deployer_->start();
  deployer_->wait_recovered();
  ASSERT_EQ(registry_.problems("a").size(), 1u);
  EXPECT_FALSE(registry_.problems("a")[0].is_starting);
  const auto damaged = registry_.find("a", "one", "");
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().code, ErrorCode::kInternal);
  EXPECT_NE(damaged.error().text.find(manifest), std::string::npos) << damaged.error().text;
  EXPECT_EQ(damaged.error().text.find(folder_), std::string::npos);
  EXPECT_TRUE(remove("one").ok()) << "it can be removed";
  EXPECT_TRUE(registry_.problems("a").empty());
}

TEST_F(DeployerTest, ADeployThatNobodyWaitsForIsCancelled) {
  // No thread has started: it waits.
  const auto tar = write_tar({{"function.yaml", bytes_of("name: one")}});
  auto upload = deployer_->begin_deploy("a", tar->size());
  ASSERT_TRUE(write(**upload, *tar).ok());
  std::promise<Result<Deployed>> promise;
  deployer_->deploy("a", "id-1", "one", *std::move(upload),
                    [&](Result<Deployed> end) { promise.set_value(std::move(end)); });
  deployer_->abandon("id-2");
  deployer_->abandon("id-1");
  EXPECT_EQ(promise.get_future().get().error().code, ErrorCode::kCancelled);
  deployer_->abandon("id-1");
}

TEST_F(DeployerTest, WhatIsStoredForNothingLeavesTheDisk) {
  ASSERT_TRUE(state_
                  ->execute_for_test("CREATE TRIGGER full BEFORE INSERT ON tenant_objects "
                                     "BEGIN SELECT RAISE(ABORT, 'no space'); END")
                  .ok());
  const std::string kept = add_function("one", "1");
  EXPECT_FALSE(put_object("a", as_bytes_of("tensor")).ok());
  EXPECT_FALSE(is_stored(sha256("tensor")));
  EXPECT_TRUE(is_stored(kept));
}

TEST_F(DeployerTest, SourcesCountAsStored) {
  add_function("one", "12345");
  EXPECT_EQ(state_->stored("a")->bytes, std::string("name: one").size() + 5);
  EXPECT_EQ(state_->stored("b")->bytes, 0u);
}

TEST_F(DeployerTest, GoingBackWaitsForAVersionThatIsBeingMadeReady) {
  const auto announce = [&](const char* version, int64_t order, std::optional<Error> problem) {
    VersionSlot slot{sha256(version), "then", order, order, nullptr, std::move(problem)};
    registry_.announce("a", "one", std::move(slot));
  };
  announce("v1", 1, unavailable("function one: is being made ready"));
  announce("v2", 2, internal("function one: is damaged"));
  announce("v3", 3, unavailable("function one: is being made ready"));
  const auto back = wait_for<DeployedRef>([&](auto done) { deployer_->rollback("a", "one", "", std::move(done)); });
  ASSERT_FALSE(back.ok());
  EXPECT_EQ(back.error().code, ErrorCode::kUnavailable) << back.error().text;
}

}  // namespace
}  // namespace quern::daemon
