// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/worker_meter.h"

#include <algorithm>

#include "os/clock.h"
#include "os/thread.h"

namespace quern::hal::opencl {

WorkerMeter::WorkerMeter() {
  state_.with([&](State& state) { state.settled_ns = used_ns(state, Duration{0}); });
}

uint64_t WorkerMeter::used_ns(State& state, Duration own_good_for) {
  if (const Time now = os::now(); now - state.own_read > own_good_for) {
    const auto own = os::own_threads();
    state.own_ns.clear();
    for (const int id : own.ids) state.own_ns[id] = os::cpu_time_of_thread(id).ns;
    state.ended_own_ns = own.ended_cpu.ns;
    state.own_read = now;
  }
  int64_t used_ns = os::cpu_time_of_process(0).ns - state.ended_own_ns;
  // Where a thread of the driver's asks (a callback), it is among what is counted.
  if (const auto own = state.own_ns.find(os::thread_id()); own != state.own_ns.end())
    own->second = os::cpu_time_of_thread(0).ns;
  for (const auto& [id, own_ns] : state.own_ns) used_ns -= own_ns;
  return static_cast<uint64_t>(std::max<int64_t>(0, used_ns));
}

uint64_t WorkerMeter::open_account() {
  return state_.with([](State& state) {
    state.accounts[++state.accounts_opened] = {};
    return state.accounts_opened;
  });
}

void WorkerMeter::close_account(uint64_t account) {
  state_.with([&](State& state) { state.accounts.erase(account); });
}

void WorkerMeter::ended(uint64_t account, uint64_t launches, uint64_t most_ns) {
  state_.with([&](State& state) { state.accounts[account].most_ns += most_ns; });
  abandoned(launches);
}

void WorkerMeter::settle() {
  state_.with([&](State& state) {
    uint64_t most = 0;
    for (const auto& [id, account] : state.accounts) most += account.most_ns;
    if (most == 0) return;
    // System calls: once per batch of completions, never per launch.
    uint64_t used = used_ns(state, kOwnGoodFor);
    if (used > state.settled_ns + most + most / 8 + kMuch.ns) used = used_ns(state, kOwnBestFor);
    const uint64_t open = used > state.settled_ns ? used - state.settled_ns : 0;
    const bool is_all = under_way() == 0;
    double share = static_cast<double>(open) / static_cast<double>(most);
    if (!is_all) share = std::min(share, 1.0);
    for (auto& [id, account] : state.accounts) {
      const auto charge = static_cast<uint64_t>(share * static_cast<double>(account.most_ns));
      account.charged_ns += charge;
      account.most_ns = 0;
      state.settled_ns += charge;
    }
    // What our own threads used meanwhile may have been taken for the driver's: less is charged until that is even.
    if (is_all) state.settled_ns = std::max(state.settled_ns, used);
  });
}

uint64_t WorkerMeter::charged_ns(uint64_t account) const {
  return state_.with([&](const State& state) { return state.accounts.at(account).charged_ns; });
}

}  // namespace quern::hal::opencl
