// SPDX-License-Identifier: Apache-2.0
#include "daemon/tenant_objects.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <future>

#include "base/hash.h"
#include "daemon/deployer.h"
#include "os/file.h"

namespace quern::daemon {
namespace {

constexpr uint64_t kPage = 4096;
constexpr Time kStart{1'000'000'000};

Time after(int64_t seconds) { return kStart + Duration::seconds(seconds); }

class TenantObjectsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "quern_tenant_objects_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    auto state = State::open(folder_);
    ASSERT_TRUE(state.ok()) << state.error().text;
    deployer_ = std::make_unique<Deployer>(Config{}, folder_ + "/run", std::vector<const DeviceRecord*>{},
                                           *std::move(state), *os::Event::create(), registry_,
                                           std::make_shared<const Deployer::Gone>(), counters_);
    begin({});
  }
  void TearDown() override {
    objects_.reset();
    deployer_.reset();
    os::remove_tree(folder_);
  }

  /// Nothing in memory, as after a restart.
  void begin(ObjectLimits limits) {
    objects_ = std::make_unique<TenantObjects>(*deployer_, std::vector<int>{}, limits);
    objects_->start();
  }

  template <class T, class Ask>
  static T wait_for(Ask ask) {
    auto promise = std::make_shared<std::promise<T>>();
    ask([promise](T value) { promise->set_value(std::move(value)); });
    return promise->get_future().get();
  }

  /// Of objects that came from the disk, into memory that executors can map.
  uint64_t copied_bytes() const { return counters_.copied_bytes; }

  std::unique_ptr<Upload> upload(const std::string& tenant, std::string_view text) {
    auto made = deployer_->begin_object(tenant, text.size());
    EXPECT_TRUE(made.ok());
    const auto written = wait_for<Result<Bytes>>([&](auto done) { (*made)->write(bytes_of(text), std::move(done)); });
    EXPECT_TRUE(written.ok());
    return *std::move(made);
  }
  std::string put(const std::string& tenant, std::string_view text) {
    const auto stored = wait_for<Result<ObjectStatus>>(
        [&](auto done) { objects_->put(tenant, upload(tenant, text), std::move(done)); });
    EXPECT_TRUE(stored.ok()) << stored.error().text;
    EXPECT_EQ(stored->bytes, text.size());
    return stored->id;
  }
  Result<ObjectRef> open(const std::string& tenant, const std::string& id, Time now = kStart) {
    auto opened = wait_for<Result<std::vector<ObjectRef>>>(
        [&](auto done) { objects_->open(tenant, {id}, now, std::move(done)); });
    if (!opened.ok()) return std::move(opened).error();
    return opened->at(0);
  }
  Result<ObjectRef> read(const std::string& tenant, const std::string& id, bool keep, Time now = kStart) {
    return wait_for<Result<ObjectRef>>([&](auto done) { objects_->read(tenant, id, keep, now, std::move(done)); });
  }
  Status remove(const std::string& tenant, const std::string& id, Time now = kStart) {
    return wait_for<Status>([&](auto done) { objects_->remove(tenant, id, now, std::move(done)); });
  }
  std::vector<std::string> list(const std::string& tenant, Time now = kStart) {
    const auto listed =
        wait_for<Result<std::vector<ObjectStatus>>>([&](auto done) { objects_->list(tenant, now, std::move(done)); });
    EXPECT_TRUE(listed.ok()) << listed.error().text;
    std::vector<std::string> shown;
    for (const ObjectStatus& one : *listed)
      shown.push_back(one.id.substr(0, 6) + " " + std::to_string(one.bytes) +
                      (one.is_lease ? " " + to_string(one.expires_in) : ""));
    return shown;
  }
  bool has(const std::string& tenant, const std::string& id, Time now = kStart) { return open(tenant, id, now).ok(); }

