// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/prng.h"
#include "sched/types.h"
#include "sim/agenda.h"
#include "sim/model.h"
#include "sim/virtual_pool.h"
#include "sim/world.h"

namespace quern::sim {

/// Programs that launch kernels of their own, as launcher/program.h does it: one says when it has work and when a gap
/// begins only while its grant wants to know, and what it used at most every millisecond. Who is let through says that
/// it has work once that is on its way to the device. Whether its kernels get to the device is the pool's affair. Ids:
/// the function of program i is i + 2^32; numbers of programs count from 1, and one that comes back has a new one, and
/// begins a round.
class Programs {
 public:
  /// All of them outlive it. Each program comes at once and is gone at Model::length, or earlier at end().
  Programs(const Model& model, uint64_t seed, Agenda& agenda, VirtualPool& pool);

  size_t size() const { return programs_.size(); }
  static sched::FunctionId function_of(size_t program);
  /// By program: those that were done.
  std::vector<std::vector<Round>> take_rounds();
  /// All are gone for good.
  bool are_over() const;
  /// Entries of kinds kProgram, kProgramTells, kProgramEnds. Adds to `heard` what the core hears of now.
  void happen(Time now, const Agenda::Entry& entry, std::vector<sched::Event>& heard);
  /// The core told one of its gate.
  void granted(Time now, const sched::Grant& grant);
  /// What one had for the device is done.
  void work_ended(Time now, sched::LauncherId id, std::vector<sched::Event>& heard);
  /// No call comes any more.
  void end(Time now, std::vector<sched::Event>& heard);

  // What goes wrong. Each does nothing, and says so, if there is nothing to do it to; `chance` decides to whom.
  bool lose_some(Time now, uint64_t chance, std::vector<sched::Event>& heard);
  bool silence_some(uint64_t chance);
  bool let_some_ignore_its_gate(Time now, uint64_t chance);
  /// Those on it are gone with it, and come back when it does.
  void lose_device(Time now, sched::DeviceId device, std::vector<sched::Event>& heard);
  /// The daemon died: they have to come again.
  void restart(Time now);

 private:
  struct Program {
    const ProgramModel* model = nullptr;
    size_t device = 0;
    Prng prng{0};
    sched::LauncherId id = {0};  ///< 0: it is not there
    uint64_t life = 0;           ///< what was planned in an earlier one is void
    bool tells = false, has_work = false, is_silent = false, ignores_gate = false, is_over = false;
    double belief = 1;              ///< so many times as long as it is it takes its work for; 0: it does not know
    Time told;                      ///< when it last said what it used
    Duration used = {0};            ///< since then
    size_t next = 0;                ///< kernel of its sequence
    std::vector<Duration> kernels;  ///< that it has for the device, up to its next gap
    Duration work = {0};            ///< of those
    Time since = {0};               ///< when it had them, by its clock
    Time began = {0};               ///< its round
    std::vector<Round> rounds;
  };

  Program* find(sched::LauncherId id);
  /// The kernels up to its next gap.
  std::vector<Duration> take_kernels(Program& program) const;
  void come(Time now, Program& program, std::vector<sched::Event>& heard);
  void begin(Time now, Program& program, std::vector<sched::Event>& heard);
  void leave(Time now, Program& program, std::vector<sched::Event>& heard);
  /// It is not there, and comes after a while.
  void come_back(Time now, Program& program);
  void plan(Time at, Agenda::Kind kind, const Program& program);
  /// Gaps after the same are alike.
  static uint64_t last_of(const Program& program);
  static sched::WorkReady work_of(const Program& program);

  const std::vector<ProgramModel>& models_;
  Agenda& agenda_;
  VirtualPool& pool_;
  std::vector<Program> programs_;
  uint64_t next_number_ = 1;
};

}  // namespace quern::sim
