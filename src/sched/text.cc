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
constexpr std::string_view kPrefix<ObjectId> = "o";
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
  if (const auto context = words.option("context")) words.read_bytes(*context, event.context_bytes);
  event.in_place = words.take("in_place");
  return event;
}

Event read_host_up(Words& words) {
  HostUp event;
  words.read_bytes(words.next(), event.memory_bytes);
  return event;
}

Event read_device_memory(Words& words) {
  DeviceMemory event;
  words.read(words.next(), event.device);
  words.read_bytes(words.next(), event.memory_bytes);
  return event;
}

Event read_tenant_set(Words& words) {
  TenantSet event;
  words.read(words.next(), event.tenant);
  if (const auto weight = words.option("weight")) words.read_small(*weight, event.weight);
  if (const auto limit = words.option("in_flight")) words.read_small(*limit, event.limits.in_flight);
  if (const auto limit = words.option("queued")) words.read_small(*limit, event.limits.queued);
  if (const auto limit = words.option("memory")) words.read_bytes(*limit, event.limits.memory_bytes);
  if (const auto limit = words.option("priority")) words.read_small(*limit, event.limits.priority);
  if (const auto vtime = words.option("vtime")) {
    Duration charged{};
    words.read(*vtime, charged);
    event.vtime = charged.ns;
  }
  return event;
}

// o1:1GiB,o2:5MiB
void read_objects(Words& words, std::string_view text, std::vector<ObjectNeed>& objects) {
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const size_t colon = std::min(one.find(':'), one.size());
    ObjectNeed& need = objects.emplace_back();
    words.read(one.substr(0, colon), need.object);
    words.read_bytes(one.substr(std::min(colon + 1, one.size())), need.bytes);
  }
}

Event read_keep(Words& words) {
  Keep event;
  words.read(words.next(), event.function);
  words.read(words.next(), event.domain);
  const std::string_view stage = words.next();
  for (const Stage one : {Stage::kContext, Stage::kHost, Stage::kHot})
    if (stage == name_of(one)) event.stage = one;
  if (stage != name_of(event.stage)) words.wrong(fmt::format("there is no stage '{}'", stage));
  if (const auto until = words.option("until")) words.read(*until, event.until);
  if (const auto objects = words.option("objects")) read_objects(words, *objects, event.objects);
  return event;
}

Event read_fetched(Words& words) {
  Fetched event;
  words.read(words.next(), event.object);
  event.failed = words.take("failed");
  return event;
}

Event read_loaded(Words& words) {
  Loaded event;
  words.read(words.next(), event.executor);
  words.read(words.next(), event.object);
  event.failed = words.take("failed");
  event.no_room = words.take("no_room");
  return event;
}

Event read_trimmed(Words& words) {
  Trimmed event;
  words.read(words.next(), event.executor);
  if (const auto lane = words.option("lane")) words.read_small(*lane, event.lane);
  return event;
}

Event read_unloaded(Words& words) {
  Unloaded event;
  words.read(words.next(), event.executor);
  words.read(words.next(), event.object);
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
  if (const auto objects = words.option("objects")) read_objects(words, *objects, event.objects);
  if (const auto deadline = words.option("deadline")) words.read(*deadline, event.deadline);
  if (const auto time = words.option("device_time")) words.read(*time, event.device_time);
  if (const auto priority = words.option("priority")) words.read_small(*priority, event.priority);
  return event;
}

Event read_finished(Words& words) {
  Finished event;
  words.read(words.next(), event.run);
  event.failed = words.take("failed");
  event.no_room = words.take("no_room");
  if (const auto time = words.option("device_time")) words.read(*time, event.device_time);
  return event;
}

