// SPDX-License-Identifier: Apache-2.0
#include "daemon/host_tier.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <future>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/units.h"
#include "os/file.h"
#include "os/guarded.h"
#include "os/shared_memory.h"
#include "os/thread.h"

namespace quern::daemon {
namespace {

using Fetched = Result<HostObjectRef>;

/// Keeps a thread of the tier busy, in its call of `done`, until it is opened.
class Gate {
 public:
  Gate() : opened_(open_.get_future()) {}
  ~Gate() { open(); }

  void hold(HostTier& tier, uint64_t number) {
    auto reached = std::make_shared<std::promise<void>>();
    auto held = reached->get_future();
    tier.fetch(number, [reached, opened = opened_](Fetched) {
      reached->set_value();
      opened.wait();
    });
    held.wait();
  }
  void open() {
    if (!std::exchange(is_open_, true)) open_.set_value();
  }

 private:
  std::promise<void> open_;
  std::shared_future<void> opened_;
  bool is_open_ = false;
};

class HostTierTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "quern_host_tier_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    store_ = std::make_unique<ObjectStore>(ObjectStore::open(folder_ + "/objects").value());
    tier_ = HostTier::create(*store_).value();
  }
  void TearDown() override {
    tier_.reset();
    os::remove_tree(folder_);
  }

  std::string path_of(const std::string& hash) const { return folder_ + "/objects/" + hash.substr(0, 2) + "/" + hash; }

  ConstantRef put(const std::string& text) {
    const std::string hash = *store_->put(as_bytes_of(text));
    auto constant = std::make_shared<const Constant>(Constant{++last_number_, hash, text.size()});
    tier_->know(constant);
    return constant;
  }

  Fetched fetch(uint64_t number) {
    auto told = std::make_shared<std::promise<Fetched>>();
    auto end = told->get_future();
    tier_->fetch(number, [told](Fetched fetched) { told->set_value(std::move(fetched)); });
    return end.get();
  }

  static std::string text_of(const HostObject& object) {
    const auto memory = os::map(object.fd, object.size_bytes, false);
    return memory.ok() ? std::string(as_text(memory->bytes())) : memory.error().text;
  }

  std::string folder_;
  std::unique_ptr<ObjectStore> store_;
  std::unique_ptr<HostTier> tier_;
  uint64_t last_number_ = 0;
};

TEST_F(HostTierTest, WhatIsFetchedIsWholeAndSealed) {
  for (const size_t size : {size_t{0}, size_t{5}, 3 * kMiB + 1}) {
    const std::string text(size, 'x');
    const ConstantRef constant = put(text);
    const Fetched object = fetch(constant->number);
    ASSERT_TRUE(object.ok()) << object.error().text;
    EXPECT_EQ((*object)->number, constant->number);
    EXPECT_EQ((*object)->hash, constant->hash);
    ASSERT_EQ((*object)->size_bytes, size);
    EXPECT_TRUE(os::check_sealed((*object)->fd, size).ok());
    EXPECT_TRUE(text_of(**object) == text);
    EXPECT_EQ(os::map((*object)->fd, size, true).ok(), size == 0) << "nobody writes to it any more";
  }
}

TEST_F(HostTierTest, IsInMemoryAsLongAsSomeoneHoldsIt) {
  const ConstantRef constant = put("hello");
  Fetched object = fetch(constant->number);
  ASSERT_TRUE(object.ok()) << object.error().text;
  store_->remove(constant->hash);
  HostObjectRef again;
  tier_->fetch(constant->number, [&](Fetched fetched) { again = *fetched; });
  EXPECT_EQ(again, *object) << "at once, and the same";
  // The thread that told us may hold it a moment longer than we do.
  std::weak_ptr<const HostObject> left = again;
  again = nullptr;
  object = Fetched(HostObjectRef());
  while (!left.expired()) os::yield();
  const Fetched gone = fetch(constant->number);
  ASSERT_FALSE(gone.ok()) << "the tier kept it";
  EXPECT_EQ(gone.error().code, ErrorCode::kNotFound);
}

TEST_F(HostTierTest, OneReadForAllWhoAskMeanwhile) {
  const ConstantRef a = put("a"), b = put("b"), c = put("c"), d = put("d");
  os::Guarded<std::vector<std::string>> order;
  os::Guarded<std::vector<HostObjectRef>> got;
  auto all = std::make_shared<std::promise<void>>();
  auto all_came = all->get_future();
  const auto note = [&, all](const std::string& name) {
    return [&, all, name](Fetched fetched) {
      ASSERT_TRUE(fetched.ok()) << fetched.error().text;
      got.with([&](auto& list) { list.push_back(*fetched); });
      if (order.with([&](auto& list) { return list.push_back(name), list.size(); }) == 5) all->set_value();
    };
  };
  Gate one, two;
  one.hold(*tier_, a->number);
  two.hold(*tier_, b->number);
  for (const auto& [constant, name] : {std::pair(c, "c1"), std::pair(d, "d1"), std::pair(c, "c2")})
    tier_->fetch(constant->number, note(name));
  {
    os::Thread other("other", [&] {
      tier_->fetch(d->number, note("d2"));
      tier_->fetch(c->number, note("c3"));
    });
  }
  two.open();  // one thread goes on
  all_came.wait();
  EXPECT_EQ(order.with([](auto& list) { return list; }), (std::vector<std::string>{"c1", "c2", "c3", "d1", "d2"}));
  got.with([](auto& list) {
    EXPECT_TRUE(list[0] == list[1] && list[1] == list[2]);
    EXPECT_EQ(list[3], list[4]);
    EXPECT_EQ(text_of(*list[0]), "c");
    EXPECT_EQ(text_of(*list[3]), "d");
  });
}

