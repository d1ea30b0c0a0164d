// SPDX-License-Identifier: Apache-2.0
#include "daemon/doctor.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/hash.h"
#include "base/units.h"
#include "main/command.h"

namespace quern::main {
namespace {

using daemon::Examination;
using daemon::Finding;

struct DoctorFlags {
  std::string state;
  bool repair = false, json = false;
};

void tell_examination_json(const std::string& folder, const Examination& seen,
                           const std::vector<daemon::Repaired>& repaired) {
  std::string findings, versions, done;
  for (const Finding& one : seen.findings)
    findings += fmt::format(
        "{}{{\"kind\": {}, \"damage\": {}, \"thing\": {}, \"problem\": {}, \"works\": {}, \"cure\": {}, \"path\": {}}}",
        findings.empty() ? "" : ", ", json_string(name_of(one.kind)), one.is_damage, json_string(one.thing),
        json_string(one.problem), json_string(one.works), json_string(one.cure), json_string(one.path));
  for (const auto& one : seen.versions)
    versions += fmt::format("{}{{\"tenant\": {}, \"name\": {}, \"version\": {}, \"current\": {}, \"whole\": {}}}",
                            versions.empty() ? "" : ", ", json_string(one.tenant), json_string(one.name),
                            json_string(one.version), one.is_current, one.is_whole);
  for (const auto& one : repaired)
    done += fmt::format("{}{{\"thing\": {}, \"done\": {}}}", done.empty() ? "" : ", ", json_string(one.thing),
                        json_string(one.done));
  fmt::print(
      "{{\"state\": {}, \"healthy\": {}, \"schema\": {}, \"objects\": {}, \"objects_bytes\": {}, \"unnamed_objects\": "
      "{}, \"keeps_unnamed\": {}, \"tenant_objects\": {}, \"programs\": {}, \"aside_files\": {}, \"functions\": [{}], "
      "\"findings\": [{}], \"repaired\": [{}]}}\n",
      json_string(folder), seen.is_healthy(), seen.schema, seen.objects, seen.objects_bytes, seen.unnamed,
      seen.keeps_unnamed, seen.tenant_objects, seen.programs, seen.aside.files, versions, findings, done);
}

enum class Group { kDamaged, kUnreadable, kNotes };

Group group_of(const Finding& finding) {
  if (finding.kind == Finding::Kind::kUnreadable) return Group::kUnreadable;
  return finding.is_damage ? Group::kDamaged : Group::kNotes;
}

/// Returns how many there are.
size_t tell_findings(const Examination& seen, Group group, const char* title) {
  std::vector<std::vector<std::string>> rows{{title, "WHAT IS WRONG", "WHAT STILL WORKS", "WHAT TO DO"}};
  for (const Finding& one : seen.findings)
    if (group_of(one) == group) rows.push_back({one.thing, one.problem, one.works, one.cure});
  if (rows.size() > 1) fmt::print("{}\n", align(rows));
  return rows.size() - 1;
}

std::string count_of(size_t count, const char* what) {
  return fmt::format("{} {} {}", count, count == 1 ? "thing is" : "things are", what);
}

void tell_examination(const std::string& folder, const Examination& seen,
                      const std::vector<daemon::Repaired>& repaired) {
  if (!repaired.empty()) {
    std::vector<std::vector<std::string>> rows{{"REPAIRED", "HOW"}};
    for (const auto& one : repaired) rows.push_back({one.thing, one.done});
    fmt::print("{}\n", align(rows));
  }
  const size_t damaged = tell_findings(seen, Group::kDamaged, "DAMAGED");
  const size_t unreadable = tell_findings(seen, Group::kUnreadable, "UNREADABLE");
  tell_findings(seen, Group::kNotes, "NOTE");
  size_t whole = 0;
  for (const auto& one : seen.versions) whole += one.is_whole;
  std::vector<std::vector<std::string>> rows{{"CHECKED", ""}};
  rows.push_back({"database", seen.schema ? fmt::format("schema {}", seen.schema) : "none that can be read"});
  rows.push_back({"functions", fmt::format("{} of {} versions are whole", whole, seen.versions.size())});
  rows.push_back(
      {"objects", fmt::format("{}, {}{}", seen.objects, show_bytes(seen.objects_bytes),
                              seen.unnamed ? fmt::format("; {} that no record names, which the server {} "
                                                         "when it starts",
                                                         seen.unnamed, seen.keeps_unnamed ? "moves aside" : "removes")
                                           : "")});
  rows.push_back({"of tenants", fmt::format("{} objects", seen.tenant_objects)});
  rows.push_back({"programs", fmt::format("{} compiled", seen.programs)});
  if (seen.aside.files)
    rows.push_back({"aside", fmt::format("{} files, {}; remove what nobody misses", seen.aside.files,
                                         show_bytes(seen.aside.bytes))});
  fmt::print("{}\n", align(rows));
  std::string verdict = damaged ? count_of(damaged, "damaged") : "";
  if (unreadable) verdict += (damaged ? ", " : "") + count_of(unreadable, "unreadable");
  fmt::print("state folder {}: {}\n", folder, verdict.empty() ? "all is well" : verdict);
}

Result<bool> examine_folder(const DoctorFlags& flags) {
  QUERN_TRY(const daemon::Doctor doctor, daemon::Doctor::open(flags.state, flags.repair));
  QUERN_TRY(Examination seen, doctor.examine());
  std::vector<daemon::Repaired> repaired;
  if (flags.repair) {
    QUERN_TRY(repaired, doctor.repair(seen));
    if (!repaired.empty()) {
      QUERN_TRY(seen, doctor.examine());
    }
  }
  (flags.json ? tell_examination_json : tell_examination)(doctor.folder(), seen, repaired);
  return seen.is_healthy();
}

}  // namespace

void add_doctor(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("doctor", "Check the state folder of a server that is stopped, and repair it");
  auto flags = std::make_shared<DoctorFlags>();
  command->add_option("STATE", flags->state, "The folder that 'quern serve --state' has")->required();
  command->add_flag("--repair", flags->repair, "Move what is damaged into STATE/aside, so that the server starts");
  command->add_flag("--json", flags->json, "Write JSON for programs");
  command->footer(
      "Ends with 0 if all is well and with 1 if something is damaged or cannot be read. Without --repair nothing is\n"
      "changed, and --repair deletes nothing. A note is something that the server puts right by itself.\n\nExamples:\n"
      "  quern doctor ./state\n"
      "  quern doctor ./state --repair");
  command->callback([=, &work] {
    work = [=] {
      const auto healthy = examine_folder(*flags);
      if (!healthy.ok()) return fail(healthy.error());
      return *healthy ? 0 : kFailed;
    };
  });
}

}  // namespace quern::main
