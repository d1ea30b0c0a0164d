// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "daemon/aside.h"
#include "daemon/doctor_parts.h"
#include "daemon/sqlite.h"

namespace quern::daemon {

Status Doctor::put_right(const std::string& path, uint32_t owner) const {
  const std::string full = place_of(path);
  const auto give = [&](const std::string& one) -> Status {
    const auto status = os::status_of(one);
    return status && status->owner != owner ? os::give_to(one, owner) : Status();
  };
  QUERN_TRY(os::make_private(full));
  QUERN_TRY(give(full));
  if (path != "objects") return {};
  for (const std::string& shelf : os::list_folder(full)) {
    QUERN_TRY(give(fmt::format("{}/{}", full, shelf)));
    for (const std::string& name : os::list_folder(fmt::format("{}/{}", full, shelf)))
      QUERN_TRY(give(fmt::format("{}/{}/{}", full, shelf, name)));
  }
  return {};
}

Result<std::vector<Repaired>> Doctor::repair(const Examination& examination) const {
  std::vector<Repaired> done;
  const auto folder = os::status_of(folder_ + "/.");
  if (!folder) return not_found(fmt::format("state folder {}: is not there any more", folder_));
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
