// SPDX-License-Identifier: Apache-2.0
#include "daemon/run_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "os/file.h"
#include "os/thread.h"

namespace quern::daemon {
namespace {

class RunFolders : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "quern_run_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { os::remove_tree(folder_); }
  std::string folder_;
};

TEST_F(RunFolders, AreOfThisUserAlone) {
  auto made = make_run_folder(folder_);
  ASSERT_TRUE(made.ok()) << made.error().text;
  EXPECT_TRUE(os::is_private_folder(made->path));
  os::remove_tree(made->path);
}

TEST_F(RunFolders, AreNotWhatOthersMayWrite) {
  auto made = make_run_folder(folder_);
  ASSERT_TRUE(made.ok()) << made.error().text;
  EXPECT_FALSE(os::make_private_folder(folder_ + "/none/below").ok());
  ASSERT_TRUE(os::make_private_folder(folder_ + "/open").ok());
  ASSERT_EQ(chmod((folder_ + "/open").c_str(), 0777), 0);
  EXPECT_EQ(os::make_private_folder(folder_ + "/open").error().code, ErrorCode::kDenied);
  ASSERT_EQ(symlink(made->path.c_str(), (folder_ + "/link").c_str()), 0);
  EXPECT_EQ(os::make_private_folder(folder_ + "/link").error().code, ErrorCode::kDenied);
  ASSERT_TRUE(os::make_private_folder(folder_ + "/theirs").ok());
  if (geteuid() == 0 && chown((folder_ + "/theirs").c_str(), 65534, 65534) == 0) {
    EXPECT_EQ(os::make_private_folder(folder_ + "/theirs").error().code, ErrorCode::kDenied);
  }
  os::remove_tree(made->path);
}

// At the path that the server will use, where anyone may make things.
TEST_F(RunFolders, AFolderThatAnotherUserMadeFirstIsRefusedAndLeftAlone) {
  std::string path;
  {
    auto made = make_run_folder(folder_);
    ASSERT_TRUE(made.ok()) << made.error().text;
    path = made->path;
    remove_run_folder(path);
  }
  EXPECT_FALSE(os::exists(path));
  const auto expect_refused = [&](const char* what) {
    const auto made = make_run_folder(folder_);
    ASSERT_FALSE(made.ok()) << what;
    EXPECT_EQ(made.error().code, ErrorCode::kDenied) << what;
    EXPECT_NE(made.error().text.find(path + ": is not a folder of this user"), std::string::npos) << made.error().text;
  };
  ASSERT_TRUE(os::make_folders(folder_ + "/trap", 0700).ok());
  ASSERT_EQ(symlink((folder_ + "/trap").c_str(), path.c_str()), 0);
  expect_refused("a link");
  EXPECT_TRUE(os::list_folder(folder_ + "/trap").empty()) << "nothing is put where a link leads";
  os::remove_file(path);
  if (geteuid() == 0) {
    ASSERT_EQ(mkdir(path.c_str(), 0777), 0);
    ASSERT_TRUE(os::write_file(path + "/code.so", as_bytes_of("theirs")).ok());
    ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
    expect_refused("a folder of another user");
    EXPECT_EQ(os::list_folder(path), std::vector<std::string>{"code.so"});
    os::remove_tree(path);
  }
  // What this user left there in another mode, and what others put into it, is replaced.
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  ASSERT_EQ(chmod(path.c_str(), 0777), 0);
  ASSERT_TRUE(os::write_file(path + "/code.so", as_bytes_of("theirs")).ok());
  const auto made = make_run_folder(folder_);
  ASSERT_TRUE(made.ok()) << made.error().text;
  EXPECT_EQ(made->path, path);
  EXPECT_TRUE(os::is_private_folder(path));
  EXPECT_EQ(os::list_folder(path), std::vector<std::string>{"lock"});
  remove_run_folder(path);
}

TEST_F(RunFolders, AFolderWhoseLockIsHeldIsNeverRemoved) {
  auto first = make_run_folder(folder_);
  ASSERT_TRUE(first.ok()) << first.error().text;
  ASSERT_TRUE(os::write_file(first->path + "/code.so", as_bytes_of("ours")).ok());
  // As in a container of its own with the same shared memory.
  auto second = make_run_folder(folder_);
  ASSERT_TRUE(second.ok()) << second.error().text;
  EXPECT_EQ(second->path, first->path + "-2");
  EXPECT_TRUE(os::exists(first->path + "/code.so"));
  const std::string path = first->path;
  first = internal("killed");
  const auto third = make_run_folder(folder_);
  ASSERT_TRUE(third.ok()) << third.error().text;
  EXPECT_EQ(third->path, path) << "its lock ended with its process";
  EXPECT_FALSE(os::exists(path + "/code.so"));
  EXPECT_TRUE(os::exists(second->path));
  for (const std::string& one : {path, second->path}) remove_run_folder(one);
}

TEST_F(RunFolders, AFolderOfAnEarlierQuernHasNoLockAndIsReplaced) {
  std::string path;
  {
    auto made = make_run_folder(folder_);
    ASSERT_TRUE(made.ok()) << made.error().text;
    path = made->path;
    os::remove_file(path + "/lock");
    ASSERT_TRUE(os::write_file(path + "/code.so", as_bytes_of("old")).ok());
  }
  const auto other = make_run_folder(folder_ + "/other");
  ASSERT_TRUE(other.ok() || other.error().code == ErrorCode::kNotFound);
  EXPECT_TRUE(os::exists(path + "/code.so")) << "its server may run";
  const auto made = make_run_folder(folder_);
  ASSERT_TRUE(made.ok()) << made.error().text;
  EXPECT_EQ(made->path, path);
  EXPECT_FALSE(os::exists(path + "/code.so"));
  remove_run_folder(path);
  if (other.ok()) remove_run_folder(other->path);
}

TEST_F(RunFolders, ServersThatStartAndEndAtATimeLeaveEachOtherAlone) {
  const auto start_and_end = [&](const std::string& state) {
    for (int i = 0; i < 200; ++i) {
      auto made = make_run_folder(state);
      ASSERT_TRUE(made.ok()) << made.error().text;
      ASSERT_EQ(os::list_folder(made->path), std::vector<std::string>{"lock"});
      ASSERT_FALSE(os::lock_file(made->path + "/lock").ok()) << "it is held";
      if (i % 2 == 0) remove_run_folder(made->path);  // else it was killed
    }
  };
  for (const char* name : {"/a", "/b", "/c"}) ASSERT_TRUE(os::make_folders(folder_ + name).ok());
  {
    os::Thread one("one", [&] { start_and_end(folder_ + "/a"); });
    os::Thread two("two", [&] { start_and_end(folder_ + "/b"); });
    os::Thread three("three", [&] { start_and_end(folder_ + "/c"); });
  }
  for (const char* name : {"/a", "/b", "/c"}) {
    const auto again = make_run_folder(folder_ + name);
    ASSERT_TRUE(again.ok());
    remove_run_folder(again->path);
  }
}

TEST_F(RunFolders, ThatAKilledServerDidNotFinishAreCleared) {
  std::string parent;
  {
    const auto made = make_run_folder(folder_);
    ASSERT_TRUE(made.ok()) << made.error().text;
    parent = made->path.substr(0, made->path.rfind('/'));
    remove_run_folder(made->path);
  }
  if (parent != "/dev/shm") GTEST_SKIP() << "shared memory holds no code here";
  const std::string prefix = parent + "/quern-new-" + std::to_string(geteuid()) + "-test-" + std::to_string(getpid());
  const std::string empty = prefix + "-1", killed = prefix + "-2", making = prefix + "-3", other = prefix + "-4";
  for (const std::string& one : {empty, killed, making, other}) ASSERT_TRUE(os::make_private_folder(one).ok());
  ASSERT_TRUE(os::lock_file(killed + "/lock").ok());
  const auto held = os::lock_file(making + "/lock");
  ASSERT_TRUE(held.ok());
  ASSERT_TRUE(os::write_file(other + "/code.so", as_bytes_of("without a lock")).ok());
  const auto made = make_run_folder(folder_);
  ASSERT_TRUE(made.ok()) << made.error().text;
  EXPECT_FALSE(os::exists(empty));
  EXPECT_FALSE(os::exists(killed));
  EXPECT_TRUE(os::exists(making + "/lock")) << "its server is making it";
  EXPECT_TRUE(os::exists(other + "/code.so")) << "no server makes one like it";
  remove_run_folder(made->path);
  for (const std::string& one : {making, other}) os::remove_tree(one);
}

TEST_F(RunFolders, OfKilledServersAreClearedByTheNextOfAnyState) {
  ASSERT_TRUE(os::make_folders(folder_ + "/killed").ok() && os::make_folders(folder_ + "/runs").ok());
  std::string left;
  {
    auto killed = make_run_folder(folder_ + "/killed");
    ASSERT_TRUE(killed.ok()) << killed.error().text;
    left = killed->path;
  }
  auto runs = make_run_folder(folder_ + "/runs");
  ASSERT_TRUE(runs.ok()) << runs.error().text;
  if (left.starts_with("/dev/shm")) {
    EXPECT_FALSE(os::exists(left)) << "its lock ended with its process";
  }
  auto third = make_run_folder(folder_);
  ASSERT_TRUE(third.ok());
  EXPECT_TRUE(os::exists(runs->path)) << "one that runs is left alone";
  for (const std::string& path : {left, runs->path, third->path}) os::remove_tree(path);
}

}  // namespace
}  // namespace quern::daemon
