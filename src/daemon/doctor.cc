// SPDX-License-Identifier: Apache-2.0
#include "daemon/doctor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "base/units.h"
#include "daemon/doctor_parts.h"
#include "function/plan_builder.h"

namespace quern::daemon {
namespace {

constexpr size_t kPieceBytes = 1 << 20;
constexpr size_t kMostUsers = 4;  // named in the text of a finding

/// What is wrong with the bytes of an object's file.
void check_bytes(const std::string& path, std::string_view hash, std::string& problem, bool& is_unreadable) {
  const auto unreadable = [&](const Error& error) {
    problem = fmt::format("cannot be read ({})", error.text);
    is_unreadable = true;
  };
  const auto file = os::open_file(path);
  if (!file.ok()) return unreadable(file.error());
  Sha256 found;
  Bytes piece(kPieceBytes);
  for (;;) {
    const auto size = os::read_some(*file, path, piece);
    if (!size.ok()) return unreadable(size.error());
    found.add(std::span(piece).first(*size));
    if (*size < piece.size()) break;
  }
  if (found.take() != hash) problem = "is damaged: its bytes are not those that were written";
}

constexpr const char* kReadAgain =
    "make it readable (permissions, the disk, open files), then examine the folder again";

std::string label_of(const FunctionRecord& record, bool is_current) {
  return fmt::format("function {}@{}{}{}", record.name, short_version(record.version),
                     record.tenant == "default" ? "" : fmt::format(" of tenant {}", record.tenant),
                     is_current ? " (current)" : "");
}

std::string listed(const std::set<std::string>& texts) {
  std::vector<std::string> shown(texts.begin(), texts.end());
  const size_t left_out = shown.size() > kMostUsers ? shown.size() - kMostUsers : 0;
  shown.resize(shown.size() - left_out);
  return fmt::format("{}{}", fmt::join(shown, ", "), left_out ? fmt::format(" and {} more", left_out) : "");
}

/// Whose object one is.
struct Users {
  std::set<std::string> functions, tenants;
  bool is_program = false;
};

std::string works_without(const Users& users) {
  std::set<std::string> all = users.functions;
  for (const std::string& tenant : users.tenants) all.insert(fmt::format("calls of tenant {} that name it", tenant));
  return all.empty() ? "everything" : "all but " + listed(all);
}

std::string cure_of(const Users& users, bool has_file) {
  std::string text = has_file ? "--repair moves it aside" : "";
  const auto add = [&](const char* what) { text += (text.empty() ? "" : ", then ") + std::string(what); };
  if (!users.functions.empty()) add("deploy the function again");
  if (!users.tenants.empty()) add("its tenant puts it again");
  return text;
}

// The sizes that executors read, which are the same whatever the dims are.
Status check_constants(const FunctionRecord& record, const Manifest& manifest) {
  const Binding binding = corner_of(manifest, Corner::kDefault);
  const Names names = names_in(manifest, binding);
  for (const BufferDecl& buffer : manifest.buffers) {
    if (buffer.role != Role::kConstant) continue;
    const auto known = record.constants.find(buffer.name);
    if (known == record.constants.end()) return internal(fmt::format("has no record of constant '{}'", buffer.name));
    QUERN_TRY(const PlannedBuffer planned, plan_buffer(manifest, buffer, names));
    if (planned.size_bytes != known->second.bytes)
      return internal(fmt::format("constant '{}' has {} bytes where {} are needed", buffer.name, known->second.bytes,
                                  planned.size_bytes));
  }
  return {};
}

// Of a version whose files are all whole. kUnavailable if they cannot be read this time.
Status check_manifest(const FunctionRecord& record, const std::string& folder) {
  Files files;
  for (const auto& [path, object] : record.files) {
    auto bytes = os::read_file(fmt::format("{}/{}", folder, object_path(object)));
    if (!bytes.ok()) return unavailable(fmt::format("cannot be read ({})", bytes.error().text));
    files[path] = *std::move(bytes);
  }
  const ParsedManifest parsed =
      parse_manifest(files, record.constants.empty() ? ConstantFiles::kHere : ConstantFiles::kElsewhere);
  if (!parsed.manifest) {
    const auto first = std::find_if(parsed.mistakes.begin(), parsed.mistakes.end(),
                                    [](const Mistake& mistake) { return !mistake.is_warning; });
    return invalid(fmt::format("this Quern does not take its files ({})",
                               first == parsed.mistakes.end() ? "no reason is known" : to_string(*first)));
  }
  return record.constants.empty() ? Status() : check_constants(record, *parsed.manifest);
}

}  // namespace

std::string_view name_of(Finding::Kind kind) {
  switch (kind) {
    case Finding::Kind::kDatabase:
      return "database";
    case Finding::Kind::kObject:
      return "object";
    case Finding::Kind::kFunction:
      return "function";
    case Finding::Kind::kProgram:
      return "program";
    case Finding::Kind::kLeftover:
      return "leftover";
    case Finding::Kind::kUnreadable:
      return "unreadable";
    case Finding::Kind::kPermissions:
      break;
  }
  return "permissions";
}

Result<Doctor> Doctor::open(const std::string& folder, bool may_repair) {
  std::string path = os::absolute(folder);
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (!os::is_folder(path))
    return not_found(
        fmt::format("state folder {}: is not there; name the folder that 'quern serve --state' has", path));
  const bool has_lock = os::exists(path + "/lock");
  if (!has_lock && !os::exists(path + "/state.db") && !os::exists(path + "/objects"))
    return not_found(
        fmt::format("state folder {}: holds no state; name the folder that 'quern serve --state' has", path));
  os::Fd held;
  if (has_lock || may_repair) {
    auto lock = os::lock_file(path + "/lock");
    if (!lock.ok() && lock.error().code == ErrorCode::kConflict)
      return conflict(fmt::format("state folder {}: a server has it open; stop that server first", path));
    if (!lock.ok()) return std::move(lock).error();
    held = *std::move(lock);
    // The superuser's lock would keep the server out.
    const auto owner = os::status_of(path + "/.");
    if (!has_lock && owner && owner->owner != geteuid()) QUERN_TRY(os::give_to(path + "/lock", owner->owner));
  }
  return Doctor(std::move(path), std::move(held));
}

Result<Examination> Doctor::examine() const {
  Examination examination;
  check_permissions(examination);
  examination.aside = os::size_of_tree(folder_ + "/aside");
  QUERN_TRY(const Stored stored, look_at_objects(examination));
  QUERN_TRY(const ToldChanges told, check_changes(examination));
  QUERN_TRY(const Records records, read_database(stored, told, examination));
  check_versions(records, stored, examination);
  check_objects(records, stored, examination);
  std::stable_sort(examination.findings.begin(), examination.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.is_damage > b.is_damage; });
  return examination;
}

