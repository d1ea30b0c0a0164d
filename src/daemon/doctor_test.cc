// SPDX-License-Identifier: Apache-2.0
#include "daemon/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "base/hash.h"
#include "os/file.h"

namespace quern::daemon {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kManifest = R"(
api: quern/v1
name: NAME
kind: graph
programs: {opencl: a.cl}
buffers:
  w: {role: constant, dtype: fp32, shape: [2, 3], file: w.bin}
  z: {role: output, dtype: fp32, shape: [8]}
kernels: [{entry: k, global: [8], args: [{in: w}, {out: z}]}]
)";

/// A state with functions `mill` and `wheel`, an object of a tenant and a compiled program.
class DoctorTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "quern_doctor_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    auto state = State::open(folder_);
    ASSERT_TRUE(state.ok()) << state.error().text;
    add_function(**state, "mill", 'm', "24 bytes are six floats.");
    add_function(**state, "wheel", 'w', "These are six floats too");
    tensor_ = *(*state)->objects().put(as_bytes_of("tensor"));
    ASSERT_TRUE((*state)->put_tenant_object("t1", tensor_, 6, "2026-11-16T10:00:00Z").ok());
    program_ = *(*state)->objects().put(as_bytes_of("binary"));
    ASSERT_TRUE((*state)->put_binary({"key", program_, Bytes(3)}).ok());
  }
  void TearDown() override { os::remove_tree(folder_); }

  void add_function(State& state, const std::string& name, char version, const std::string& constant) {
    std::string manifest = kManifest;
    manifest.replace(manifest.find("NAME"), 4, name);
    FunctionRecord record;
    record.tenant = "t1";
    record.name = name;
    record.version = std::string(64, version);
    record.created_at = "2026-11-16T10:00:00Z";
    record.files["function.yaml"] = manifests_[name] = *state.objects().put(as_bytes_of(manifest));
    record.files["a.cl"] = *state.objects().put(as_bytes_of("__kernel void k() {} // " + name));
    constants_[name] = *state.objects().put(as_bytes_of(constant));
    record.constants["w"] = {constants_[name], constant.size()};
    ASSERT_TRUE(state.put_function(record).ok());
  }

  Doctor open(bool may_repair = false) {
    auto doctor = Doctor::open(folder_, may_repair);
    if (!doctor.ok()) ADD_FAILURE() << doctor.error().text;
    return std::move(doctor).value();
  }
  Examination examine() {
    auto seen = open().examine();
    if (!seen.ok()) ADD_FAILURE() << seen.error().text;
    return std::move(seen).value();
  }
  /// What is left afterwards.
  Examination repair() {
    const Doctor doctor = open(true);
    const auto done = doctor.repair(*doctor.examine());
    if (!done.ok()) ADD_FAILURE() << done.error().text;
    return *doctor.examine();
  }
  /// The names of functions that the state has.
  std::vector<std::string> functions() {
    auto state = State::open(folder_);
    if (!state.ok()) ADD_FAILURE() << state.error().text;
    std::vector<std::string> names;
    const auto records = (*state)->functions();
    for (const FunctionRecord& one : *records) names.push_back(one.name);
    return names;
  }

  std::string path_of(const std::string& hash) const { return folder_ + "/objects/" + hash.substr(0, 2) + "/" + hash; }
  static void write(const std::string& path, const std::string& text) {
    ASSERT_TRUE(os::write_file(path, as_bytes_of(text)).ok());
  }
  void flip(const std::string& hash) {
    Bytes bytes = *os::read_file(path_of(hash));
    bytes[bytes.size() / 2] ^= std::byte{1};
    ASSERT_TRUE(os::write_file(path_of(hash), bytes).ok());
  }
  /// Every file with its bytes and mode.
  std::map<std::string, std::string> tree() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      const auto status = os::status_of(entry.path().string());
      all[entry.path().string()] =
          std::to_string(status->mode) +
          (entry.is_regular_file() ? std::string(as_text(*os::read_file(entry.path().string()))) : "");
    }
    return all;
  }

  std::string folder_, tensor_, program_;
  std::map<std::string, std::string> manifests_, constants_;  ///< hashes by function
};

