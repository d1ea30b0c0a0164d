// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "daemon/doctor.h"
#include "os/file.h"

namespace quern::daemon {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;
constexpr uint32_t kUser = 65534;

/// A state with one object, all of it of another user than root, and a file of root that this user has no part in.
class DoctorAsRoot : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
    std::string name = testing::TempDir() + "quern_root_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    parent_ = name;
    folder_ = parent_ + "/state";
    {
      auto state = State::open(folder_);
      ASSERT_TRUE(state.ok()) << state.error().text;
      object_ = *(*state)->objects().put(as_bytes_of("tensor"));
      ASSERT_TRUE((*state)->put_tenant_object("t1", object_, 6, "2026-11-16T10:00:00Z").ok());
    }
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) own(entry.path(), kUser);
    own(folder_, kUser);
    secret_ = parent_ + "/secret";
    ASSERT_TRUE(os::write_file(secret_, as_bytes_of("of root")).ok());
    ASSERT_EQ(chmod(secret_.c_str(), 0640), 0);
  }
  void TearDown() override { os::remove_tree(parent_); }

  static void own(const std::string& path, uint32_t owner) { ASSERT_EQ(lchown(path.c_str(), owner, owner), 0) << path; }
  void link(const std::string& target, const std::string& path, uint32_t owner) {
    ASSERT_EQ(symlink(target.c_str(), path.c_str()), 0);
    own(path, owner);
  }
  std::string path_of(const std::string& hash) const { return folder_ + "/objects/" + hash.substr(0, 2) + "/" + hash; }

  /// The findings that are left.
  std::vector<Finding> repair() {
    const auto doctor = Doctor::open(folder_, true);
    if (!doctor.ok()) ADD_FAILURE() << doctor.error().text;
    const auto done = doctor->repair(*doctor->examine());
    if (!done.ok()) ADD_FAILURE() << done.error().text;
    return doctor->examine()->findings;
  }
  void expect_untouched(const std::string& path) {
    const auto status = os::status_of(path);
    ASSERT_TRUE(status) << path;
    EXPECT_EQ(status->owner, 0U) << path;
    EXPECT_EQ(status->mode, 0640U) << path;
  }

  std::string parent_, folder_, object_, secret_;
};

TEST_F(DoctorAsRoot, ALinkInPlaceOfTheDatabaseIsNotFollowed) {
  for (const char* name : {"/state.db", "/state.db-wal", "/state.db-shm"}) {
    SCOPED_TRACE(name);
    const std::string path = folder_ + name, kept = parent_ + "/kept";
    const bool is_database = fs::exists(path);
    if (is_database) fs::rename(path, kept);
    link(secret_, path, kUser);
    const auto doctor = Doctor::open(folder_, true);
    ASSERT_TRUE(doctor.ok()) << doctor.error().text;
    const auto seen = doctor->examine();
    ASSERT_TRUE(seen.ok()) << seen.error().text;
    bool is_told = false;
    for (const Finding& one : seen->findings) {
      if (one.kind != Finding::Kind::kPermissions) continue;
      EXPECT_EQ(one.repair, Finding::Repair::kNothing) << one.thing;
      EXPECT_THAT(one.cure, HasSubstr("--repair leaves it as it is, because it is "));
      is_told = true;
    }
    EXPECT_TRUE(is_told);
    for (const Finding& one : seen->findings) {
      // Also if the link gets there after the examination.
      Examination late;
      late.findings = {one};
      late.findings[0].repair = Finding::Repair::kMakePrivate;
      late.findings[0].path = name + 1;
      EXPECT_FALSE(doctor->repair(late).ok());
    }
    expect_untouched(secret_);
    os::remove_file(path);
    if (is_database) fs::rename(kept, path);
  }
}

TEST_F(DoctorAsRoot, AFileWithASecondNameStaysAsItIs) {
  const std::string other(64, 'a');
  ASSERT_TRUE(os::make_folders(folder_ + "/objects/aa").ok());
  os::remove_file(folder_ + "/state.db-wal");
  ASSERT_EQ(::link(secret_.c_str(), (folder_ + "/state.db-wal").c_str()), 0);
  ASSERT_EQ(::link(secret_.c_str(), path_of(other).c_str()), 0);
  (void)repair();
  expect_untouched(secret_);
}

