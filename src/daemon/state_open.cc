// SPDX-License-Identifier: Apache-2.0
//
// Opening a state folder: whose it is, the schema of its database, and whether the database is as new as the objects.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/units.h"
#include "daemon/aside.h"
#include "daemon/state.h"
#include "os/file.h"
#include "os/log.h"

namespace quern::daemon {
namespace {

constexpr int kSchema = 7;
// `turn`: whichever version of a name has the highest is current.
constexpr const char* kTables = R"(
  CREATE TABLE versions (
    tenant TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL, created_at TEXT NOT NULL, turn INTEGER NOT NULL,
    PRIMARY KEY (tenant, name, version));
  CREATE TABLE version_files (
    tenant TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL, path TEXT NOT NULL, object TEXT NOT NULL,
    PRIMARY KEY (tenant, name, version, path),
    FOREIGN KEY (tenant, name, version) REFERENCES versions ON DELETE CASCADE);
  CREATE TABLE settings (
    tenant TEXT NOT NULL, name TEXT NOT NULL, path TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (tenant, name, path));
  CREATE TABLE history (
    age INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, name TEXT NOT NULL, at TEXT NOT NULL,
    what TEXT NOT NULL, version TEXT NOT NULL);
  CREATE INDEX history_of ON history (tenant, name, age);
)";
constexpr const char* kStandings = R"(
  CREATE TABLE standings (tenant TEXT NOT NULL PRIMARY KEY, vtime INTEGER NOT NULL);
)";
constexpr const char* kBinaries = R"(
  CREATE TABLE binaries (
    age INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, object TEXT NOT NULL, signatures BLOB NOT NULL);
)";
constexpr const char* kObjects = R"(
  CREATE TABLE version_constants (
    tenant TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL, buffer TEXT NOT NULL, object TEXT NOT NULL,
    bytes INTEGER NOT NULL, PRIMARY KEY (tenant, name, version, buffer),
    FOREIGN KEY (tenant, name, version) REFERENCES versions ON DELETE CASCADE);
  CREATE TABLE tenant_objects (
    tenant TEXT NOT NULL, object TEXT NOT NULL, bytes INTEGER NOT NULL, created_at TEXT NOT NULL,
    PRIMARY KEY (tenant, object));
)";
// Programs are functions without a version here. Identities are numbers without a sign, kept as ones with it.
constexpr const char* kProfiles = R"(
  CREATE TABLE kernel_times (
    age INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, device TEXT NOT NULL, identity INTEGER NOT NULL,
    samples INTEGER NOT NULL, groups INTEGER NOT NULL, mean_ps INTEGER NOT NULL, spread_ps INTEGER NOT NULL,
    last_ps BLOB NOT NULL, seen_s INTEGER NOT NULL, UNIQUE (owner, device, identity));
  CREATE TABLE function_kernels (
    age INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL,
    identity INTEGER NOT NULL, kernel INTEGER NOT NULL, groups INTEGER NOT NULL,
    UNIQUE (tenant, name, version, identity));
)";
constexpr const char* kGaps = R"(
  CREATE TABLE function_gaps (
    age INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL,
    device TEXT NOT NULL, after INTEGER NOT NULL, gaps BLOB NOT NULL,
    UNIQUE (tenant, name, version, device, after));
)";
// Between schemas 6 and 7, unreleased versions of Quern made this table without a schema of its own.
constexpr const char* kChanges = R"(
  CREATE TABLE IF NOT EXISTS changes (count INTEGER NOT NULL);
  INSERT INTO changes SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM changes);
)";
// Schema 1 kept the current version of each name.
constexpr const char* kFromOne = R"(
  INSERT INTO versions SELECT tenant, name, version, created_at, 1 FROM functions;
  INSERT INTO version_files
    SELECT tenant, name, version, path, object FROM function_files JOIN functions USING (tenant, name);
  INSERT INTO history (tenant, name, at, what, version)
    SELECT tenant, name, created_at, 'deployed', version FROM functions;
  DROP TABLE function_files;
  DROP TABLE functions;
)";

// An empty database calls every object garbage. Where objects are there, it is the database that was lost.
Status refuse_lost(const std::string& folder, std::string_view what) {
  for (const std::string& shelf : os::list_folder(folder + "/objects"))
    if (!os::list_folder(folder + "/objects/" + shelf).empty())
      return unavailable(
          fmt::format("state folder {}: its database state.db {}, and objects of functions are there; "
                      "restore state.db from a backup, or move the folder 'objects' away to begin anew "
                      "('quern doctor' tells more). Nothing was changed",
                      os::absolute(folder), what));
  return {};
}

Status check_whole(const std::string& folder) {
  const std::optional<uint64_t> size = os::file_size(folder + "/state.db");
  if (size.value_or(0) > 0) return {};
  return refuse_lost(folder, size ? "is empty" : "is missing");
}

/// A larger database is checked without holding its indexes against its tables, so that the server still starts soon.
constexpr uint64_t kMostToCheckWhole = 64 * kMiB;

