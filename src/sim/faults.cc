// SPDX-License-Identifier: Apache-2.0
#include "sim/faults.h"

#include "sim/draws.h"

namespace quern::sim {
namespace {

constexpr FaultRow kRows[] = {
    {"executor_loss", &FaultModel::executor_loss},
    {"kernel_fault", &FaultModel::kernel_fault},
    {"hang", &FaultModel::hang},
    {"failed_run", &FaultModel::failed_run},
    {"device_loss", &FaultModel::device_loss},
    {"slow_load", &FaultModel::slow_load},
    {"failed_load", &FaultModel::failed_load},
    {"failed_start", &FaultModel::failed_start},
    {"late_event", &FaultModel::late_event},
    {"lost_memory", &FaultModel::lost_memory},
    {"restart", &FaultModel::restart},
    {"cancel", &FaultModel::cancel},
    {"removal", &FaultModel::removal},
    {"slow_fetch", &FaultModel::slow_fetch},
    {"failed_fetch", &FaultModel::failed_fetch},
    {"no_room", &FaultModel::no_room},
    {"host_memory", &FaultModel::host_memory},
    {"lease", &FaultModel::lease},
    {"program_loss", &FaultModel::program_loss},
    {"silence", &FaultModel::silence},
    {"ignored_gate", &FaultModel::ignored_gate},
    {"wrong_profile", &FaultModel::wrong_profile},
    {"new_kernel", &FaultModel::new_kernel},
    {"settings", &FaultModel::settings},
    {"failed_launch", &FaultModel::failed_launch},
    {"unclear_loss", &FaultModel::unclear_loss},
};

}  // namespace

std::span<const FaultRow> fault_rows() { return kRows; }

Faults::Faults(const FaultModel& model, uint64_t seed, Agenda& agenda) : model_(model), prng_(seed), agenda_(agenda) {
  static_assert(std::size(kRows) == kKinds);
  bool any = false;
  for (size_t i = 0; i < kKinds; ++i) {
    any |= model_.*kRows[i].rate > 0;
    plan_next(Time{0}, static_cast<Fault>(i));
  }
  if (any && model_.until.ns > 0) agenda_.put(Time{model_.until.ns}, Agenda::Kind::kFaultsEnd);
}

void Faults::plan_next(Time now, Fault fault) {
  const double rate = model_.*kRows[index(fault)].rate;
  if (!(rate > 0)) return;
  const Time at = now + draw_gap(prng_, rate);
  if (at < Time{model_.until.ns}) agenda_.put(at, Agenda::Kind::kFault, index(fault));
}

Duration Faults::draw_between(Duration least, Duration most) {
  return {least.ns + static_cast<int64_t>(prng_.below(static_cast<uint64_t>(most.ns - least.ns)))};
}

FaultCounts Faults::counts() const {
  FaultCounts counts;
  for (size_t i = 0; i < kKinds; ++i)
    if (counts_[i] != 0) counts[std::string(kRows[i].name)] = counts_[i];
  return counts;
}

}  // namespace quern::sim
