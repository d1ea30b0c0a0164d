// SPDX-License-Identifier: Apache-2.0
#include "daemon/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>

namespace quern::daemon {

void Database::Close::operator()(sqlite3* handle) const { sqlite3_close(handle); }
void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Error Database::failed() const {
  const std::string text = fmt::format("{}: {}", path_, sqlite3_errmsg(handle_.get()));
  switch (sqlite3_errcode(handle_.get()) & 0xff) {
    case SQLITE_FULL:
      return exhausted(text + "; make room on the disk");
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return denied(text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return conflict(text);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return internal(text + "; run 'quern doctor' on its folder, or bring back a copy of the folder");
    default:
      return internal(text);
  }
}

Result<Database> Database::open(const std::string& path) {
  Database database;
  database.path_ = path;
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  database.handle_.reset(handle);
  if (code != SQLITE_OK) return database.failed();
  // Exclusive first: WAL then needs no shared memory file, and works on file systems that cannot map one.
  QUERN_TRY(
      database.execute("PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; "
                       "PRAGMA foreign_keys=ON"));
  return database;
}

Status Database::execute(const std::string& sql) {
  if (sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) return failed();
  return {};
}

Statement::Statement(Database& database, std::string_view sql) : database_(database) {
  sqlite3_stmt* statement = nullptr;
  broken_ = sqlite3_prepare_v2(database.handle_.get(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr) !=
            SQLITE_OK;
  statement_.reset(statement);
}

Statement& Statement::bind(std::string_view text) {
  if (!broken_)
    broken_ = sqlite3_bind_text64(statement_.get(), ++bound_, text.data() ? text.data() : "", text.size(),
                                  SQLITE_TRANSIENT, SQLITE_UTF8) != SQLITE_OK;
  return *this;
}

Statement& Statement::bind(std::span<const std::byte> bytes) {
  // A null pointer would bind NULL, not an empty blob.
  const void* data = bytes.empty() ? static_cast<const void*>("") : bytes.data();
  if (!broken_)
    broken_ = sqlite3_bind_blob64(statement_.get(), ++bound_, data, bytes.size(), SQLITE_TRANSIENT) != SQLITE_OK;
  return *this;
}

Statement& Statement::bind(int64_t number) {
  if (!broken_) broken_ = sqlite3_bind_int64(statement_.get(), ++bound_, number) != SQLITE_OK;
  return *this;
}

Result<bool> Statement::next() {
  if (broken_) return database_.failed();
  switch (sqlite3_step(statement_.get())) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default:
      return database_.failed();
  }
}

Status Statement::run() {
  QUERN_TRY(next());
  return {};
}

std::string Statement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  return data ? std::string(data, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))) : "";
}

Bytes Statement::bytes(int column) const {
  const auto* data = static_cast<const std::byte*>(sqlite3_column_blob(statement_.get(), column));
  if (!data) return {};
  return {data, data + sqlite3_column_bytes(statement_.get(), column)};
}

int64_t Statement::number(int column) const { return sqlite3_column_int64(statement_.get(), column); }

}  // namespace quern::daemon