// A collection removes whatever the database does not name. Where a page of it is damaged, that says nothing.
Status check_undamaged(Database& database, const std::string& folder) {
  const bool is_large = os::file_size(folder + "/state.db").value_or(0) > kMostToCheckWhole;
  Statement check(database, is_large ? "PRAGMA quick_check(1)" : "PRAGMA integrity_check(1)");
  QUERN_TRY(check.next());
  const std::string problem = check.text(0);
  if (problem == "ok") return {};
  return internal(
      fmt::format("state folder {0}: its database state.db is damaged ({1}); run 'quern doctor {0}', which "
                  "tells what to do, or restore state.db from a backup. Nothing was deleted",
                  os::absolute(folder), problem));
}

Status prepare_schema(Database& database, const std::string& folder) {
  int64_t schema = 0;
  {
    Statement version(database, "PRAGMA user_version");
    QUERN_TRY(version.next());
    schema = version.number(0);
  }
  if (schema == kSchema) return {};
  if (schema == 0) QUERN_TRY(refuse_lost(folder, "has no tables"));
  if (schema > kSchema || schema < 0)
    return unsupported(
        fmt::format("state folder {}: was written by another Quern (schema {}, this one knows {}); "
                    "run that one, or name another folder",
                    folder, schema, kSchema));
  std::string changes;
  if (schema < 2) changes += fmt::format("{} {}", kTables, schema == 1 ? kFromOne : kBinaries);
  if (schema < 3) changes += kStandings;  // nobody stands anywhere yet
  if (schema < 4) changes += kObjects;    // constants are still in the files; nobody has put anything
  if (schema < 5) changes += kProfiles;   // nothing was learned yet
  // Schema 5 kept gaps of all devices as one. Nobody knows whose they were, and a few calls show them again.
  if (schema == 5) changes += "DROP TABLE function_gaps;";
  if (schema < 6) changes += kGaps;
  if (schema < 7) {
    changes += kChanges;  // an older Quern counted nothing
    // Every removal asks for each object that it released whether another record names it.
    for (const char* table : {"version_files", "version_constants", "binaries", "tenant_objects"})
      changes += fmt::format("CREATE INDEX IF NOT EXISTS {0}_by_object ON {0} (object);", table);
  }
  return database.atomically(
      [&] { return database.execute(fmt::format("{} PRAGMA user_version={}", changes, kSchema)); });
}

/// A folder that holds something else must not become the server's: its mode is about to change. kInvalid then.
Status check_is_for_state(const std::string& folder) {
  if (!os::exists(folder)) return {};
  QUERN_TRY(const auto names, os::read_folder(folder));
  std::string other;
  for (const std::string& name : names) {
    if (name == "lock" || name == "state.db" || name == "objects") return {};
    if (name != "lost+found" && other.empty()) other = name;  // a file system of its own has that
  }
  if (other.empty()) return {};
  const std::string path = os::absolute(folder);
  return invalid(fmt::format(
      "state folder {0}: holds other things ('{1}'{2}) and no state of a server, which takes the folder "
      "away from all other users; name a folder that is empty or not there yet, as in {0}/quern-state",
      path == "/" ? "" : path, other, names.size() > 1 ? fmt::format(" and {} more", names.size() - 1) : ""));
}

constexpr size_t kDigitsOfChanges = 20;