std::string Doctor::place_of(const std::string& name) const {
  constexpr std::string_view kDatabase = "state.db";
  if (!name.starts_with(kDatabase)) return fmt::format("{}/{}", folder_, name);
  return os::resolved(fmt::format("{}/{}", folder_, kDatabase)) + name.substr(kDatabase.size());
}

bool Doctor::may_follow(const os::FileStatus& link, uint32_t owner) const {
  return owner == geteuid() && (link.owner == owner || link.owner == 0);
}

// Behind such a link nothing but folders and files with names of shelves and objects is changed.
bool Doctor::may_follow_to_store(const os::FileStatus& link, uint32_t owner) const {
  return may_follow(link, owner) || (link.owner == 0 && link.names == 1);
}

std::string Doctor::reason_to_leave(const std::string& name, const os::FileStatus& status, uint32_t owner) const {
  const auto database = os::status_of(folder_ + "/state.db");
  if (name != "." && database && database->is_link && !may_follow(*database, owner))
    return fmt::format("is reached by a link of user {}", database->owner);
  return os::reason_to_leave(status);
}

void Doctor::check_permissions(Examination& examination) const {
  const auto add = [&](std::string thing, std::string problem, std::string cure, const std::string& path) {
    Finding finding;
    finding.kind = Finding::Kind::kPermissions;
    finding.thing = std::move(thing);
    finding.problem = std::move(problem);
    finding.works = "everything";
    finding.cure = std::move(cure);
    finding.repair = path.empty() ? Finding::Repair::kNothing : Finding::Repair::kMakePrivate;
    finding.path = path;
    examination.findings.push_back(std::move(finding));
  };
  // With the dot a folder that is reached by a link is looked at, not the link.
  const auto folder = os::status_of(folder_ + "/.");
  if (!folder) return;
  if (geteuid() != 0 && folder->owner != geteuid())
    add("state folder", fmt::format("belongs to user {}, and this is user {}", folder->owner, geteuid()),
        "run doctor and the server as its owner", "");
  for (const char* name : {".", "state.db", "state.db-wal", "state.db-shm"}) {
    const auto status = os::status_of(place_of(name));
    const std::string thing = name == std::string_view(".") ? "state folder" : name;
    if (!status) continue;
    const std::string reason = reason_to_leave(name, *status, folder->owner);
    const auto add_or_leave = [&](std::string problem, std::string cure) {
      if (reason.empty()) return add(thing, std::move(problem), std::move(cure), name);
      add(thing, std::move(problem),
          fmt::format("--repair leaves it as it is, because it {}; put it right by hand", reason), "");
    };
    if (status->mode & 077)
      add_or_leave(fmt::format("other users may use it (mode {:04o})", status->mode),
                   fmt::format("--repair makes it {}", status->is_folder ? "0700" : "0600"));
    if (status->owner != folder->owner)
      add_or_leave(fmt::format("belongs to user {}, and the folder to user {}", status->owner, folder->owner),
                   "--repair, run by root, gives it to the owner of the folder");
  }
}

