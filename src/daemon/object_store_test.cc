// SPDX-License-Identifier: Apache-2.0
#include "daemon/object_store.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/units.h"
#include "os/file.h"

namespace quern::daemon {
namespace {

class ObjectStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "quern_objects_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { os::remove_tree(folder_); }

  ObjectStore open() { return ObjectStore::open(folder_ + "/objects").value(); }
  std::string path_of(const std::string& hash) const { return folder_ + "/objects/" + hash.substr(0, 2) + "/" + hash; }

  std::string folder_;
};

TEST_F(ObjectStoreTest, WhatIsPutCanBeGot) {
  ObjectStore store = open();
  for (const std::string text : {"", "hello", "hello again"}) {
    const auto hash = store.put(as_bytes_of(text));
    ASSERT_TRUE(hash.ok()) << hash.error().text;
    EXPECT_EQ(*hash, sha256(text));
    EXPECT_TRUE(store.has(*hash));
    EXPECT_EQ(as_text(*store.get(*hash)), text);
  }
}

TEST_F(ObjectStoreTest, StaysAfterReopening) {
  const std::string hash = *open().put(as_bytes_of("hello"));
  EXPECT_EQ(as_text(*open().get(hash)), "hello");
}

TEST_F(ObjectStoreTest, PuttingTwiceWritesOnce) {
  ObjectStore store = open();
  const std::string hash = *store.put(as_bytes_of("hello"));
  const auto folder = folder_ + "/objects/" + hash.substr(0, 2);
  EXPECT_EQ(*store.put(as_bytes_of("hello")), hash);
  EXPECT_EQ(os::list_folder(folder), std::vector<std::string>{hash});
}

TEST_F(ObjectStoreTest, RemovedIsGone) {
  ObjectStore store = open();
  const std::string hash = *store.put(as_bytes_of("hello"));
  store.remove(hash);
  EXPECT_FALSE(store.has(hash));
  const auto bytes = store.get(hash);
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().code, ErrorCode::kNotFound);
  EXPECT_NE(bytes.error().text.find(hash), std::string::npos);
}

TEST_F(ObjectStoreTest, DamageIsFoundAndNamed) {
  ObjectStore store = open();
  const std::string hash = *store.put(as_bytes_of("hello"));
  for (const std::string damaged : {"hellp", "hell", "hello!", ""}) {
    ASSERT_TRUE(os::write_file(path_of(hash), as_bytes_of(damaged)).ok());
    const auto bytes = store.get(hash);
    ASSERT_FALSE(bytes.ok());
    EXPECT_EQ(bytes.error().code, ErrorCode::kInternal);
    EXPECT_EQ(bytes.error().text,
              "object " + hash + ": is damaged on disk; put it, or deploy the function that uses it, again");
    // Putting it again does help.
    ASSERT_TRUE(store.put(as_bytes_of("hello")).ok());
    EXPECT_EQ(as_text(*store.get(hash)), "hello");
  }
}

TEST_F(ObjectStoreTest, ALargeOneIsComparedToItsLastByte) {
  ObjectStore store = open();
  for (const size_t size : {kMiB - 1, kMiB, kMiB + 1, 3 * kMiB}) {
    const std::string text(size, 'x');
    const std::string hash = *store.put(as_bytes_of(text));
    for (const std::string& damaged : {text.substr(1), text + "x", text.substr(1) + "y"}) {
      ASSERT_TRUE(os::write_file(path_of(hash), as_bytes_of(damaged)).ok());
      ASSERT_TRUE(store.put(hash, as_bytes_of(text)).ok());
      EXPECT_TRUE(as_text(*store.get(hash)) == text) << size;
    }
  }
}

TEST_F(ObjectStoreTest, IsCopiedToAFile) {
  ObjectStore store = open();
  for (const size_t size : {size_t{0}, size_t{5}, kMiB / 4, kMiB, 2 * kMiB + 7}) {
    std::string text(size, 'x');
    if (size > 0) text.back() = 'y';
    const std::string hash = *store.put(as_bytes_of(text));
    const auto file = os::create_file(folder_ + "/copy");
    ASSERT_TRUE(file.ok());
    const Status got = store.copy_to(hash, size, *file);
    ASSERT_TRUE(got.ok()) << got.error().text;
    EXPECT_TRUE(as_text(*os::read_file(folder_ + "/copy")) == text) << size;
  }
}