TEST_F(DoctorTest, SaysThatAllIsWellAndChangesNothing) {
  const auto before = tree();
  const Examination seen = examine();
  EXPECT_TRUE(seen.is_healthy());
  EXPECT_TRUE(seen.findings.empty());
  EXPECT_EQ(seen.schema, 7);
  EXPECT_EQ(seen.objects, 8U);
  EXPECT_EQ(seen.unnamed, 0U);
  EXPECT_EQ(seen.tenant_objects, 1U);
  EXPECT_EQ(seen.programs, 1U);
  ASSERT_EQ(seen.versions.size(), 2U);
  EXPECT_TRUE(seen.versions[0].is_whole && seen.versions[0].is_current);
  EXPECT_EQ(tree(), before);
}

TEST_F(DoctorTest, RefusesAFolderThatAServerHas) {
  const auto state = State::open(folder_);
  ASSERT_TRUE(state.ok());
  const auto doctor = Doctor::open(folder_, true);
  ASSERT_FALSE(doctor.ok());
  EXPECT_EQ(doctor.error().code, ErrorCode::kConflict);
  EXPECT_THAT(doctor.error().text, HasSubstr("a server has it open; stop that server first"));
}

TEST_F(DoctorTest, RefusesAFolderThatHoldsNoState) {
  for (const std::string& folder : {folder_ + "/none", folder_ + "/objects/00"}) {
    const auto doctor = Doctor::open(folder, true);
    ASSERT_FALSE(doctor.ok());
    EXPECT_EQ(doctor.error().code, ErrorCode::kNotFound);
  }
  EXPECT_FALSE(os::exists(folder_ + "/objects/00/lock"));
}

TEST_F(DoctorTest, ReadsWhatAKilledServerLeftInTheLogOfTheDatabase) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto state = State::open(folder_);
    _exit(state.ok() && (*state)->remove_function("t1", "wheel").ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_GT(os::file_size(folder_ + "/state.db-wal").value_or(0), 0U);
  const auto before = tree();
  const Examination seen = examine();
  EXPECT_TRUE(seen.is_healthy());
  ASSERT_EQ(seen.versions.size(), 1U);
  EXPECT_EQ(seen.versions[0].name, "mill");
  EXPECT_EQ(seen.unnamed, 3U);
  EXPECT_EQ(tree(), before);
}

TEST_F(DoctorTest, FindsTheVersionsThatADamagedObjectBelongsTo) {
  flip(manifests_["mill"]);
  const Examination seen = examine();
  ASSERT_EQ(seen.findings.size(), 1U);
  const Finding& finding = seen.findings[0];
  EXPECT_TRUE(finding.is_damage);
  EXPECT_EQ(finding.kind, Finding::Kind::kObject);
  EXPECT_THAT(finding.thing, HasSubstr(manifests_["mill"]));
  EXPECT_EQ(finding.problem, "is damaged: its bytes are not those that were written");
  EXPECT_EQ(finding.works, "all but function mill@mmmmmmmmmmmm of tenant t1 (current)");
  EXPECT_EQ(finding.cure, "--repair moves it aside, then deploy the function again");
  EXPECT_FALSE(seen.versions[0].is_whole);
  EXPECT_TRUE(seen.versions[1].is_whole);

  const Examination left = repair();
  ASSERT_EQ(left.findings.size(), 1U) << "the bytes are lost: only a deploy brings them back";
  EXPECT_EQ(left.findings[0].problem, "is missing");
  EXPECT_EQ(left.findings[0].cure, "deploy the function again");
  EXPECT_FALSE(os::exists(path_of(manifests_["mill"])));
  // The record stays, so that no older version is taken for the current one.
  EXPECT_EQ(functions(), (std::vector<std::string>{"mill", "wheel"}));
  const auto aside = os::list_folder(folder_ + "/aside");
  ASSERT_EQ(aside.size(), 1U);
  EXPECT_TRUE(os::exists(folder_ + "/aside/" + aside[0] + path_of(manifests_["mill"]).substr(folder_.size())));
}

