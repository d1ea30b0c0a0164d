// SPDX-License-Identifier: Apache-2.0
//
// Whenever something happens all of it is looked at: kernels that ended, grants that came, what may be launched now,
// and who is on the device next. So there is one entry of the agenda for a device, for the earliest time at which
// anything can change by itself; a change from outside puts one for now, and the one before it is void.
#include "sim/kernel_device.h"

#include <algorithm>
#include <iterator>

#include "sim/draws.h"

namespace quern::sim {
namespace {

// As launcher/permit.cc has it: a slice that is shorter is not worth its launch.
constexpr Duration kLeastSlice = Duration::micros(15);
constexpr Duration kTellEvery = Duration::millis(1);
constexpr int64_t kProbe = 32;
// Clocks are set right so often.
constexpr Duration kSetRight = Duration::seconds(1);

// Lanes of one executor are of one process.
uint64_t process_of(sched::LauncherId id) { return sched::is_program(id) ? id.value : id.value >> 8; }

struct Permit {
  Duration length = {0};  ///< of what is left of the kernel, as it is expected; 0: none of it
  bool is_deep = false;   ///< then: for what is in flight; else for another grant
};

// What may be launched now of a kernel of which `left` is left, as its launcher takes it: launcher::permit, of parts as
// small as one likes.
Permit permit(const sched::Grant& grant, Duration left, bool sliceable, size_t in_flight, Duration in_flight_time,
              Time now) {
  if (!grant.open || now < grant.from) return {};
  if (in_flight > 0 && in_flight >= grant.launches) return {{0}, true};
  if (in_flight > 1 && in_flight_time >= grant.depth) return {{0}, true};
  Duration slice = grant.slice;
  if (grant.until != Time::never()) {
    const Duration room = grant.until - now - in_flight_time;
    if (room < kLeastSlice) {
      if (grant.beyond.ns == 0 || !sliceable) return {};
      if (in_flight > 1) return {{0}, true};
      slice = grant.beyond;
    } else if (left > room) {
      if (sliceable && slice.ns > 0) return {std::min({left, slice, room}), false};
      const bool overdraws = grant.overdraws && in_flight == 0;
      return overdraws ? Permit{left, false} : Permit{};
    }
  }
  if (!sliceable || slice.ns == 0 || left.ns <= 2 * slice.ns) return {left, false};
  // Where little would be left over, half of what there is.
  if (left.ns - slice.ns < slice.ns / 2) return {{left.ns - left.ns / 2}, false};
  return {slice, false};
}

// The same where nobody knows how long it takes: it shows itself in one slice of a 32nd.
Permit permit_unknown(const sched::Grant& grant, Duration left, bool sliceable, size_t in_flight,
                      Duration in_flight_time, Time now) {
  const Permit plain = permit(grant, {1}, sliceable, in_flight, in_flight_time, now);
  if (plain.length.ns == 0) return plain;
  if (sliceable && grant.slice.ns > 0) return {{std::max<int64_t>(1, left.ns / kProbe)}, false};
  const bool ends_hard = grant.until != Time::never();
  return !ends_hard || (grant.overdraws && in_flight == 0) ? Permit{left, false} : Permit{};
}

}  // namespace

double speed_on(std::span<const SpeedAt> speeds, uint32_t units, uint32_t all_units) {
  const double share = static_cast<double>(units) / static_cast<double>(std::max(all_units, 1U));
  if (speeds.empty()) return share;
  const auto above =
      std::find_if(speeds.begin(), speeds.end(), [&](const SpeedAt& point) { return point.share >= share; });
  if (above == speeds.end()) return speeds.back().speed;
  if (above == speeds.begin()) return above->speed * share / above->share;
  const SpeedAt& below = *std::prev(above);
  return below.speed + (above->speed - below.speed) * (share - below.share) / (above->share - below.share);
}

KernelDevice::KernelDevice(const DeviceModel& model, uint64_t index, const sched::Grant& first, Agenda& agenda)
    : model_(model), index_(index), first_(first), agenda_(agenda), free_units_(model.units) {}

KernelDevice::Launcher& KernelDevice::at(sched::LauncherId id) {
  const auto [it, is_new] = launchers_.try_emplace(id);
  if (is_new && !sched::is_program(id)) it->second.grant = first_;
  return it->second;
}

void KernelDevice::wake(Time at) {
  if (at >= planned_) return;
  planned_ = at;
  agenda_.put(at, Agenda::Kind::kKernels, index_, ++epoch_);
}

void KernelDevice::begin(Time now, sched::LauncherId id, const Work& work) {
  Launcher& launcher = at(id);
  QUERN_CHECK(!launcher.has_work && !work.kernels.empty(), "sim: a launcher has one work at a time");
  launcher.has_work = true;
  launcher.units = work.units == 0 ? model_.units : std::min(work.units, model_.units);
  launcher.first_unit = work.first_unit;
  const double speed =
      model_.speed *
      (launcher.units == model_.units && work.speeds.empty() ? 1 : speed_on(work.speeds, launcher.units, model_.units));
  launcher.kernels = work.kernels;
  if (speed != 1)
    for (Duration& kernel : launcher.kernels) kernel = whole_duration(static_cast<double>(kernel.ns) / speed);
  launcher.next = 0;
  launcher.left = launcher.kernels.front();
  launcher.sliceable = work.sliceable;
  launcher.is_started = launcher.is_stopped = launcher.is_hung = false;
  launcher.ready = work.ready;
  launcher.belief = work.belief;
  launcher.partition = launcher.units < model_.units ? work.partition : nullptr;
  launcher.used_in_all = launcher.told_next = launcher.ended = {0};
  // What a lane used before and was not asked for came with the end of its run.
  if (!sched::is_program(id)) launcher.used = {0};
  wake(now);
}

void KernelDevice::stop(Time now, sched::LauncherId id) {
  const auto it = launchers_.find(id);
  if (it == launchers_.end() || !it->second.has_work) return;
  it->second.is_stopped = true;
  wake(now);
}

std::vector<KernelDevice::InFlight> KernelDevice::in_flight() const {
  std::vector<InFlight> all;
  for (const auto& [id, launcher] : launchers_) {
    if (sched::is_program(id)) continue;
    if (launcher.launched.empty()) {
      if (launcher.has_work && launcher.is_started) all.push_back({id, 0, {0}, launcher.ended});
      continue;
    }
    const Kernel& first = launcher.launched.front();
    const Time made{first.arrives.ns - model_.launch.ns};
    all.push_back({id, first.order, std::max(made, launcher.last_end), launcher.ended});
  }
  std::sort(all.begin(), all.end(), [](const InFlight& one, const InFlight& two) { return one.number < two.number; });
  return all;
}

void KernelDevice::hang(sched::LauncherId id) {
  const auto it = launchers_.find(id);
  if (it == launchers_.end() || !it->second.has_work) return;
  it->second.is_hung = true;
  if (it->second.is_on) it->second.ends = Time::never();
}

void KernelDevice::ignore_gate(Time now, sched::LauncherId id) {
  at(id).ignores_gate = true;
  wake(now);
}

Time KernelDevice::clock(Time now) const {
  if (model_.drift == 0) return now;
  return now + Duration{static_cast<int64_t>(model_.drift * static_cast<double>(now.ns % kSetRight.ns))};
}

Duration KernelDevice::measured(Duration time) const {
  if (model_.drift == 0 || time.ns == 0) return time;
  return whole_duration(static_cast<double>(time.ns) * (1 + model_.drift));
}

void KernelDevice::grant(Time now, const sched::Grant& grant) {
  if (model_.gate.ns == 0) {
    apply(grant);
    return wake(now);
  }
  coming_.emplace_back(now + model_.gate, grant);
  wake(coming_.front().first);
}

void KernelDevice::apply(const sched::Grant& grant) { at(grant.launcher).grant = grant; }

void KernelDevice::forget(Launcher& launcher, sched::LauncherId id) {
  if (launcher.is_on) {
    std::erase(on_, id);
    free_units_ += launcher.units;
    launcher.is_on = false;
    launcher.ends = Time::never();
  }
  launcher.launched.clear();
  launcher.in_flight = {0};
  launcher.has_work = false;
}

void KernelDevice::drop_work(Time now, sched::LauncherId id) {
  const auto it = launchers_.find(id);
  if (it == launchers_.end()) return;
  settle(now);
  forget(it->second, id);
  pace(now);
  wake(now);
}

void KernelDevice::drop(Time now, sched::LauncherId id) {
  drop_work(now, id);
  launchers_.erase(id);
  std::erase_if(coming_, [&](const auto& one) { return one.second.launcher == id; });
}

void KernelDevice::drop_lanes(Time now, sched::ExecutorId executor) {
  const sched::LauncherId first = sched::lane_of(executor, 0), past = sched::lane_of({executor.value + 1}, 0);
  for (auto it = launchers_.lower_bound(first); it != launchers_.end() && it->first < past;) drop(now, (it++)->first);
  std::erase_if(coming_, [&](const auto& one) { return one.second.launcher >= first && one.second.launcher < past; });
}

void KernelDevice::clear() {
  launchers_.clear();
  on_.clear();
  coming_.clear();
  free_units_ = model_.units;
  slowed_ = 1;
  planned_ = Time::never();
  ++epoch_;
}

bool KernelDevice::is_open(Time now, sched::LauncherId id) const {
  const auto it = launchers_.find(id);
  if (it == launchers_.end()) return false;
  const sched::Grant& grant = it->second.grant;
  const Time at = clock(now);
  return it->second.ignores_gate || (grant.open && at >= grant.from && (at < grant.until || grant.beyond.ns > 0));
}

bool KernelDevice::is_hung(sched::LauncherId id) const {
  const auto it = launchers_.find(id);
  return it != launchers_.end() && it->second.is_hung;
}

void KernelDevice::happen(Time now, uint64_t epoch, std::vector<Told>& told) {
  if (epoch != epoch_) return;
  planned_ = Time::never();
  for (; !coming_.empty() && coming_.front().first <= now; coming_.pop_front()) apply(coming_.front().second);
  end_kernels(now, told);
  settle(now);
  for (auto& [id, launcher] : launchers_) pump(now, id, launcher, told);
  if (model_.sharing == DeviceModel::Sharing::kSlices)
    begin_in_slices(now, told);
  else
    begin_in_order(now, told);
  pace(now);
  wake(next_time(now));
}

void KernelDevice::end_kernels(Time now, std::vector<Told>& told) {
  const std::vector<sched::LauncherId> on = on_;
  for (const sched::LauncherId id : on) {
    Launcher& launcher = launchers_.at(id);
    if (launcher.ends > now) continue;
    exit(now, id, launcher);
    launcher.in_flight = launcher.in_flight - launcher.launched.front().expected;
    launcher.ended = launcher.ended + launcher.launched.front().on;
    launcher.last_end = now;
    launcher.launched.pop_front();
    launcher.belief = 1;  // it knows better now
    tell_used(now, id, launcher, Moment::kKernelEnd, told);
  }
}

void KernelDevice::pump(Time now, sched::LauncherId id, Launcher& launcher, std::vector<Told>& told) {
  while (launcher.has_work) {
    if (launcher.next == launcher.kernels.size() || launcher.is_stopped) {
      if (launcher.launched.empty()) end_work(now, id, launcher, told);
      return;
    }
    if (now < launcher.ready) return;
    const sched::Grant& grant = launcher.ignores_gate ? first_ : launcher.grant;
    const Duration believed = as_believed(launcher, launcher.left);
    const Permit may = launcher.belief == 0 ? permit_unknown(grant, launcher.left, launcher.sliceable,
                                                             launcher.launched.size(), launcher.in_flight, clock(now))
                                            : permit(grant, believed, launcher.sliceable, launcher.launched.size(),
                                                     launcher.in_flight, clock(now));
    if (may.length.ns == 0) {
      // What is in flight may end sooner than was expected, where it is the time that is short.
      if (may.is_deep || (grant.open && !launcher.launched.empty())) return;
      if (launcher.grant.tells) tell_next(id, launcher, told);
      return tell_used(now, id, launcher, Moment::kWait, told);
    }
    // A launch never seen is taken for half of the bound: two such are in flight at most.
    const Duration expected = launcher.belief == 0 ? Duration{grant.depth.ns / 2} : may.length;
    Duration length = launcher.left;
    if (launcher.belief == 0)
      length = may.length;
    else if (may.length < believed)
      length = std::min(length, whole_duration(static_cast<double>(may.length.ns) / launcher.belief));
    launcher.launched.push_back({++next_order_, now + model_.launch, length, expected});
    launcher.in_flight = launcher.in_flight + expected;
    launcher.left = launcher.left - length;
    if (launcher.left.ns > 0) continue;
    if (++launcher.next < launcher.kernels.size()) launcher.left = launcher.kernels[launcher.next];
  }
}

void KernelDevice::end_work(Time now, sched::LauncherId id, Launcher& launcher, std::vector<Told>& told) {
  tell_used(now, id, launcher, Moment::kWorkEnd, told);
  launcher.has_work = false;
  told.push_back({Told::What::kEnded, id, measured(launcher.used_in_all), launcher.next < launcher.kernels.size()});
}

// As executor/lane_tell.cc and launcher/program.cc have it: every millisecond, and where someone counts it at once when
// the launcher is about to wait.
void KernelDevice::tell_used(Time now, sched::LauncherId id, Launcher& launcher, Moment moment,
                             std::vector<Told>& told) {
  const bool meters = launcher.grant.meters;
  if (launcher.used.ns == 0 || (!meters && !sched::is_program(id))) return;
  if (now - launcher.told_used < kTellEvery && !(meters && moment != Moment::kKernelEnd)) return;
  told.push_back({Told::What::kUsed, id, measured(launcher.used), false});
  launcher.used = {0};
  launcher.told_used = now;
}

Duration KernelDevice::as_believed(const Launcher& launcher, Duration time) {
  return launcher.belief == 1 ? time : whole_duration(static_cast<double>(time.ns) * launcher.belief);
}

// Told again only when it is something else.
void KernelDevice::tell_next(sched::LauncherId id, Launcher& launcher, std::vector<Told>& told) {
  const Duration next = as_believed(launcher, launcher.left);
  if (next.ns > launcher.told_next.ns / 2 && next.ns < 2 * launcher.told_next.ns) return;
  launcher.told_next = next;
  Told& waits = told.emplace_back(Told{Told::What::kWaits, id});
  for (size_t i = launcher.next; i < launcher.kernels.size() && waits.kernels.size() < sched::WorkReady::kMost; ++i) {
    const Duration left = i == launcher.next ? launcher.left : launcher.kernels[i];
    waits.kernels.push_back({0, as_believed(launcher, left), launcher.sliceable});
  }
}

bool KernelDevice::is_taken(const void* partition) const {
  return partition && std::any_of(on_.begin(), on_.end(),
                                  [&](sched::LauncherId id) { return launchers_.at(id).partition == partition; });
}

KernelDevice::Launchers::iterator KernelDevice::first_waiting(Time now, std::optional<uint64_t> process) {
  auto first = launchers_.end();
  for (auto it = launchers_.begin(); it != launchers_.end(); ++it) {
    const Launcher& one = it->second;
    if (one.is_on || one.launched.empty() || one.launched.front().arrives > now) continue;
    if (is_taken(one.partition) || (process && process_of(it->first) != *process)) continue;
    if (first == launchers_.end() || one.launched.front().order < first->second.launched.front().order) first = it;
  }
  return first;
}

std::optional<uint64_t> KernelDevice::next_process(Time now, uint64_t process) {
  std::optional<uint64_t> least, next;
  for (const auto& [id, one] : launchers_) {
    if (one.is_on || one.launched.empty() || one.launched.front().arrives > now) continue;
    const uint64_t other = process_of(id);
    if (other == process) continue;
    least = std::min(least.value_or(other), other);
    if (other > process) next = std::min(next.value_or(other), other);
  }
  return next ? next : least;
}

// A launch that may use any units is in the way of all behind it until it has some.
bool KernelDevice::share_units(const Launcher& one, const Launcher& other) const {
  if (one.units == model_.units || other.units == model_.units) return true;
  if (!one.first_unit || !other.first_unit) return !other.is_on;
  return *one.first_unit < *other.first_unit + other.units && *other.first_unit < *one.first_unit + one.units;
}

void KernelDevice::begin_in_order(Time now, std::vector<Told>& told) {
  std::vector<Launchers::iterator> waiting;
  for (auto it = launchers_.begin(); it != launchers_.end(); ++it)
    if (const Launcher& one = it->second; !one.is_on && !one.launched.empty() && one.launched.front().arrives <= now)
      waiting.push_back(it);
  std::sort(waiting.begin(), waiting.end(), [](const auto& one, const auto& other) {
    return one->second.launched.front().order < other->second.launched.front().order;
  });
  std::vector<const Launcher*> ahead;
  for (const sched::LauncherId id : on_) ahead.push_back(&launchers_.at(id));
  for (const auto& it : waiting) {
    Launcher& launcher = it->second;
    if (is_taken(launcher.partition)) continue;
    const bool is_free =
        launcher.units <= free_units_ &&
        std::none_of(ahead.begin(), ahead.end(), [&](const auto* other) { return share_units(launcher, *other); });
    if (is_free) enter(now, it->first, launcher, told);
    ahead.push_back(&launcher);
  }
}

void KernelDevice::begin_in_slices(Time now, std::vector<Told>& told) {
  const auto other = next_process(now, process_);
  if (other && now > slice_ends_) {
    // It was alone: its slices went on one after another.
    const int64_t over = (now - slice_ends_).ns, slice = std::max<int64_t>(model_.time_slice.ns, 1);
    slice_ends_ = slice_ends_ + Duration{(over + slice - 1) / slice * slice};
  }
  const bool is_over = other && now >= slice_ends_;
  if (!on_.empty()) {
    if (!is_over) return;
    const sched::LauncherId id = on_.front();
    Launcher& launcher = launchers_.at(id);
    exit(now, id, launcher);
  }
  const auto mine = first_waiting(now, process_);
  if (mine != launchers_.end() && !is_over) return enter(now, mine->first, mine->second, told);
  if (!other) return;
  process_ = *other;
  slice_ends_ = now + model_.time_slice;
  const auto first = first_waiting(now, process_);
  enter(now, first->first, first->second, told);
}

void KernelDevice::enter(Time now, sched::LauncherId id, Launcher& launcher, std::vector<Told>& told) {
  launcher.is_on = true;
  launcher.on_since = launcher.paced = now;
  on_.push_back(id);
  free_units_ -= launcher.units;
  if (std::exchange(launcher.is_started, true)) return;
  told.push_back({Told::What::kStarted, id, {0}, false});
}

void KernelDevice::exit(Time now, sched::LauncherId id, Launcher& launcher) {
  const Duration used{(now - launcher.on_since).ns * launcher.units};
  Duration& on = launcher.launched.front().on;
  on = on + (now - launcher.on_since);
  launcher.used = launcher.used + used;
  launcher.used_in_all = launcher.used_in_all + used;
  launcher.is_on = false;
  launcher.ends = Time::never();
  std::erase(on_, id);
  free_units_ += launcher.units;
}

// How far what is on the device is, before anything changes how fast it is. What ends now is not touched any more.
void KernelDevice::settle(Time now) {
  for (const sched::LauncherId id : on_) {
    Launcher& launcher = launchers_.at(id);
    if (launcher.ends <= now) continue;
    const double passed = static_cast<double>((now - launcher.paced).ns);
    const int64_t done = slowed_ == 1 ? (now - launcher.paced).ns : static_cast<int64_t>(passed / slowed_);
    Duration& left = launcher.launched.front().left;
    left = {std::max<int64_t>(1, left.ns - done)};
    launcher.paced = now;
  }
}

void KernelDevice::pace(Time now) {
  slowed_ = 1 + (on_.empty() ? 0 : model_.interference * static_cast<double>(on_.size() - 1));
  for (const sched::LauncherId id : on_) {
    Launcher& launcher = launchers_.at(id);
    if (launcher.ends <= now) continue;
    const Duration left = launcher.launched.front().left;
    const Duration takes = slowed_ == 1 ? left : whole_duration(static_cast<double>(left.ns) * slowed_);
    launcher.ends = launcher.is_hung ? Time::never() : now + takes;
  }
}

Time KernelDevice::next_time(Time now) {
  Time next = coming_.empty() ? Time::never() : coming_.front().first;
  for (const auto& [id, one] : launchers_) {
    if (one.is_on) next = std::min(next, one.ends);
    if (!one.is_on && !one.launched.empty() && one.launched.front().arrives > now)
      next = std::min(next, one.launched.front().arrives);
    if (one.has_work && one.ready > now) next = std::min(next, one.ready);
    // By its own clock, which may be set right before.
    if (one.has_work && one.grant.open && one.grant.from > clock(now)) {
      const auto wait_ns = static_cast<double>((one.grant.from - clock(now)).ns) / (1 + model_.drift);
      next = std::min(next, now + Duration{std::max<int64_t>(1, static_cast<int64_t>(wait_ns))});
    }
  }
  const bool has_slices = model_.sharing == DeviceModel::Sharing::kSlices && !on_.empty();
  if (has_slices && next_process(now, process_)) next = std::min(next, slice_ends_);
  return next;
}

}  // namespace quern::sim