using Reader = Event (*)(Words&);
const std::map<std::string_view, Reader>& readers() {
  static const std::map<std::string_view, Reader> readers = {
      {"device-up", read_device_up},
      {"device-memory", read_device_memory},
      {"host-up", read_host_up},
      {"device-down", [](Words& words) -> Event { return only_id(words, &DeviceDown::device); }},
      {"executor-up", [](Words& words) -> Event { return only_id(words, &ExecutorUp::executor); }},
      {"executor-lost", read_executor_lost},
      {"tenant", read_tenant_set},
      {"submit", read_submit},
      {"cancel", [](Words& words) -> Event { return only_id(words, &Cancel::request); }},
      {"keep", read_keep},
      {"fetched", read_fetched},
      {"loaded", read_loaded},
      {"unloaded", read_unloaded},
      {"trimmed", read_trimmed},
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

std::string show_objects(const std::vector<ObjectNeed>& objects) {
  std::string text;
  for (size_t i = 0; i < objects.size(); ++i)
    text += fmt::format("{}{}:{}", i ? "," : " objects=", show(objects[i].object), exact(objects[i].bytes, kByteUnits));
  return text;
}

struct Show {
  std::string operator()(const DeviceUp& e) const {
    return fmt::format("device-up {} {}{}{}", show(e.device), exact(e.memory_bytes, kByteUnits),
                       e.context_bytes ? " context=" + exact(e.context_bytes, kByteUnits) : "",
                       e.in_place ? " in_place" : "");
  }
  std::string operator()(const HostUp& e) const { return "host-up " + exact(e.memory_bytes, kByteUnits); }
  std::string operator()(const Keep& e) const {
    std::string text = fmt::format("keep {} {} {}", show(e.function), show(e.domain), name_of(e.stage));
    if (e.until != Time::never()) text += " until=" + to_text(e.until);
    return text + show_objects(e.objects);
  }
  std::string operator()(const Fetched& e) const {
    return fmt::format("fetched {}{}", show(e.object), e.failed ? " failed" : "");
  }
  std::string operator()(const Trimmed& e) const { return fmt::format("trimmed {} lane={}", show(e.executor), e.lane); }
  std::string operator()(const DeviceMemory& e) const {
    return fmt::format("device-memory {} {}", show(e.device), exact(e.memory_bytes, kByteUnits));
  }
  std::string operator()(const TenantSet& e) const {
    std::string text = "tenant " + show(e.tenant);
    const TenantSet plain;
    if (e.weight != plain.weight) text += fmt::format(" weight={}", e.weight);
    if (e.limits.in_flight != 0) text += fmt::format(" in_flight={}", e.limits.in_flight);
    if (e.limits.queued != 0) text += fmt::format(" queued={}", e.limits.queued);
    if (e.limits.memory_bytes != 0) text += " memory=" + exact(e.limits.memory_bytes, kByteUnits);
    if (e.limits.priority != 0) text += fmt::format(" priority={}", e.limits.priority);
    if (e.vtime != 0) text += " vtime=" + show(Duration{e.vtime});
    return text;
  }
  std::string operator()(const Loaded& e) const {
    return fmt::format("loaded {} {}{}{}", show(e.executor), show(e.object), e.failed ? " failed" : "",
                       e.no_room ? " no_room" : "");
  }
  std::string operator()(const Unloaded& e) const {
    return fmt::format("unloaded {} {}", show(e.executor), show(e.object));
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
    text += show_objects(e.objects);
    if (e.deadline != plain.deadline) text += " deadline=" + to_text(e.deadline);
    if (e.device_time != plain.device_time) text += " device_time=" + show(e.device_time);
    if (e.priority != plain.priority) text += fmt::format(" priority={}", e.priority);
    return text;
  }
  std::string operator()(const Cancel& e) const { return fmt::format("cancel {}", show(e.request)); }
  std::string operator()(const Started& e) const { return fmt::format("started {}", show(e.run)); }
  std::string operator()(const Finished& e) const {
    return fmt::format("finished {}{}{}{}", show(e.run), e.failed ? " failed" : "", e.no_room ? " no_room" : "",
                       e.device_time.ns ? " device_time=" + show(e.device_time) : "");
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
  std::string operator()(const Load& a) const {
    return fmt::format("load {} {} {}", show(a.executor), show(a.object), exact(a.bytes, kByteUnits));
  }
  std::string operator()(const Unload& a) const {
    return fmt::format("unload {} {}", show(a.executor), show(a.object));
  }
  std::string operator()(const Fetch& a) const {
    return fmt::format("fetch {} {}", show(a.object), exact(a.bytes, kByteUnits));
  }
  std::string operator()(const Forget& a) const { return fmt::format("forget {}", show(a.object)); }
  std::string operator()(const Prepare& a) const {
    return fmt::format("prepare {} {} {}", show(a.run), show(a.request), show(a.executor));
  }
  std::string operator()(const Trim& a) const { return fmt::format("trim {} lane={}", show(a.executor), a.lane); }
  std::string operator()(const Run& a) const {
    return fmt::format("run {} {} {} lane={}{}", show(a.run), show(a.request), show(a.executor), a.lane,
                       a.lane_bytes ? " memory=" + exact(a.lane_bytes, kByteUnits) : "");
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

namespace {

// The one list of settings: read by parse_config, written by to_text.
template <class C, class F>
void each_setting(C& config, F&& with) {
  with("lanes", config.lanes);
  with("runs_in_flight", config.runs_in_flight);
  with("most_queued", config.most_queued);
  with("most_queued_per_tenant", config.most_queued_per_tenant);
  with("most_queued_per_function", config.most_queued_per_function);
  with("most_attempts", config.most_attempts);
  with("stop_grace", config.stop_grace);
  with("prepare_grace", config.prepare_grace);
  with("own_executor_runs", config.own_executor_runs);
  with("quarantine_after", config.quarantine_after);
  with("quarantine", config.quarantine);
  with("locality", config.locality);
  with("first_estimate", config.first_estimate);
  with("granularity_bytes", config.granularity_bytes);
  with("rent_second", config.rent_second);
  with("keep_alive", config.keep_alive);
  with("room_back", config.room_back);
  with("fairness", config.policy.fairness);
  with("placement", config.policy.placement);
  with("eviction", config.policy.eviction);
  with("setup", config.policy.setup);
  with("exit", config.policy.exit);
}

struct ShowSetting {
  std::string& text;
  void operator()(std::string_view key, uint32_t value) const { text += fmt::format(" {}={}", key, value); }
  void operator()(std::string_view key, uint64_t value) const {
    text += fmt::format(" {}={}", key, exact(value, kByteUnits));
  }
  void operator()(std::string_view key, Duration value) const { text += fmt::format(" {}={}", key, show(value)); }
  void operator()(std::string_view key, const std::string& value) const { text += fmt::format(" {}={}", key, value); }
};

struct ReadSetting {
  Words& words;
  std::string_view wanted, word;
  bool& known;
  bool is(std::string_view key) const {
    known |= key == wanted;
    return key == wanted;
  }
  void operator()(std::string_view key, uint32_t& value) const {
    if (is(key)) words.read_small(word, value);
  }
  void operator()(std::string_view key, uint64_t& value) const {
    if (is(key)) words.read_bytes(word, value);
  }
  void operator()(std::string_view key, Duration& value) const {
    if (is(key)) words.read(word, value);
  }
  void operator()(std::string_view key, std::string& value) const {
    if (is(key)) value = word;
  }
};

}  // namespace

std::string to_text(const Config& config) {
  std::string text = "config";
  each_setting(config, ShowSetting{text});
  return text;
}

Status parse_config(std::string_view line, Config& config) {
  Words words(line);
  while (const auto option = words.any_option()) {
    bool known = false;
    each_setting(config, ReadSetting{words, option->first, option->second, known});
    if (!known) words.wrong(fmt::format("there is no setting '{}'", option->first));
  }
  return words.end();
}

}  // namespace quern::sched
