// SPDX-License-Identifier: Apache-2.0
#include "daemon/state.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "os/file.h"

namespace quern::daemon {
namespace {

constexpr int kSchema = 1;
constexpr const char* kTables = R"(
  CREATE TABLE functions (
    tenant TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL, created_at TEXT NOT NULL,
    PRIMARY KEY (tenant, name));
  CREATE TABLE function_files (
    tenant TEXT NOT NULL, name TEXT NOT NULL, path TEXT NOT NULL, object TEXT NOT NULL,
    PRIMARY KEY (tenant, name, path),
    FOREIGN KEY (tenant, name) REFERENCES functions ON DELETE CASCADE);
  CREATE TABLE binaries (
    age INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, object TEXT NOT NULL, signatures BLOB NOT NULL);
)";

Status prepare_schema(Database& database, const std::string& folder) {
  int64_t schema = 0;
  {
    Statement version(database, "PRAGMA user_version");
    QUERN_TRY(version.next());
    schema = version.number(0);
  }
  if (schema == kSchema) return {};
  if (schema != 0)
    return unsupported(
        fmt::format("state folder {}: was written by another Quern (schema {}, this one knows {}); "
                    "run that one, or name another folder",
                    folder, schema, kSchema));
  return database.atomically(
      [&]() -> Status { return database.execute(fmt::format("{} PRAGMA user_version={}", kTables, kSchema)); });
}

}  // namespace

Result<std::unique_ptr<State>> State::open(const std::string& folder) {
  QUERN_TRY(os::make_folders(folder, 0700));
  auto lock = os::lock_file(folder + "/lock");
  if (!lock.ok() && lock.error().code == ErrorCode::kConflict)
    return conflict(fmt::format("state folder {}: is in use by another server; stop that one, or name another folder",
                                os::absolute(folder)));
  if (!lock.ok()) return std::move(lock).error();
  QUERN_TRY(auto objects, ObjectStore::open(folder + "/objects"));
  QUERN_TRY(auto database, Database::open(folder + "/state.db"));
  QUERN_TRY(prepare_schema(database, os::absolute(folder)));
  std::unique_ptr<State> state(new State(std::move(lock).value(), std::move(objects), std::move(database)));
  QUERN_TRY(state->collect());
  return state;
}

Status State::put_function(const FunctionRecord& function) {
  for (const auto& [path, object] : function.files)
    if (!objects_.has(object))
      return not_found(fmt::format("function {}: object {} of {} is not in the store; put it there before the record",
                                   function.name, object, path));
  return database_.atomically([&]() -> Status {
    QUERN_TRY(Statement(database_, "DELETE FROM functions WHERE tenant = ? AND name = ?")
                  .bind(function.tenant)
                  .bind(function.name)
                  .run());
    QUERN_TRY(Statement(database_, "INSERT INTO functions (tenant, name, version, created_at) VALUES (?, ?, ?, ?)")
                  .bind(function.tenant)
                  .bind(function.name)
                  .bind(function.version)
                  .bind(function.created_at)
                  .run());
    for (const auto& [path, object] : function.files)
      QUERN_TRY(Statement(database_, "INSERT INTO function_files (tenant, name, path, object) VALUES (?, ?, ?, ?)")
                    .bind(function.tenant)
                    .bind(function.name)
                    .bind(path)
                    .bind(object)
                    .run());
    return {};
  });
}

Result<bool> State::remove_function(std::string_view tenant, std::string_view name) {
  Statement removal(database_, "DELETE FROM functions WHERE tenant = ? AND name = ? RETURNING 1");
  QUERN_TRY(const bool removed, removal.bind(tenant).bind(name).next());
  // The change is committed when the statement is done, not with its first row.
  if (removed) QUERN_TRY(removal.next());
  return removed;
}

Result<std::vector<FunctionRecord>> State::functions() {
  std::vector<FunctionRecord> functions;
  std::map<std::pair<std::string, std::string>, size_t> index;
  Statement rows(database_, "SELECT tenant, name, version, created_at FROM functions ORDER BY tenant, name");
  for (;;) {
    QUERN_TRY(const bool more, rows.next());
    if (!more) break;
    index[{rows.text(0), rows.text(1)}] = functions.size();
    functions.push_back({.tenant = rows.text(0),
                         .name = rows.text(1),
                         .version = rows.text(2),
                         .files = {},
                         .created_at = rows.text(3)});
  }
  Statement files(database_, "SELECT tenant, name, path, object FROM function_files");
  for (;;) {
    QUERN_TRY(const bool more, files.next());
    if (!more) break;
    if (const auto found = index.find({files.text(0), files.text(1)}); found != index.end())
      functions[found->second].files[files.text(2)] = files.text(3);
  }
  return functions;
}

Status State::put_binary(const BinaryRecord& binary) {
  if (!objects_.has(binary.object))
    return not_found(fmt::format("binary {}: object {} is not in the store; put it there before the record", binary.key,
                                 binary.object));
  return Statement(database_, "INSERT OR REPLACE INTO binaries (key, object, signatures) VALUES (?, ?, ?)")
      .bind(binary.key)
      .bind(binary.object)
      .bind(std::span<const std::byte>(binary.signatures))
      .run();
}

Result<std::optional<BinaryRecord>> State::binary(std::string_view key) {
  Statement rows(database_, "SELECT key, object, signatures FROM binaries WHERE key = ?");
  QUERN_TRY(const bool found, rows.bind(key).next());
  if (!found) return std::optional<BinaryRecord>();
  return std::optional<BinaryRecord>({.key = rows.text(0), .object = rows.text(1), .signatures = rows.bytes(2)});
}

Result<size_t> State::collect() {
  QUERN_TRY(database_.execute(fmt::format(
      "DELETE FROM binaries WHERE age NOT IN (SELECT age FROM binaries ORDER BY age DESC LIMIT {})", kMostBinaries)));
  std::set<std::string> keep;
  Statement rows(database_, "SELECT object FROM function_files UNION SELECT object FROM binaries");
  for (;;) {
    QUERN_TRY(const bool more, rows.next());
    if (!more) break;
    keep.insert(rows.text(0));
  }
  return objects_.collect(keep);
}

}  // namespace quern::daemon
