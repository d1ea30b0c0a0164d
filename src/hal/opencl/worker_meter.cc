// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/worker_meter.h"

#include <algorithm>

#include "os/clock.h"

namespace quern::hal::opencl {

WorkerMeter::WorkerMeter(std::vector<int> workers) : workers_(std::move(workers)) {
  state_.with([&](State& state) { state.settled_ns = used_ns(); });
}

uint64_t WorkerMeter::used_ns() const {
  uint64_t used = 0;
  for (int worker : workers_) used += static_cast<uint64_t>(os::cpu_time_of_thread(worker).ns);
  return used;
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
    const uint64_t used = used_ns();  // a system call per worker: once per batch of completions, never per launch
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
    if (is_all) state.settled_ns = used;
  });
}

uint64_t WorkerMeter::charged_ns(uint64_t account) const {
  return state_.with([&](const State& state) { return state.accounts.at(account).charged_ns; });
}

}  // namespace quern::hal::opencl
