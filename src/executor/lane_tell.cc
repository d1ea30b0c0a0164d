// SPDX-License-Identifier: Apache-2.0
//
// What a lane tells of the launches that ended, beside the end of a run: how long they took, for profiles; what they
// used, while someone counts it; from when to when they were on the device, while someone draws it. Samples and spans
// get lost where the ring has little room left, for ends of runs must not; sums are told later.
#include <algorithm>

#include "executor/lane.h"
#include "os/clock.h"

namespace quern::executor {
namespace {

constexpr int64_t kMeterEvery = 1'000'000, kTellEvery = 10'000'000;
constexpr size_t kMostSamples = 32, kMostSpans = 128, kMostGaps = 32;

}  // namespace

void Lane::note_ended(const Ready& ready, const InFlight& done, const hal::Interval& time, bool is_undisturbed) {
  ++used_.launches;
  const uint64_t identity = ready.prepared->binding.launches[done.launch].identity;
  // While the grant was the same it waited for nobody.
  if (pause_.after != 0 && done.word == pause_.word && time.start_ns > pause_.at_ns && used_.gaps.size() < kMostGaps)
    used_.gaps.push_back({pause_.after, static_cast<uint64_t>(time.start_ns - pause_.at_ns)});
  pause_.after = 0;
  last_identity_ = identity;
  if (used_.samples.size() < kMostSamples) {
    const auto took_ns = static_cast<uint64_t>(std::max<int64_t>(1, time.end_ns - time.start_ns));
    const Cut& cut = ready.cuts[done.launch];
    used_.samples.push_back({identity, done.parts * cut.groups, took_ns, is_undisturbed});
  }
  // Those in flight when a trace ends are part of it, and are waited for.
  const bool is_tracing = ipc::is_tracing(links_.daemon.gate.word.load(std::memory_order_relaxed));
  if (!is_tracing && !ipc::is_tracing(done.word)) return tell_traced();
  traced_.spans.push_back(
      {done.launch, done.first, done.parts, ready.cuts[done.launch].parts, time.start_ns, time.end_ns});
  if (!is_tracing || traced_.spans.size() >= kMostSpans) tell_traced();
}

void Lane::begin_pause() {
  pause_ = {last_identity_, last_end_ns_, links_.daemon.gate.word.load(std::memory_order_relaxed)};
}

void Lane::tell_traced() {
  if (traced_.spans.empty()) return;
  traced_.run = links_.own.running_run.load(std::memory_order_relaxed);
  if (!events_.is_half_full()) report(traced_);
  traced_.spans.clear();
}

// Under a quota often, and at once when the lane is about to wait: whether it may go on depends on it.
void Lane::tell_used(Moment moment) {
  const bool meters = ipc::is_metering(links_.daemon.gate.word.load(std::memory_order_relaxed));
  const bool has_news = !used_.samples.empty() || !used_.gaps.empty();
  if (!meters && (moment != Moment::kRunEnd || !has_news)) return;
  const int64_t now_ns = os::now().ns;
  const bool is_due = now_ns - told_used_ns_ >= (meters ? kMeterEvery : kTellEvery);
  if (!is_due && !(meters && moment != Moment::kBatchEnd)) return;
  const uint64_t device_ns = queue_->device_time_ns();
  used_.time_ns = device_ns - told_device_ns_;
  if (used_.time_ns == 0 && !has_news) return;
  told_used_ns_ = now_ns;
  if (!events_.is_half_full()) {
    report(used_);
    told_device_ns_ = device_ns;
    used_.launches = used_.past_gate = 0;
  }
  used_.samples.clear();
  used_.gaps.clear();
}

}  // namespace quern::executor
