// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "daemon/state.h"
#include "os/file.h"

namespace quern::daemon {
namespace {

class StateOpenTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "quern_open_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { os::remove_tree(folder_); }

  std::unique_ptr<State> open() {
    auto state = State::open(folder_);
    if (!state.ok()) ADD_FAILURE() << state.error().text;
    return std::move(state).value();
  }
  /// A function, an object of a tenant and a compiled program, all with names and bytes of their own.
  static bool put(State& state, const std::string& name) {
    FunctionRecord record;
    record.tenant = "a";
    record.name = name;
    record.version = sha256(name);
    record.files["function.yaml"] = *state.objects().put(as_bytes_of("name: " + name));
    const std::string tensor = *state.objects().put(as_bytes_of("tensor of " + name));
    const std::string binary = *state.objects().put(as_bytes_of("binary of " + name));
    return state.put_function(record).ok() && state.put_tenant_object("a", tensor, 1, "then").ok() &&
           state.put_binary({.key = name, .object = binary, .signatures = {}}).ok();
  }
  /// Puts `name` in a process that is killed: what is new is in state.db-wal.
  void put_and_die(const std::string& name) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto state = State::open(folder_);
      _exit(state.ok() && put(**state, name) ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ASSERT_GT(os::file_size(wal()).value_or(0), 0U);
  }
  std::string wal() const { return folder_ + "/state.db-wal"; }
  static std::vector<std::string> bytes_of_all(const std::string& name) {
    return {"name: " + name, "tensor of " + name, "binary of " + name};
  }
  /// The one folder of aside; empty if there is none.
  std::string aside() const {
    const auto names = os::list_folder(folder_ + "/aside");
    return names.size() == 1 ? folder_ + "/aside/" + names[0] : "";
  }

