// SPDX-License-Identifier: Apache-2.0
#include "sim/programs.h"

#include <algorithm>

#include "sim/draws.h"

namespace quern::sim {
namespace {

constexpr uint64_t kFirstFunction = uint64_t{1} << 32;
constexpr uint64_t kLastKernel = 1;  // of its graph: every gap is after the same
constexpr Duration kTellEvery = Duration::millis(1);
constexpr Duration kSoonest = Duration::millis(1), kLatest = Duration::millis(20);  // until it comes back

Duration whole_work(const ProgramModel& model) {
  return whole_duration(static_cast<double>(model.kernel.ns) * model.kernels);
}

}  // namespace

Programs::Programs(const Model& model, uint64_t seed, Agenda& agenda, VirtualPool& pool)
    : models_(model.programs), agenda_(agenda), pool_(pool) {
  for (size_t i = 0; i < models_.size() && pool.size() > 0; ++i) {
    Program& program = programs_.emplace_back();
    program.model = &models_[i];
    program.device = models_[i].device % pool.size();
    program.prng = Prng(Prng(seed ^ (i + 1) * 0xa0761d6478bd642f).next());
    agenda_.put(Time{0}, Agenda::Kind::kProgram, i);
    if (model.length != Duration::forever()) agenda_.put(Time{0} + model.length, Agenda::Kind::kProgramEnds, i);
  }
}

bool Programs::are_over() const {
  return std::all_of(programs_.begin(), programs_.end(), [](const Program& program) { return program.is_over; });
}

Programs::Program* Programs::find(sched::LauncherId id) {
  const auto found =
      std::find_if(programs_.begin(), programs_.end(), [&](const Program& program) { return program.id == id; });
  return found == programs_.end() ? nullptr : &*found;
}

void Programs::plan(Time at, Agenda::Kind kind, const Program& program) {
  agenda_.put(at, kind, static_cast<uint64_t>(&program - programs_.data()), program.life);
}

sched::WorkReady Programs::work_of(const Program& program) const {
  return {program.id, program.model->kernel, program.model->sliceable};
}

void Programs::happen(Time now, const Agenda::Entry& entry, std::vector<sched::Event>& heard) {
  Program& program = programs_[entry.a];
  if (entry.kind() == Agenda::Kind::kProgramEnds) {
    leave(now, program, heard);
    program.is_over = true;
    return;
  }
  if (program.is_over || entry.b != program.life) return;
  if (entry.kind() == Agenda::Kind::kProgramTells) {
    if (program.tells && program.has_work) heard.push_back(work_of(program));
  } else if (program.id.value == 0) {
    come(now, program, heard);
  } else if (!program.is_silent) {
    begin(now, program, heard);
  }
}

void Programs::come(Time now, Program& program, std::vector<sched::Event>& heard) {
  if (!pool_.is_up(program.device)) return come_back(now, program);
  program.id = sched::program_of(next_number_++);
  pool_.join(program.id, program.device);
  const auto index = static_cast<uint64_t>(&program - programs_.data());
  heard.push_back(sched::LauncherUp{.launcher = program.id,
                                    .device = sched::DeviceId{program.device + 1},
                                    .function = sched::FunctionId{kFirstFunction + index},
                                    .priority = program.model->priority});
  begin(now, program, heard);
}

void Programs::begin(Time now, Program& program, std::vector<sched::Event>& heard) {
  program.has_work = true;
  if (program.tells) heard.push_back(work_of(program));
  pool_.begin(now, program.id, whole_work(*program.model));
}

void Programs::granted(Time now, const sched::Grant& grant) {
  Program* program = find(grant.launcher);
  if (!program) return;
  // One that is in the middle of something when it is first asked says so.
  if (grant.tells && !program->tells && program->has_work) plan(now, Agenda::Kind::kProgramTells, *program);
  program->tells = grant.tells;
}

void Programs::work_ended(Time now, sched::LauncherId id, std::vector<sched::Event>& heard) {
  Program* program = find(id);
  if (!program) return;
  program->has_work = false;
  program->used = program->used + whole_work(*program->model);
  if (now - program->told >= kTellEvery) {
    heard.push_back(sched::DeviceUsed{id, program->used});
    program->told = now;
    program->used = {0};
  }
  if (program->tells) heard.push_back(sched::GapBegun{id, now, kLastKernel});
  plan(now + draw_spread(program->prng, program->model->gap, program->model->jitter), Agenda::Kind::kProgram, *program);
}

void Programs::leave(Time now, Program& program, std::vector<sched::Event>& heard) {
  if (program.id.value == 0) return;
  heard.push_back(sched::LauncherGone{program.id});
  pool_.leave(now, program.id);
  program.id = {0};
  program.tells = program.has_work = program.is_silent = false;
  ++program.life;
}

void Programs::come_back(Time now, Program& program) {
  const auto span = static_cast<uint64_t>((kLatest - kSoonest).ns);
  plan(now + kSoonest + Duration{static_cast<int64_t>(program.prng.below(span))}, Agenda::Kind::kProgram, program);
}

void Programs::end(Time now, std::vector<sched::Event>& heard) {
  for (Program& program : programs_) {
    leave(now, program, heard);
    program.is_over = true;
  }
}

bool Programs::lose_some(Time now, uint64_t chance, std::vector<sched::Event>& heard) {
  for (size_t i = 0; i < programs_.size(); ++i) {
    Program& program = programs_[(chance + i) % programs_.size()];
    if (program.id.value == 0 || !pool_.is_open(now, program.id)) continue;
    leave(now, program, heard);
    come_back(now, program);
    return true;
  }
  return false;
}

bool Programs::silence_some(uint64_t chance) {
  for (size_t i = 0; i < programs_.size(); ++i) {
    Program& program = programs_[(chance + i) % programs_.size()];
    if (program.id.value == 0 || program.is_silent) continue;
    program.is_silent = true;
    return true;
  }
  return false;
}

void Programs::lose_device(Time now, sched::DeviceId device, std::vector<sched::Event>& heard) {
  for (Program& program : programs_) {
    if (program.id.value == 0 || program.device + 1 != device.value) continue;
    leave(now, program, heard);
    come_back(now, program);
  }
}

void Programs::restart(Time now) {
  for (Program& program : programs_) {
    if (program.is_over) continue;
    program.id = {0};
    program.tells = program.has_work = program.is_silent = false;
    ++program.life;
    come_back(now, program);
  }
}

}  // namespace quern::sim