Result<Doctor::Stored> Doctor::look_at_objects(Examination& examination) const {
  Stored stored;
  const std::string folder = folder_ + "/objects";
  if (!os::status_of(folder)) return stored;
  QUERN_TRY(const auto shelves, os::read_folder(folder));
  for (const std::string& shelf : shelves) QUERN_TRY(look_at_shelf(shelf, stored, examination));
  examination.objects = stored.files.size();
  check_owners(stored, examination);
  return stored;
}

void Doctor::check_owners(const Stored& stored, Examination& examination) const {
  const auto owner = os::status_of(folder_ + "/.");
  if (!owner) return;
  const auto is_reached = [&](const std::string& path) {
    const auto status = os::status_of(fmt::format("{}/{}", folder_, path));
    return status && (!status->is_link || may_follow_to_store(*status, owner->owner));
  };
  size_t foreign = 0, left = 0;
  for (const auto& [name, file] : stored.files) {
    const std::string path = object_path(name);
    const auto status = os::status_of(fmt::format("{}/{}", folder_, path));
    if (!status || status->owner == owner->owner) continue;
    const bool can_be_given =
        os::reason_to_leave(*status).empty() && is_reached("objects") && is_reached(path.substr(0, path.rfind('/')));
    ++(can_be_given ? foreign : left);
  }
  Finding finding;
  finding.kind = Finding::Kind::kPermissions;
  finding.thing = "objects";
  finding.works = "what its owner can read";
  if (left > 0) {
    finding.problem = fmt::format(
        "{} files belong to another user than the folder, and are links, have a second name, or are reached by a link",
        left);
    finding.cure = "--repair leaves them as they are; give them to the owner of the folder by hand";
    examination.findings.push_back(finding);
  }
  if (foreign == 0) return;
  finding.problem = fmt::format("{} files belong to another user than the folder", foreign);
  finding.cure = "--repair, run by root, gives them to the owner of the folder";
  finding.repair = Finding::Repair::kMakePrivate;
  finding.path = "objects";
  examination.findings.push_back(std::move(finding));
}

// A link counts for what it leads to, as it does for the server. One that leads nowhere may lead to a disk that is not
// there today.
Status Doctor::look_at_shelf(const std::string& shelf, Stored& stored, Examination& examination) const {
  const auto add = [&](const std::string& path, std::string problem, bool is_unreadable) {
    Finding finding;
    finding.kind = is_unreadable ? Finding::Kind::kUnreadable : Finding::Kind::kLeftover;
    finding.is_damage = false;
    finding.thing = path;
    finding.problem = std::move(problem);
    finding.works = is_unreadable ? "all but what it holds" : "everything";
    finding.cure = is_unreadable ? kReadAgain : "--repair moves it aside";
    finding.repair = is_unreadable ? Finding::Repair::kNothing : Finding::Repair::kMoveAside;
    finding.path = path;
    examination.findings.push_back(std::move(finding));
  };
  const std::string shelf_path = "objects/" + shelf, shelf_place = fmt::format("{}/{}", folder_, shelf_path);
  if (shelf == "format" && os::file_size(shelf_place)) {
    const auto format = os::read_file(shelf_place);
    if (!format.ok())
      add(shelf_path, fmt::format("cannot be read ({})", format.error().text), true);
    else if (as_text(*format) != "1\n")
      add(shelf_path, "does not say what this Quern writes; the server does without it", false);
    return {};
  }
  if (!os::exists(shelf_place)) return add(shelf_path, "is a link that leads nowhere", true), Status();
  if (!is_shelf_name(shelf) || !os::is_folder(shelf_place))
    return add(shelf_path, "is no folder of objects", false), Status();
  QUERN_TRY(const auto names, os::read_folder(shelf_place));
  for (const std::string& name : names) {
    const std::string path = fmt::format("{}/{}", shelf_path, name), place = fmt::format("{}/{}", folder_, path);
    const auto size = os::file_size(place);
    if (name.ends_with(".tmp")) {
      add(path, "was left by a write that did not end", false);
    } else if (!is_object_name(name) || !name.starts_with(shelf) || (!size && os::exists(place))) {
      add(path, "is no object", false);
    } else if (!size) {
      stored.files[name] = {0, "is a link that leads nowhere", true};
    } else {
      Stored::File& file = stored.files[name];
      file.size_bytes = *size;
      check_bytes(place, name, file.problem, file.is_unreadable);
      examination.objects_bytes += *size;
    }
  }
  return {};
}

