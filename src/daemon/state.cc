// SPDX-License-Identifier: Apache-2.0
#include "daemon/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "os/file.h"

namespace quern::daemon {
namespace {

// Times in one blob: they are never looked at one by one.
template <class T>
Bytes bytes_of(const std::vector<T>& numbers) {
  ByteWriter writer;
  for (const T number : numbers) writer.put(number);
  return writer.take();
}

template <class T>
std::vector<T> numbers_of(const Bytes& bytes) {
  std::vector<T> numbers;
  ByteReader reader(bytes);
  while (reader.ok() && !reader.at_end()) numbers.push_back(reader.get<T>());
  if (!reader.ok()) numbers.clear();
  return numbers;
}

// What goes with a version.
constexpr const char* kOfFunctions[] = {"function_kernels", "function_gaps"};

}  // namespace

Status State::check_objects(const FunctionRecord& function) const {
  const auto missing = [&](const std::string& object, const std::string& of) {
    return not_found(fmt::format("function {}: object {} of {} is not in the store; put it there before the record",
                                 function.name, object, of));
  };
  for (const auto& [path, object] : function.files)
    if (!objects_.has(object)) return missing(object, path);
  for (const auto& [buffer, constant] : function.constants)
    if (!objects_.has(constant.object)) return missing(constant.object, fmt::format("constant '{}'", buffer));
  return {};
}

// Within a change, and its version is there.
Status State::insert_objects(const FunctionRecord& function) {
  for (const auto& [path, object] : function.files)
    QUERN_TRY(
        Statement(database_, "INSERT INTO version_files (tenant, name, version, path, object) VALUES (?, ?, ?, ?, ?)")
            .bind(function.tenant)
            .bind(function.name)
            .bind(function.version)
            .bind(path)
            .bind(object)
            .run());
  for (const auto& [buffer, constant] : function.constants)
    QUERN_TRY(Statement(database_,
                        "INSERT INTO version_constants (tenant, name, version, buffer, object, bytes) "
                        "VALUES (?, ?, ?, ?, ?, ?)")
                  .bind(function.tenant)
                  .bind(function.name)
                  .bind(function.version)
                  .bind(buffer)
                  .bind(constant.object)
                  .bind(static_cast<int64_t>(constant.bytes))
                  .run());
  return {};
}

Result<int64_t> State::put_function(const FunctionRecord& function) {
  QUERN_TRY(check_objects(function));
  QUERN_TRY(atomically([&]() -> Status {
    const auto of = [&](Statement&& statement) {
      return std::move(statement.bind(function.tenant).bind(function.name).bind(function.version));
    };
    QUERN_TRY(release_version(function.tenant, function.name, function.version));
    QUERN_TRY(of(Statement(database_, "DELETE FROM versions WHERE tenant = ? AND name = ? AND version = ?")).run());
    QUERN_TRY(of(Statement(database_,
                           "INSERT INTO versions (tenant, name, version, created_at, turn) VALUES (?, ?, ?, ?, 0)"))
                  .bind(function.created_at)
                  .run());
    QUERN_TRY(insert_objects(function));
    QUERN_TRY(take_turn(function.tenant, function.name, function.version));
    return count_change();
  }));
  // Rows are numbered as they come.
  Statement row(database_, "SELECT rowid FROM versions WHERE tenant = ? AND name = ? AND version = ?");
  QUERN_TRY(row.bind(function.tenant).bind(function.name).bind(function.version).next());
  return row.number(0);
}

Status State::change_objects(const FunctionRecord& function) {
  QUERN_TRY(check_objects(function));
  return atomically([&]() -> Status {
    QUERN_TRY(check_stored(function.tenant, function.name, function.version));
    QUERN_TRY(release_version(function.tenant, function.name, function.version));
    for (const char* table : {"version_files", "version_constants"})
      QUERN_TRY(Statement(database_, fmt::format("DELETE FROM {} WHERE tenant = ? AND name = ? AND version = ?", table))
                    .bind(function.tenant)
                    .bind(function.name)
                    .bind(function.version)
                    .run());
    QUERN_TRY(insert_objects(function));
    return count_change();
  });
}

Status State::take_turn(std::string_view tenant, std::string_view name, std::string_view version) {
  return Statement(database_,
                   "UPDATE versions SET turn = 1 + (SELECT MAX(turn) FROM versions WHERE tenant = ?1 AND name = ?2) "
                   "WHERE tenant = ?1 AND name = ?2 AND version = ?3")
      .bind(tenant)
      .bind(name)
      .bind(version)
      .run();
}

Status State::check_stored(std::string_view tenant, std::string_view name, std::string_view version) {
  Statement row(database_, "SELECT 1 FROM versions WHERE tenant = ? AND name = ? AND version = ?");
  QUERN_TRY(const bool is_there, row.bind(tenant).bind(name).bind(version).next());
  if (!is_there) return not_found(fmt::format("function {}: version {} is not stored", name, version));
  return {};
}

Status State::make_current(std::string_view tenant, std::string_view name, std::string_view version) {
  QUERN_TRY(check_stored(tenant, name, version));
  return take_turn(tenant, name, version);
}

Status State::remove_version(std::string_view tenant, std::string_view name, std::string_view version) {
  return database_.atomically([&]() -> Status {
    QUERN_TRY(release_version(tenant, name, version));
    for (const char* table : {"versions", kOfFunctions[0], kOfFunctions[1]})
      QUERN_TRY(Statement(database_, fmt::format("DELETE FROM {} WHERE tenant = ? AND name = ? AND version = ?", table))
                    .bind(tenant)
                    .bind(name)
                    .bind(version)
                    .run());
    return {};
  });
}

Result<bool> State::remove_function(std::string_view tenant, std::string_view name) {
  bool removed = false;
  QUERN_TRY(database_.atomically([&]() -> Status {
    Statement row(database_, "SELECT 1 FROM versions WHERE tenant = ? AND name = ?");
    QUERN_TRY(removed, row.bind(tenant).bind(name).next());
    QUERN_TRY(release_rows(std::move(Statement(database_,
                                               "SELECT object FROM version_files WHERE tenant = ?1 AND name = ?2 UNION "
                                               "SELECT object FROM version_constants WHERE tenant = ?1 AND name = ?2")
                                         .bind(tenant)
                                         .bind(name))));
    for (const char* table : {"versions", "settings", "history", kOfFunctions[0], kOfFunctions[1]})
      QUERN_TRY(Statement(database_, fmt::format("DELETE FROM {} WHERE tenant = ? AND name = ?", table))
                    .bind(tenant)
                    .bind(name)
                    .run());
    return {};
  }));
  return removed;
}

Result<std::vector<FunctionRecord>> State::functions() {
  std::vector<FunctionRecord> functions;
  std::map<std::tuple<std::string, std::string, std::string>, size_t> index;
  Statement rows(database_,
                 "SELECT tenant, name, version, created_at, rowid, turn FROM versions ORDER BY tenant, name, turn");
  for (;;) {
    QUERN_TRY(const bool more, rows.next());
    if (!more) break;
    index[{rows.text(0), rows.text(1), rows.text(2)}] = functions.size();
    functions.push_back({.tenant = rows.text(0),
                         .name = rows.text(1),
                         .version = rows.text(2),
                         .files = {},
                         .created_at = rows.text(3),
                         .order = rows.number(4),
                         .constants = {},
                         .turn = rows.number(5)});
  }
  const auto owner = [&](const Statement& row) -> FunctionRecord* {
    const auto found = index.find({row.text(0), row.text(1), row.text(2)});
    return found == index.end() ? nullptr : &functions[found->second];
  };
  Statement files(database_, "SELECT tenant, name, version, path, object FROM version_files");
  for (;;) {
    QUERN_TRY(const bool more, files.next());
    if (!more) break;
    if (FunctionRecord* function = owner(files)) function->files[files.text(3)] = files.text(4);
  }
  Statement constants(database_, "SELECT tenant, name, version, buffer, object, bytes FROM version_constants");
  for (;;) {
    QUERN_TRY(const bool more, constants.next());
    if (!more) return functions;
    if (FunctionRecord* function = owner(constants))
      function->constants[constants.text(3)] = {constants.text(4), static_cast<uint64_t>(constants.number(5))};
  }
}

Status State::put_setting(std::string_view tenant, std::string_view name, std::string_view path,
                          std::string_view value) {
  if (value.empty())
    return Statement(database_, "DELETE FROM settings WHERE tenant = ? AND name = ? AND path = ?")
        .bind(tenant)
        .bind(name)
        .bind(path)
        .run();
  return Statement(database_, "INSERT OR REPLACE INTO settings (tenant, name, path, value) VALUES (?, ?, ?, ?)")
      .bind(tenant)
      .bind(name)
      .bind(path)
      .bind(value)
      .run();
}

Result<std::map<std::string, std::string>> State::settings(std::string_view tenant, std::string_view name) {
  std::map<std::string, std::string> all;
  Statement rows(database_, "SELECT path, value FROM settings WHERE tenant = ? AND name = ?");
  rows.bind(tenant).bind(name);
  for (;;) {
    QUERN_TRY(const bool more, rows.next());
    if (!more) return all;
    all[rows.text(0)] = rows.text(1);
  }
}

Status State::add_history(std::string_view tenant, std::string_view name, const HistoryRecord& record) {
  return database_.atomically([&]() -> Status {
    QUERN_TRY(Statement(database_, "INSERT INTO history (tenant, name, at, what, version) VALUES (?, ?, ?, ?, ?)")
                  .bind(tenant)
                  .bind(name)
                  .bind(record.at)
                  .bind(record.what)
                  .bind(record.version)
                  .run());
    return Statement(database_,
                     fmt::format("DELETE FROM history WHERE tenant = ?1 AND name = ?2 AND age NOT IN (SELECT age "
                                 "FROM history WHERE tenant = ?1 AND name = ?2 ORDER BY age DESC LIMIT {})",
                                 kMostHistory))
        .bind(tenant)
        .bind(name)
        .run();
  });
}

Result<std::vector<HistoryRecord>> State::history(std::string_view tenant, std::string_view name) {
  std::vector<HistoryRecord> all;
  Statement rows(database_, "SELECT at, what, version FROM history WHERE tenant = ? AND name = ? ORDER BY age DESC");
  rows.bind(tenant).bind(name);
  for (;;) {
    QUERN_TRY(const bool more, rows.next());
    if (!more) return all;
    all.push_back({rows.text(0), rows.text(1), rows.text(2)});
  }
}

Status State::put_vtimes(const std::map<std::string, int64_t>& vtimes) {
  return database_.atomically([&]() -> Status {
    QUERN_TRY(database_.execute("DELETE FROM standings"));
    for (const auto& [tenant, vtime] : vtimes) {
      Statement row(database_, "INSERT INTO standings (tenant, vtime) VALUES (?, ?)");
      QUERN_TRY(row.bind(tenant).bind(vtime).run());
    }
    return {};
  });
}

Result<std::map<std::string, int64_t>> State::vtimes() {
  std::map<std::string, int64_t> all;
  Statement rows(database_, "SELECT tenant, vtime FROM standings");
  for (;;) {
    QUERN_TRY(const bool more, rows.next());
    if (!more) return all;
    all[rows.text(0)] = rows.number(1);
  }
}

Status State::put_kernel(const KernelRecord& record) {
  const KernelTimes& times = record.times;
  return Statement(database_,
                   "INSERT OR REPLACE INTO kernel_times (owner, device, identity, samples, groups, mean_ps, spread_ps, "
                   "last_ps, seen_s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(record.place.owner)
      .bind(record.place.device)
      .bind(static_cast<int64_t>(record.identity))
      .bind(static_cast<int64_t>(times.samples))
      .bind(static_cast<int64_t>(times.groups))
      .bind(std::llround(times.mean_ps))
      .bind(std::llround(times.spread_ps))
      .bind(std::span<const std::byte>(bytes_of(times.last_ps)))
      .bind(times.seen_s)
      .run();
}

Status State::put_function_kernel(const FunctionKernelRecord& record) {
  return Statement(database_,
                   "INSERT OR REPLACE INTO function_kernels (tenant, name, version, identity, kernel, groups) "
                   "SELECT ?1, ?2, ?3, ?4, ?5, ?6 "
                   "WHERE EXISTS (SELECT 1 FROM versions WHERE tenant = ?1 AND name = ?2 AND version = ?3)")
      .bind(record.function.tenant)
      .bind(record.function.name)
      .bind(record.function.version)
      .bind(static_cast<int64_t>(record.identity))
      .bind(static_cast<int64_t>(record.kernel))
      .bind(static_cast<int64_t>(record.groups))
      .run();
}

Status State::put_gaps(const GapsRecord& record) {
  std::vector<int64_t> gaps;
  for (const Duration gap : record.gaps) gaps.push_back(gap.ns);
  return Statement(database_,
                   "INSERT OR REPLACE INTO function_gaps (tenant, name, version, device, after, gaps) "
                   "SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE ?3 = '' "
                   "OR EXISTS (SELECT 1 FROM versions WHERE tenant = ?1 AND name = ?2 AND version = ?3)")
      .bind(record.function.tenant)
      .bind(record.function.name)
      .bind(record.function.version)
      .bind(record.device)
      .bind(static_cast<int64_t>(record.after))
      .bind(std::span<const std::byte>(bytes_of(gaps)))
      .run();
}

Status State::put_profiles(const ProfileRecords& records) {
  return database_.atomically([&]() -> Status {
    for (const KernelRecord& record : records.kernels) QUERN_TRY(put_kernel(record));
    for (const FunctionKernelRecord& record : records.function_kernels) QUERN_TRY(put_function_kernel(record));
    for (const GapsRecord& record : records.gaps) QUERN_TRY(put_gaps(record));
    for (const char* table : {"kernel_times", kOfFunctions[0], kOfFunctions[1]})
      QUERN_TRY(database_.execute(
          fmt::format("DELETE FROM {0} WHERE age <= (SELECT age FROM {0} ORDER BY age DESC LIMIT 1 OFFSET {1})", table,
                      kMostProfiles)));
    return {};
  });
}

Result<ProfileRecords> State::profiles() {
  ProfileRecords all;
  Statement kernels(database_,
                    "SELECT owner, device, identity, samples, groups, mean_ps, spread_ps, last_ps, seen_s "
                    "FROM kernel_times ORDER BY age");
  for (;;) {
    QUERN_TRY(const bool more, kernels.next());
    if (!more) break;
    KernelTimes times;
    times.samples = static_cast<uint64_t>(std::max<int64_t>(0, kernels.number(3)));
    times.groups = static_cast<uint64_t>(std::max<int64_t>(0, kernels.number(4)));
    times.mean_ps = static_cast<double>(kernels.number(5));
    times.spread_ps = static_cast<double>(kernels.number(6));
    times.last_ps = numbers_of<uint64_t>(kernels.bytes(7));
    times.seen_s = kernels.number(8);
    if (times.samples == 0 || times.last_ps.empty()) continue;
    all.kernels.push_back(
        {{kernels.text(0), kernels.text(1)}, static_cast<uint64_t>(kernels.number(2)), std::move(times)});
  }
  Statement names(database_,
                  "SELECT tenant, name, version, identity, kernel, groups FROM function_kernels ORDER BY age");
  for (;;) {
    QUERN_TRY(const bool more, names.next());
    if (!more) break;
    all.function_kernels.push_back({{names.text(0), names.text(1), names.text(2)},
                                    static_cast<uint64_t>(names.number(3)),
                                    static_cast<uint32_t>(names.number(4)),
                                    static_cast<uint64_t>(names.number(5))});
  }
  Statement gaps(database_, "SELECT tenant, name, version, device, after, gaps FROM function_gaps ORDER BY age");
  for (;;) {
    QUERN_TRY(const bool more, gaps.next());
    if (!more) return all;
    GapsRecord record{
        {gaps.text(0), gaps.text(1), gaps.text(2)}, gaps.text(3), static_cast<uint64_t>(gaps.number(4)), {}};
    for (const int64_t ns : numbers_of<int64_t>(gaps.bytes(5))) record.gaps.push_back({ns});
    if (!record.gaps.empty()) all.gaps.push_back(std::move(record));
  }
}

Status State::put_binary(const BinaryRecord& binary) {
  if (!objects_.has(binary.object))
    return not_found(fmt::format("binary {}: object {} is not in the store; put it there before the record", binary.key,
                                 binary.object));
  has_new_binaries_ = true;
  return atomically([&]() -> Status {
    QUERN_TRY(
        release_rows(std::move(Statement(database_, "SELECT object FROM binaries WHERE key = ?").bind(binary.key))));
    QUERN_TRY(Statement(database_, "INSERT OR REPLACE INTO binaries (key, object, signatures) VALUES (?, ?, ?)")
                  .bind(binary.key)
                  .bind(binary.object)
                  .bind(std::span<const std::byte>(binary.signatures))
                  .run());
    return count_change();
  });
}

Result<std::optional<BinaryRecord>> State::binary(std::string_view key) {
  Statement rows(database_, "SELECT key, object, signatures FROM binaries WHERE key = ?");
  QUERN_TRY(const bool found, rows.bind(key).next());
  if (!found) return std::optional<BinaryRecord>();
  return std::optional<BinaryRecord>({.key = rows.text(0), .object = rows.text(1), .signatures = rows.bytes(2)});
}

Status State::put_tenant_object(const std::string& tenant, const std::string& hash, uint64_t bytes,
                                const std::string& created_at) {
  if (!objects_.has(hash))
    return not_found(fmt::format("object {}: is not in the store; put it there before the record", hash));
  return atomically([&]() -> Status {
    QUERN_TRY(Statement(database_,
                        "INSERT OR IGNORE INTO tenant_objects (tenant, object, bytes, created_at) VALUES (?, ?, ?, ?)")
                  .bind(tenant)
                  .bind(hash)
                  .bind(static_cast<int64_t>(bytes))
                  .bind(created_at)
                  .run());
    return count_change();
  });
}

Status State::remove_tenant_object(std::string_view tenant, std::string_view hash) {
  QUERN_TRY(const auto known, tenant_object(tenant, hash));
  if (!known) return not_found(fmt::format("object {}: tenant {} has none", hash, tenant));
  release(hash);
  return Statement(database_, "DELETE FROM tenant_objects WHERE tenant = ? AND object = ?")
      .bind(tenant)
      .bind(hash)
      .run();
}

Result<std::vector<TenantObject>> State::tenant_objects(std::string_view tenant) {
  std::vector<TenantObject> all;
  Statement rows(database_,
                 "SELECT tenant, object, bytes, created_at FROM tenant_objects WHERE tenant = ? ORDER BY rowid");
  rows.bind(tenant);
  for (;;) {
    QUERN_TRY(const bool more, rows.next());
    if (!more) return all;
    all.push_back({rows.text(0), rows.text(1), static_cast<uint64_t>(rows.number(2)), rows.text(3)});
  }
}

Result<std::optional<TenantObject>> State::tenant_object(std::string_view tenant, std::string_view hash) {
  Statement row(database_,
                "SELECT tenant, object, bytes, created_at FROM tenant_objects WHERE tenant = ? AND object = ?");
  QUERN_TRY(const bool found, row.bind(tenant).bind(hash).next());
  if (!found) return std::optional<TenantObject>();
  return std::optional<TenantObject>({row.text(0), row.text(1), static_cast<uint64_t>(row.number(2)), row.text(3)});
}

Result<State::Stored> State::stored(std::string_view tenant) {
  Statement bytes(database_,
                  "SELECT SUM(bytes) FROM (SELECT object, bytes FROM version_constants WHERE tenant = ?1 "
                  "UNION SELECT object, bytes FROM tenant_objects WHERE tenant = ?1)");
  QUERN_TRY(bytes.bind(tenant).next());
  Statement count(database_, "SELECT COUNT(*) FROM tenant_objects WHERE tenant = ?");
  QUERN_TRY(count.bind(tenant).next());
  Stored stored{static_cast<uint64_t>(bytes.number(0)), static_cast<uint64_t>(count.number(0))};
  // The database does not say how large files are. An object never changes, so the store is asked once for each.
  Statement files(database_, "SELECT DISTINCT object FROM version_files WHERE tenant = ?");
  files.bind(tenant);
  if (file_bytes_.size() > kMostSizes) file_bytes_.clear();
  for (;;) {
    QUERN_TRY(const bool more, files.next());
    if (!more) return stored;
    uint64_t& known = file_bytes_[files.text(0)];
    if (known == 0) known = objects_.size_of(files.text(0));
    stored.bytes += known;
  }
}

Result<std::set<std::string>> State::named() {
  std::set<std::string> objects;
  // Not by an index: one that lacks a row would make garbage of an object.
  Statement rows(database_,
                 "SELECT object FROM version_files NOT INDEXED UNION SELECT object FROM version_constants NOT INDEXED "
                 "UNION SELECT object FROM binaries NOT INDEXED UNION SELECT object FROM tenant_objects NOT INDEXED");
  for (;;) {
    QUERN_TRY(const bool more, rows.next());
    if (!more) return objects;
    objects.insert(rows.text(0));
  }
}

Status State::release_rows(Statement rows) {
  for (;;) {
    QUERN_TRY(const bool more, rows.next());
    if (!more) return {};
    release(rows.text(0));
  }
}

Status State::release_version(std::string_view tenant, std::string_view name, std::string_view version) {
  return release_rows(
      std::move(Statement(database_,
                          "SELECT object FROM version_files WHERE tenant = ?1 AND name = ?2 AND version = ?3 "
                          "UNION SELECT object FROM version_constants WHERE tenant = ?1 AND name = ?2 AND version = ?3")
                    .bind(tenant)
                    .bind(name)
                    .bind(version)));
}

Status State::remove_old_binaries() {
  if (!std::exchange(has_new_binaries_, false)) return {};
  const std::string old = fmt::format(
      "FROM binaries WHERE age <= (SELECT age FROM binaries ORDER BY age DESC LIMIT 1 OFFSET {})", kMostBinaries);
  QUERN_TRY(release_rows(Statement(database_, "SELECT object " + old)));
  return database_.execute("DELETE " + old);
}

Result<bool> State::is_named(std::string_view hash) {
  Statement row(database_,
                "SELECT EXISTS (SELECT 1 FROM version_files WHERE object = ?1) "
                "OR EXISTS (SELECT 1 FROM version_constants WHERE object = ?1) "
                "OR EXISTS (SELECT 1 FROM binaries WHERE object = ?1) "
                "OR EXISTS (SELECT 1 FROM tenant_objects WHERE object = ?1)");
  QUERN_TRY(row.bind(hash).next());
  return row.number(0) != 0;
}

Result<std::vector<std::string>> State::collect(const std::set<std::string>& also) {
  QUERN_TRY(remove_old_binaries());
  QUERN_TRY(std::set<std::string> keep, named());
  keep.insert(also.begin(), also.end());
  std::erase_if(released_, [&](const std::string& hash) { return !also.contains(hash); });
  return objects_.set_aside(keep);
}

Result<std::vector<std::string>> State::collect_released(const std::set<std::string>& also) {
  QUERN_TRY(remove_old_binaries());
  std::vector<std::string> aside;
  for (auto it = released_.begin(); it != released_.end();) {
    // A disk that fails here leaves files, and what was set aside until then, to the next start.
    QUERN_TRY(const bool stays, is_named(*it));
    if (!stays && also.contains(*it)) {
      ++it;
      continue;
    }
    if (!stays)
      if (auto file = objects_.set_one_aside(*it)) aside.push_back(*std::move(file));
    it = released_.erase(it);
  }
  return aside;
}

}  // namespace quern::daemon
