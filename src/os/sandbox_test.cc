// SPDX-License-Identifier: Apache-2.0
#include "os/sandbox.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/file.h"

namespace quern::os {
namespace {

/// A folder with the folders `mine` and `theirs`, each with a file `a`.
class SandboxTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_confine_files()) GTEST_SKIP() << "this kernel has no Landlock";
    std::string name = testing::TempDir() + "quern_sandbox_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    for (const char* one : {"mine", "theirs", "read"}) {
      ASSERT_TRUE(make_folders(path(one)).ok());
      ASSERT_TRUE(write_file(path(one) + "/a", as_bytes_of("text")).ok());
    }
    ASSERT_EQ(symlink(path("theirs/a").c_str(), path("mine/link").c_str()), 0);
  }
  void TearDown() override {
    if (!folder_.empty()) remove_tree(folder_);
  }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  bool can_read(const std::string& name) const { return read_file(path(name)).ok(); }
  bool can_write(const std::string& name) const { return write_file(path(name), as_bytes_of("b")).ok(); }

  /// Whether `claim` holds in a process that may write `mine` and read `read`.
  template <class F>
  bool holds_confined(F&& claim) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      const Status confined = confine_files({{path("read"), path("none")}, {}, {path("mine")}});
      _exit(confined.ok() && claim() ? 0 : 1);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  std::string folder_;
};

TEST_F(SandboxTest, WhatIsAllowedWorks) {
  EXPECT_TRUE(holds_confined([&] { return can_read("mine/a") && can_read("read/a"); }));
  EXPECT_TRUE(holds_confined([&] { return can_write("mine/a") && can_write("mine/new"); }));
  EXPECT_TRUE(holds_confined(
      [&] { return make_folders(path("mine/sub")).ok() && move_file(path("mine/a"), path("mine/sub/a")).ok(); }));
}

TEST_F(SandboxTest, NothingElseDoes) {
  EXPECT_TRUE(holds_confined([&] { return !can_read("theirs/a") && !can_read("mine/../theirs/a"); }));
  EXPECT_TRUE(holds_confined([&] { return !can_read("mine/link"); })) << "a link leads out";
  EXPECT_TRUE(
      holds_confined([&] { return !can_write("theirs/a") && !can_write("theirs/new") && !can_write("read/a"); }));
  EXPECT_TRUE(holds_confined([&] { return !read_file("/etc/passwd").ok(); })) << "root or not";
  EXPECT_TRUE(holds_confined([&] { return execl("/bin/true", "true", nullptr) == -1; }));
}

TEST_F(SandboxTest, ProcessesThatAreStartedAreConfinedToo) {
  EXPECT_TRUE(holds_confined([&] {
    const pid_t child = fork();
    if (child == 0) _exit(can_read("theirs/a") ? 1 : 0);
    int status = 0;
    return waitpid(child, &status, 0) == child && status == 0;
  }));
}

}  // namespace
}  // namespace quern::os