TEST_F(ObjectStoreTest, WhatCannotBeCopiedIsNamed) {
  ObjectStore store = open();
  const std::string text(2 * kMiB, 'x');
  const std::string hash = *store.put(as_bytes_of(text));
  const auto read = [&](size_t size) {
    const auto file = os::create_file(folder_ + "/copy");
    EXPECT_TRUE(file.ok());
    const Status got = store.copy_to(hash, size, *file);
    EXPECT_FALSE(got.ok());
    if (got.ok()) return ErrorCode::kInternal;
    EXPECT_NE(got.error().text.find("object " + hash + ": "), std::string::npos) << got.error().text;
    return got.error().code;
  };
  EXPECT_EQ(read(text.size() - 1), ErrorCode::kInternal) << "it is longer than its record says";
  EXPECT_EQ(read(text.size() + 1), ErrorCode::kInternal) << "it is shorter";
  std::string other = text;
  other.back() = 'y';
  for (const std::string& damaged : {other, text.substr(kMiB), text.substr(1), std::string()}) {
    ASSERT_TRUE(os::write_file(path_of(hash), as_bytes_of(damaged)).ok());
    EXPECT_EQ(read(text.size()), ErrorCode::kInternal);
  }
  store.remove(hash);
  EXPECT_EQ(read(text.size()), ErrorCode::kNotFound);
  ASSERT_TRUE(os::make_folders(path_of(hash)).ok());
  EXPECT_EQ(read(text.size()), ErrorCode::kInvalid) << "a folder in its place";
}

TEST_F(ObjectStoreTest, AnInterruptedPutLeavesNothing) {
  const std::string hash = *open().put(as_bytes_of("hello"));
  const std::string half = path_of(sha256("other")) + ".123.0.tmp";
  ASSERT_TRUE(os::write_file(half, as_bytes_of("oth")).ok());
  ASSERT_TRUE(os::write_file(folder_ + "/objects/format.123.0.tmp", as_bytes_of("")).ok());
  ObjectStore store = open();
  EXPECT_FALSE(os::exists(half));
  EXPECT_FALSE(os::exists(folder_ + "/objects/format.123.0.tmp"));
  EXPECT_FALSE(store.has(sha256("other")));
  EXPECT_EQ(as_text(*store.get(hash)), "hello");
}

TEST_F(ObjectStoreTest, AHashIsNoPath) {
  ObjectStore store = open();
  ASSERT_TRUE(os::write_file(folder_ + "/secret", as_bytes_of("secret")).ok());
  for (const std::string hash : {"../../secret", "", "ABCD", "zz"}) {
    EXPECT_FALSE(store.has(hash));
    const auto bytes = store.get(hash);
    ASSERT_FALSE(bytes.ok());
    EXPECT_EQ(bytes.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(store.copy_to(hash, 0, os::Fd()).error().code, ErrorCode::kInvalid);
    store.remove(hash);
  }
  EXPECT_TRUE(os::exists(folder_ + "/secret"));
}

TEST_F(ObjectStoreTest, CollectKeepsWhatIsNamed) {
  ObjectStore store = open();
  const std::string kept = *store.put(as_bytes_of("kept"));
  const std::string dropped = *store.put(as_bytes_of("dropped"));
  const auto aside = store.set_aside({kept});
  ASSERT_EQ(aside.size(), 1u);
  EXPECT_TRUE(os::exists(aside[0])) << "its bytes go when there is time";
  EXPECT_TRUE(store.has(kept));
  EXPECT_FALSE(store.has(dropped));
  EXPECT_TRUE(os::exists(folder_ + "/objects/format"));
}

TEST_F(ObjectStoreTest, ErrorsDoNotTellWhereThingsAre) {
  ObjectStore store = open();
  const std::string hash = *store.put(as_bytes_of("kept"));
  os::remove_tree(folder_ + "/objects/" + hash.substr(0, 2));
  ObjectWriter writer(store);
  ASSERT_TRUE(writer.add(as_bytes_of("kept")).ok());
  const Status kept = writer.keep();
  os::remove_tree(folder_);
  ObjectWriter second(store);
  const Status added = second.add(as_bytes_of("x"));
  const Status put = store.put(hash, as_bytes_of("kept"));
  for (const Status* status : {&kept, &added, &put}) {
    ASSERT_FALSE(status->ok());
    EXPECT_EQ(status->error().text.find(folder_), std::string::npos) << status->error().text;
    EXPECT_NE(status->error().text.find("the server's disk"), std::string::npos) << status->error().text;
  }
}

TEST_F(ObjectStoreTest, AWriterKeepsWhatWasAddedOrLeavesNothing) {
  ObjectStore store = open();
  std::string hash;
  {
    ObjectWriter writer(store), twin(store), dropped(store);
    for (ObjectWriter* one : {&writer, &twin, &dropped})
      for (const std::string_view part : {"in ", "two parts"}) ASSERT_TRUE(one->add(as_bytes_of(part)).ok());
    ASSERT_TRUE(writer.keep().ok());
    ASSERT_TRUE(writer.keep().ok()) << "again is fine";
    hash = writer.hash();
    EXPECT_EQ(hash, sha256("in two parts"));
    // A damaged one is replaced.
    ASSERT_TRUE(os::write_file(folder_ + "/objects/" + hash.substr(0, 2) + "/" + hash, as_bytes_of("odd")).ok());
    ASSERT_TRUE(twin.keep().ok());
    EXPECT_EQ(as_text(*store.get(hash)), "in two parts");
    ObjectWriter empty(store);
    ASSERT_TRUE(empty.keep().ok());
    EXPECT_EQ(store.get(sha256(""))->size(), 0u);
  }
  for (const std::string& name : os::list_folder(folder_ + "/objects")) EXPECT_FALSE(name.ends_with(".tmp")) << name;
}

}  // namespace
}  // namespace quern::daemon
