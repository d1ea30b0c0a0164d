// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "daemon/doctor_parts.h"
#include "daemon/sqlite.h"
#include "os/clock.h"

namespace quern::daemon {

/// The folder that things are moved to, `aside/TIME` in the state folder. Made with the first of them.
class Doctor::Aside {
 public:
  Aside(std::string folder, uint32_t owner) : folder_(std::move(folder)), owner_(owner) {}

  /// Where it is from now on, relative to the state folder. Nothing happens if there is no such file.
  Result<std::string> take(const std::string& path) {
    if (!os::status_of(fmt::format("{}/{}", folder_, path))) return std::string();
    QUERN_TRY(const std::string to, place_for(path));
    QUERN_TRY(os::move_file(fmt::format("{}/{}", folder_, path), fmt::format("{}/{}", folder_, to)));
    return to;
  }

  Result<std::string> copy(const std::string& path) {
    if (!os::status_of(fmt::format("{}/{}", folder_, path))) return std::string();
    QUERN_TRY(const std::string to, place_for(path));
    QUERN_TRY(const Bytes bytes, os::read_file(fmt::format("{}/{}", folder_, path)));
    const std::string target = fmt::format("{}/{}", folder_, to);
    QUERN_TRY(os::write_file_durably(target, bytes));
    QUERN_TRY(os::make_private(target));
    QUERN_TRY(give(target));
    return to;
  }

 private:
  Result<std::string> place_for(const std::string& path) {
    if (aside_.empty()) {
      std::string time = os::wall_time();
      std::replace(time.begin(), time.end(), ':', '-');
      std::string name = "aside/" + time;
      for (int i = 2; os::status_of(fmt::format("{}/{}", folder_, name)); ++i)
        name = fmt::format("aside/{}-{}", time, i);
      QUERN_TRY(make("aside"));
      QUERN_TRY(make(name));
      aside_ = name;
    }
    std::string made = aside_;
    for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
      made = fmt::format("{}/{}", aside_, path.substr(0, slash));
      QUERN_TRY(make(made));
    }
    return fmt::format("{}/{}", aside_, path);
  }

  Status make(const std::string& name) {
    const std::string path = fmt::format("{}/{}", folder_, name);
    QUERN_TRY(os::make_folders(path, 0700));
    return give(path);
  }

  Status give(const std::string& path) const {
    const auto status = os::status_of(path);
    return status && status->owner != owner_ ? os::give_to(path, owner_) : Status();
  }

  const std::string folder_;
  const uint32_t owner_;
  std::string aside_;
};

Status Doctor::put_right(const std::string& path, uint32_t owner) const {
  const std::string full = fmt::format("{}/{}", folder_, path);
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
    for (const char* name : {"objects", "state.db-wal", "state.db-shm", "state.db"}) {
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
    QUERN_TRY(const std::string to, aside.copy(name));
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
