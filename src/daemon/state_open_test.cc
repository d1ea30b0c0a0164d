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
  EXPECT_EQ(**State::read_changes(folder_), 3);
  auto state = open();
  EXPECT_EQ(state->functions()->size(), 1U);
  EXPECT_FALSE(state->objects().has(sha256("name: new")));
  EXPECT_FALSE(os::exists(folder_ + "/aside"));
}

// An older Quern counted nothing, and a count that makes no sense is none.
TEST_F(StateOpenTest, WithoutACountNothingIsDeleted) {
  for (const bool is_missing : {true, false}) {
    SCOPED_TRACE(is_missing);
    std::string orphan;
    {
      auto state = open();
      ASSERT_TRUE(put(*state, "old"));
      orphan = *state->objects().put(as_bytes_of("orphan"));
    }
    is_missing ? os::remove_file(folder_ + "/changes")
               : (void)os::write_file(folder_ + "/changes", as_bytes_of("twelve"));
    auto state = open();
    EXPECT_FALSE(state->objects().has(orphan));
    EXPECT_TRUE(state->objects().has(sha256("name: old")));
    EXPECT_TRUE(os::exists(aside() + "/objects/" + orphan.substr(0, 2) + "/" + orphan));
    os::remove_tree(folder_ + "/aside");
  }
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