template <class T>
std::string count_of(T count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

Result<ToldChanges> State::read_changes(const std::string& folder) {
  const std::string path = folder + "/changes";
  ToldChanges told;
  if (!os::exists(path)) return told;
  const auto size = os::file_size(path);
  if (!size) {
    told.problem = os::is_folder(path) ? "is a folder" : "is no regular file";
  } else if (*size == 0) {
    told.problem = "is empty";
  } else if (*size != kDigitsOfChanges + 1) {
    told.problem = fmt::format("has {} where {} are written", count_of(*size, "byte"), kDigitsOfChanges + 1);
  } else {
    QUERN_TRY(const Bytes bytes, os::read_file(path));
    const std::string_view text = as_text(bytes);
    int64_t count = -1;
    const char* const last = text.data() + std::min(text.size(), kDigitsOfChanges);
    const auto [end, problem] = std::from_chars(text.data(), last, count);
    if (problem == std::errc() && end == last && text.ends_with('\n') && count >= 0)
      told.count = count;
    else
      told.problem = "holds no number";
  }
  return told;
}

Result<std::unique_ptr<State>> State::open(const std::string& folder, std::function<void()> before_disk) {
  QUERN_TRY(check_is_for_state(folder));
  // Before anything is made or changed in it; and once more when nobody else can change it.
  QUERN_TRY(check_whole(folder));
  QUERN_TRY(os::make_folders(folder, 0700));
  auto lock = os::lock_file(folder + "/lock");
  if (!lock.ok() && lock.error().code == ErrorCode::kConflict)
    return conflict(fmt::format("state folder {}: is in use by another server; stop that one, or name another folder",
                                os::absolute(folder)));
  if (!lock.ok()) return std::move(lock).error();
  QUERN_TRY(check_whole(folder));
  QUERN_TRY(os::make_private(folder));
  QUERN_TRY(auto objects, ObjectStore::open(folder + "/objects", std::move(before_disk)));
  // Made before SQLite does: what SQLite puts beside it has the same mode.
  if (!os::exists(folder + "/state.db")) QUERN_TRY(os::write_file(folder + "/state.db", {}));
  QUERN_TRY(os::make_private(folder + "/state.db"));
  QUERN_TRY(auto database, Database::open(folder + "/state.db"));
  QUERN_TRY(check_undamaged(database, folder));
  QUERN_TRY(prepare_schema(database, os::absolute(folder)));
  std::unique_ptr<State> state(new State(std::move(lock).value(), std::move(objects), std::move(database)));
  QUERN_TRY(state->begin_changes(folder));
  return state;
}

// A crash leaves objects whose record was not written yet, or was removed already, and they are garbage. Where the
// database itself lost records, objects without a record are what functions and tenants need: they must stay.
Status State::begin_changes(const std::string& folder) {
  {
    Statement row(database_, "SELECT count FROM changes");
    QUERN_TRY(row.next());
    changes_ = row.number(0);
  }
  QUERN_TRY(const auto told, read_changes(folder));
  if (told.count && *told.count <= changes_) {
    QUERN_TRY(const auto garbage, collect());
    for (const std::string& path : garbage) os::remove_file(path);
  } else {
    const auto owner = os::status_of(folder + "/.");
    if (!owner) return not_found(fmt::format("state folder {}: is not there any more", folder));
    Aside aside(folder, owner->owner);
    QUERN_TRY(const uint64_t unnamed, put_unnamed_aside(folder, aside));
    // Whoever begins anew without objects has lost nothing.
    if (told.count && (changes_ > 0 || unnamed > 0))
      os::log_warning(
          "state: state.db is older than its objects and lacks {}: state.db-wal was lost or damaged, or state.db was "
          "replaced by an older copy",
          count_of(*told.count - changes_, "change"));
    if (!told.problem.empty()) {
      QUERN_TRY(const std::string moved, aside.take("changes"));
      os::log_warning(
          "state: file changes {}, so that nobody knows whether state.db is as new as the objects; it was moved to "
          "{}/{}; if functions are missing, deploy them again, or restore state.db and objects from a backup",
          told.problem, os::absolute(folder), moved);
    }
  }
  changes_path_ = folder + "/changes";
  QUERN_TRY(changes_file_, os::open_to_change(changes_path_));
  tell_changes();
  return {};
}

Result<uint64_t> State::put_unnamed_aside(const std::string& folder, Aside& aside) {
  QUERN_TRY(const std::set<std::string> keep, named());
  uint64_t count = 0, bytes = 0;
  QUERN_TRY(const auto shelves, os::read_folder(folder + "/objects"));
  for (const std::string& shelf : shelves) {
    for (const std::string& name : os::list_folder(fmt::format("{}/objects/{}", folder, shelf))) {
      if (!is_object_name(name) || keep.contains(name)) continue;
      const std::string path = fmt::format("objects/{}/{}", shelf, name), from = fmt::format("{}/{}", folder, path);
      const uint64_t size = os::file_size(from).value_or(0);
      if (!aside.take(path).ok()) {
        // The objects may be a link to another file system.
        if (const auto copied = aside.copy(from, path); !copied.ok())
          return Error{copied.error().code,
                       fmt::format("state folder {}: object {} is known to no record and cannot be moved aside: {}; "
                                   "nothing was deleted",
                                   os::absolute(folder), name, copied.error().text)};
        os::remove_file(from);
      }
      ++count, bytes += size;
    }
  }
  if (count > 0)
    os::log_warning("state: {} of {} that no record names {} moved to {}/{}; nothing was deleted",
                    count_of(count, "object"), show_bytes(bytes), count == 1 ? "was" : "were", os::absolute(folder),
                    aside.name());
  return count;
}

Status State::count_change() {
  QUERN_TRY(database_.execute("UPDATE changes SET count = count + 1"));
  ++new_changes_;
  return {};
}

void State::end_changes(bool are_made) {
  is_within_ = false;
  const int64_t made = std::exchange(new_changes_, 0);
  if (!are_made || made == 0) return;
  changes_ += made;
  tell_changes();
}

// Not synced: the file tells what a database lost that was opened again on the same machine, or was replaced. After a
// power cut it may tell less than there was, and then the next open takes it for what a crash leaves.
void State::tell_changes() {
  const std::string text = fmt::format("{:0{}}\n", changes_, kDigitsOfChanges);
  const Status told = os::overwrite(changes_file_, changes_path_, as_bytes_of(text));
  if (!told.ok()) os::log_warning("state: {}", told.error().text);
}

}  // namespace quern::daemon
