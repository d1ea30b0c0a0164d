// SPDX-License-Identifier: Apache-2.0
#include "sched/text.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <vector>

namespace quern::sched {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};
constexpr Unit kTimeUnits[] = {{"s", 1'000'000'000}, {"ms", 1'000'000}, {"us", 1'000}, {"ns", 1}};
constexpr Unit kByteUnits[] = {{"GiB", uint64_t{1} << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}};

// The forms of base/ are for people: they round. A log must read back to the bit.
template <size_t N>
std::string exact(uint64_t value, const Unit (&units)[N]) {
  for (const Unit& unit : units)
    if (value != 0 && value % unit.factor == 0) return fmt::format("{}{}", value / unit.factor, unit.name);
  return fmt::format("0{}", units == static_cast<const void*>(kTimeUnits) ? "ms" : "B");
}

template <size_t N>
std::optional<uint64_t> parse_exact(std::string_view text, const Unit (&units)[N]) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc()) return std::nullopt;
  const std::string_view name(rest, static_cast<size_t>(end - rest));
  for (const Unit& unit : units)
    if (unit.name == name && number <= std::numeric_limits<int64_t>::max() / unit.factor) return number * unit.factor;
  return std::nullopt;
}

template <class T>
constexpr std::string_view kPrefix = "?";
template <>
constexpr std::string_view kPrefix<DeviceId> = "d";
template <>
constexpr std::string_view kPrefix<DomainId> = "dom";
template <>
constexpr std::string_view kPrefix<TenantId> = "t";
template <>
constexpr std::string_view kPrefix<FunctionId> = "f";
template <>
constexpr std::string_view kPrefix<RequestId> = "r";
template <>
constexpr std::string_view kPrefix<ExecutorId> = "e";
template <>
constexpr std::string_view kPrefix<RunId> = "run";

template <class Tag>
std::string show(Id<Tag> id) {
  return fmt::format("{}{}", kPrefix<Id<Tag>>, id.value);
}
std::string show(Duration duration) {
  return duration == Duration::forever() ? "forever" : exact(static_cast<uint64_t>(duration.ns), kTimeUnits);
}
template <class T>
std::string show_if(std::string_view key, const std::optional<T>& id) {
  return id ? fmt::format(" {}{}", key, show(*id)) : "";
}

/// The words of one line, taken one after another. The first mistake is kept; after it everything reads as nothing.
class Words {
 public:
  explicit Words(std::string_view line) : line_(line) {
    while (!line.empty()) {
      const size_t space = line.find(' ');
      if (space != 0) words_.push_back(line.substr(0, space));
      if (space == std::string_view::npos) break;
      line.remove_prefix(space + 1);
    }
  }

  std::string_view next() {
    if (at_ < words_.size()) return words_[at_++];
    wrong("has too few words");
    return "";
  }
  bool take(std::string_view word) {
    const bool same = at_ < words_.size() && words_[at_] == word;
    at_ += same;
    return same;
  }
  /// The value of `key=value`, which may be left out.
  std::optional<std::string_view> option(std::string_view key) {
    if (at_ == words_.size() || !words_[at_].starts_with(key) || words_[at_].substr(key.size(), 1) != "=")
      return std::nullopt;
    return words_[at_++].substr(key.size() + 1);
  }
  std::optional<std::pair<std::string_view, std::string_view>> any_option() {
    if (at_ == words_.size()) return std::nullopt;
    const std::string_view word = words_[at_++];
    const size_t equals = std::min(word.find('='), word.size());
    return {{word.substr(0, equals), word.substr(std::min(equals + 1, word.size()))}};
  }

