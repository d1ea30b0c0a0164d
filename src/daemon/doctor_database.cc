// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "daemon/doctor_parts.h"
#include "daemon/sqlite.h"

namespace quern::daemon {
namespace {

/// A private folder that is gone afterwards.
struct Scratch {
  std::string path;
  ~Scratch() { os::remove_tree(path); }
};

// The path is that of a copy: it tells nobody anything.
std::string without_path(const Error& error, const std::string& copy) {
  const std::string prefix = copy + "/state.db: ";
  std::string text = error.text.starts_with(prefix) ? error.text.substr(prefix.size()) : error.text;
  return text.substr(0, text.find("; "));
}

/// Whether SQLite says that the file is not as it was written. Whatever else fails (no room, no permission, no memory,
/// a disk that does not answer) tells nothing about the file.
bool tells_of_damage(const Error& error) {
  constexpr std::string_view kWords[] = {"file is not a database", "malformed", "no such table", "no such column"};
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](std::string_view words) { return error.text.find(words) != std::string::npos; });
}

Error cannot_copy(const std::string& path, const Error& why) {
  return {
      why.code,
      fmt::format("{}: cannot be copied to be examined: {}{}; nothing was changed", path, why.text,
                  why.code == ErrorCode::kExhausted ? "; make room, or name a folder that has room in $TMPDIR" : "")};
}

Error cannot_examine(const std::string& path, const Error& why) {
  return {why.code, fmt::format("{}: its copy cannot be examined: {}; nothing was changed", path, why.text)};
}

/// Empty if SQLite finds nothing wrong with it. `schema` is set then.
Result<std::string> integrity_problem(const std::string& path, int64_t& schema) {
  QUERN_TRY(Database database, Database::open(path));
  Statement check(database, "PRAGMA integrity_check(3)");
  std::string problems;
  for (;;) {
    QUERN_TRY(const bool more, check.next());
    if (!more) break;
    if (check.text(0) != "ok") problems += (problems.empty() ? "" : ", ") + check.text(0);
  }
  Statement version(database, "PRAGMA user_version");
  QUERN_TRY(version.next());
  schema = version.number(0);
  return problems;
}

}  // namespace

Result<ToldChanges> Doctor::check_changes(Examination& examination) const {
  QUERN_TRY(ToldChanges told, State::read_changes(folder_));
  if (told.problem.empty()) return told;
  Finding finding;
  finding.kind = Finding::Kind::kDatabase;
  finding.thing = "file changes";
  finding.problem = fmt::format("{}, so that nobody knows whether state.db is as new as the objects", told.problem);
  finding.works = "everything";
  finding.cure =
      "--repair moves it aside, as the server does when it starts; objects that no record names then go aside, too";
  finding.repair = Finding::Repair::kMoveAside;
  finding.path = "changes";
  examination.findings.push_back(std::move(finding));
  return told;
}

Result<Doctor::Records> Doctor::read_database(const Stored& stored, const ToldChanges& told,
                                              Examination& examination) const {
  const auto lost = [&](std::string problem) {
    Finding finding;
    finding.kind = Finding::Kind::kDatabase;
    finding.thing = "database state.db";
    finding.problem = std::move(problem);
    finding.works = "nothing: without it nobody knows what the objects are, and the server does not start";
    finding.cure =
        "restore state.db from a backup; or --repair moves it and all objects aside, then deploy every function again";
    finding.repair = Finding::Repair::kStartAnew;
    finding.path = "state.db";
    examination.findings.push_back(std::move(finding));
    return Records{};
  };
  const std::string path = place_of("state.db");
  const auto status = os::status_of(path);
  const std::string beside =
      stored.files.empty() ? "" : fmt::format(", and {} objects are beside it", stored.files.size());
  // The resolved path of a link that leads nowhere is the link itself.
  if (status && !os::exists(path))
    return not_found(fmt::format(
        "{}: is a link that leads nowhere; mount what it leads to, or restore state.db. Nothing was changed", path));
  if (!status || (status->is_file && status->size_bytes == 0)) {
    // A server that was never asked for anything: it makes what it needs.
    if (stored.files.empty()) return Records{};
    return lost(fmt::format("is {}{}", status ? "empty" : "missing", beside));
  }
  if (!status->is_file) return lost("is no regular file");

  QUERN_TRY(const std::string copy, os::make_temporary_folder("quern-doctor"));
  const Scratch scratch{copy};
  for (const char* name : {"state.db", "state.db-wal"}) {
    const std::string from = place_of(name);
    if (!os::status_of(from)) continue;
    if (const Status copied = os::copy_file(from, fmt::format("{}/{}", copy, name)); !copied.ok())
      return cannot_copy(from, copied.error());
  }
  int64_t schema = 0;
  const auto problem = integrity_problem(copy + "/state.db", schema);
  if (!problem.ok() && !tells_of_damage(problem.error())) return cannot_examine(path, problem.error());
  if (!problem.ok()) return lost(fmt::format("cannot be read ({}){}", without_path(problem.error(), copy), beside));
  if (!problem->empty()) return lost(fmt::format("is damaged ({}){}", *problem, beside));
  if (schema == 0 && !stored.files.empty()) return lost("has no tables" + beside);

  auto records = read_copy(copy);
  if (records.ok()) {
    examination.schema = schema;
    examination.keeps_unnamed = !told.count || *told.count > records->changes;
    if (told.count && *told.count > records->changes) examination.lost_changes = *told.count - records->changes;
    return records;
  }
  if (records.error().code != ErrorCode::kUnsupported && !tells_of_damage(records.error()))
    return cannot_examine(path, records.error());
  if (records.error().code != ErrorCode::kUnsupported)
    return lost(fmt::format("cannot be read ({}){}", without_path(records.error(), copy), beside));
  Finding finding;
  finding.kind = Finding::Kind::kDatabase;
  finding.thing = "database state.db";
  finding.problem = fmt::format("was written by another Quern (schema {})", schema);
  finding.works = "everything, with the Quern that wrote it";
  finding.cure = "run that Quern; there is nothing to repair";
  finding.path = "state.db";
  examination.findings.push_back(std::move(finding));
  return Records{};
}

// State works on the copy as it would on the folder: it brings the schema up to date, and finds no object to collect.
Result<Doctor::Records> Doctor::read_copy(const std::string& copy) {
  Records records;
  {
    QUERN_TRY(const auto state, State::open(copy));
    QUERN_TRY(records.functions, state->functions());
  }
  QUERN_TRY(Database database, Database::open(copy + "/state.db"));
  Statement objects(database, "SELECT tenant, object, bytes, created_at FROM tenant_objects ORDER BY rowid");
  for (;;) {
    QUERN_TRY(const bool more, objects.next());
    if (!more) break;
    records.tenant_objects.push_back(
        {objects.text(0), objects.text(1), static_cast<uint64_t>(objects.number(2)), objects.text(3)});
  }
  Statement programs(database, "SELECT DISTINCT object FROM binaries");
  for (;;) {
    QUERN_TRY(const bool more, programs.next());
    if (!more) break;
    records.programs.push_back(programs.text(0));
  }
  Statement changes(database, "SELECT count FROM changes");
  QUERN_TRY(changes.next());
  records.changes = changes.number(0);
  records.is_readable = true;
  return records;
}

}  // namespace quern::daemon