TEST_F(DoctorTest, FindsAConstantThatIsLostOrOfAnotherSize) {
  os::remove_file(path_of(constants_["wheel"]));
  Examination seen = examine();
  ASSERT_EQ(seen.findings.size(), 1U);
  EXPECT_EQ(seen.findings[0].problem, "is missing");
  EXPECT_THAT(seen.findings[0].works, HasSubstr("all but function wheel@"));
  EXPECT_TRUE(seen.versions[0].is_whole);
  EXPECT_FALSE(seen.versions[1].is_whole);

  auto state = State::open(folder_);
  ASSERT_TRUE((*state)->objects().put(as_bytes_of("These are six floats too")).ok());
  FunctionRecord record = (*state)->functions()->at(0);
  record.constants["w"].bytes = 20;
  ASSERT_TRUE((*state)->change_objects(record).ok());
  state->reset();
  seen = examine();
  ASSERT_EQ(seen.findings.size(), 1U);
  EXPECT_EQ(seen.findings[0].kind, Finding::Kind::kFunction);
  EXPECT_EQ(seen.findings[0].problem, "constant 'w' has 20 bytes where 24 are needed");
  EXPECT_FALSE(seen.versions[0].is_whole);
}

TEST_F(DoctorTest, FindsAManifestThatThisQuernDoesNotTake) {
  auto state = State::open(folder_);
  FunctionRecord record = (*state)->functions()->at(0);
  record.files["function.yaml"] = *(*state)->objects().put(as_bytes_of("api: quern/v9"));
  ASSERT_TRUE((*state)->change_objects(record).ok());
  state->reset();
  const Examination seen = examine();
  ASSERT_EQ(seen.findings.size(), 1U);
  EXPECT_EQ(seen.findings[0].kind, Finding::Kind::kFunction);
  EXPECT_THAT(seen.findings[0].problem, HasSubstr("this Quern does not take its files (function.yaml:1:1: error:"));
  EXPECT_EQ(seen.findings[0].works, "every other version and function");
}

TEST_F(DoctorTest, NamesTheTenantWhoseObjectIsDamaged) {
  flip(tensor_);
  const Examination seen = examine();
  ASSERT_EQ(seen.findings.size(), 1U);
  EXPECT_TRUE(seen.findings[0].is_damage);
  EXPECT_EQ(seen.findings[0].works, "all but calls of tenant t1 that name it");
  EXPECT_EQ(seen.findings[0].cure, "--repair moves it aside, then its tenant puts it again");
}

TEST_F(DoctorTest, NotesACompiledProgramThatIsLostAndForgetsIt) {
  for (const bool is_missing : {false, true}) {
    SCOPED_TRACE(is_missing);
    {
      auto state = State::open(folder_);
      ASSERT_TRUE((*state)->objects().put(as_bytes_of("binary")).ok());
      ASSERT_TRUE((*state)->put_binary({"key", program_, Bytes(3)}).ok());
    }
    is_missing ? os::remove_file(path_of(program_)) : flip(program_);
    const Examination seen = examine();
    EXPECT_TRUE(seen.is_healthy());
    ASSERT_EQ(seen.findings.size(), 1U);
    EXPECT_EQ(seen.findings[0].kind, Finding::Kind::kProgram);
    EXPECT_EQ(seen.findings[0].works, "everything");
    EXPECT_EQ(seen.findings[0].cure, "it is built again");
    EXPECT_TRUE(repair().findings.empty());
    EXPECT_FALSE(os::exists(path_of(program_)));
    EXPECT_FALSE((*State::open(folder_))->binary("key")->has_value());
  }
}