TEST_F(HostTierTest, AFailureNamesTheObjectAndIsNotRemembered) {
  const std::string text(2 * kMiB, 'x');
  const ConstantRef constant = put(text);
  std::string changed = text;
  changed[kMiB] = 'y';
  for (const std::string& damaged : {changed, text.substr(kMiB), text + "x", std::string()}) {
    ASSERT_TRUE(os::write_file(path_of(constant->hash), as_bytes_of(damaged)).ok());
    const Fetched object = fetch(constant->number);
    ASSERT_FALSE(object.ok());
    EXPECT_EQ(object.error().code, ErrorCode::kInternal);
    EXPECT_NE(object.error().text.find(constant->hash + ": is damaged"), std::string::npos) << object.error().text;
  }
  store_->remove(constant->hash);
  const Fetched object = fetch(constant->number);
  ASSERT_FALSE(object.ok());
  EXPECT_EQ(object.error().code, ErrorCode::kNotFound);
  EXPECT_NE(object.error().text.find(constant->hash), std::string::npos) << object.error().text;
  ASSERT_TRUE(store_->put(as_bytes_of(text)).ok());
  EXPECT_TRUE(fetch(constant->number).ok());
}

TEST_F(HostTierTest, MoreThanThereCanBeIsAnError) {
  const std::string hash = *store_->put(as_bytes_of("small"));
  const auto constant = std::make_shared<const Constant>(Constant{1, hash, uint64_t{1} << 63});
  tier_->know(constant);
  const Fetched object = fetch(1);
  ASSERT_FALSE(object.ok());
  EXPECT_EQ(object.error().code, ErrorCode::kExhausted);
  EXPECT_NE(object.error().text.find(hash), std::string::npos) << object.error().text;
}

TEST_F(HostTierTest, WhatNoFunctionHasIsNotKnown) {
  EXPECT_EQ(fetch(7).error().code, ErrorCode::kNotFound);
  ConstantRef constant = put("hello");
  const uint64_t number = constant->number;
  constant = nullptr;
  EXPECT_EQ(fetch(number).error().code, ErrorCode::kNotFound);
  // More than are looked through at a time: those that are in use stay.
  const ConstantRef kept = put("kept");
  for (int i = 0; i < 1000; ++i) put("passing");
  EXPECT_TRUE(fetch(kept->number).ok());
}

TEST_F(HostTierTest, StopTellsThoseThatWait) {
  const ConstantRef a = put("a"), b = put("b"), c = put("c"), d = put("d");
  auto one = std::make_unique<Gate>(), two = std::make_unique<Gate>();
  one->hold(*tier_, a->number);
  two->hold(*tier_, b->number);
  std::vector<std::future<Fetched>> waiting;
  for (const ConstantRef& constant : {c, d, c}) {
    auto told = std::make_shared<std::promise<Fetched>>();
    waiting.push_back(told->get_future());
    tier_->fetch(constant->number, [told](Fetched fetched) { told->set_value(std::move(fetched)); });
  }
  os::Thread stopper("stopper", [&] { tier_->stop(); });
  for (auto& one_waiting : waiting) {
    const Fetched end = one_waiting.get();
    ASSERT_FALSE(end.ok());
    EXPECT_EQ(end.error().code, ErrorCode::kUnavailable);
  }
  // What had begun ends, and stop waits for it.
  one.reset();
  two.reset();
  stopper.join();
  EXPECT_EQ(fetch(d->number).error().code, ErrorCode::kUnavailable);
  tier_->stop();
}

TEST_F(HostTierTest, ManyThreadsAskForTheSame) {
  std::vector<ConstantRef> constants;
  for (int i = 0; i < 8; ++i) constants.push_back(put("object " + std::to_string(i)));
  const auto ask = [&] {
    for (int round = 0; round < 50; ++round)
      for (size_t i = 0; i < constants.size(); ++i) {
        const Fetched object = fetch(constants[i]->number);
        ASSERT_TRUE(object.ok()) << object.error().text;
        EXPECT_EQ(text_of(**object), "object " + std::to_string(i));
      }
  };
  std::vector<os::Thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back("ask" + std::to_string(i), ask);
}

}  // namespace
}  // namespace quern::daemon
