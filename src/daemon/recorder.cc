// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <span>

#include "base/units.h"
#include "os/log.h"
#include "sched/text.h"

namespace quern::daemon {
namespace {

constexpr size_t kWriteBytes = 64 * kKiB;
constexpr Duration kWriteAfter = Duration::seconds(1);
constexpr std::string_view kLimitReached = "# limit reached\n";

/// The steps that every request makes, written straight into memory: sched::to_text takes ten times as long, which
/// would be felt. The text is the same, to the letter; a test holds one against the other. All else is left to to_text.
class HotStep {
 public:
  /// Nothing if it is not one of those.
  std::string_view text(Time now, const sched::Event& event, const std::vector<sched::Action>& actions) {
    at_ = line_;
    if (actions.size() > kMostActions) return {};
    put_time(now.ns);
    if (const auto* submit = std::get_if<sched::Submit>(&event)) {
      if (!submit->objects.empty()) return {};
      put(*submit);
    } else if (const auto* started = std::get_if<sched::Started>(&event)) {
      put(" started run"), put(started->run.value);
    } else if (const auto* finished = std::get_if<sched::Finished>(&event);
               finished && !finished->failed && !finished->no_room && !finished->ends_executor) {
      put(" finished run"), put(finished->run.value);
      if (finished->device_time.ns != 0) put(" device_time="), put_time(finished->device_time.ns);
      if (finished->started.ns != 0) put(" started="), put_time(finished->started.ns);
    } else {
      return {};
    }
    put("\n");
    for (const sched::Action& action : actions)
      if (!put(action)) return {};
    return {line_, static_cast<size_t>(at_ - line_)};
  }

 private:
  static constexpr size_t kMostActions = 4;

  template <size_t N>
  void put(const char (&word)[N]) {
    std::memcpy(at_, word, N - 1);
    at_ += N - 1;
  }
  void put(uint64_t number) { at_ = std::to_chars(at_, std::end(line_), number).ptr; }
  void put_time(int64_t ns) {
    if (ns == Time::never().ns) return put("forever");
    const auto number = static_cast<uint64_t>(ns);
    if (number % 1000 != 0) return put(number), put("ns");
    if (number == 0) return put("0ms");
    if (number % 1'000'000 != 0) return put(number / 1000), put("us");
    if (number % 1'000'000'000 != 0) return put(number / 1'000'000), put("ms");
    put(number / 1'000'000'000), put("s");
  }
  void put_bytes(uint64_t bytes) {
    if (bytes % 1024 != 0) return put(bytes), put("B");
    if (bytes % kMiB != 0) return put(bytes / kKiB), put("KiB");
    if (bytes % kGiB != 0) return put(bytes / kMiB), put("MiB");
    put(bytes / kGiB), put("GiB");
  }
  void put(const sched::Submit& submit) {
    put(" submit r"), put(submit.request.value);
    put(" f"), put(submit.function.value);
    put(" t"), put(submit.tenant.value);
    put(" dom"), put(submit.domain.value);
    if (submit.memory_bytes != 0) put(" memory="), put_bytes(submit.memory_bytes);
    if (submit.deadline != Time::never()) put(" deadline="), put_time(submit.deadline.ns);
    if (submit.device_time != Duration::forever()) put(" device_time="), put_time(submit.device_time.ns);
    if (submit.priority != sched::Submit().priority) put(" priority="), put(submit.priority);
    if (submit.quota != sched::Quota{}) {
      put(" quota="), put(submit.quota.request), put("/"), put(submit.quota.limit);
      put("/"), put(submit.quota.units);
    }
  }
  bool put(const sched::Action& action) {
    if (const auto* run = std::get_if<sched::Run>(&action)) {
      put("  > run run"), put(run->run.value);
      put(" r"), put(run->request.value);
      put(" e"), put(run->executor.value);
      put(" lane="), put(run->lane);
      if (run->lane_bytes != 0) put(" memory="), put_bytes(run->lane_bytes);
      if (run->units != 0) put(" units="), put(run->units);
      if (run->first_unit != 0) put(" first_unit="), put(run->first_unit);
    } else if (const auto* answer = std::get_if<sched::Answer>(&action);
               answer && answer->end == sched::End::kDone && answer->run && answer->retry_after.ns == 0) {
      put("  > answer r"), put(answer->request.value);
      put(" done run"), put(answer->run->value);
    } else {
      return false;
    }
    put("\n");
    return true;
  }

  // Twenty digits a number at most: an event has eight of them, an action four.
  char line_[1024];
  char* at_ = line_;
};

}  // namespace

Recorder::Recorder(os::Fd file, std::string path, uint64_t most_bytes)
    : file_(std::move(file)), path_(std::move(path)), most_bytes_(most_bytes) {
  // A step may bring many actions: what it adds past the size to write at is rare, and grows the buffer once.
  lines_.reserve(2 * kWriteBytes);
}

Result<std::unique_ptr<Recorder>> Recorder::create(const std::string& path, uint64_t most_bytes,
                                                   const sched::Config& config) {
  QUERN_TRY(os::Fd file, os::create_file(path));
  std::unique_ptr<Recorder> self(new Recorder(std::move(file), path, most_bytes));
  self->lines_ += sched::to_text(config) + "\n";
  self->write();
  if (self->ended_) return unavailable(fmt::format("{}: cannot be written", path));
  return self;
}

void Recorder::add(Time now, const sched::Event& event, const std::vector<sched::Action>& actions) {
  if (ended_) return;
  const size_t before = lines_.size();
  HotStep hot;
  if (const std::string_view text = hot.text(now, event, actions); !text.empty()) {
    lines_ += text;
  } else {
    lines_ += sched::to_text(now) + " " + sched::to_text(event) + "\n";
    for (const sched::Action& action : actions) lines_ += "  > " + sched::to_text(action) + "\n";
  }
  // A step is recorded whole or not at all.
  if (written_bytes_ + lines_.size() + kLimitReached.size() > most_bytes_) {
    lines_.resize(before);
    lines_ += kLimitReached;
    write();
    return end(fmt::format("it has {}, the most it may", show_bytes(written_bytes_)));
  }
  if (lines_.size() >= kWriteBytes)
    write();
  else if (due_ == Time::never())
    due_ = now + kWriteAfter;
}

void Recorder::write() {
  due_ = Time::never();
  if (lines_.empty() || ended_) return;
  const Status written = os::append(file_, path_, std::as_bytes(std::span(lines_)));
  written_bytes_ += lines_.size();
  lines_.clear();
  if (!written.ok()) end(written.error().text);
}

void Recorder::end(std::string_view why) {
  if (ended_) return;
  ended_ = true;
  os::log_warning("record {}: ends here: {}", path_, why);
}

}  // namespace quern::daemon