  std::string folder_;
};

TEST_F(StateOpenTest, ALostOrDamagedLogOfTheDatabaseDeletesNothing) {
  for (const std::string how : {"missing", "empty", "truncated", "flipped", "garbage"}) {
    SCOPED_TRACE(how);
    os::remove_tree(folder_);
    ASSERT_TRUE(os::make_folders(folder_).ok());
    ASSERT_TRUE(put(*open(), "old"));
    put_and_die("new");
    Bytes log = *os::read_file(wal());
    if (how == "missing") {
      os::remove_file(wal());
    } else {
      if (how == "empty") log.clear();
      if (how == "truncated") log.resize(log.size() / 8);
      if (how == "flipped")
        for (size_t i = 40; i < log.size(); ++i) log[i] ^= std::byte{0x55};
      if (how == "garbage") log.assign(log.size(), std::byte{'x'});
      ASSERT_TRUE(os::write_file(wal(), log).ok());
    }
    auto state = open();
    ASSERT_EQ(state->functions()->size(), 1U) << "what the database lost is lost";
    ASSERT_FALSE(aside().empty());
    for (const std::string& bytes : bytes_of_all("new")) {
      const std::string hash = sha256(bytes);
      const auto kept = os::read_file(aside() + "/objects/" + hash.substr(0, 2) + "/" + hash);
      EXPECT_TRUE(kept.ok() && as_text(*kept) == bytes) << bytes;
      EXPECT_FALSE(state->objects().has(hash));
    }
    for (const std::string& bytes : bytes_of_all("old")) EXPECT_TRUE(state->objects().has(sha256(bytes))) << bytes;
    // From now on the database is as new as its objects again.
    const std::string orphan = *state->objects().put(as_bytes_of("put, then the server died"));
    ASSERT_TRUE(put(*state, "newer"));
    state.reset();
    state = open();
    EXPECT_FALSE(state->objects().has(orphan));
    EXPECT_EQ(os::list_folder(folder_ + "/aside").size(), 1U);
    EXPECT_EQ(state->functions()->size(), 2U);
  }
}

TEST_F(StateOpenTest, AnOlderCopyOfTheDatabaseDeletesNothing) {
  ASSERT_TRUE(put(*open(), "old"));
  const Bytes old = *os::read_file(folder_ + "/state.db");
  ASSERT_TRUE(put(*open(), "new"));
  ASSERT_TRUE(os::write_file(folder_ + "/state.db", old).ok());
  (void)open();
  EXPECT_EQ(os::size_of_tree(aside()).files, 3U);
}

TEST_F(StateOpenTest, WhatACrashLeavesIsGarbageAndGoes) {
  ASSERT_TRUE(put(*open(), "old"));
  put_and_die("new");
  std::string orphan;
  {
    auto state = open();
    EXPECT_EQ(state->functions()->size(), 2U);
    orphan = *state->objects().put(as_bytes_of("put, then the server died"));
    ASSERT_TRUE(*state->remove_function("a", "new"));
  }
  auto state = open();
  EXPECT_FALSE(state->objects().has(orphan));
  EXPECT_FALSE(state->objects().has(sha256("name: new")));
  EXPECT_FALSE(os::exists(folder_ + "/aside"));
}

// A change that failed names nothing, and is not counted.
TEST_F(StateOpenTest, AChangeThatFailsIsNotCounted) {
  {
    auto state = open();
    ASSERT_TRUE(put(*state, "old"));
    const auto failed = state->atomically([&]() -> Status {
      if (!put(*state, "new")) return {};
      return internal("fails");
    });
    ASSERT_FALSE(failed.ok());
  }
  EXPECT_EQ(State::read_changes(folder_)->count, 3);
  auto state = open();
  EXPECT_EQ(state->functions()->size(), 1U);
  EXPECT_FALSE(state->objects().has(sha256("name: new")));
  EXPECT_FALSE(os::exists(folder_ + "/aside"));
}

// An older Quern counted nothing, and a count that makes no sense is none.
TEST_F(StateOpenTest, WithoutACountNothingIsDeleted) {
  const std::string path = folder_ + "/changes";
  for (const std::string how : {"missing", "twelve", "a text with more bytes than a count has", "", "folder"}) {
    SCOPED_TRACE(how);
    os::remove_tree(folder_);
    ASSERT_TRUE(os::make_folders(folder_).ok());
    std::string orphan;
    {
      auto state = open();
      ASSERT_TRUE(put(*state, "old"));
      orphan = *state->objects().put(as_bytes_of("orphan"));
    }
    os::remove_file(path);
    if (how == "folder") {
      ASSERT_TRUE(os::make_folders(path).ok());
    } else if (how != "missing") {
      ASSERT_TRUE(os::write_file(path, as_bytes_of(how)).ok());
    }
    auto state = open();
    ASSERT_TRUE(state);
    EXPECT_EQ(State::read_changes(folder_)->count, 3) << "it is counted anew";
    EXPECT_EQ(os::exists(aside() + "/changes"), how != "missing");
    EXPECT_FALSE(state->objects().has(orphan));
    EXPECT_TRUE(state->objects().has(sha256("name: old")));
    EXPECT_TRUE(os::exists(aside() + "/objects/" + orphan.substr(0, 2) + "/" + orphan));
    os::remove_tree(folder_ + "/aside");
  }
}

// The table of the count came with schema 7; for a while it was made without one.
TEST_F(StateOpenTest, AStateOfSchemaSixIsRaisedToSeven) {
  for (const bool has_count : {false, true}) {
    SCOPED_TRACE(has_count);
    os::remove_tree(folder_);
    ASSERT_TRUE(os::make_folders(folder_).ok());
    ASSERT_TRUE(put(*open(), "old"));
    if (!has_count) os::remove_file(folder_ + "/changes");
    {
      auto database = Database::open(folder_ + "/state.db");
      ASSERT_TRUE(
          database->execute(std::string(has_count ? "" : "DROP TABLE changes;") + "PRAGMA user_version=6").ok());
    }
    {
      auto state = open();
      EXPECT_EQ(state->functions()->size(), 1U);
      EXPECT_FALSE(os::exists(folder_ + "/aside"));
      ASSERT_TRUE(put(*state, "new"));
    }
    EXPECT_EQ(State::read_changes(folder_)->count, has_count ? 6 : 3);
    auto database = Database::open(folder_ + "/state.db");
    Statement version(*database, "PRAGMA user_version");
    ASSERT_TRUE(*version.next());
    EXPECT_EQ(version.number(0), 7);
  }
}

// One row is gone from an index, and its page is as pages are.
TEST_F(StateOpenTest, ADatabaseWithADamagedIndexIsRefusedAndDeletesNothing) {
  ASSERT_TRUE(put(*open(), "old"));
  const std::string path = folder_ + "/state.db";
  size_t page = 0, page_bytes = 0;
  {
    auto database = Database::open(path);
    Statement root(*database, "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_tenant_objects_1'");
    ASSERT_TRUE(*root.next());
    page = static_cast<size_t>(root.number(0));
    Statement size(*database, "PRAGMA page_size");
    ASSERT_TRUE(*size.next());
    page_bytes = static_cast<size_t>(size.number(0));
  }
  Bytes bytes = *os::read_file(path);
  const size_t header = (page - 1) * page_bytes;
  ASSERT_EQ(bytes.at(header), std::byte{10}) << "a leaf of an index";
  ASSERT_EQ(bytes.at(header + 4), std::byte{1}) << "with one row";
  bytes[header + 4] = std::byte{0};
  ASSERT_TRUE(os::write_file(path, bytes).ok());
  const auto refused = State::open(folder_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInternal);
  EXPECT_NE(refused.error().text.find("its database state.db is damaged ("), std::string::npos) << refused.error().text;
  EXPECT_NE(refused.error().text.find("run 'quern doctor "), std::string::npos);
  for (const std::string& one : bytes_of_all("old")) {
    const std::string hash = sha256(one);
    EXPECT_TRUE(os::exists(folder_ + "/objects/" + hash.substr(0, 2) + "/" + hash)) << one;
  }
}

// The objects may be on another disk, where a name cannot just be changed.
TEST_F(StateOpenTest, ObjectsOnAnotherFileSystemAreCopiedAside) {
  std::string disk = "/dev/shm/quern_open_XXXXXX";
  if (mkdtemp(disk.data()) == nullptr) GTEST_SKIP() << "there is no shared memory to be the other file system";
  struct stat here {
  }, there{};
  ASSERT_TRUE(stat(folder_.c_str(), &here) == 0 && stat(disk.c_str(), &there) == 0);
  if (here.st_dev == there.st_dev) {
    os::remove_tree(disk);
    GTEST_SKIP() << "the tests' folder is in shared memory as well";
  }
  ASSERT_EQ(symlink(disk.c_str(), (folder_ + "/objects").c_str()), 0);
  std::string orphan;
  {
    auto state = open();
    ASSERT_TRUE(put(*state, "old"));
    orphan = *state->objects().put(as_bytes_of("orphan"));
  }
  os::remove_file(folder_ + "/changes");
  {
    auto state = open();
    EXPECT_FALSE(state->objects().has(orphan));
    EXPECT_TRUE(state->objects().has(sha256("name: old")));
  }
  const auto kept = os::read_file(aside() + "/objects/" + orphan.substr(0, 2) + "/" + orphan);
  EXPECT_TRUE(kept.ok() && as_text(*kept) == "orphan");
  os::remove_tree(disk);
}

TEST_F(StateOpenTest, AFolderThatLostItsDatabaseIsLeftAsItIs) {
  ASSERT_TRUE(os::make_folders(folder_ + "/objects/ab").ok());
  ASSERT_TRUE(os::write_file(folder_ + "/objects/ab/abcd", as_bytes_of("mine")).ok());
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  const auto refused = State::open(folder_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(os::status_of(folder_)->mode, 0755U);
  EXPECT_EQ(os::list_folder(folder_), std::vector<std::string>{"objects"});
}

TEST_F(StateOpenTest, AFolderThatHoldsOtherThingsIsLeftAsItIs) {
  ASSERT_TRUE(os::write_file(folder_ + "/letters.txt", as_bytes_of("mine")).ok());
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  const auto refused = State::open(folder_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  EXPECT_NE(refused.error().text.find("holds other things ('letters.txt') and no state of a server"), std::string::npos)
      << refused.error().text;
  EXPECT_NE(refused.error().text.find("as in " + folder_ + "/quern-state"), std::string::npos);
  EXPECT_EQ(os::status_of(folder_)->mode, 0755U);
  EXPECT_EQ(os::list_folder(folder_), std::vector<std::string>{"letters.txt"});
  EXPECT_TRUE(State::open(folder_ + "/quern-state").ok()) << "one that is not there yet";

  ASSERT_TRUE(os::make_folders(folder_ + "/empty").ok());
  ASSERT_TRUE(os::make_folders(folder_ + "/disk/lost+found").ok());
  for (const char* name : {"/empty", "/disk"}) {
    EXPECT_TRUE(State::open(folder_ + name).ok()) << name;
    EXPECT_EQ(os::status_of(folder_ + name)->mode, 0700U) << name;
    ASSERT_EQ(chmod((folder_ + name).c_str(), 0755), 0);
    EXPECT_TRUE(State::open(folder_ + name).ok()) << "it is a state by now";
    EXPECT_EQ(os::status_of(folder_ + name)->mode, 0700U) << name;
  }
}

}  // namespace
}  // namespace quern::daemon
