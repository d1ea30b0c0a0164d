// SPDX-License-Identifier: Apache-2.0
//
// What a lane may launch, and what it learns from what ended. launcher/permit.h decides; here is what it is told, and
// how a lane waits.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "executor/lane.h"
#include "os/clock.h"
#include "os/thread.h"

namespace quern::executor {
namespace {

using Why = launcher::Permit::Why;

// Whoever is more urgent is expected back sooner than this when a window is over.
constexpr Duration kLinger = Duration::micros(300);
// Before its time comes: whoever is more urgent leaves the core about then, and it is not to fall asleep meanwhile.
constexpr Duration kAwakeBefore = Duration::micros(80);
// A look that took so long: someone else had the core meanwhile.
constexpr Duration kTaken = Duration::micros(20);

// A new sample counts a quarter. One that is far off is the truth: the kernel does something else now.
double smoothed(double known, double seen) {
  if (known <= 0 || seen > 2 * known || seen < known / 2) return seen;
  return known + (seen - known) / 4;
}

}  // namespace

Lane::Cut Lane::cut_of(const PlannedLaunch& launch, const ipc::PlanBinding::Launch& known, bool has_offset) {
  Cut cut;
  uint64_t all = 1;
  for (uint32_t axis = 0; axis < launch.dimensions; ++axis) {
    // Where the driver picks the size of groups, how many there are is its own business.
    if (launch.local[axis] == 0) return {};
    const uint64_t groups = launch.global[axis] / launch.local[axis];
    all *= groups;
    // Of equals the outermost: what is near in memory stays together.
    if (groups >= cut.parts && known.sliceable && has_offset) {
      cut.axis = axis;
      cut.parts = groups;
      cut.step = launch.local[axis];
    }
  }
  cut.groups = std::max<uint64_t>(1, all / cut.parts);
  cut.part_ns = static_cast<double>(known.group_ps) / 1000.0 * static_cast<double>(cut.groups);
  return cut;
}

// A launch never seen is taken for half of the bound: two such are in flight at most.
uint64_t Lane::expected_ns(const Cut& cut, uint64_t parts) const {
  if (cut.part_ns > 0) return std::max<uint64_t>(1, static_cast<uint64_t>(cut.part_ns * static_cast<double>(parts)));
  return std::max<uint64_t>(1, depth_ns_ / 2);
}

Result<uint64_t> Lane::pass_gate(Ready& ready, uint64_t run, uint32_t launch, const Cut& cut, uint64_t parts) {
  for (;;) {
    const uint64_t word = links_.daemon.gate.word.load(std::memory_order_acquire);
    const ipc::Grant grant = ipc::read_grant(links_.daemon.gate);
    // Where time is short it counts what has really not ended.
    if (grant.until_ns != 0) QUERN_TRY(retire_ended(ready));
    launcher::Ask ask;
    ask.parts = parts;
    ask.in_flight = static_cast<uint32_t>(in_flight_.size());
    // What a launch takes depends on its scalars too, so a prediction counts only once this run has confirmed it: until
    // its first launch ended two are in flight at most, and from then on all are scaled by how that one came out.
    ask.in_flight_ns = static_cast<uint64_t>(static_cast<double>(in_flight_ns_) * scale_);
    // Slices of a kernel that was seen before are known well enough, whatever it is called with.
    const bool is_known = is_confirmed_ || (cut.parts > 1 && cut.part_ns > 0);
    if (!is_known && kernels_in_flight_ > 0) ask.in_flight_ns = std::max(ask.in_flight_ns, grant.depth_ns);
    ask.part_ns = cut.part_ns * (cut.parts > 1 ? 1 : scale_);
    ask.sliceable = cut.parts > 1;
    const int64_t now_ns = grant.from_ns != 0 || grant.until_ns != 0 ? os::now().ns : 0;
    const launcher::Permit permit = launcher::permit(grant, ask, now_ns);
    switch (permit.why) {
      case Why::kGo:
        depth_ns_ = grant.depth_ns;  // by now the gate may be closed, and tell nothing
        may_launch_ = true;
        return permit.parts;
      case Why::kDepth:
        QUERN_TRY(retire(ready, std::min(in_flight_.size() - 1, std::max<size_t>(1, in_flight_.size() / 4))));
        break;
      case Why::kOver:
        // It may end sooner than was expected.
        if (!in_flight_.empty()) {
          QUERN_TRY(queue_->flush());
          QUERN_TRY(retire(ready, 0));
          break;
        }
        [[fallthrough]];
      case Why::kClosed:
      case Why::kEarly:
        // Whoever filled a gap is in the way of who comes back, also with what it says.
        if (grant.until_ns != 0 && grant.tells && links_.shares_core) {
          QUERN_TRY(queue_->flush());
          stand_back(true);
          os::yield();
          if (links_.daemon.gate.word.load(std::memory_order_acquire) != word && commands_.empty()) break;
        }
        if (grant.tells) tell_next(ready, launch, cut, parts);
        tell_traced();
        tell_used(Moment::kWait);
        QUERN_TRY(const bool goes_on, wait_at_gate(run, word, grant, permit.why == Why::kEarly));
        if (!goes_on) return 0;
        QUERN_TRY(retire_ended(ready));
        break;
    }
  }
}

// To wake an idle core takes 40 us. Where someone else is about to come to the core of the device the thread stays
// there until then, and gives it up at every look: a window is over shortly before whoever is more urgent comes back,
// and a run that ends makes way for who fills the pause. Not once the other has come: who wants a core and does not get
// it is owed it, and would get it in the midst of the other's kernel.
void Lane::linger(Duration most, const std::function<bool()>& is_over) {
  if (!links_.shares_core) return;
  const Time from = os::now();
  for (Time last = from; !is_over() && last - from < most;) {
    os::yield();
    const Time now = os::now();
    if (now - last > kTaken) return;
    last = now;
  }
}

// Who is less urgent does not take the core from a kernel that is more so: not even to launch, since whatever it
// launches would be next on the core, whether or not that kernel has ended.
void Lane::stand_back(bool stands_back) {
  if (!links_.shares_core || stands_back_ == stands_back) return;
  stands_back_ = stands_back;
  os::set_worker_class(0, stands_back ? os::WorkerClass::kNormal : os::WorkerClass::kUrgent);
  if (!stands_back) os::want_short_turns();
}

Result<bool> Lane::wait_at_gate(uint64_t run, uint64_t word, const ipc::Grant& grant, bool is_early) {
  const ipc::Gate& gate = links_.daemon.gate;
  // What was enqueued has to go on; then sleep until a grant or a stop.
  QUERN_TRY(queue_->flush());
  if (grant.tells) stand_back(true);
  const auto is_news = [&] { return gate.word.load(std::memory_order_acquire) != word || !commands_.empty(); };
  Duration limit = Duration::forever();
  if (is_early) {
    // The time may have come meanwhile: then nobody would wake it.
    limit = {std::max<int64_t>(0, grant.from_ns - os::now().ns)};
    if (links_.shares_core && grant.tells && limit <= kAwakeBefore) {
      linger(limit, is_news);
      return heed(run);
    }
    if (links_.shares_core && grant.tells) limit = limit - kAwakeBefore;
  } else if (grant.open && grant.tells) {
    linger(kLinger, is_news);
  }
  links_.own.waits_at_gate.store(1, std::memory_order_seq_cst);
  const bool is_same = gate.word.load(std::memory_order_seq_cst) == word;
  if (is_same && commands_.empty()) links_.wake.wait(limit);
  links_.wake.drain();
  links_.own.waits_at_gate.store(0, std::memory_order_relaxed);
  return heed(run);
}

// Waits until at most `keep` of what is in flight is left, and learns from what ended. Whoever wakes up pays some 10 us
// of the device, so three quarters are let go at a time: what is left still keeps it busy until the next are enqueued.
Status Lane::retire(Ready& ready, size_t keep) {
  if (in_flight_.size() <= keep) return {};
  const uint64_t point = in_flight_[in_flight_.size() - keep - 1].point;
  QUERN_TRY(queue_->timeline().wait(point, Duration::forever()));
  const uint64_t device_ns = queue_->device_time_ns();
  const uint64_t used_ns = device_ns - std::exchange(seen_device_ns_, device_ns);
  times_.clear();
  for (size_t i = 0; i + keep < in_flight_.size(); ++i)
    if (in_flight_[i].launch != ipc::kNoLaunch) times_.push_back(queue_->timing(in_flight_[i].point));
  const bool is_alone = was_alone(used_ns);
  for (size_t launches = 0; in_flight_.size() > keep;) {
    const InFlight& done = in_flight_.front();
    if (done.launch != ipc::kNoLaunch) {
      if (const auto& time = times_[launches++]) learn(ready, done, *time, is_alone);
      --kernels_in_flight_;
    }
    in_flight_ns_ -= done.expected_ns;
    in_flight_.pop_front();
  }
  tell_used(Moment::kBatchEnd);
  if (!in_flight_.empty()) links_.own.running_launch.store(in_flight_.front().launch, std::memory_order_relaxed);
  return {};
}

void Lane::submitted(const InFlight& what, Time made) {
  in_flight_.push_back(what);
  in_flight_ns_ += what.expected_ns;
  shown_.made_ns[what.point % kMostTimes].store(made.ns, std::memory_order_relaxed);
  if (shown_.first.load(std::memory_order_relaxed) == 0) {
    shown_.queue.store(queue_, std::memory_order_relaxed);
    shown_.first.store(what.point, std::memory_order_relaxed);
  }
  shown_.last.store(what.point, std::memory_order_release);
}

std::optional<ipc::Flight::Launch> Lane::flight() const {
  const uint64_t run = links_.own.running_run.load(std::memory_order_acquire);
  const uint64_t last = shown_.last.load(std::memory_order_acquire);
  hal::Queue* queue = shown_.queue.load(std::memory_order_relaxed);
  if (run == 0 || last == 0 || !queue) return std::nullopt;
  const auto reached = queue->timeline().reached();
  if (!reached.ok()) return std::nullopt;
  ipc::Flight::Launch launch;
  launch.run = run;
  if (*reached < last) {
    launch.number = std::max(*reached + 1, shown_.first.load(std::memory_order_relaxed));
    launch.since_ns = shown_.made_ns[launch.number % kMostTimes].load(std::memory_order_relaxed);
    if (launch.number > shown_.first.load(std::memory_order_relaxed))
      if (const auto before = queue->timing(launch.number - 1))
        launch.since_ns = std::max(launch.since_ns, before->end_ns);
  }
  launch.used_ns = shown_.used_ns.load(std::memory_order_relaxed);
  // Another run may have come to the lane meanwhile: then these numbers are of both.
  if (links_.own.running_run.load(std::memory_order_acquire) != run) return std::nullopt;
  return launch;
}

// What ended while the lane slept is not in flight any more.
Status Lane::retire_ended(Ready& ready) {
  const auto reached = queue_->timeline().reached();
  if (!reached.ok()) return {};  // who waits for it hears why
  const auto left = static_cast<size_t>(
      std::count_if(in_flight_.begin(), in_flight_.end(), [&](const InFlight& one) { return one.point > *reached; }));
  return retire(ready, left);
}

// Where times are wall time they count whoever else was on the core, and then the workers had less of it; several that
// share a launch may idle at its end.
bool Lane::was_alone(uint64_t used_ns) const {
  const hal::Caps& caps = holdings_.device().caps();
  if (caps.timestamps == hal::Timestamps::kDevice || caps.units > 1) return true;
  uint64_t wall_ns = 0;
  for (const auto& time : times_)
    if (time) wall_ns += static_cast<uint64_t>(std::max<int64_t>(0, time->end_ns - time->start_ns));
  return used_ns * 20 >= wall_ns * 19;
}

void Lane::learn(Ready& ready, const InFlight& done, const hal::Interval& time, bool is_alone) {
  const auto took_ns = static_cast<uint64_t>(std::max<int64_t>(1, time.end_ns - time.start_ns));
  if (first_start_ns_ == 0) first_start_ns_ = time.start_ns;
  last_end_ns_ = time.end_ns;
  shown_.used_ns.store(shown_.used_ns.load(std::memory_order_relaxed) + static_cast<int64_t>(took_ns),
                       std::memory_order_relaxed);
  Cut& cut = ready.cuts[done.launch];
  if (!profile_.empty()) {
    const uint32_t kernel = ready.plan().launches[done.launch].kernel;
    if (kernel < profile_.size()) {
      profile_[kernel].launches += done.first == 0;
      profile_[kernel].time_ns += took_ns;
    }
  }
  // Once the grant changed it may be another's time too.
  const bool is_same_grant = done.word == links_.daemon.gate.word.load(std::memory_order_relaxed);
  note_ended(ready, done, time, is_alone && is_same_grant);
  if (cut.part_ns > 0 && !(is_alone && is_same_grant)) return;
  scale_ = static_cast<double>(took_ns) / static_cast<double>(done.expected_ns);
  is_confirmed_ = true;
  cut.part_ns = smoothed(cut.part_ns, static_cast<double>(took_ns) / static_cast<double>(done.parts));
}

}  // namespace quern::executor
