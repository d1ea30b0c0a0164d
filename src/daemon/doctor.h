// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "daemon/state.h"
#include "os/fd.h"
#include "os/file.h"

namespace quern::daemon {

/// One thing in a state folder that is not as it should be.
struct Finding {
  /// kUnreadable: this examination could not read it (no permission, no descriptor, a disk that does not answer), and
  /// so does not know whether it is damaged. Nothing is repaired then.
  enum class Kind : uint8_t { kDatabase, kObject, kFunction, kProgram, kLeftover, kPermissions, kUnreadable };
  /// What `Doctor::repair` does about it.
  enum class Repair : uint8_t {
    kNothing,     ///< only people can: deploy again, restore a backup, be another user
    kMoveAside,   ///< `path`, into the folder aside
    kStartAnew,   ///< the database and all objects, into the folder aside
    kForget,      ///< the records of compiled programs that name `object`; the file, if there is one, goes aside
    kMakePrivate  ///< owner and mode of `path`
  };

  Kind kind = Kind::kObject;
  bool is_damage = true;  ///< false: a note; the server copes with it by itself
  std::string thing;      ///< "object 1a2b…", "function saxpy@1a2b…"
  std::string problem;    ///< what is wrong with it
  std::string works;      ///< what works all the same
  std::string cure;       ///< what to do
  Repair repair = Repair::kNothing;
  std::string path;    ///< relative to the state folder; empty: there is no file
  std::string object;  ///< hash
};
std::string_view name_of(Finding::Kind kind);

/// One stored version of a function.
struct CheckedVersion {
  std::string tenant, name, version;
  bool is_current = false;
  bool is_whole = true;
};

/// What `Doctor::examine` saw.
struct Examination {
  std::vector<Finding> findings;  ///< damage first
  std::vector<CheckedVersion> versions;
  int64_t schema = 0;    ///< of the database; 0: there is none that can be read
  uint64_t objects = 0;  ///< object files, whole or not
  uint64_t objects_bytes = 0;
  uint64_t unnamed = 0;        ///< objects that no record names: the server removes them when it starts,
  bool keeps_unnamed = false;  ///< or moves them aside, because the database may be older than they are
  int64_t lost_changes = 0;    ///< by the database, as `State` counts them
  uint64_t tenant_objects = 0;
  uint64_t programs = 0;  ///< compiled ones
  os::TreeSize aside;     ///< what was moved away at some time

  bool is_healthy() const {
    return std::none_of(findings.begin(), findings.end(),
                        [](const Finding& one) { return one.is_damage || one.kind == Finding::Kind::kUnreadable; });
  }
};

/// One thing that `Doctor::repair` did, in words.
struct Repaired {
  std::string thing, done;
};

/// Examines and repairs a state folder that no server has open.
///
/// `examine` changes nothing in it: the database is read from a copy in a temporary folder, for SQLite would otherwise
/// take over what a killed server left in its log, and an older schema is brought up to date there only. `repair` moves
/// things into `FOLDER/aside/TIME` and removes nothing but records of compiled programs, of which it keeps a copy of
/// the database. Records of functions stay: a version whose object is lost is not replaced by an older one, calls of it
/// get an error, and deploying it again mends it.
///
/// Only what is known to be damaged is moved. A database, or a folder, that cannot be read or copied ends the
/// examination with the error that it gave. Links are followed where the server follows them, with one exception: owner
/// and mode of what a link leads to are changed only if the link was made by root, or by this user in a folder of this
/// user, and root follows `state.db` in no folder of another user. Else the user of a folder could have root give away
/// any file. Files with a second name stay as they are, too. The findings say which.
///
/// For one thread.
class Doctor {
 public:
  /// kConflict if a server has the folder open; kNotFound if it holds no state. With `may_repair` the lock is made if
  /// it is not there, for the owner of the folder; without, nothing is.
  static Result<Doctor> open(const std::string& folder, bool may_repair);

  Result<Examination> examine() const;
  /// What was done. The first thing that cannot be done ends it; what was moved until then stays aside.
  Result<std::vector<Repaired>> repair(const Examination& examination) const;

  const std::string& folder() const { return folder_; }

 private:
  // doctor_parts.h
  struct Records;
  struct Stored;

  Doctor(std::string folder, os::Fd lock) : folder_(std::move(folder)), lock_(std::move(lock)) {}
  // doctor.cc: what is looked at
  void check_permissions(Examination& examination) const;
  /// Whether doctor may change what a link in a folder of this owner leads to.
  bool may_follow(const os::FileStatus& link, uint32_t owner) const;
  /// The same of the link `objects`, or of one in it.
  bool may_follow_to_store(const os::FileStatus& link, uint32_t owner) const;
  /// Why owner and mode of the folder, or of a file of the database, are not changed; empty if they are.
  std::string reason_to_leave(const std::string& name, const os::FileStatus& status, uint32_t owner) const;
  Result<Stored> look_at_objects(Examination& examination) const;
  void check_owners(const Stored& stored, Examination& examination) const;
  Status look_at_shelf(const std::string& shelf, Stored& stored, Examination& examination) const;
  void check_versions(const Records& records, const Stored& stored, Examination& examination) const;
  void check_objects(const Records& records, const Stored& stored, Examination& examination) const;
  /// Where a file of the state folder is: the files of the database lie where the link `state.db` leads.
  std::string place_of(const std::string& name) const;
  // doctor_database.cc
  Result<ToldChanges> check_changes(Examination& examination) const;
  Result<Records> read_database(const Stored& stored, const ToldChanges& told, Examination& examination) const;
  static Result<Records> read_copy(const std::string& copy);
  // doctor_repair.cc
  Status put_right(const std::string& path, uint32_t owner) const;
  Status give_objects(uint32_t owner) const;
  /// The folder `objects`, or one in it. kDenied if it is a link that may not be followed, or no folder.
  Result<os::Fd> open_store_folder(const os::Fd& folder, const std::string& name, uint32_t owner) const;
  Status forget_programs(const std::vector<std::string>& objects) const;

  std::string folder_;  // absolute
  os::Fd lock_;
};

}  // namespace quern::daemon
