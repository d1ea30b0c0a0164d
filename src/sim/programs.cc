// SPDX-License-Identifier: Apache-2.0
#include "sim/programs.h"

#include <algorithm>
#include <utility>

#include "sim/draws.h"

namespace quern::sim {
namespace {

constexpr uint64_t kFirstFunction = uint64_t{1} << 32;
constexpr uint64_t kLastKernel = 1;  // of its graph: every gap is after the same
constexpr Duration kSumUpEvery = Duration::millis(1);
constexpr Duration kSoonest = Duration::millis(1), kLatest = Duration::millis(20);  // until it comes back
constexpr size_t kMostRounds = 1 << 16;                                             // kept, the first so many

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

sched::FunctionId Programs::function_of(size_t program) { return {kFirstFunction + program}; }

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

uint64_t Programs::last_of(const Program& program) {
  return program.model->sequence.empty() ? kLastKernel : program.next;
}

sched::WorkReady Programs::work_of(const Program& program) {
  const ProgramModel& model = *program.model;
  sched::WorkReady ready{program.id, {}, program.kernels.size() <= sched::WorkReady::kMost, program.since};
  for (size_t i = 0; i < std::min(program.kernels.size(), sched::WorkReady::kMost); ++i) {
    const auto time = static_cast<int64_t>(static_cast<double>(program.kernels[i].ns) * program.belief);
    ready.kernels.push_back({0, {time}, model.sliceable});
  }
  if (ready.pauses) ready.kernels.back().identity = last_of(program);
  return ready;
}

std::vector<Duration> Programs::take_kernels(Program& program) const {
  const ProgramModel& model = *program.model;
  if (model.sequence.empty()) {
    if (!pool_.has_kernels(program.device)) return {whole_work(model)};
    return std::vector<Duration>(model.kernels, model.kernel);
  }
  std::vector<Duration> kernels;
  while (program.next < model.sequence.size()) {
    const KernelModel& kernel = model.sequence[program.next++];
    kernels.push_back(kernel.time);
    if (kernel.gap.ns > 0) break;
  }
  return kernels;
}

std::vector<std::vector<Round>> Programs::take_rounds() {
  std::vector<std::vector<Round>> all;
  for (Program& program : programs_) all.push_back(std::exchange(program.rounds, {}));
  return all;
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
  pool_.join(program.id, program.device, *program.model);
  program.next = 0;
  const auto index = static_cast<uint64_t>(&program - programs_.data());
  heard.push_back(sched::LauncherUp{.launcher = program.id,
                                    .device = sched::DeviceId{program.device + 1},
                                    .function = function_of(index),
                                    .priority = program.model->priority,
                                    .quota = program.model->quota});
  begin(now, program, heard);
}

void Programs::begin(Time now, Program& program, std::vector<sched::Event>& heard) {
  program.has_work = true;
  program.belief = pool_.draw_belief(program.device);
  if (program.next == 0) program.began = now;
  program.kernels = take_kernels(program);
  program.since = pool_.clock(program.device, now);
  const bool is_on_its_way = pool_.has_kernels(program.device) && pool_.is_open(now, program.id);
  const Duration launch = is_on_its_way ? pool_.launch(program.device) : Duration{0};
  if (program.tells && launch.ns > 0)
    plan(now + Duration{launch.ns / 2}, Agenda::Kind::kProgramTells, program);
  else if (program.tells)
    heard.push_back(work_of(program));
  program.work = {0};
  for (const Duration kernel : program.kernels) program.work = program.work + kernel;
  pool_.begin(now, program.id, program.kernels, program.belief);
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
  const ProgramModel& model = *program->model;
  const bool has_sequence = !model.sequence.empty();
  if (!pool_.has_kernels(program->device)) {
    program->used = program->used + std::max(Duration{0}, program->work - pool_.take_told(id));
    if (now - program->told >= kSumUpEvery) {
      heard.push_back(sched::DeviceUsed{id, program->used});
      program->told = now;
      program->used = {0};
    }
  }
  const uint64_t after = last_of(*program);
  Duration gap = has_sequence ? model.sequence[program->next - 1].gap : model.gap;
  if (!has_sequence || program->next == model.sequence.size()) {
    if (program->rounds.size() < kMostRounds) program->rounds.push_back({program->began, now});
    program->next = 0;
    gap = gap + model.think;
  }
  // Without a pause it goes on at once; who fell silent pauses all the same.
  if (gap.ns == 0 && !program->is_silent) return begin(now, *program, heard);
  program->has_work = false;
  if (program->tells)
    heard.push_back(sched::GapBegun{id, pool_.clock(program->device, now), after, pool_.started(id)});
  plan(now + draw_spread(program->prng, gap, model.jitter), Agenda::Kind::kProgram, *program);
}

void Programs::leave(Time now, Program& program, std::vector<sched::Event>& heard) {
  if (program.id.value == 0) return;
  heard.push_back(sched::LauncherGone{program.id});
  pool_.leave(now, program.id);
  program.id = {0};
  program.tells = program.has_work = program.is_silent = program.ignores_gate = false;
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

bool Programs::let_some_ignore_its_gate(Time now, uint64_t chance) {
  for (size_t i = 0; i < programs_.size(); ++i) {
    Program& program = programs_[(chance + i) % programs_.size()];
    if (program.id.value == 0 || program.ignores_gate) continue;
    program.ignores_gate = true;
    pool_.ignore_gate(now, program.id);
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
    program.tells = program.has_work = program.is_silent = program.ignores_gate = false;
    ++program.life;
    come_back(now, program);
  }
}

}  // namespace quern::sim
