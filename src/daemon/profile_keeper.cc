// SPDX-License-Identifier: Apache-2.0
#include "daemon/profile_keeper.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "os/log.h"

namespace quern::daemon {
namespace {

// After something new, and at most while there always is.
constexpr Duration kFirst = Duration::seconds(1), kMost = Duration::seconds(30);
constexpr Duration kAnswerLimit = Duration::seconds(1);

template <class T>
void append(std::vector<T>& into, std::vector<T>&& from) {
  into.insert(into.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

Result<std::unique_ptr<ProfileKeeper>> ProfileKeeper::create(Runner& runner, Deployer& deployer) {
  QUERN_TRY(os::Event stop, os::Event::create());
  QUERN_TRY(os::Event told, os::Event::create());
  return std::unique_ptr<ProfileKeeper>(new ProfileKeeper(runner, deployer, std::move(stop), std::move(told)));
}

ProfileKeeper::ProfileKeeper(Runner& runner, Deployer& deployer, os::Event stop, os::Event told)
    : runner_(runner), deployer_(deployer), stop_(std::move(stop)), told_(std::make_shared<Told>(std::move(told))) {}

void ProfileKeeper::start() {
  thread_ = os::Thread("profiles", [this] { work(); });
}

void ProfileKeeper::stop() {
  if (!thread_.joinable()) return;
  stop_.signal();
  told_->event.signal();  // the strand answers no more
  thread_.join();
  // What the strand told and nobody stored, then what it came to.
  if (!save(told_->records.with([](ProfileRecords& latest) { return std::exchange(latest, {}); }))) return;
  for (;;) {
    const ProfileRecords rest = runner_.take_profiles();
    if (rest.empty() || !save(rest)) return;
  }
}

void ProfileKeeper::work() {
  uint64_t seen = 0;
  Duration wait = kFirst;
  while (!stop_.wait(wait)) {
    const uint64_t steps = runner_.steps();
    wait = steps == seen ? kFirst : std::min(Duration{2 * wait.ns}, kMost);
    if (steps == seen) continue;
    for (;;) {
      const ProfileRecords records = ask();
      if (records.empty() || !save(records)) break;
    }
    seen = steps;
  }
}

ProfileRecords ProfileKeeper::ask() {
  const bool asked = runner_.post(TakeProfilesMessage{[told = told_](ProfileRecords records) {
    // Behind what came too late the last time.
    told->records.with([&](ProfileRecords& latest) {
      append(latest.kernels, std::move(records.kernels));
      append(latest.function_kernels, std::move(records.function_kernels));
      append(latest.gaps, std::move(records.gaps));
    });
    told->event.signal();
  }});
  if (!asked || !told_->event.wait(kAnswerLimit) || !told_->event.drain()) return {};
  return told_->records.with([](ProfileRecords& latest) { return std::exchange(latest, {}); });
}

bool ProfileKeeper::save(const ProfileRecords& records) {
  if (records.empty()) return true;
  const Status put = deployer_.save_profiles(records);
  if (!put.ok()) {
    os::log_warning("state: what was learned of kernels is not stored: {}", put.error().text);
    return false;
  }
  ++deployer_.counters().profiles_saved;
  os::log_debug("state: what was learned of kernels is stored");
  return true;
}

}  // namespace quern::daemon
