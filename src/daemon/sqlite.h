// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace quern::daemon {

/// The edge to SQLite: its errors become ours here, with the path of the file in the text. For one thread at a time.
class Database {
 public:
  /// Makes the file if need be. It must be locked by other means: SQLite's own locks are taken once and kept.
  static Result<Database> open(const std::string& path);

  /// Statements without parameters and rows, separated by ';'.
  Status execute(const std::string& sql);

  /// All of `work` or nothing of it. Within another it is a part of that one.
  template <class F>
  Status atomically(F&& work) {
    if (is_within_) return work();
    QUERN_TRY(execute("BEGIN IMMEDIATE"));
    is_within_ = true;
    Status done = work();
    is_within_ = false;
    if (done.ok()) done = execute("COMMIT");
    // The first problem is the one to tell; a failed COMMIT may have rolled back already.
    if (!done.ok()) (void)execute("ROLLBACK").ok();
    return done;
  }

 private:
  friend class Statement;
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  Error failed() const;

  std::string path_;
  std::unique_ptr<sqlite3, Close> handle_;
  bool is_within_ = false;  ///< `atomically`
};

/// One statement; its parameters are bound in order, then `next` gives its rows. The first mistake, in whatever call,
/// is told by `next`.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);

  Statement& bind(std::string_view text);
  Statement& bind(std::span<const std::byte> bytes);
  Statement& bind(int64_t number);

  /// Whether there is a row, or another one.
  Result<bool> next();
  /// For statements that give no rows.
  Status run();

  std::string text(int column) const;
  Bytes bytes(int column) const;
  int64_t number(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Database& database_;
  int bound_ = 0;
  bool broken_ = false;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

}  // namespace quern::daemon
