// SPDX-License-Identifier: Apache-2.0
#include "daemon/run_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/file.h"

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