TEST_F(DoctorTest, NotesLeftoversAndMovesThemAside) {
  write(folder_ + "/objects/ab/" + std::string(64, 'a') + ".12.3.tmp", "half");
  write(folder_ + "/objects/ab/notes.txt", "notes");
  write(folder_ + "/objects/00/" + std::string(64, 'f'), "on the wrong shelf");
  write(folder_ + "/objects/README", "text");
  ASSERT_EQ(symlink("/etc/passwd", (folder_ + "/objects/ff/" + std::string(64, 'f')).c_str()), 0);
  const Examination seen = examine();
  EXPECT_TRUE(seen.is_healthy());
  EXPECT_EQ(seen.findings.size(), 5U);
  for (const Finding& one : seen.findings) EXPECT_EQ(one.kind, Finding::Kind::kLeftover) << one.thing;
  EXPECT_TRUE(repair().findings.empty());
  EXPECT_EQ(functions(), (std::vector<std::string>{"mill", "wheel"}));
  const auto aside = os::list_folder(folder_ + "/aside");
  ASSERT_EQ(aside.size(), 1U);
  EXPECT_TRUE(os::exists(folder_ + "/aside/" + aside[0] + "/objects/ab/notes.txt"));
}

TEST_F(DoctorTest, ADatabaseThatIsLostGoesAsideWithItsObjects) {
  const std::string database = folder_ + "/state.db";
  const Bytes whole = *os::read_file(database);
  const auto tree_before = os::list_folder(folder_ + "/objects");
  struct Case {
    const char* name;
    std::string bytes;
    const char* problem;
  };
  std::string flipped(as_text(whole));
  for (size_t i = 4096; i < flipped.size(); ++i) flipped[i] = static_cast<char>(flipped[i] ^ 0x55);
  for (const Case& one : {Case{"missing", "-", "is missing, and 8 objects are beside it"},
                          Case{"empty", "", "is empty, and 8 objects are beside it"},
                          Case{"garbage", std::string(8192, 'x'), "cannot be read (file is not a database), and 8"},
                          Case{"truncated", std::string(as_text(whole)).substr(0, whole.size() / 2), "and 8 objects"},
                          Case{"flipped", flipped, "and 8 objects are beside it"}}) {
    SCOPED_TRACE(one.name);
    os::remove_file(database);
    if (one.bytes != "-") write(database, one.bytes);
    ::chmod(database.c_str(), 0600);
    const Examination seen = examine();
    ASSERT_EQ(seen.findings.size(), 1U);
    EXPECT_FALSE(seen.is_healthy());
    EXPECT_EQ(seen.findings[0].kind, Finding::Kind::kDatabase);
    EXPECT_THAT(seen.findings[0].problem, HasSubstr(one.problem));
    EXPECT_THAT(seen.findings[0].works, HasSubstr("nothing: "));
    EXPECT_EQ(seen.schema, 0);
    EXPECT_TRUE(repair().is_healthy());
    EXPECT_TRUE(functions().empty());
    const auto aside = os::list_folder(folder_ + "/aside");
    ASSERT_EQ(aside.size(), 1U);
    const std::string moved = folder_ + "/aside/" + aside[0];
    EXPECT_EQ(os::list_folder(moved + "/objects"), tree_before);
    EXPECT_EQ(os::exists(moved + "/state.db"), one.bytes != "-");
    EXPECT_TRUE(os::is_private_folder(moved));
    // As it was, for the next.
    os::remove_tree(folder_ + "/objects");
    fs::rename(moved + "/objects", folder_ + "/objects");
    os::remove_tree(folder_ + "/aside");
    for (const char* name : {"/state.db-wal", "/state.db-shm"}) os::remove_file(folder_ + name);
  }
}

