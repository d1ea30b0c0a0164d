// SPDX-License-Identifier: Apache-2.0
#include "daemon/standings_keeper.h"

#include "os/log.h"

namespace quern::daemon {
namespace {

constexpr Duration kEvery = Duration::seconds(1);

}  // namespace

Result<std::unique_ptr<StandingsKeeper>> StandingsKeeper::create(Runner& runner, Deployer& deployer,
                                                                 std::vector<std::string> names) {
  QUERN_TRY(os::Event stop, os::Event::create());
  QUERN_TRY(os::Event told, os::Event::create());
  return std::unique_ptr<StandingsKeeper>(
      new StandingsKeeper(runner, deployer, std::move(names), std::move(stop), std::move(told)));
}

StandingsKeeper::StandingsKeeper(Runner& runner, Deployer& deployer, std::vector<std::string> names, os::Event stop,
                                 os::Event told)
    : runner_(runner),
      deployer_(deployer),
      names_(std::move(names)),
      stop_(std::move(stop)),
      told_(std::make_shared<Told>(std::move(told))) {}

void StandingsKeeper::start() {
  thread_ = os::Thread("standings", [this] { work(); });
}

void StandingsKeeper::stop() {
  if (!thread_.joinable()) return;
  stop_.signal();
  thread_.join();
  save(runner_.standings());
}

void StandingsKeeper::work() {
  uint64_t seen = 0;
  while (!stop_.wait(kEvery)) {
    const uint64_t steps = runner_.steps();
    if (steps == seen) continue;
    const bool asked = runner_.post(StandingsMessage{[told = told_](Standings standings) {
      told->standings.with([&](Standings& latest) { latest = std::move(standings); });
      told->event.signal();
    }});
    // A strand that is too busy to tell is asked again.
    if (!asked || !told_->event.wait(kEvery) || !told_->event.drain()) continue;
    seen = steps;
    save(told_->standings.with([](Standings& latest) { return std::exchange(latest, {}); }));
  }
}

void StandingsKeeper::save(const Standings& standings) {
  std::map<std::string, int64_t> vtimes;
  for (const auto& one : standings)
    if (one.tenant.value >= 1 && one.tenant.value <= names_.size()) vtimes[names_[one.tenant.value - 1]] = one.vtime;
  if (vtimes == stored_) return;
  if (const Status put = deployer_.save_vtimes(vtimes); !put.ok())
    return os::log_warning("state: the tenants' virtual times are not stored: {}", put.error().text);
  stored_ = std::move(vtimes);
  ++deployer_.counters().standings_saved;
  os::log_debug("state: the tenants' virtual times are stored");
}

}  // namespace quern::daemon