  void read(std::string_view word, uint64_t& into) {
    const char* end = word.data() + word.size();
    const auto [rest, problem] = std::from_chars(word.data(), end, into);
    if (problem != std::errc() || rest != end) wrong(fmt::format("'{}' is not a number", word));
  }
  template <class T>
  void read_small(std::string_view word, T& into) {
    uint64_t number = 0;
    read(word, number);
    if (number > std::numeric_limits<T>::max()) wrong(fmt::format("{} is too large", number));
    into = static_cast<T>(number);
  }
  template <class Tag>
  void read(std::string_view word, Id<Tag>& into) {
    const std::string_view prefix = kPrefix<Id<Tag>>;
    if (!word.starts_with(prefix)) return wrong(fmt::format("'{}' should be {} and a number", word, prefix));
    read(word.substr(prefix.size()), into.value);
  }
  void read(std::string_view word, Duration& into) {
    if (word == "forever") {
      into = Duration::forever();
    } else if (const auto value = parse_exact(word, kTimeUnits)) {
      into.ns = static_cast<int64_t>(*value);
    } else {
      wrong(fmt::format("'{}' is not a time; write a whole number with ns, us, ms or s", word));
    }
  }
  void read(std::string_view word, Time& into) {
    Duration since{};
    if (word == "never") {
      into = Time::never();
    } else {
      read(word, since);
      into.ns = since.ns;
    }
  }
  void read_bytes(std::string_view word, uint64_t& into) {
    if (const auto value = parse_exact(word, kByteUnits)) {
      into = *value;
    } else {
      wrong(fmt::format("'{}' is not a size; write a whole number with B, KiB, MiB or GiB", word));
    }
  }

  void wrong(std::string what) {
    if (mistake_.empty()) mistake_ = std::move(what);
  }
  Status end() {
    if (mistake_.empty() && at_ < words_.size()) wrong(fmt::format("'{}' is not expected there", words_[at_]));
    if (mistake_.empty()) return {};
    return invalid(fmt::format("'{}': {}", line_, mistake_));
  }

 private:
  std::string_view line_;
  std::vector<std::string_view> words_;
  size_t at_ = 0;
  std::string mistake_;
};

template <class T>
T only_id(Words& words, auto T::*id) {
  T event;
  words.read(words.next(), event.*id);
  return event;
}

Event read_device_up(Words& words) {
  DeviceUp event;
  words.read(words.next(), event.device);
  words.read_bytes(words.next(), event.memory_bytes);
  return event;
}

Event read_executor_lost(Words& words) {
  ExecutorLost event;
  words.read(words.next(), event.executor);
  if (const auto culprit = words.option("culprit")) words.read(*culprit, event.culprit.emplace());
  return event;
}

Event read_submit(Words& words) {
  Submit event;
  words.read(words.next(), event.request);
  words.read(words.next(), event.function);
  words.read(words.next(), event.tenant);
  words.read(words.next(), event.domain);
  if (const auto memory = words.option("memory")) words.read_bytes(*memory, event.memory_bytes);
  if (const auto deadline = words.option("deadline")) words.read(*deadline, event.deadline);
  if (const auto time = words.option("device_time")) words.read(*time, event.device_time);
  if (const auto priority = words.option("priority")) words.read_small(*priority, event.priority);
  if (const auto queue = words.option("queue")) words.read_small(*queue, event.queue);
  return event;
}

Event read_finished(Words& words) {
  Finished event;
  words.read(words.next(), event.run);
  event.failed = words.take("failed");
  return event;
}

using Reader = Event (*)(Words&);
const std::map<std::string_view, Reader>& readers() {
  static const std::map<std::string_view, Reader> readers = {
      {"device-up", read_device_up},
      {"device-down", [](Words& words) -> Event { return only_id(words, &DeviceDown::device); }},
      {"executor-up", [](Words& words) -> Event { return only_id(words, &ExecutorUp::executor); }},
      {"executor-lost", read_executor_lost},
      {"submit", read_submit},
      {"cancel", [](Words& words) -> Event { return only_id(words, &Cancel::request); }},
      {"started", [](Words& words) -> Event { return only_id(words, &Started::run); }},
      {"finished", read_finished},
      {"function-gone", [](Words& words) -> Event { return only_id(words, &FunctionGone::function); }},
      {"tick", [](Words&) -> Event { return Tick{}; }},
  };
  return readers;
}

Event read_event(Words& words) {
  const std::string_view name = words.next();
  const auto reader = readers().find(name);
  if (reader != readers().end()) return reader->second(words);
  words.wrong(fmt::format("there is no event '{}'", name));
  return Tick{};
}