// A disk that is full, or a file that is not ours to read, says nothing about the state.
TEST_F(DoctorTest, ADatabaseThatCannotBeCopiedEndsTheExamination) {
  const auto expect_error = [&](ErrorCode code, const char* text) {
    const auto before = tree();
    const auto doctor = Doctor::open(folder_, true);
    ASSERT_TRUE(doctor.ok()) << doctor.error().text;
    const auto seen = doctor->examine();
    ASSERT_FALSE(seen.ok());
    EXPECT_EQ(seen.error().code, code) << seen.error().text;
    EXPECT_THAT(seen.error().text, HasSubstr("state.db: cannot be copied to be examined: "));
    EXPECT_THAT(seen.error().text, HasSubstr(text));
    EXPECT_EQ(tree(), before);
  };
  struct rlimit limit {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 4096, limit.rlim_max };
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_error(ErrorCode::kExhausted, "name a folder that has room in $TMPDIR");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  signal(SIGXFSZ, handler);
  if (geteuid() == 0) {
    for (const auto& [path, content] : tree()) ASSERT_EQ(lchown(path.c_str(), 65534, 65534), 0);
    ASSERT_EQ(chown(folder_.c_str(), 65534, 65534), 0);
    ASSERT_EQ(chown((folder_ + "/state.db").c_str(), 0, 0), 0);
    ASSERT_EQ(seteuid(65534), 0);
    const auto doctor = Doctor::open(folder_, true);
    const auto seen = doctor.ok() ? doctor->examine() : Result<Examination>(doctor.error());
    ASSERT_EQ(seteuid(0), 0);
    ASSERT_FALSE(seen.ok());
    EXPECT_EQ(seen.error().code, ErrorCode::kDenied) << seen.error().text;
    EXPECT_FALSE(os::exists(folder_ + "/aside"));
  }
}

TEST_F(DoctorTest, AnObjectThatCannotBeReadIsNotTakenForDamaged) {
  // Its first bytes are mapped nowhere: reading them is an I/O error.
  os::remove_file(path_of(tensor_));
  ASSERT_EQ(symlink("/proc/self/mem", path_of(tensor_).c_str()), 0);
  // A disk that is not mounted.
  os::remove_file(path_of(manifests_["mill"]));
  ASSERT_EQ(symlink("/nowhere/at/all", path_of(manifests_["mill"]).c_str()), 0);
  os::remove_file(path_of(program_));
  ASSERT_EQ(symlink("/proc/self/mem", path_of(program_).c_str()), 0);
  const Examination seen = examine();
  EXPECT_FALSE(seen.is_healthy());
  ASSERT_EQ(seen.findings.size(), 3U);
  for (const Finding& one : seen.findings) {
    EXPECT_EQ(one.kind, Finding::Kind::kUnreadable) << one.thing;
    EXPECT_FALSE(one.is_damage);
    EXPECT_EQ(one.repair, Finding::Repair::kNothing);
    EXPECT_THAT(one.cure, HasSubstr("make it readable"));
  }
  EXPECT_FALSE(seen.versions[0].is_whole);
  EXPECT_TRUE(seen.versions[1].is_whole);
  EXPECT_EQ(repair().findings.size(), 3U);
  EXPECT_FALSE(os::exists(folder_ + "/aside"));
  EXPECT_TRUE((*State::open(folder_))->binary("key")->has_value()) << "its record stays";
}

