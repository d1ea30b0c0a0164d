// SPDX-License-Identifier: Apache-2.0
#include "launcher/program.h"

#include <algorithm>
#include <utility>

#include "os/clock.h"

namespace quern::launcher {
namespace {

constexpr int64_t kTellEvery = 1'000'000;
constexpr size_t kMostSamples = 64, kMostSpans = 128;

}  // namespace

Result<std::unique_ptr<Program>> Program::open(Link link) {
  QUERN_TRY(auto pages, ipc::open_shared_pages(std::move(link.daemon_page), std::move(link.own_page)));
  return std::unique_ptr<Program>(new Program(std::move(pages), os::Event::adopt(std::move(link.wake)),
                                              os::Event::adopt(std::move(link.daemon_wake)), std::move(link.life)));
}

Program::Program(ipc::SharedPages pages, os::Event wake, os::Event daemon_wake, os::Fd life)
    : pages_(std::move(pages)),
      wake_(std::move(wake)),
      daemon_wake_(std::move(daemon_wake)),
      life_(std::move(life)),
      events_(pages_.executor().lanes[0].event_head, pages_.daemon().lanes[0].event_tail,
              pages_.executor().lanes[0].events) {}

template <class Event>
bool Program::tell(const Event& event) {
  writer_.clear();
  ipc::encode(event, writer_);
  const Status told = events_.push(writer_.bytes());
  if (events_.consumer_sleeps()) daemon_wake_.signal();
  return told.ok();
}

Permit Program::ask(const Ask& ask) {
  asked_word_ = gate().word.load(std::memory_order_acquire);
  const ipc::Grant grant = ipc::read_grant(gate());
  // Someone listens, and does not know yet that there is work: since now, or since there was no room to tell it.
  if (grant.tells && !is_telling_) {
    const auto time_ns = static_cast<uint64_t>(ask.part_ns * static_cast<double>(ask.parts));
    is_telling_ = tell(ipc::WorkReady{os::now().ns, {{0, 0, time_ns, ask.sliceable}}, false});
  }
  if (!grant.tells) is_telling_ = false;
  const Permit answer = permit(grant, ask, grant.from_ns != 0 || grant.until_ns != 0 ? os::now().ns : 0);
  asked_from_ns_ = answer.why == Permit::Why::kEarly ? grant.from_ns : 0;
  if (answer.parts > 0) ++permits_;
  if (answer.parts == 0) {
    tell_ready();
    tell_traced();
  }
  // Whether it may go on depends on what it used.
  if (answer.parts == 0 && grant.meters && used_.launches > 0) tell_used(os::now().ns);
  return answer;
}

void Program::wait() {
  auto& own = pages_.executor().lanes[0];
  own.waits_at_gate.store(1, std::memory_order_seq_cst);
  // The time may have come since it was asked.
  Duration limit = Duration::forever();
  if (asked_from_ns_ != 0) limit = {std::max<int64_t>(0, asked_from_ns_ - os::now().ns)};
  // Whoever writes a grant after this sees that we wait.
  if (gate().word.load(std::memory_order_seq_cst) == asked_word_) wake_.wait(limit);
  wake_.drain();
  own.waits_at_gate.store(0, std::memory_order_relaxed);
}

void Program::work_ready(const ipc::WorkReady& ready) {
  const uint64_t word = gate().word.load(std::memory_order_acquire);
  has_ready_ = is_telling_ = ipc::is_telling(word);
  if (!has_ready_) return;
  ready_ = ready;
  if (!ipc::is_open(word)) tell_ready();
}

void Program::tell_ready() {
  if (!std::exchange(has_ready_, false)) return;
  is_telling_ = tell(ready_);
  tell_traced();
}

void Program::gap_begun(const ipc::GapBegun& gap) {
  tell_ready();
  if (ipc::is_telling(gate().word.load(std::memory_order_acquire))) tell(gap);
}

// What was let through while someone drew is part of the picture, and waited for.
void Program::traced(const ipc::Traced::Span& span) {
  const bool is_tracing = ipc::is_tracing(gate().word.load(std::memory_order_relaxed));
  if (!is_tracing && !ipc::is_tracing(asked_word_)) return;
  traced_.spans.push_back(span);
  if (!is_tracing || traced_.spans.size() >= kMostSpans) tell_traced();
}

void Program::tell_traced() {
  if (traced_.spans.empty()) return;
  if (!events_.is_half_full()) tell(traced_);
  traced_.spans.clear();
}

void Program::used(const ipc::DeviceUsed::Sample& sample) {
  used_.time_ns += sample.time_ns;
  ++used_.launches;
  if (permits_ == 0)
    ++used_.past_gate;
  else
    --permits_;
  if (used_.samples.size() < kMostSamples) used_.samples.push_back(sample);
  const int64_t now_ns = os::now().ns;
  if (now_ns - told_ns_ < kTellEvery) return;
  tell_used(now_ns);
  tell_traced();
}

void Program::tell_used(int64_t now_ns) {
  told_ns_ = now_ns;
  if (!tell(used_)) return;  // with the next
  used_ = {};
}

}  // namespace quern::launcher