// A version is whole if its files are, this Quern takes them, and its constants are there in their size.
void Doctor::check_versions(const Records& records, const Stored& stored, Examination& examination) const {
  for (size_t i = 0; i < records.functions.size(); ++i) {
    const FunctionRecord& record = records.functions[i];
    CheckedVersion version{record.tenant, record.name, record.version, records.is_current(i), true};
    for (const auto& [path, object] : record.files) version.is_whole &= stored.has_whole(object);
    std::string problem;
    bool is_unreadable = false;
    if (version.is_whole) {
      const Status checked = check_manifest(record, folder_);
      if (!checked.ok()) problem = checked.error().text;
      is_unreadable = !checked.ok() && checked.error().code == ErrorCode::kUnavailable;
    }
    for (const auto& [buffer, constant] : record.constants) {
      version.is_whole &= stored.has_whole(constant.object);
      const auto file = stored.files.find(constant.object);
      if (problem.empty() && file != stored.files.end() && file->second.problem.empty() &&
          file->second.size_bytes != constant.bytes)
        problem = fmt::format("constant '{}' has {} bytes, and its record says {}", buffer, file->second.size_bytes,
                              constant.bytes);
    }
    if (!problem.empty()) {
      version.is_whole = false;
      Finding finding;
      finding.kind = is_unreadable ? Finding::Kind::kUnreadable : Finding::Kind::kFunction;
      finding.is_damage = !is_unreadable;
      finding.thing = label_of(record, version.is_current);
      finding.problem = std::move(problem);
      finding.works = "every other version and function";
      finding.cure = is_unreadable ? kReadAgain : "deploy it again, or remove it";
      examination.findings.push_back(std::move(finding));
    }
    examination.versions.push_back(std::move(version));
  }
}

void Doctor::check_objects(const Records& records, const Stored& stored, Examination& examination) const {
  std::map<std::string, Users> users;
  for (size_t i = 0; i < records.functions.size(); ++i) {
    const FunctionRecord& record = records.functions[i];
    const std::string label = label_of(record, records.is_current(i));
    for (const auto& [path, object] : record.files) users[object].functions.insert(label);
    for (const auto& [buffer, constant] : record.constants) users[constant.object].functions.insert(label);
  }
  for (const TenantObject& one : records.tenant_objects) users[one.hash].tenants.insert(one.tenant);
  for (const std::string& object : records.programs) users[object].is_program = true;
  examination.tenant_objects = records.tenant_objects.size();
  examination.programs = records.programs.size();

  std::set<std::string> hashes;
  for (const auto& [hash, used] : users) hashes.insert(hash);
  for (const auto& [hash, file] : stored.files) hashes.insert(hash);
  for (const std::string& hash : hashes) {
    const auto file = stored.files.find(hash);
    const auto used = users.find(hash);
    const bool has_file = file != stored.files.end();
    if (records.is_readable && used == users.end()) ++examination.unnamed;
    if (has_file && file->second.problem.empty()) continue;
    const Users whose = used == users.end() ? Users{} : used->second;
    Finding finding;
    finding.thing = fmt::format("object {}", hash);
    finding.problem = has_file ? file->second.problem : "is missing";
    finding.works = works_without(whose);
    finding.cure = cure_of(whose, has_file);
    finding.object = hash;
    finding.path = has_file ? object_path(hash) : "";
    finding.repair = has_file ? Finding::Repair::kMoveAside : Finding::Repair::kNothing;
    if (has_file && file->second.is_unreadable) {
      finding.kind = Finding::Kind::kUnreadable;
      finding.is_damage = false;
      finding.cure = kReadAgain;
      finding.repair = Finding::Repair::kNothing;
    } else if (whose.functions.empty() && whose.tenants.empty() && records.is_readable) {
      finding.is_damage = false;
      finding.kind = whose.is_program ? Finding::Kind::kProgram : Finding::Kind::kLeftover;
      if (whose.is_program) {
        finding.thing = fmt::format("compiled program {}", hash);
        finding.cure = "it is built again";
        finding.repair = Finding::Repair::kForget;
      }
    }
    examination.findings.push_back(std::move(finding));
  }
  if (examination.lost_changes == 0) return;
  Finding finding;
  finding.kind = Finding::Kind::kDatabase;
  finding.thing = "database state.db";
  finding.problem = fmt::format(
      "is older than its objects and lacks {} change{}: state.db-wal was lost or damaged, or state.db was replaced by "
      "an older copy; it does not name {} objects",
      examination.lost_changes, examination.lost_changes == 1 ? "" : "s", examination.unnamed);
  finding.works = "what it names";
  finding.cure =
      "restore state.db from a backup; or start the server, which moves those objects aside, and deploy again what is "
      "missing";
  finding.path = "state.db";
  examination.findings.push_back(std::move(finding));
}

}  // namespace quern::daemon