// As the server does.
TEST_F(DoctorTest, FollowsLinks) {
  const std::string disk = folder_ + "-disk";
  ASSERT_TRUE(os::make_folders(disk).ok());
  const auto move_and_link = [&](const std::string& name) {
    fs::rename(folder_ + "/" + name, disk + "/" + fs::path(name).filename().string());
    fs::create_symlink(disk + "/" + fs::path(name).filename().string(), folder_ + "/" + name);
  };
  move_and_link("state.db");
  move_and_link("objects/" + tensor_.substr(0, 2));
  move_and_link("objects");
  EXPECT_TRUE(examine().findings.empty());
  EXPECT_TRUE(repair().findings.empty());
  ASSERT_EQ(chmod((disk + "/state.db").c_str(), 0644), 0);
  const Examination seen = examine();
  ASSERT_EQ(seen.findings.size(), 1U);
  EXPECT_EQ(seen.findings[0].thing, "state.db");
  EXPECT_TRUE(repair().findings.empty());
  EXPECT_EQ(os::status_of(disk + "/state.db")->mode, 0600U);
  // What a killed server left in the log is beside the file, not beside the link.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto state = State::open(folder_);
    _exit(state.ok() && (*state)->remove_function("t1", "wheel").ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_GT(os::file_size(disk + "/state.db-wal").value_or(0), 0U);
  EXPECT_EQ(examine().versions.size(), 1U);
  os::remove_file(disk + "/state.db-wal");
  os::remove_file(disk + "/state.db");
  const auto lost = open(true).examine();
  ASSERT_FALSE(lost.ok());
  EXPECT_THAT(lost.error().text, HasSubstr("state.db: is a link that leads nowhere"));
  EXPECT_FALSE(os::exists(folder_ + "/aside"));
  os::remove_tree(disk);
}

TEST_F(DoctorTest, TellsOfADatabaseThatIsOlderThanItsObjects) {
  const Bytes old = *os::read_file(folder_ + "/state.db");
  {
    auto state = State::open(folder_);
    add_function(**state, "new", 'n', "24 other bytes are here.");
  }
  ASSERT_TRUE(os::write_file(folder_ + "/state.db", old).ok());
  const Examination seen = examine();
  ASSERT_EQ(seen.findings.size(), 1U);
  EXPECT_EQ(seen.findings[0].kind, Finding::Kind::kDatabase);
  EXPECT_THAT(seen.findings[0].problem, HasSubstr("is older than its objects and lacks 1 change:"));
  EXPECT_THAT(seen.findings[0].problem, HasSubstr("it does not name 3 objects"));
  EXPECT_EQ(seen.findings[0].repair, Finding::Repair::kNothing);
  EXPECT_TRUE(seen.keeps_unnamed);
  EXPECT_FALSE(repair().is_healthy());
  EXPECT_EQ(functions(), (std::vector<std::string>{"mill", "wheel"}));
  const Examination after = examine();
  EXPECT_TRUE(after.is_healthy());
  EXPECT_EQ(after.aside.files, 3U) << "the server moved them";
  EXPECT_FALSE(after.keeps_unnamed);
}

TEST_F(DoctorTest, TellsOfAFileOfChangesThatMakesNoSense) {
  const std::string path = folder_ + "/changes";
  for (const auto& [content, problem] :
       {std::pair{"", "is empty"}, std::pair{"twelve\n", "has 7 bytes where 21 are written"},
        std::pair{"twelve and some more.", "holds no number"}, std::pair{"99999999999999999999\n", "holds no number"},
        std::pair{"/", "is a folder"}}) {
    SCOPED_TRACE(problem);
    const bool is_folder = content == std::string("/");
    os::remove_tree(path);
    is_folder ? (void)os::make_folders(path) : write(path, content);
    const Examination seen = examine();
    ASSERT_EQ(seen.findings.size(), 1U) << "the database is not older than anything";
    EXPECT_EQ(seen.findings[0].thing, "file changes");
    EXPECT_EQ(seen.findings[0].problem,
              std::string(problem) + ", so that nobody knows whether state.db is as new as the objects");
    EXPECT_EQ(seen.findings[0].works, "everything");
    EXPECT_TRUE(seen.keeps_unnamed);
    EXPECT_TRUE(repair().findings.empty());
    EXPECT_FALSE(os::exists(path));
    const auto aside = os::list_folder(folder_ + "/aside");
    ASSERT_EQ(aside.size(), 1U);
    EXPECT_EQ(os::is_folder(folder_ + "/aside/" + aside[0] + "/changes"), is_folder);
    os::remove_tree(folder_ + "/aside");
    EXPECT_EQ(functions().size(), 2U);
  }
}

TEST_F(DoctorTest, AStoreWithoutFormatOrObjectsIsTold) {
  write(folder_ + "/objects/format", "garbage");
  Examination seen = examine();
  EXPECT_TRUE(seen.is_healthy());
  ASSERT_EQ(seen.findings.size(), 1U);
  EXPECT_EQ(seen.findings[0].thing, "objects/format");
  EXPECT_TRUE(repair().findings.empty());
  EXPECT_EQ(functions().size(), 2U);
  EXPECT_EQ(as_text(*os::read_file(folder_ + "/objects/format")), "1\n");

  os::remove_tree(folder_ + "/objects");
  seen = examine();
  EXPECT_FALSE(seen.is_healthy());
  EXPECT_EQ(seen.findings.size(), 8U);
  for (const Finding& one : seen.findings)
    EXPECT_EQ(one.repair, one.kind == Finding::Kind::kProgram ? Finding::Repair::kForget : Finding::Repair::kNothing);
  EXPECT_EQ(functions().size(), 2U) << "their records stay";
}

TEST_F(DoctorTest, TheLockThatTheSuperuserMakesIsTheOwners) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  for (const auto& [path, content] : tree()) ASSERT_EQ(lchown(path.c_str(), 65534, 65534), 0);
  ASSERT_EQ(chown(folder_.c_str(), 65534, 65534), 0);
  os::remove_file(folder_ + "/lock");
  EXPECT_TRUE(examine().findings.empty());
  EXPECT_FALSE(os::exists(folder_ + "/lock")) << "an examination makes nothing";
  EXPECT_TRUE(repair().findings.empty());
  EXPECT_EQ(os::status_of(folder_ + "/lock")->owner, 65534U);
}

