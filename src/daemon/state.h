// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/result.h"
#include "daemon/object_store.h"
#include "daemon/profile_records.h"
#include "daemon/sqlite.h"
#include "os/fd.h"

namespace quern::daemon {

class Aside;

/// The elements of a constant, an object of its own: without header, and without the rest of the file they came in.
struct ConstantRecord {
  std::string object;  ///< hash
  uint64_t bytes = 0;
  bool operator==(const ConstantRecord&) const = default;
};

/// One version of a deployed function as it comes back after a restart; its manifest is one of its files.
struct FunctionRecord {
  std::string tenant, name, version;
  std::map<std::string, std::string> files;         ///< path in the function's folder -> hash of the object
  std::string created_at;                           ///< wall time, for people
  int64_t order = 0;                                ///< of deploys; the state gives it
  std::map<std::string, ConstantRecord> constants;  ///< by buffer; files that only constants name are not in `files`
  int64_t turn = 0;                                 ///< the highest of its name is current; the state gives it
  bool operator==(const FunctionRecord& other) const {
    return tenant == other.tenant && name == other.name && version == other.version && files == other.files &&
           created_at == other.created_at && constants == other.constants;
  }
};

/// What was done to a function, for people.
struct HistoryRecord {
  std::string at, what, version;
  bool operator==(const HistoryRecord&) const = default;
};

/// What a builder made; the key says from what, so the same build is never made twice.
struct BinaryRecord {
  std::string key;     ///< of source, options, device and driver version
  std::string object;  ///< hash of the binary
  Bytes signatures;    ///< of its entries, as the builder told them
  bool operator==(const BinaryRecord&) const = default;
};

/// An object that a tenant put, for its calls to name.
struct TenantObject {
  std::string tenant, hash;
  uint64_t bytes = 0;
  std::string created_at;
  bool operator==(const TenantObject&) const = default;
};

/// What the file `changes` of a state folder says.
struct ToldChanges {
  std::optional<int64_t> count;  ///< nothing if there is no such file, or if it makes no sense
  std::string problem;           ///< why it makes no sense: "is empty"
};

/// Whether an object's file may have this name: a SHA-256 in hex digits.
inline bool is_object_name(std::string_view name) {
  return name.size() == kSha256Digits && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// What survives the daemon: `FOLDER/state.db` (SQLite) says what is deployed, `FOLDER/objects` holds the bytes.
///
/// A change is on disk when its call returns, and there whole or not at all if the daemon dies within it. Objects come
/// first, then the record that names them; what an interruption leaves without a record goes at the next `open`.
///
/// `open` deletes such objects only if the database is as new as they are. Every change that names objects is counted
/// twice: in the database, and in the file `FOLDER/changes`. If the database has counted fewer, it has lost records
/// (with its file state.db-wal, or because an older copy replaced it). `open` then moves objects without a record into
/// `FOLDER/aside`, and says so in the log. It does the same if there is no such file, as in the folder of an older
/// Quern, and if the file makes no sense; then the file goes aside, too.
///
/// From one thread at a time (StateThread has it); `objects()` from any.
class State {
 public:
  /// kConflict if another process has the folder; kUnsupported if a newer Quern wrote it; kInvalid if the folder holds
  /// other things and no state; kUnavailable if it has objects and no database; kInternal if the database is damaged.
  /// Takes the folder away from other users, but a folder that holds no state, or lost its database, stays as it is.
  /// `before_disk`: see ObjectStore.
  static Result<std::unique_ptr<State>> open(const std::string& folder, std::function<void()> before_disk = {});

  /// All of `work` or nothing of it, also if the daemon dies within it.
  template <class F>
  Status atomically(F&& work) {
    const bool is_outermost = !std::exchange(is_within_, true);
    const Status done = database_.atomically(std::forward<F>(work));
    if (is_outermost) end_changes(done.ok());
    return done;
  }

  /// For tests that let the database fail.
  Status execute_for_test(const std::string& sql) { return database_.execute(sql); }

  /// Adds a version and makes it the current one, in place of its like if there is one. kNotFound if one of its objects
  /// is not stored. Its place in the order of deploys.
  Result<int64_t> put_function(const FunctionRecord& function);
  /// Files and constants of a version that is stored, in place of those that were recorded; whether it is current, and
  /// its place in the order, stay. kNotFound if it, or one of its objects, is not stored.
  Status change_objects(const FunctionRecord& function);
  /// An older version is current again. kNotFound if it is not stored.
  Status make_current(std::string_view tenant, std::string_view name, std::string_view version);
  /// Objects of what is removed stay until the next `collect` or `collect_released`.
  Status remove_version(std::string_view tenant, std::string_view name, std::string_view version);
  /// All versions with settings and history. Whether there was one.
  Result<bool> remove_function(std::string_view tenant, std::string_view name);
  /// Every version, by tenant, name and when it was last made current; the current one is the last of its name.
  Result<std::vector<FunctionRecord>> functions();

  /// A setting that was changed in place, by its path; an empty value takes the change back.
  Status put_setting(std::string_view tenant, std::string_view name, std::string_view path, std::string_view value);
  Result<std::map<std::string, std::string>> settings(std::string_view tenant, std::string_view name);

  /// Keeps the last kMostHistory of each function.
  Status add_history(std::string_view tenant, std::string_view name, const HistoryRecord& record);
  /// The newest first.
  Result<std::vector<HistoryRecord>> history(std::string_view tenant, std::string_view name);

  /// Where each tenant stands in virtual time, in place of all that was stored of it.
  Status put_vtimes(const std::map<std::string, int64_t>& vtimes);
  Result<std::map<std::string, int64_t>> vtimes();

  /// What was learned since the last time: each record in place of its like. Of what is stored no longer, nothing is
  /// taken; the oldest past kMostProfiles leave.
  Status put_profiles(const ProfileRecords& records);
  /// The oldest first. What makes no sense is left out: it is learned again.
  Result<ProfileRecords> profiles();

  /// kNotFound if its object is not stored.
  Status put_binary(const BinaryRecord& binary);
  Result<std::optional<BinaryRecord>> binary(std::string_view key);

  /// An object of the store is this tenant's too; again is fine, and changes nothing. kNotFound if it is not stored.
  Status put_tenant_object(const std::string& tenant, const std::string& hash, uint64_t bytes,
                           const std::string& created_at);
  /// kNotFound if the tenant has none. It stays in the store until the next `collect` or `collect_released`.
  Status remove_tenant_object(std::string_view tenant, std::string_view hash);
  /// The oldest first.
  Result<std::vector<TenantObject>> tenant_objects(std::string_view tenant);
  Result<std::optional<TenantObject>> tenant_object(std::string_view tenant, std::string_view hash);

  /// Takes away objects that no record names and that are not in `also`, and the oldest binaries past kMostBinaries;
  /// `open` does it. The files that are left of them: ObjectStore::set_aside. What was put and has no record yet
  /// belongs into `also`.
  Result<std::vector<std::string>> collect(const std::set<std::string>& also = {});
  /// The same for objects that a change of this State released, and for no other file of the store: what it costs does
  /// not depend on how much is stored. What is in `also` counts as released until it is collected or named again.
  Result<std::vector<std::string>> collect_released(const std::set<std::string>& also = {});
  /// An object was put for a record that did not come: it counts as released.
  void release(std::string_view hash) { released_.emplace(hash); }

  /// What `FOLDER/changes` says. Fails if the disk does not let it be read.
  static Result<ToldChanges> read_changes(const std::string& folder);

  /// What a tenant has on disk: objects that it put, and constants and sources of its functions; each once.
  struct Stored {
    uint64_t bytes = 0, objects = 0;  ///< of all; and how many it put
  };
  Result<Stored> stored(std::string_view tenant);

  ObjectStore& objects() { return objects_; }

  /// A binary is a cache entry: it can be built again. At some 100 KiB each this is the better part of a gigabyte.
  static constexpr int kMostBinaries = 4096;
  static constexpr int kMostHistory = 100;
  static constexpr int kMostProfiles = 65536;  ///< of each kind; as many as the daemon remembers (Profiles)

 private:
  State(os::Fd lock, ObjectStore objects, Database database)
      : lock_(std::move(lock)), objects_(std::move(objects)), database_(std::move(database)) {}
  Status check_stored(std::string_view tenant, std::string_view name, std::string_view version);
  Status check_objects(const FunctionRecord& function) const;
  Status insert_objects(const FunctionRecord& function);
  Status take_turn(std::string_view tenant, std::string_view name, std::string_view version);
  Status put_kernel(const KernelRecord& record);
  Status put_function_kernel(const FunctionKernelRecord& record);
  Status put_gaps(const GapsRecord& record);
  /// Before a change that takes records away: notes the objects that these rows name.
  Status release_rows(Statement rows);
  Status release_version(std::string_view tenant, std::string_view name, std::string_view version);
  /// Those past kMostBinaries; costs nothing where none came since the last time.
  Status remove_old_binaries();
  Result<bool> is_named(std::string_view hash);

  // state_open.cc
  Status begin_changes(const std::string& folder);
  /// How many objects there were.
  Result<uint64_t> put_unnamed_aside(const std::string& folder, Aside& aside);
  /// Within a change: it names objects.
  Status count_change();
  void end_changes(bool are_made);
  void tell_changes();
  /// All objects that a record names.
  Result<std::set<std::string>> named();

  static constexpr size_t kMostSizes = 65536;

  os::Fd lock_;                                 // first in, last out
  std::map<std::string, uint64_t> file_bytes_;  ///< of sources, by hash; those that were asked for
  ObjectStore objects_;
  Database database_;
  std::string changes_path_;
  os::Fd changes_file_;
  int64_t changes_ = 0;      ///< that named objects, as the database counts them
  int64_t new_changes_ = 0;  ///< those of them in the change that is under way
  bool is_within_ = false;   ///< `atomically`
  /// Objects that lost a record since the last collection; some are named by others, or are still in use.
  std::set<std::string> released_;
  bool has_new_binaries_ = true;  ///< or nobody knows yet
};

}  // namespace quern::daemon
