// SPDX-License-Identifier: Apache-2.0
#include "daemon/state.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "base/hash.h"
#include "os/file.h"

namespace quern::daemon {
namespace {

// What older schemas did not have.
const std::string kNoProfiles = "DROP TABLE kernel_times; DROP TABLE function_kernels; DROP TABLE function_gaps;";

class StateTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "quern_state_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { os::remove_tree(folder_); }

  std::unique_ptr<State> open() {
    auto state = State::open(folder_);
    if (!state.ok()) ADD_FAILURE() << state.error().text;
    return std::move(state).value();
  }

  static FunctionRecord function(State& state, const std::string& tenant, const std::string& name,
                                 const std::string& source) {
    return {.tenant = tenant,
            .name = name,
            .version = sha256(source),
            .files = {{"function.yaml", *state.objects().put(as_bytes_of("name: " + name))},
                      {"src/kernel.cl", *state.objects().put(as_bytes_of(source))}},
            .created_at = "2026-11-16T10:00:00Z",
            .order = 0,
            .constants = {{"w", constant(state, "weights of " + source)}}};
  }

  static ConstantRecord constant(State& state, const std::string& bytes) {
    return {*state.objects().put(as_bytes_of(bytes)), bytes.size()};
  }

  /// Of a kernel of the function, of its gaps, and of those of a program.
  static ProfileRecords learned(const FunctionRecord& function) {
    ProfileRecords records;
    KernelTimes times;
    times.samples = 40;
    times.groups = 16;
    times.mean_ps = 5200;
    times.spread_ps = 130;
    times.last_ps = {5000, 5400, uint64_t{1} << 40};
    times.seen_s = 1'700'000'000;
    const uint64_t identity = 0xfedcba9876543210;
    const FunctionVersion version{function.tenant, function.name, function.version};
    records.kernels = {{{"a", "cpu0"}, identity, times}};
    records.function_kernels = {{version, identity, 3, 16}};
    records.gaps = {{{"a", "player", ""}, "cpu0", identity, {Duration{7}}},
                    {version, "cpu0", UINT64_MAX, {Duration::millis(3), Duration::micros(2900)}},
                    {version, "cpu1", UINT64_MAX, {Duration::millis(9)}}};
    return records;
  }

  /// Does `work` in a process that ends without closing anything, as after kill -9.
  template <class F>
  void in_a_process_that_dies(F&& work) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(work() ? 0 : 1);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }

  std::string folder_;
};

TEST_F(StateTest, ALostDatabaseDeletesNothing) {
  {
    auto state = open();
    ASSERT_TRUE(state->objects().put(as_bytes_of("weights")).ok());
  }
  const auto before = os::list_files(folder_ + "/objects", 10);
  const std::string path = folder_ + "/state.db";
  for (const std::string what : {"is missing", "is empty", "has no tables"}) {
    os::remove_file(path);
    if (what == "is empty") (void)os::write_file(path, {});
    if (what == "has no tables") (void)Database::open(path)->execute("CREATE TABLE a (b); DROP TABLE a");
    const auto refused = State::open(folder_);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().text.find(what), std::string::npos) << refused.error().text;
    EXPECT_NE(refused.error().text.find("backup"), std::string::npos);
    EXPECT_EQ(*os::list_files(folder_ + "/objects", 10), *before) << "nothing may be collected";
  }
}