TEST_F(DoctorTest, LeavesTheDatabaseOfANewerQuernAlone) {
  {
    auto database = Database::open(folder_ + "/state.db");
    ASSERT_TRUE(database->execute("PRAGMA user_version=99").ok());
  }
  const Examination seen = examine();
  ASSERT_EQ(seen.findings.size(), 1U);
  EXPECT_THAT(seen.findings[0].problem, HasSubstr("was written by another Quern (schema 99)"));
  EXPECT_FALSE(repair().is_healthy());
  EXPECT_TRUE(os::exists(folder_ + "/state.db"));
  EXPECT_TRUE(os::exists(path_of(tensor_)));
  EXPECT_FALSE(os::exists(folder_ + "/aside"));
}

TEST_F(DoctorTest, PutsPermissionsRight) {
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  ASSERT_EQ(::chmod((folder_ + "/state.db").c_str(), 0644), 0);
  const bool is_root = geteuid() == 0;
  if (is_root) {
    ASSERT_EQ(::chown((folder_ + "/state.db").c_str(), 65534, 65534), 0);
    ASSERT_EQ(::chown(path_of(tensor_).c_str(), 65534, 65534), 0);
  }
  const Examination seen = examine();
  EXPECT_EQ(seen.findings.size(), is_root ? 4U : 2U);
  for (const Finding& one : seen.findings) {
    EXPECT_EQ(one.kind, Finding::Kind::kPermissions) << one.thing;
    EXPECT_TRUE(one.is_damage);
  }
  EXPECT_EQ(seen.findings[0].problem, "other users may use it (mode 0755)");
  EXPECT_TRUE(repair().findings.empty());
  EXPECT_TRUE(os::is_private_folder(folder_));
  EXPECT_EQ(os::status_of(folder_ + "/state.db")->mode, 0600U);
  EXPECT_EQ(os::status_of(folder_ + "/state.db")->owner, geteuid());
  EXPECT_EQ(os::status_of(path_of(tensor_))->owner, geteuid());
}

}  // namespace
}  // namespace quern::daemon
