// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/histogram.h"
#include "sim/id_table.h"
#include "sim/model.h"
#include "sim/world.h"

namespace quern::sim {

constexpr size_t kEnds = static_cast<size_t>(sched::End::kRemoved) + 1;

/// Requests of one kind, as their callers see them.
struct Measures {
  uint64_t requests = 0;
  std::array<uint64_t, kEnds> ends{};  ///< by sched::End
  uint64_t lost_in_restart = 0;        ///< no answer came
  Histogram latency;                   ///< from Submit to Answer, of those that ended well
  Duration device_time;                ///< of runs that ended; those lost with their executor are not in it

  uint64_t done() const { return ends[static_cast<size_t>(sched::End::kDone)]; }
};

/// What one simulation showed. Without clocks of this machine: the same model and seed give the same.
struct Summary {
  std::string policy;
  Measures all;
  std::vector<Measures> tenants, functions;  ///< in the order of the model
  Duration measured;                         ///< from the first call that counts to the last answer
  uint64_t devices = 0, units = 0;           ///< units: those that device time is counted in
  int64_t lag = 0, lag_bound = 0;            ///< the largest sample of Scheduler::lag(), and the bound at that moment
  uint64_t executors_started = 0, executors_killed = 0, loads = 0, loaded_bytes = 0, fetches = 0, fetched_bytes = 0;
  uint64_t hits = 0, misses = 0, prefetches = 0, evictions = 0, exits = 0;  ///< Scheduler::Counts
  std::vector<Histogram> rounds;                                            ///< of each program, how long they took
  World::Outcome outcome;

  /// Requests that ended well, in a second of virtual time.
  double per_second() const { return per_second(all); }
  double per_second(const Measures& measures) const;
  /// The part of their time for which devices were busy with runs that ended.
  double utilisation() const;
  /// The part of objects that runs found on their device when they got their place; 1 if they need none.
  double hit_rate() const;
};

/// Measures a simulation. Cheap enough for millions of requests: a few look-ups for each; the core's views are asked
/// every 1000 steps only, so a lag that came and went between two samples is not seen.
class Report : public Observer {
 public:
  /// What is called before `skip` does not count: pools start empty, and that is not always the question.
  Report(const Model& model, Duration skip);

  void on_step(Time now, const sched::Event& event, std::span<const sched::Action> actions,
               const sched::Scheduler& core) override;
  void on_restart(Time now) override;
  void on_end(Time now, bool drained, const sched::Scheduler& core) override;

  /// After the run.
  Summary summary(std::string policy, World::Outcome outcome) const;

 private:
  struct Open {
    Time submitted;
    uint32_t function = 0;
    bool counts = false;
  };

  void note(Time now, const sched::Submit& event);
  void note(Time now, const sched::Finished& event);
  void note(Time now, const sched::Answer& action);
  void sample(const sched::Scheduler& core);
  /// What the core that is there now counted since the last sample comes on top.
  void add_counts(const sched::Scheduler::Counts& counts);

  Duration skip_;
  std::vector<uint32_t> tenant_of_;  ///< by function
  IdTable<Open> open_;
  IdTable<uint32_t> running_;  ///< function, by run
  Summary summary_;
  std::optional<Time> first_call_;
  Time last_answer_;
  uint64_t steps_ = 0;
  sched::Scheduler::Counts counted_;  ///< of the core that is there now, as far as it is in the summary
};

}  // namespace quern::sim