TEST_F(DoctorAsRoot, LinksInPlaceOfObjectsAndShelvesAreNotFollowed) {
  const std::string other(64, 'a'), outside = parent_ + "/outside";
  // What root would take for objects, were it to follow.
  ASSERT_TRUE(os::make_folders(outside + "/" + object_.substr(0, 2)).ok());
  const std::string file = outside + "/" + object_.substr(0, 2) + "/" + object_;
  ASSERT_TRUE(os::write_file(file, as_bytes_of("tensor")).ok());
  ASSERT_EQ(chmod(file.c_str(), 0640), 0);

  fs::rename(folder_ + "/objects", folder_ + "/run");
  link(outside, folder_ + "/objects", kUser);
  auto left = repair();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_THAT(left[0].problem, HasSubstr("1 files belong to another user than the folder, and are links"));
  expect_untouched(file);
  os::remove_file(folder_ + "/objects");
  fs::rename(folder_ + "/run", folder_ + "/objects");

  const std::string shelf = folder_ + "/objects/" + object_.substr(0, 2);
  os::remove_tree(shelf);
  link(outside + "/" + object_.substr(0, 2), shelf, kUser);
  // Something that root does repair, so that it looks into the shelves.
  ASSERT_TRUE(os::make_folders(folder_ + "/objects/aa").ok());
  ASSERT_TRUE(os::write_file(path_of(other), as_bytes_of("of no record")).ok());
  (void)repair();
  expect_untouched(file);
}

TEST_F(DoctorAsRoot, OtherNamesAmongTheObjectsStayAsTheyAre) {
  own(path_of(object_), 0);
  const std::string shelf = folder_ + "/objects/" + object_.substr(0, 2);
  ASSERT_TRUE(os::write_file(shelf + "/notes", as_bytes_of("of root")).ok());
  ASSERT_EQ(chmod((shelf + "/notes").c_str(), 0640), 0);
  const auto doctor = Doctor::open(folder_, true);
  Examination seen = *doctor->examine();
  std::erase_if(seen.findings, [](const Finding& one) { return one.kind != Finding::Kind::kPermissions; });
  ASSERT_EQ(seen.findings.size(), 1U);
  ASSERT_TRUE(doctor->repair(seen).ok());
  EXPECT_EQ(os::status_of(path_of(object_))->owner, kUser);
  expect_untouched(shelf + "/notes");
}

// As docs/guide/state.md says: the operator put the objects on another disk.
TEST_F(DoctorAsRoot, ALinkThatRootMadeLeadsToTheObjects) {
  fs::rename(folder_ + "/objects", parent_ + "/disk");
  link(parent_ + "/disk", folder_ + "/objects", 0);
  own(path_of(object_), 0);
  EXPECT_TRUE(repair().empty());
  EXPECT_EQ(os::status_of(path_of(object_))->owner, kUser);
}

TEST_F(DoctorAsRoot, NothingIsMovedBehindALink) {
  ASSERT_TRUE(os::make_folders(parent_ + "/outside").ok());
  link(parent_ + "/outside", folder_ + "/aside", kUser);
  ASSERT_TRUE(os::write_file(folder_ + "/objects/README", as_bytes_of("text")).ok());
  const auto doctor = Doctor::open(folder_, true);
  const auto done = doctor->repair(*doctor->examine());
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.error().text, HasSubstr("aside: is a link, and nothing is moved behind it"));
  EXPECT_TRUE(os::list_folder(parent_ + "/outside").empty());
}

TEST_F(DoctorAsRoot, ALinkInPlaceOfTheLockIsNotFollowed) {
  os::remove_file(folder_ + "/lock");
  link(parent_ + "/made", folder_ + "/lock", kUser);
  EXPECT_FALSE(Doctor::open(folder_, true).ok());
  EXPECT_FALSE(os::exists(parent_ + "/made"));
}

}  // namespace
}  // namespace quern::daemon