TEST_F(StateTest, NobodyElseReadsIt) {
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  (void)open();
  struct stat found;
  ASSERT_EQ(stat(folder_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700U);
  ASSERT_EQ(stat((folder_ + "/state.db").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600U);
}

TEST_F(StateTest, FunctionsComeBack) {
  FunctionRecord one, two;
  {
    auto state = open();
    EXPECT_TRUE(state->functions()->empty());
    one = function(*state, "a", "saxpy", "one");
    two = function(*state, "b", "saxpy", "two");
    ASSERT_TRUE(state->put_function(two).ok());
    ASSERT_TRUE(state->put_function(one).ok());
  }
  auto state = open();
  EXPECT_EQ(*state->functions(), (std::vector<FunctionRecord>{one, two}));
  EXPECT_EQ(as_text(*state->objects().get(one.files.at("src/kernel.cl"))), "one");
}

TEST_F(StateTest, TheNewestVersionIsCurrentUntilAnOlderOneIsMadeSo) {
  auto state = open();
  const FunctionRecord old = function(*state, "a", "saxpy", "old");
  const FunctionRecord fresh = function(*state, "a", "saxpy", "new");
  ASSERT_TRUE(state->put_function(old).ok());
  ASSERT_TRUE(state->put_function(fresh).ok());
  EXPECT_EQ(*state->functions(), (std::vector<FunctionRecord>{old, fresh}));
  ASSERT_TRUE(state->make_current("a", "saxpy", old.version).ok());
  EXPECT_EQ(*state->functions(), (std::vector<FunctionRecord>{fresh, old}));
  EXPECT_GT(state->functions()->front().order, state->functions()->back().order) << "as they were deployed";
  EXPECT_EQ(state->make_current("a", "saxpy", "other").error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(state->put_function(fresh).ok());
  EXPECT_EQ(*state->functions(), (std::vector<FunctionRecord>{old, fresh})) << "deployed again: current again";
  ASSERT_TRUE(state->remove_version("a", "saxpy", old.version).ok());
  state.reset();
  EXPECT_EQ(*open()->functions(), std::vector<FunctionRecord>{fresh});
}

TEST_F(StateTest, SettingsAndHistoryBelongToTheName) {
  {
    auto state = open();
    ASSERT_TRUE(state->put_function(function(*state, "a", "saxpy", "one")).ok());
    ASSERT_TRUE(state->put_setting("a", "saxpy", "priority", "3").ok());
    ASSERT_TRUE(state->put_setting("a", "saxpy", "priority", "4").ok());
    ASSERT_TRUE(state->put_setting("a", "saxpy", "limits.timeout", "1s").ok());
    ASSERT_TRUE(state->put_setting("a", "saxpy", "limits.timeout", "").ok());
    for (int i = 0; i < State::kMostHistory + 20; ++i)
      ASSERT_TRUE(state->add_history("a", "saxpy", {"now", "set " + std::to_string(i), "v"}).ok());
  }
  auto state = open();
  EXPECT_EQ(*state->settings("a", "saxpy"), (std::map<std::string, std::string>{{"priority", "4"}}));
  EXPECT_TRUE(state->settings("b", "saxpy")->empty());
  const auto history = *state->history("a", "saxpy");
  ASSERT_EQ(history.size(), static_cast<size_t>(State::kMostHistory));
  EXPECT_EQ(history.front().what, "set 119");
  ASSERT_TRUE(*state->remove_function("a", "saxpy"));
  EXPECT_TRUE(state->settings("a", "saxpy")->empty());
  EXPECT_TRUE(state->history("a", "saxpy")->empty());
}

TEST_F(StateTest, AStateOfSchemaOneIsTakenOver) {
  std::string object;
  {
    auto objects = ObjectStore::open(folder_ + "/objects");
    object = *objects->put(as_bytes_of("old"));
    auto database = Database::open(folder_ + "/state.db");
    ASSERT_TRUE(
        database
            ->execute("CREATE TABLE functions (tenant TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL,"
                      " created_at TEXT NOT NULL, PRIMARY KEY (tenant, name));"
                      "CREATE TABLE function_files (tenant TEXT NOT NULL, name TEXT NOT NULL, path TEXT NOT NULL,"
                      " object TEXT NOT NULL, PRIMARY KEY (tenant, name, path),"
                      " FOREIGN KEY (tenant, name) REFERENCES functions ON DELETE CASCADE);"
                      "CREATE TABLE binaries (age INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE,"
                      " object TEXT NOT NULL, signatures BLOB NOT NULL);"
                      "INSERT INTO functions VALUES ('a', 'saxpy', 'v1', 'then');"
                      "INSERT INTO function_files VALUES ('a', 'saxpy', 'function.yaml', '" +
                      object + "'); PRAGMA user_version=1")
            .ok());
  }
  auto state = open();
  const FunctionRecord wanted{"a", "saxpy", "v1", {{"function.yaml", object}}, "then", 0, {}};
  EXPECT_EQ(*state->functions(), std::vector<FunctionRecord>{wanted});
  EXPECT_EQ(*state->history("a", "saxpy"), (std::vector<HistoryRecord>{{"then", "deployed", "v1"}}));
  EXPECT_TRUE(state->objects().has(object));
}

TEST_F(StateTest, AStateOfSchemaTwoIsTakenOver) {
  FunctionRecord kept;
  {
    auto state = open();
    kept = function(*state, "a", "saxpy", "kept");
    ASSERT_TRUE(state->put_function(kept).ok());
  }
  {
    auto database = Database::open(folder_ + "/state.db");
    ASSERT_TRUE(database
                    ->execute(kNoProfiles +
                              "DROP TABLE standings; DROP TABLE version_constants; DROP TABLE tenant_objects;"
                              "PRAGMA user_version=2")
                    .ok());
  }
  auto state = open();
  kept.constants.clear();
  EXPECT_EQ(*state->functions(), std::vector<FunctionRecord>{kept});
  EXPECT_TRUE(state->vtimes()->empty());
  EXPECT_TRUE(state->put_vtimes({{"a", 1}}).ok());
}

TEST_F(StateTest, AStateOfSchemaThreeIsTakenOver) {
  FunctionRecord kept;
  {
    auto state = open();
    kept = function(*state, "a", "saxpy", "kept");
    // As schema 3 knew it: its constant is a file.
    kept.files["w.bin"] = std::exchange(kept.constants, {}).at("w").object;
    ASSERT_TRUE(state->put_function(kept).ok());
    ASSERT_TRUE(state->put_vtimes({{"a", 1}}).ok());
  }
  {
    auto database = Database::open(folder_ + "/state.db");
    ASSERT_TRUE(
        database
            ->execute(kNoProfiles + "DROP TABLE version_constants; DROP TABLE tenant_objects; PRAGMA user_version=3")
            .ok());
  }
  auto state = open();
  EXPECT_EQ(*state->functions(), std::vector<FunctionRecord>{kept});
  EXPECT_EQ(state->vtimes()->at("a"), 1);
  EXPECT_TRUE(state->tenant_objects("a")->empty());
  EXPECT_TRUE(state->put_function(function(*state, "a", "saxpy", "new")).ok());
}

TEST_F(StateTest, AStateOfSchemaFourIsTakenOver) {
  FunctionRecord kept;
  {
    auto state = open();
    kept = function(*state, "a", "saxpy", "kept");
    ASSERT_TRUE(state->put_function(kept).ok());
  }
  {
    auto database = Database::open(folder_ + "/state.db");
    ASSERT_TRUE(database->execute(kNoProfiles + "PRAGMA user_version=4").ok());
  }
  auto state = open();
  EXPECT_EQ(*state->functions(), std::vector<FunctionRecord>{kept});
  EXPECT_TRUE(state->profiles()->empty());
  EXPECT_TRUE(state->put_profiles(learned(kept)).ok());
}

// It did not say on which device a gap was seen.
TEST_F(StateTest, AStateOfSchemaFiveIsTakenOverButForItsGaps) {
  FunctionRecord kept;
  {
    auto state = open();
    kept = function(*state, "a", "saxpy", "kept");
    ASSERT_TRUE(state->put_function(kept).ok());
    ASSERT_TRUE(state->put_profiles(learned(kept)).ok());
  }
  {
    auto database = Database::open(folder_ + "/state.db");
    ASSERT_TRUE(database
                    ->execute("DROP TABLE function_gaps; CREATE TABLE function_gaps ("
                              "age INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, name TEXT NOT NULL, "
                              "version TEXT NOT NULL, after INTEGER NOT NULL, gaps BLOB NOT NULL, "
                              "UNIQUE (tenant, name, version, after)); "
                              "INSERT INTO function_gaps (tenant, name, version, after, gaps) "
                              "VALUES ('a', 'player', '', 1, x'0700000000000000'); PRAGMA user_version=5")
                    .ok());
  }
  auto state = open();
  EXPECT_EQ(*state->functions(), std::vector<FunctionRecord>{kept});
  EXPECT_EQ(state->profiles()->kernels, learned(kept).kernels);
  EXPECT_EQ(state->profiles()->function_kernels, learned(kept).function_kernels);
  EXPECT_TRUE(state->profiles()->gaps.empty());
  ASSERT_TRUE(state->put_profiles(learned(kept)).ok());
  EXPECT_EQ(*state->profiles(), learned(kept));
}

TEST_F(StateTest, ProfilesComeBackAsTheyWereLastPut) {
  ProfileRecords wanted;
  {
    auto state = open();
    const FunctionRecord saxpy = function(*state, "a", "saxpy", "one");
    ASSERT_TRUE(state->put_function(saxpy).ok());
    wanted = learned(saxpy);
    // As it was before: what is put later takes its place.
    ProfileRecords older = wanted;
    older.kernels[0].times.last_ps = {1};
    older.function_kernels[0].groups = 1;
    older.gaps[0].gaps = {Duration{5}};
    ASSERT_TRUE(state->put_profiles(older).ok());
    ASSERT_TRUE(state->put_profiles(wanted).ok());
    ASSERT_TRUE(state->put_profiles({}).ok());
  }
  EXPECT_EQ(*open()->profiles(), wanted);
}

TEST_F(StateTest, ProfilesLeaveWithTheirVersion) {
  auto state = open();
  const FunctionRecord old = function(*state, "a", "saxpy", "old"), fresh = function(*state, "a", "saxpy", "new");
  ASSERT_TRUE(state->put_function(old).ok());
  ASSERT_TRUE(state->put_function(fresh).ok());
  ASSERT_TRUE(state->put_profiles(learned(old)).ok());
  ASSERT_TRUE(state->put_profiles(learned(fresh)).ok());
  ASSERT_TRUE(state->put_function(old).ok()) << "in place of its like: what was learned of it stays";
  EXPECT_EQ(state->profiles()->function_kernels.size(), 2u);
  ASSERT_TRUE(state->remove_version("a", "saxpy", old.version).ok());
  const ProfileRecords left = *state->profiles();
  ASSERT_EQ(left.function_kernels.size(), 1u);
  EXPECT_EQ(left.function_kernels[0].function.version, fresh.version);
  ASSERT_EQ(left.gaps.size(), 3u);
  EXPECT_EQ(left.gaps[0].function.name, "player") << "a program has no version to leave with";
  EXPECT_EQ(left.gaps[1].function.version, fresh.version);
  EXPECT_EQ(left.gaps[2].device, "cpu1");
  ASSERT_TRUE(*state->remove_function("a", "saxpy"));
  EXPECT_TRUE(state->profiles()->function_kernels.empty());
  EXPECT_EQ(state->profiles()->gaps.size(), 1u);
  EXPECT_EQ(state->profiles()->kernels.size(), 1u) << "another function may have the same kernel";
  ASSERT_TRUE(state->put_profiles(learned(fresh)).ok()) << "learned before it left, and stored afterwards";
  EXPECT_TRUE(state->profiles()->function_kernels.empty());
}

TEST_F(StateTest, ProfilesThatMakeNoSenseAreLeftOut) {
  FunctionRecord saxpy;
  {
    auto state = open();
    saxpy = function(*state, "a", "saxpy", "one");
    ASSERT_TRUE(state->put_function(saxpy).ok());
    ASSERT_TRUE(state->put_profiles(learned(saxpy)).ok());
  }
  {
    auto database = Database::open(folder_ + "/state.db");
    ASSERT_TRUE(
        database->execute("UPDATE kernel_times SET last_ps = x'0102'; UPDATE function_gaps SET gaps = x''").ok());
  }
  const auto profiles = open()->profiles();
  ASSERT_TRUE(profiles.ok());
  EXPECT_TRUE(profiles->kernels.empty());
  EXPECT_TRUE(profiles->gaps.empty());
  EXPECT_EQ(profiles->function_kernels.size(), 1u);
}

TEST_F(StateTest, OnlySoManyProfilesAreKept) {
  auto state = open();
  ProfileRecords many;
  KernelTimes times;
  times.add(1, 1000, 1);
  for (int i = 0; i < State::kMostProfiles; ++i)
    many.kernels.push_back({{"a", "cpu0"}, static_cast<uint64_t>(i) + 1, times});
  ASSERT_TRUE(state->put_profiles(many).ok());
  many.kernels.resize(1);
  many.kernels[0].place.owner = "b";
  ASSERT_TRUE(state->put_profiles(many).ok());
  const auto kept = *state->profiles();
  ASSERT_EQ(kept.kernels.size(), static_cast<size_t>(State::kMostProfiles));
  EXPECT_EQ(kept.kernels.front().identity, 2u) << "the oldest left";
  EXPECT_EQ(kept.kernels.back().place.owner, "b");
}

TEST_F(StateTest, ConstantsComeBackAndAreCollectedWithTheirVersion) {
  FunctionRecord one, two;
  ConstantRecord shared;
  {
    auto state = open();
    shared = constant(*state, "shared");
    one = function(*state, "a", "saxpy", "one");
    two = function(*state, "a", "saxpy", "two");
    one.constants["v"] = two.constants["v"] = shared;
    ASSERT_TRUE(state->put_function(one).ok());
    ASSERT_TRUE(state->put_function(two).ok());
  }
  auto state = open();
  EXPECT_EQ(*state->functions(), (std::vector<FunctionRecord>{one, two}));
  EXPECT_EQ(as_text(*state->objects().get(one.constants.at("w").object)), "weights of one");
  ASSERT_TRUE(state->remove_version("a", "saxpy", one.version).ok());
  ASSERT_TRUE(state->collect().ok());
  EXPECT_FALSE(state->objects().has(one.constants.at("w").object));
  EXPECT_TRUE(state->objects().has(two.constants.at("w").object));
  EXPECT_TRUE(state->objects().has(shared.object));
  ASSERT_TRUE(*state->remove_function("a", "saxpy"));
  ASSERT_TRUE(state->collect({shared.object}).ok());
  EXPECT_TRUE(state->objects().has(shared.object)) << "a call that runs may need it";
  ASSERT_TRUE(state->collect().ok());
  EXPECT_FALSE(state->objects().has(shared.object));
}

TEST_F(StateTest, ObjectsOfAVersionChangeInPlace) {
  auto state = open();
  FunctionRecord old = function(*state, "a", "saxpy", "old");
  const FunctionRecord fresh = function(*state, "a", "saxpy", "new");
  const auto order = state->put_function(old);
  ASSERT_TRUE(order.ok());
  ASSERT_TRUE(state->put_function(fresh).ok());
  old.files.erase("src/kernel.cl");
  old.constants = {{"v", constant(*state, "other weights")}};
  ASSERT_TRUE(state->change_objects(old).ok());
  EXPECT_EQ(*state->functions(), (std::vector<FunctionRecord>{old, fresh})) << "what is current stays current";
  EXPECT_EQ(state->functions()->front().order, *order);

  FunctionRecord bad = old;
  bad.constants["v"].object = sha256("never stored");
  EXPECT_EQ(state->change_objects(bad).error().code, ErrorCode::kNotFound);
  bad = old;
  bad.version = sha256("never deployed");
  EXPECT_EQ(state->change_objects(bad).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(*state->functions(), (std::vector<FunctionRecord>{old, fresh}));
}

TEST_F(StateTest, ObjectsOfTenantsAreTheirsAndStay) {
  const std::string hash = sha256("tensor");
  const TenantObject theirs{"a", hash, 6, "then"};
  {
    auto state = open();
    EXPECT_EQ(state->put_tenant_object("a", hash, 6, "then").error().code, ErrorCode::kNotFound);
    ASSERT_EQ(*state->objects().put(as_bytes_of("tensor")), hash);
    ASSERT_TRUE(state->put_tenant_object("a", hash, 6, "then").ok());
    ASSERT_TRUE(state->put_tenant_object("a", hash, 6, "later").ok());
    ASSERT_TRUE(state->put_tenant_object("b", hash, 6, "later").ok());
  }
  auto state = open();
  EXPECT_TRUE(state->objects().has(hash)) << "open collects";
  EXPECT_EQ(*state->tenant_objects("a"), std::vector<TenantObject>{theirs});
  EXPECT_EQ(*state->tenant_object("a", hash), theirs);
  EXPECT_TRUE(state->tenant_objects("c")->empty());
  EXPECT_EQ(*state->tenant_object("c", hash), std::nullopt);
  EXPECT_EQ(state->remove_tenant_object("c", hash).error().code, ErrorCode::kNotFound);

  ASSERT_TRUE(state->remove_tenant_object("a", hash).ok());
  EXPECT_EQ(state->remove_tenant_object("a", hash).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(state->collect().ok());
  EXPECT_TRUE(state->objects().has(hash)) << "another tenant has it";
  ASSERT_TRUE(state->remove_tenant_object("b", hash).ok());
  ASSERT_TRUE(state->collect().ok());
  EXPECT_FALSE(state->objects().has(hash));
}

TEST_F(StateTest, VirtualTimesComeBackAsTheyWereLastPut) {
  using Vtimes = std::map<std::string, int64_t>;
  const Vtimes last{{"a", -7}, {"c", INT64_MAX}};
  in_a_process_that_dies([&] {
    auto state = State::open(folder_);
    if (!state.ok()) return false;
    const bool put = (*state)->put_vtimes({{"a", 5}, {"b", 6}}).ok() && (*state)->put_vtimes(last).ok();
    (void)state->release();
    return put;
  });
  auto state = open();
  EXPECT_EQ(*state->vtimes(), last) << "a tenant that is no more is forgotten";
  ASSERT_TRUE(state->put_vtimes({}).ok());
  EXPECT_TRUE(state->vtimes()->empty());
}

TEST_F(StateTest, ARecordNeedsItsObjects) {
  auto state = open();
  const FunctionRecord good = function(*state, "a", "saxpy", "good");
  ASSERT_TRUE(state->put_function(good).ok());
  FunctionRecord bad = good;
  bad.files["src/kernel.cl"] = sha256("never stored");
  const auto status = state->put_function(bad);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kNotFound);
  bad = good;
  bad.constants["w"].object = sha256("never stored");
  const auto second = state->put_function(bad);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().text.find("constant 'w'"), std::string::npos) << second.error().text;
  EXPECT_EQ(*state->functions(), std::vector<FunctionRecord>{good});
  EXPECT_FALSE(state->put_binary({.key = "k", .object = sha256("never stored"), .signatures = {}}).ok());
}

TEST_F(StateTest, RemoveSaysWhetherThereWasOne) {
  auto state = open();
  ASSERT_TRUE(state->put_function(function(*state, "a", "saxpy", "one")).ok());
  EXPECT_FALSE(*state->remove_function("b", "saxpy"));
  EXPECT_TRUE(*state->remove_function("a", "saxpy"));
  EXPECT_FALSE(*state->remove_function("a", "saxpy"));
  state.reset();
  EXPECT_TRUE(open()->functions()->empty());
}

TEST_F(StateTest, BinariesComeBack) {
  BinaryRecord binary;
  {
    auto state = open();
    EXPECT_EQ(*state->binary("key"), std::nullopt);
    const auto signatures = as_bytes_of(std::string_view("a\0b", 3));
    binary = {.key = "key",
              .object = *state->objects().put(as_bytes_of("binary")),
              .signatures = Bytes(signatures.begin(), signatures.end())};
    ASSERT_TRUE(state->put_binary(binary).ok());
  }
  auto state = open();
  EXPECT_EQ(*state->binary("key"), binary);
  binary.signatures.clear();
  ASSERT_TRUE(state->put_binary(binary).ok());
  EXPECT_EQ(*state->binary("key"), binary);
}

TEST_F(StateTest, OpenCollectsWhatNoRecordNames) {
  std::string used, orphan, binary;
  {
    auto state = open();
    const FunctionRecord kept = function(*state, "a", "saxpy", "kept");
    ASSERT_TRUE(state->put_function(kept).ok());
    ASSERT_TRUE(state->put_function(function(*state, "a", "gone", "gone")).ok());
    ASSERT_TRUE(*state->remove_function("a", "gone"));
    binary = *state->objects().put(as_bytes_of("binary"));
    ASSERT_TRUE(state->put_binary({.key = "key", .object = binary, .signatures = {}}).ok());
    used = kept.files.at("src/kernel.cl");
    orphan = *state->objects().put(as_bytes_of("put, then the daemon died"));
  }
  auto state = open();
  EXPECT_TRUE(state->objects().has(used));
  EXPECT_TRUE(state->objects().has(binary));
  EXPECT_FALSE(state->objects().has(orphan));
  EXPECT_FALSE(state->objects().has(sha256("gone")));
}

TEST_F(StateTest, ASecondServerIsRefused) {
  auto state = open();
  // The lock belongs to the open file: a second open is refused within a process as well as across.
  const auto second = State::open(folder_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kConflict);
  EXPECT_EQ(second.error().text,
            "state folder " + folder_ + ": is in use by another server; stop that one, or name another folder");
  state.reset();
  EXPECT_NE(open(), nullptr);
}

TEST_F(StateTest, SurvivesTheDeathOfItsProcess) {
  in_a_process_that_dies([&] {
    auto state = State::open(folder_);
    if (!state.ok()) return false;
    State& there = **state;
    const bool put = there.put_function(function(there, "a", "saxpy", "one")).ok();
    // Leaked on purpose: its destructor would tidy up.
    (void)state->release();
    return put;
  });
  auto state = open();
  const auto functions = *state->functions();
  ASSERT_EQ(functions.size(), 1u);
  EXPECT_EQ(as_text(*state->objects().get(functions[0].files.at("src/kernel.cl"))), "one");
}

TEST_F(StateTest, DeathWithinAChangeLeavesTheOldState) {
  FunctionRecord before;
  {
    auto state = open();
    before = function(*state, "a", "saxpy", "before");
    ASSERT_TRUE(state->put_function(before).ok());
  }
  in_a_process_that_dies([&] {
    auto database = Database::open(folder_ + "/state.db");
    if (!database.ok()) return false;
    (void)database->atomically([&]() -> Status {
      if (database->execute("DELETE FROM versions").ok()) _exit(0);
      return {};
    });
    return false;
  });
  EXPECT_EQ(*open()->functions(), std::vector<FunctionRecord>{before});
}

TEST_F(StateTest, AnotherSchemaIsRefusedWithBothNumbers) {
  open();
  {
    auto database = Database::open(folder_ + "/state.db");
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE(database->execute("PRAGMA user_version=8").ok());
  }
  const auto state = State::open(folder_);
  ASSERT_FALSE(state.ok());
  EXPECT_EQ(state.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(state.error().text.find("schema 8, this one knows 7"), std::string::npos) << state.error().text;
}

TEST_F(StateTest, ADamagedDatabaseIsNamed) {
  open();
  ASSERT_TRUE(os::write_file(folder_ + "/state.db", as_bytes_of(std::string(8192, 'x'))).ok());
  const auto state = State::open(folder_);
  ASSERT_FALSE(state.ok());
  EXPECT_EQ(state.error().code, ErrorCode::kInternal);
  EXPECT_NE(state.error().text.find("/state.db: "), std::string::npos) << state.error().text;
}

}  // namespace
}  // namespace quern::daemon