struct Show {
  std::string operator()(const DeviceUp& e) const {
    return fmt::format("device-up {} {}", show(e.device), exact(e.memory_bytes, kByteUnits));
  }
  std::string operator()(const DeviceDown& e) const { return fmt::format("device-down {}", show(e.device)); }
  std::string operator()(const ExecutorUp& e) const { return fmt::format("executor-up {}", show(e.executor)); }
  std::string operator()(const ExecutorLost& e) const {
    return fmt::format("executor-lost {}{}", show(e.executor), show_if("culprit=", e.culprit));
  }
  std::string operator()(const Submit& e) const {
    std::string text =
        fmt::format("submit {} {} {} {}", show(e.request), show(e.function), show(e.tenant), show(e.domain));
    const Submit plain;
    if (e.memory_bytes != 0) text += " memory=" + exact(e.memory_bytes, kByteUnits);
    if (e.deadline != plain.deadline) text += " deadline=" + to_text(e.deadline);
    if (e.device_time != plain.device_time) text += " device_time=" + show(e.device_time);
    if (e.priority != plain.priority) text += fmt::format(" priority={}", e.priority);
    if (e.queue != plain.queue) text += fmt::format(" queue={}", e.queue);
    return text;
  }
  std::string operator()(const Cancel& e) const { return fmt::format("cancel {}", show(e.request)); }
  std::string operator()(const Started& e) const { return fmt::format("started {}", show(e.run)); }
  std::string operator()(const Finished& e) const {
    return fmt::format("finished {}{}", show(e.run), e.failed ? " failed" : "");
  }
  std::string operator()(const FunctionGone& e) const { return fmt::format("function-gone {}", show(e.function)); }
  std::string operator()(const Tick&) const { return "tick"; }

  std::string operator()(const StartExecutor& a) const {
    return fmt::format("start-executor {} {} {}{}", show(a.executor), show(a.device), show(a.domain),
                       show_if("own=", a.own_function));
  }
  std::string operator()(const KillExecutor& a) const {
    return fmt::format("kill-executor {}{}", show(a.executor), show_if("because=", a.because));
  }
  std::string operator()(const Run& a) const {
    return fmt::format("run {} {} {} lane={}", show(a.run), show(a.request), show(a.executor), a.lane);
  }
  std::string operator()(const StopRun& a) const { return fmt::format("stop-run {}", show(a.run)); }
  std::string operator()(const Answer& a) const {
    std::string text = fmt::format("answer {} {}{}", show(a.request), name_of(a.end), show_if("", a.run));
    if (a.retry_after.ns != 0) text += " retry_after=" + show(a.retry_after);
    return text;
  }
  std::string operator()(const WakeAt& a) const { return fmt::format("wake-at {}", to_text(a.time)); }
};

}  // namespace

std::string to_text(const Event& event) { return std::visit(Show{}, event); }
std::string to_text(const Action& action) { return std::visit(Show{}, action); }
std::string to_text(Time time) {
  return time == Time::never() ? "never" : exact(static_cast<uint64_t>(time.ns), kTimeUnits);
}

Result<Event> parse_event(std::string_view line) {
  Words words(line);
  Event event = read_event(words);
  QUERN_TRY(words.end());
  return event;
}

Result<std::pair<Time, Event>> parse_timed_event(std::string_view line) {
  Words words(line);
  Time time;
  words.read(words.next(), time);
  Event event = read_event(words);
  QUERN_TRY(words.end());
  return std::pair{time, event};
}

Status parse_config(std::string_view line, Config& config) {
  const std::map<std::string_view, uint32_t*> numbers = {
      {"lanes", &config.lanes},
      {"runs_in_flight", &config.runs_in_flight},
      {"most_queued", &config.most_queued},
      {"most_queued_per_tenant", &config.most_queued_per_tenant},
      {"most_attempts", &config.most_attempts},
      {"own_executor_runs", &config.own_executor_runs},
      {"quarantine_after", &config.quarantine_after},
  };
  const std::map<std::string_view, Duration*> durations = {
      {"stop_grace", &config.stop_grace},
      {"prepare_grace", &config.prepare_grace},
      {"quarantine", &config.quarantine},
  };
  Words words(line);
  while (const auto option = words.any_option()) {
    const auto& [key, value] = *option;
    if (const auto number = numbers.find(key); number != numbers.end()) {
      words.read_small(value, *number->second);
    } else if (const auto duration = durations.find(key); duration != durations.end()) {
      words.read(value, *duration->second);
    } else if (key == "placement") {
      config.placement = value;
    } else {
      words.wrong(fmt::format("there is no setting '{}'", key));
    }
  }
  return words.end();
}

}  // namespace quern::sched