  /// An output that a call wrote.
  std::shared_ptr<const ipc::Block> output(std::string_view text) {
    auto block = arena_->take(text.size());
    EXPECT_TRUE(block.ok());
    std::memcpy(block->bytes().data(), text.data(), text.size());
    return std::make_shared<const ipc::Block>(*std::move(block));
  }
  std::string lease(const std::string& tenant, std::string_view text, int64_t seconds, Time now = kStart) {
    auto made = objects_->reserve(tenant, output(text), Duration::seconds(seconds), now);
    EXPECT_TRUE(made.ok()) << made.error().text;
    const std::string id = (*made)->id;
    objects_->keep(*std::move(made), now);
    return id;
  }

  std::string folder_;
  LiveCounters counters_;
  Registry registry_;
  std::unique_ptr<Deployer> deployer_;
  std::unique_ptr<TenantObjects> objects_;
  std::shared_ptr<ipc::Arena> arena_ = ipc::Arena::create("output", ipc::Direction::kOutput, kGiB);
};

TEST_F(TenantObjectsTest, WhatIsPutIsThereUntilItIsRemoved) {
  for (const std::string text : {"", "hello", "hello"}) EXPECT_EQ(put("a", text), sha256(text));
  const auto object = open("a", sha256("hello"));
  ASSERT_TRUE(object.ok()) << object.error().text;
  EXPECT_EQ(as_text((*object)->bytes), "hello");
  EXPECT_EQ((*open("a", sha256("")))->bytes.size(), 0U);
  EXPECT_EQ(copied_bytes(), 0U) << "it was in memory";
  EXPECT_EQ(list("a").size(), 2U);
  EXPECT_TRUE(read("a", sha256("hello"), false).ok());
  EXPECT_TRUE(read("a", sha256("hello"), false).ok()) << "only a lease is over when it is read";

  EXPECT_TRUE(remove("a", sha256("hello")).ok());
  EXPECT_FALSE(has("a", sha256("hello")));
  EXPECT_EQ(remove("a", sha256("hello")).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(as_text((*object)->bytes), "hello") << "who has it may use it";
  EXPECT_EQ(list("a").size(), 1U);
}

TEST_F(TenantObjectsTest, AnInputIsBoundToItsOwnMemory) {
  const auto object = std::static_pointer_cast<const MappedObject>(*open("a", put("a", "hello")));
  const ipc::Block block = block_of(object);
  EXPECT_EQ(block.bytes().data(), object->bytes.data());
  EXPECT_EQ(block.size(), 5U);
  EXPECT_EQ(block.segment()->direction, ipc::Direction::kInput);
  EXPECT_FALSE(os::map(block.segment()->fd, block.segment()->size_bytes, true).ok()) << "nobody may write to it";
}

TEST_F(TenantObjectsTest, AHashIsNoCapability) {
  const std::string id = put("a", "secret"), none = sha256("none");
  const auto strip = [](const Error& error, const std::string& what) {
    EXPECT_EQ(error.code, ErrorCode::kNotFound);
    const size_t at = error.text.find(what);
    EXPECT_NE(at, std::string::npos) << error.text;
    return std::string(error.text).erase(at, what.size());
  };
  // Not even the text tells that another has it.
  EXPECT_EQ(strip(open("b", id).error(), id), strip(open("b", none).error(), none));
  EXPECT_EQ(strip(read("b", id, true).error(), id), strip(read("b", none, true).error(), none));
  EXPECT_EQ(strip(remove("b", id).error(), id), strip(remove("b", none).error(), none));
  EXPECT_TRUE(list("b").empty());
  for (const char* odd : {"", "x", "../state.db", "lease-", "lease-0123"})
    EXPECT_EQ(open("a", odd).error().code, ErrorCode::kNotFound) << odd;
  // One that both have is removed for one of them.
  EXPECT_EQ(put("b", "secret"), id);
  EXPECT_TRUE(remove("a", id).ok());
  EXPECT_FALSE(has("a", id));
  EXPECT_TRUE(has("b", id));
  begin({});
  EXPECT_FALSE(has("a", id));
  EXPECT_TRUE(has("b", id));
}

TEST_F(TenantObjectsTest, TheLatestUsedStayInMemory) {
  begin({.idle_bytes = 2 * kPage});
  std::vector<std::string> ids;
  for (const char c : {'a', 'b', 'c'}) ids.push_back(put("a", std::string(kPage, c)));
  std::vector<ObjectRef> held;
  for (const int which : {1, 2}) held.push_back(*open("a", ids[static_cast<size_t>(which)]));
  EXPECT_EQ(copied_bytes(), 0U);
  held.push_back(*open("a", ids[0]));
  EXPECT_EQ(as_text(held.back()->bytes), std::string(kPage, 'a'));
  EXPECT_EQ(copied_bytes(), kPage) << "the first had left";
  // What is used does not leave, whatever comes.
  for (const char c : {'d', 'e', 'f', 'g'}) put("a", std::string(kPage, c));
  for (const std::string& id : ids) EXPECT_TRUE(has("a", id));
  EXPECT_EQ(copied_bytes(), kPage);
  held.clear();
  put("a", std::string(kPage, 'h'));
  EXPECT_TRUE(has("a", ids[2]));
  EXPECT_EQ(copied_bytes(), kPage);
  EXPECT_TRUE(has("a", ids[0]));
  EXPECT_EQ(copied_bytes(), 2 * kPage);
}

TEST_F(TenantObjectsTest, OneAloneMayBeLargerThanTheLimit) {
  begin({.idle_bytes = kPage});
  const std::string large = put("a", std::string(10 * kPage, 'a'));
  EXPECT_TRUE(has("a", large));
  EXPECT_EQ(copied_bytes(), 0U);
  put("a", "small");
  EXPECT_TRUE(has("a", large));
  EXPECT_EQ(copied_bytes(), 10 * kPage);
}

TEST_F(TenantObjectsTest, ManySmallOnesAreCountedToo) {
  begin({.idle = 2});
  const std::string one = put("a", "1"), two = put("a", "2"), three = put("a", "3");
  EXPECT_TRUE(has("a", three) && has("a", two));
  EXPECT_EQ(copied_bytes(), 0U);
  EXPECT_TRUE(has("a", one));
  EXPECT_EQ(copied_bytes(), 1U);
}

TEST_F(TenantObjectsTest, ADamagedOneIsAnErrorThatNamesIt) {
  const std::string id = put("a", "hello");
  begin({});
  ASSERT_TRUE(os::write_file(folder_ + "/objects/" + id.substr(0, 2) + "/" + id, as_bytes_of("hellO")).ok());
  const auto object = open("a", id);
  ASSERT_FALSE(object.ok());
  EXPECT_NE(object.error().code, ErrorCode::kNotFound);
  EXPECT_NE(object.error().text.find(id.substr(0, 12)), std::string::npos) << object.error().text;
}

TEST_F(TenantObjectsTest, AnOutputStaysWhereItIs) {
  const auto block = output("result");
  auto made = objects_->reserve("a", block, Duration::seconds(10), kStart);
  ASSERT_TRUE(made.ok()) << made.error().text;
  const std::string id = (*made)->id;
  EXPECT_EQ(id.size(), 38U);
  EXPECT_FALSE(has("a", id)) << "its call has not ended yet";
  objects_->keep(*std::move(made), kStart);
  const auto object = std::static_pointer_cast<const MappedObject>(*open("a", id));
  EXPECT_EQ(as_text(object->bytes), "result");
  const ipc::Block input = block_of(object);
  EXPECT_EQ(input.segment()->direction, ipc::Direction::kInput);
  EXPECT_EQ(input.offset(), block->offset());
  block->bytes()[0] = std::byte{'R'};
  EXPECT_EQ(as_text(input.bytes()), "Result") << "it is the same memory";
  EXPECT_EQ(copied_bytes(), 0U);
}

TEST_F(TenantObjectsTest, ALeaseEnds) {
  const std::string brief = lease("a", "brief", 5), lengthy = lease("a", "lengthy", 20);
  EXPECT_TRUE(has("a", brief, after(4)));
  EXPECT_EQ(list("a", after(4)), (std::vector<std::string>{"lease- 5 1s", "lease- 7 16s"}));
  EXPECT_FALSE(has("a", brief, after(5)));
  EXPECT_EQ(remove("a", brief, after(5)).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(has("a", lengthy, after(5)));
  EXPECT_EQ(arena_->bytes_in_use(), ipc::kBlockAlignment) << "the memory of the other one is free";
  // Nobody has to ask for it: any call does.
  objects_->sweep(after(20));
  EXPECT_EQ(arena_->bytes_in_use(), 0U);
}

TEST_F(TenantObjectsTest, WhoUsesALeaseKeepsItsMemory) {
  const std::string id = lease("a", "result", 5);
  auto input = block_of(std::static_pointer_cast<const MappedObject>(*open("a", id)));
  objects_->sweep(after(5));
  EXPECT_FALSE(has("a", id, after(5)));
  EXPECT_EQ(as_text(input.bytes()), "result");
  EXPECT_GT(arena_->bytes_in_use(), 0U);
  input = ipc::Block();
  EXPECT_EQ(arena_->bytes_in_use(), 0U);
}

TEST_F(TenantObjectsTest, ALeaseIsReadOnce) {
  const std::string id = lease("a", "result", 10);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(read("a", id, true).ok());
  const auto object = read("a", id, false);
  EXPECT_EQ(as_text((*object)->bytes), "result");
  EXPECT_EQ(read("a", id, false).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(list("a").empty());
  // It did not get through.
  objects_->unread(*object, after(3));
  EXPECT_EQ(list("a", after(3)), (std::vector<std::string>{"lease- 6 7s"}));
  const auto again = read("a", id, false, after(9));
  ASSERT_TRUE(again.ok());
  objects_->unread(*again, after(10));
  EXPECT_FALSE(has("a", id, after(10))) << "its time is over";
  EXPECT_FALSE(has("a", id, after(9)));
}

TEST_F(TenantObjectsTest, ALeaseIsItsTenantsOnly) {
  const std::string id = lease("a", "result", 10);
  EXPECT_EQ(open("b", id).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(read("b", id, false).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(remove("b", id).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(list("b").empty());
  EXPECT_TRUE(has("a", id));
  EXPECT_TRUE(remove("a", id).ok());
  EXPECT_FALSE(has("a", id));
  EXPECT_EQ(arena_->bytes_in_use(), 0U);
}

TEST_F(TenantObjectsTest, LeasesAreBounded) {
  begin({.leases = 2});
  const std::string first = lease("a", "1", 5);
  lease("a", "2", 10);
  const auto third = objects_->reserve("a", output("3"), Duration::seconds(1), after(4));
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().code, ErrorCode::kExhausted);
  EXPECT_TRUE(objects_->reserve("b", output("3"), Duration::seconds(1), after(4)).ok()) << "another's are its own";
  // One that ends makes room; so does a call that ends without leaving what it was to leave.
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(objects_->reserve("a", output("3"), Duration::seconds(1), after(5)).ok());
  }
  lease("a", "3", 10, after(5));
  EXPECT_FALSE(objects_->reserve("a", output("4"), Duration::seconds(1), after(5)).ok());
}

TEST_F(TenantObjectsTest, ARestartForgetsLeasesAndKeepsWhatIsStored) {
  const std::string stored = put("a", "hello"), left = lease("a", "result", 3600);
  begin({});
  EXPECT_FALSE(has("a", left));
  EXPECT_EQ(as_text((*open("a", stored))->bytes), "hello");
}

TEST_F(TenantObjectsTest, WhatWaitsIsAnsweredWhenItStops) {
  objects_ = std::make_unique<TenantObjects>(*deployer_, std::vector<int>{});  // no thread takes it
  std::promise<Result<ObjectStatus>> promise;
  objects_->put("a", upload("a", "hello"), [&](Result<ObjectStatus> stored) { promise.set_value(std::move(stored)); });
  objects_->stop();
  EXPECT_EQ(promise.get_future().get().error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(
      wait_for<Result<ObjectStatus>>([&](auto done) { objects_->put("a", upload("a", "x"), std::move(done)); }).ok());
}

}  // namespace
}  // namespace quern::daemon
