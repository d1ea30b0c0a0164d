// SPDX-License-Identifier: Apache-2.0
#include "sim/replay.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "base/printable.h"
#include "sched/scheduler.h"
#include "sched/text.h"

namespace quern::sim {
namespace {

constexpr std::string_view kAction = "  > ", kConfig = "config";

class Player {
 public:
  Result<Replay> play(std::string_view text) {
    uint64_t number = 0;
    while (!text.empty() && replay_.line == 0) {
      const size_t end = text.find('\n');
      const std::string_view line = text.substr(0, end);
      if (end == std::string_view::npos) {  // whoever wrote it was stopped: its last event may lack actions
        replay_.is_cut = true;
        return replay_;
      }
      text.remove_prefix(end + 1);
      ++number;
      if (line.empty() || line.front() == '#') continue;
      QUERN_TRY(read(line, number));
    }
    if (replay_.line == 0) finish_event(number + 1);
    return replay_;
  }

 private:
  Status read(std::string_view line, uint64_t number) {
    if (line.starts_with(kAction)) {
      if (!core_) return invalid(fmt::format("{}: an action before the first event; a log begins with config", number));
      compare(line.substr(kAction.size()), number);
      return {};
    }
    if (line.starts_with(kConfig) && (line.size() == kConfig.size() || line[kConfig.size()] == ' ')) {
      if (core_) return invalid(fmt::format("{}: config comes first; cut the log in two here", number));
      if (const Status status = sched::parse_config(line.substr(kConfig.size()), config_); !status.ok())
        return invalid(fmt::format("{}: {}", number, printable(status.error().text)));
      return {};
    }
    finish_event(number);
    if (replay_.line != 0) return {};
    const auto event = sched::parse_timed_event(line);
    if (!event.ok()) return invalid(fmt::format("{}: {}", number, printable(event.error().text)));
    if (event->first < now_) return invalid(fmt::format("{}: time goes backwards; a log is in order", number));
    now_ = event->first;
    if (!core_) core_.emplace(config_);
    actions_ = &core_->step(now_, event->second);
    next_ = 0;
    event_line_ = number;
    return {};
  }

  void compare(std::string_view recorded, uint64_t number) {
    if (next_ == actions_->size())
      return differ(number, fmt::format("the log has '{}', the core does nothing more", printable(recorded)));
    const std::string now = to_text((*actions_)[next_]);
    if (now != recorded)
      return differ(number, fmt::format("the log has '{}', the core does '{}'", printable(recorded), now));
    ++next_;
    ++replay_.actions;
  }

  /// The log has no more actions for the event before line `number`.
  void finish_event(uint64_t number) {
    if (!actions_) return;
    if (next_ < actions_->size())
      return differ(number, fmt::format("the log has no more, the core does '{}'", to_text((*actions_)[next_])));
    ++replay_.events;
    actions_ = nullptr;
  }

  void differ(uint64_t number, const std::string& what) {
    replay_.line = number;
    replay_.difference = fmt::format("of the event in line {}, action {}: {}", event_line_, next_ + 1, what);
  }

  sched::Config config_;
  std::optional<sched::Scheduler> core_;
  Time now_;
  const std::vector<sched::Action>* actions_ = nullptr;  ///< of the event that is being compared
  size_t next_ = 0;
  uint64_t event_line_ = 0;
  Replay replay_;
};

}  // namespace

Result<Replay> replay(std::string_view text) { return Player().play(text); }

}  // namespace quern::sim
