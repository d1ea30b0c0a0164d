// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "daemon/aside.h"
#include "daemon/doctor_parts.h"
#include "daemon/sqlite.h"

namespace quern::daemon {

namespace {

Status give_if_foreign(const os::Fd& place, const std::string& path, uint32_t owner) {
  const auto status = os::status_of(place);
  return status && status->owner != owner ? os::give_to(place, path, owner) : Status();
}

}  // namespace

// The user of the folder may replace any name in it while root repairs. So each thing is opened once, without following
// a link, looked at, and changed through that handle.
Status Doctor::put_right(const std::string& path, uint32_t owner) const {
  if (path == "objects") return give_objects(owner);
  QUERN_TRY(os::Fd folder, os::open_place(folder_));
  std::string name = path;
  const auto database = os::status_of(folder_ + "/state.db");
  if (path != "." && database && database->is_link && may_follow(*database, owner)) {
    const std::string place = place_of(path);
    const size_t slash = place.rfind('/');
    QUERN_TRY(folder, os::open_place(place.substr(0, slash + 1)));
    name = place.substr(slash + 1);
  }
  QUERN_TRY(const os::Fd place, os::open_place_in(folder, name));
  QUERN_TRY(os::make_private(place, path));
  return give_if_foreign(place, path, owner);
}

Status Doctor::give_objects(uint32_t owner) const {
  QUERN_TRY(const os::Fd folder, os::open_place(folder_));
  QUERN_TRY(const os::Fd objects, open_store_folder(folder, "objects", owner));
  QUERN_TRY(os::make_private(objects, "objects"));
  QUERN_TRY(give_if_foreign(objects, "objects", owner));
  for (const std::string& shelf : os::list_folder(objects)) {
    if (!is_shelf_name(shelf)) continue;
    // The examination has counted what lies behind a link that is not followed.
    const auto shelf_place = open_store_folder(objects, shelf, owner);
    if (!shelf_place.ok()) continue;
    QUERN_TRY(give_if_foreign(*shelf_place, "objects/" + shelf, owner));
    for (const std::string& name : os::list_folder(*shelf_place)) {
      if (!is_object_name(name) || !name.starts_with(shelf)) continue;
      const auto object = os::open_place_in(*shelf_place, name);
      const auto status = object.ok() ? os::status_of(*object) : std::nullopt;
      if (status && os::reason_to_leave(*status).empty()) QUERN_TRY(give_if_foreign(*object, object_path(name), owner));
    }
  }
  return {};
}

Result<os::Fd> Doctor::open_store_folder(const os::Fd& folder, const std::string& name, uint32_t owner) const {
  QUERN_TRY(os::Fd place, os::open_place_in(folder, name));
  auto status = os::status_of(place);
  if (status && status->is_link) {
    if (!may_follow_to_store(*status, owner))
      return denied(fmt::format("{}: is a link of user {}, which is not followed", name, status->owner));
    QUERN_TRY(place, os::follow_link(folder, place));
    status = os::status_of(place);
  }
  if (!status || !status->is_folder) return denied(fmt::format("{}: is no folder, and is left as it is", name));
  return place;
}

Result<std::vector<Repaired>> Doctor::repair(const Examination& examination) const {
  std::vector<Repaired> done;
  const auto folder = os::status_of(folder_ + "/.");
  if (!folder) return not_found(fmt::format("state folder {}: is not there any more", folder_));
  const auto database = os::status_of(folder_ + "/state.db");
  const bool forgets = std::any_of(examination.findings.begin(), examination.findings.end(),
                                   [](const Finding& finding) { return finding.repair == Finding::Repair::kForget; });
  if (forgets && database && database->is_link && !may_follow(*database, folder->owner))
    return denied(
        fmt::format("state folder {}: state.db is a link of user {}, and only that user changes the database "
                    "it leads to; run doctor as that user",
                    folder_, database->owner));
  Aside aside(folder_, folder->owner);
  for (const Finding& finding : examination.findings) {
    if (finding.repair != Finding::Repair::kMakePrivate) continue;
    QUERN_TRY(put_right(finding.path, folder->owner));
    done.push_back({finding.thing, "is its owner's alone again"});
  }

  const auto is_lost = [](const Finding& finding) { return finding.repair == Finding::Repair::kStartAnew; };
  const bool starts_anew = std::any_of(examination.findings.begin(), examination.findings.end(), is_lost);
  // The database last: whoever is interrupted here has one that is damaged, or none, and a server that refuses.
  if (starts_anew) {
    for (const char* name : {"objects", "changes", "state.db-wal", "state.db-shm", "state.db"}) {
      QUERN_TRY(const std::string to, aside.take(name));
      if (!to.empty()) done.push_back({name, "moved to " + to});
    }
    return done;
  }

  std::vector<std::string> programs;
  for (const Finding& finding : examination.findings) {
    if (finding.repair == Finding::Repair::kForget) programs.push_back(finding.object);
    if (finding.repair != Finding::Repair::kMoveAside && finding.repair != Finding::Repair::kForget) continue;
    if (finding.path.empty()) continue;
    QUERN_TRY(const std::string to, aside.take(finding.path));
    if (!to.empty()) done.push_back({finding.thing, "moved to " + to});
  }
  if (programs.empty()) return done;
  for (const char* name : {"state.db", "state.db-wal"}) {
    QUERN_TRY(const std::string to, aside.copy(place_of(name), name));
    if (!to.empty()) done.push_back({name, "copied to " + to});
  }
  QUERN_TRY(forget_programs(programs));
  for (const std::string& object : programs)
    done.push_back({fmt::format("compiled program {}", object), "is built again when the server starts"});
  return done;
}

Status Doctor::forget_programs(const std::vector<std::string>& objects) const {
  QUERN_TRY(Database database, Database::open(folder_ + "/state.db"));
  return database.atomically([&]() -> Status {
    for (const std::string& object : objects)
      QUERN_TRY(Statement(database, "DELETE FROM binaries WHERE object = ?").bind(object).run());
    return {};
  });
}

}  // namespace quern::daemon
