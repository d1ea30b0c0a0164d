// SPDX-License-Identifier: Apache-2.0
#include "sched/text.h"

#include <algorithm>
#include <map>

#include "sched/words.h"

namespace quern::sched {
namespace {

using namespace words;

constexpr std::string_view kPassing = ":passing", kCut = ":cut";

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
  if (const auto units = words.option("units")) words.read_small(*units, event.units.count);
  event.units.in_halves = words.take("in_halves");
  event.classes = !words.take("no_classes");
  event.shares_time = words.take("shares_time");
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

template <class F>
void for_each_of(std::string_view list, F&& read) {
  while (!list.empty()) {
    const std::string_view one = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), one.size() + 1));
    read(one);
  }
}

// o1:1GiB,o2:5MiB,o3:1MiB:passing
void read_objects(Words& words, std::string_view text, std::vector<ObjectNeed>& objects) {
  for_each_of(text, [&](std::string_view one) {
    const size_t colon = std::min(one.find(':'), one.size());
    ObjectNeed& need = objects.emplace_back();
    words.read(one.substr(0, colon), need.object);
    std::string_view bytes = one.substr(std::min(colon + 1, one.size()));
    need.passing = bytes.ends_with(kPassing);
    if (need.passing) bytes.remove_suffix(kPassing.size());
    words.read_bytes(bytes, need.bytes);
  });
}

// o1:1GiB:60s
void read_makes(Words& words, std::string_view text, std::vector<Made>& makes) {
  for_each_of(text, [&](std::string_view one) {
    const size_t first = one.find(':');
    const size_t second = first == std::string_view::npos ? first : one.find(':', first + 1);
    if (second == std::string_view::npos) return words.wrong("write what is made as OBJECT:BYTES:STAYS");
    Made& made = makes.emplace_back();
    words.read(one.substr(0, first), made.object);
    words.read_bytes(one.substr(first + 1, second - first - 1), made.bytes);
    words.read(one.substr(second + 1), made.stays);
  });
}

// 7:300us,8:2ms:cut
void read_kernels(Words& words, std::string_view text, std::vector<KernelAhead>& kernels) {
  for_each_of(text, [&](std::string_view one) {
    KernelAhead& kernel = kernels.emplace_back();
    kernel.sliceable = one.ends_with(kCut);
    if (kernel.sliceable) one.remove_suffix(kCut.size());
    const size_t colon = one.find(':');
    if (colon == std::string_view::npos)
      return words.wrong("write kernels as IDENTITY:TIME, with :cut where they can be");
    words.read(one.substr(0, colon), kernel.identity);
    words.read(one.substr(colon + 1), kernel.time);
  });
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
  if (const auto suspects = words.option("suspects"))
    for (std::string_view rest = *suspects; !rest.empty();) {
      const std::string_view one = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
      words.read(one, event.suspects.emplace_back());
    }
  return event;
}

// "200/800/500": request, limit and units.
void read_quota(Words& words, Quota& quota) {
  const auto text = words.option("quota");
  if (!text) return;
  const size_t first = text->find('/');
  const size_t second = first == std::string_view::npos ? first : text->find('/', first + 1);
  if (second == std::string_view::npos) return words.wrong("write a quota as REQUEST/LIMIT/UNITS");
  words.read_small(text->substr(0, first), quota.request);
  words.read_small(text->substr(first + 1, second - first - 1), quota.limit);
  words.read_small(text->substr(second + 1), quota.units);
}

Event read_submit(Words& words) {
  Submit event;
  words.read(words.next(), event.request);
  words.read(words.next(), event.function);
  words.read(words.next(), event.tenant);
  words.read(words.next(), event.domain);
  if (const auto memory = words.option("memory")) words.read_bytes(*memory, event.memory_bytes);
  if (const auto objects = words.option("objects")) read_objects(words, *objects, event.objects);
  if (const auto makes = words.option("makes")) read_makes(words, *makes, event.makes);
  if (const auto deadline = words.option("deadline")) words.read(*deadline, event.deadline);
  if (const auto time = words.option("device_time")) words.read(*time, event.device_time);
  if (const auto priority = words.option("priority")) words.read_small(*priority, event.priority);
  read_quota(words, event.quota);
  return event;
}

Event read_finished(Words& words) {
  Finished event;
  words.read(words.next(), event.run);
  event.failed = words.take("failed");
  event.no_room = words.take("no_room");
  event.ends_executor = words.take("ends_executor");
  if (const auto time = words.option("device_time")) words.read(*time, event.device_time);
  if (const auto started = words.option("started")) words.read(*started, event.started);
  return event;
}

// run:number:since:used, with commas between them.
void read_launches(Words& words, std::string_view text, std::vector<Flight::Launch>& launches) {
  while (!text.empty()) {
    std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const auto part = [&] {
      const std::string_view first = one.substr(0, one.find(':'));
      one.remove_prefix(std::min(one.size(), first.size() + 1));
      return first;
    };
    Flight::Launch launch;
    words.read(part(), launch.run);
    words.read(part(), launch.number);
    words.read(part(), launch.since);
    words.read(part(), launch.used);
    launches.push_back(launch);
  }
}

Event read_flight(Words& words) {
  Flight event;
  words.read(words.next(), event.device);
  if (const auto launches = words.option("launches")) read_launches(words, *launches, event.launches);
  return event;
}

Event read_launcher_up(Words& words) {
  LauncherUp event;
  words.read(words.next(), event.launcher);
  words.read(words.next(), event.device);
  words.read(words.next(), event.function);
  if (const auto priority = words.option("priority")) words.read_small(*priority, event.priority);
  read_quota(words, event.quota);
  return event;
}

Event read_ready(Words& words) {
  WorkReady event;
  words.read(words.next(), event.launcher);
  if (const auto kernels = words.option("kernels")) read_kernels(words, *kernels, event.kernels);
  event.pauses = words.take("pauses");
  if (const auto at = words.option("at")) words.read(*at, event.at);
  return event;
}

Event read_gap(Words& words) {
  GapBegun event;
  words.read(words.next(), event.launcher);
  words.read(words.next(), event.at);
  if (const auto after = words.option("after")) words.read(*after, event.after);
  if (const auto started = words.option("started")) words.read(*started, event.started);
  return event;
}

Event read_used(Words& words) {
  DeviceUsed event;
  words.read(words.next(), event.launcher);
  words.read(words.next(), event.device_time);
  return event;
}

Event read_gaps(Words& words) {
  GapsKnown event;
  words.read(words.next(), event.device);
  words.read(words.next(), event.function);
  if (const auto after = words.option("after")) words.read(*after, event.after);
  std::string_view rest = words.next();
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    words.read(rest.substr(0, comma), event.gaps.emplace_back());
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
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
      {"object-gone", [](Words& words) -> Event { return only_id(words, &ObjectGone::object); }},
      {"cancel", [](Words& words) -> Event { return only_id(words, &Cancel::request); }},
      {"keep", read_keep},
      {"fetched", read_fetched},
      {"loaded", read_loaded},
      {"unloaded", read_unloaded},
      {"trimmed", read_trimmed},
      {"started", [](Words& words) -> Event { return only_id(words, &Started::run); }},
      {"flight", read_flight},
      {"finished", read_finished},
      {"function-gone", [](Words& words) -> Event { return only_id(words, &FunctionGone::function); }},
      {"launcher-up", read_launcher_up},
      {"launcher-gone", [](Words& words) -> Event { return only_id(words, &LauncherGone::launcher); }},
      {"work-ready", read_ready},
      {"gap", read_gap},
      {"used", read_used},
      {"gaps", read_gaps},
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
    text += fmt::format("{}{}:{}{}", i ? "," : " objects=", show(objects[i].object),
                        exact(objects[i].bytes, kByteUnits), objects[i].passing ? kPassing : "");
  return text;
}

std::string show_makes(const std::vector<Made>& makes) {
  std::string text;
  for (size_t i = 0; i < makes.size(); ++i)
    text += fmt::format("{}{}:{}:{}", i ? "," : " makes=", show(makes[i].object), exact(makes[i].bytes, kByteUnits),
                        show(makes[i].stays));
  return text;
}

std::string show_quota(const Quota& quota) {
  return quota == Quota{} ? "" : fmt::format(" quota={}/{}/{}", quota.request, quota.limit, quota.units);
}

// r1:1GiB, or what became free for nobody.
std::string show_room(const std::optional<Room>& room) {
  if (!room) return "";
  return fmt::format(" room={}:{}", room->request ? show(*room->request) : "", exact(room->bytes, kByteUnits));
}

struct Show {
  std::string operator()(const DeviceUp& e) const {
    return fmt::format("device-up {} {}{}{}{}{}{}{}", show(e.device), exact(e.memory_bytes, kByteUnits),
                       e.context_bytes ? " context=" + exact(e.context_bytes, kByteUnits) : "",
                       e.in_place ? " in_place" : "", e.units > 1 ? fmt::format(" units={}", e.units.count) : "",
                       e.units.in_halves ? " in_halves" : "", e.classes ? "" : " no_classes",
                       e.shares_time ? " shares_time" : "");
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
    std::string suspects;
    for (const RunId run : e.suspects) suspects += (suspects.empty() ? " suspects=" : ",") + show(run);
    return fmt::format("executor-lost {}{}{}", show(e.executor), show_if("culprit=", e.culprit), suspects);
  }
  std::string operator()(const Submit& e) const {
    std::string text =
        fmt::format("submit {} {} {} {}", show(e.request), show(e.function), show(e.tenant), show(e.domain));
    const Submit plain;
    if (e.memory_bytes != 0) text += " memory=" + exact(e.memory_bytes, kByteUnits);
    text += show_objects(e.objects) + show_makes(e.makes);
    if (e.deadline != plain.deadline) text += " deadline=" + to_text(e.deadline);
    if (e.device_time != plain.device_time) text += " device_time=" + show(e.device_time);
    if (e.priority != plain.priority) text += fmt::format(" priority={}", e.priority);
    return text + show_quota(e.quota);
  }
  std::string operator()(const ObjectGone& e) const { return fmt::format("object-gone {}", show(e.object)); }
  std::string operator()(const Cancel& e) const { return fmt::format("cancel {}", show(e.request)); }
  std::string operator()(const Started& e) const { return fmt::format("started {}", show(e.run)); }
  std::string operator()(const Flight& e) const {
    std::string text = fmt::format("flight {}", show(e.device));
    for (const Flight::Launch& one : e.launches)
      text += fmt::format("{}{}:{}:{}:{}", &one == e.launches.data() ? " launches=" : ",", show(one.run), one.number,
                          to_text(one.since), show(one.used));
    return text;
  }
  std::string operator()(const Finished& e) const {
    return fmt::format("finished {}{}{}{}{}{}", show(e.run), e.failed ? " failed" : "", e.no_room ? " no_room" : "",
                       e.ends_executor ? " ends_executor" : "",
                       e.device_time.ns ? " device_time=" + show(e.device_time) : "",
                       e.started.ns ? " started=" + to_text(e.started) : "");
  }
  std::string operator()(const FunctionGone& e) const { return fmt::format("function-gone {}", show(e.function)); }
  std::string operator()(const LauncherUp& e) const {
    return fmt::format("launcher-up {} {} {}{}", show(e.launcher), show(e.device), show(e.function),
                       e.priority != LauncherUp{}.priority ? fmt::format(" priority={}", e.priority) : "") +
           show_quota(e.quota);
  }
  std::string operator()(const LauncherGone& e) const { return "launcher-gone " + show(e.launcher); }
  std::string operator()(const WorkReady& e) const {
    std::string text = "work-ready " + show(e.launcher);
    for (const KernelAhead& kernel : e.kernels)
      text += fmt::format("{}{}:{}{}", &kernel == e.kernels.data() ? " kernels=" : ",", kernel.identity,
                          show(kernel.time), kernel.sliceable ? ":cut" : "");
    return text + (e.pauses ? " pauses" : "") + (e.at.ns ? " at=" + to_text(e.at) : "");
  }
  std::string operator()(const GapBegun& e) const {
    return fmt::format("gap {} {}{}{}", show(e.launcher), to_text(e.at),
                       e.after ? fmt::format(" after={}", e.after) : "",
                       e.started.ns ? " started=" + to_text(e.started) : "");
  }
  std::string operator()(const DeviceUsed& e) const {
    return fmt::format("used {} {}", show(e.launcher), show(e.device_time));
  }
  std::string operator()(const GapsKnown& e) const {
    std::string text =
        fmt::format("gaps {} {}{}", show(e.device), show(e.function), e.after ? fmt::format(" after={}", e.after) : "");
    for (size_t i = 0; i < e.gaps.size(); ++i) text += (i ? "," : " ") + show(e.gaps[i]);
    return text;
  }
  std::string operator()(const Tick&) const { return "tick"; }

  std::string operator()(const StartExecutor& a) const {
    return fmt::format("start-executor {} {} {}{}", show(a.executor), show(a.device), show(a.domain),
                       show_if("own=", a.own_function));
  }
  std::string operator()(const KillExecutor& a) const {
    return fmt::format("kill-executor {}{}{}", show(a.executor), show_if("because=", a.because), show_room(a.room));
  }
  std::string operator()(const Load& a) const {
    return fmt::format("load {} {} {}", show(a.executor), show(a.object), exact(a.bytes, kByteUnits));
  }
  std::string operator()(const Unload& a) const {
    return fmt::format("unload {} {}{}", show(a.executor), show(a.object), show_room(a.room));
  }
  std::string operator()(const Fetch& a) const {
    return fmt::format("fetch {} {}", show(a.object), exact(a.bytes, kByteUnits));
  }
  std::string operator()(const Forget& a) const {
    return fmt::format("forget {}{}", show(a.object), show_room(a.room));
  }
  std::string operator()(const Prepare& a) const {
    return fmt::format("prepare {} {} {}", show(a.run), show(a.request), show(a.executor));
  }
  std::string operator()(const Trim& a) const {
    return fmt::format("trim {} lane={}{}", show(a.executor), a.lane, show_room(a.room));
  }
  std::string operator()(const Run& a) const {
    return fmt::format("run {} {} {} lane={}{}{}{}", show(a.run), show(a.request), show(a.executor), a.lane,
                       a.lane_bytes ? " memory=" + exact(a.lane_bytes, kByteUnits) : "",
                       a.units ? fmt::format(" units={}", a.units) : "",
                       a.first_unit ? fmt::format(" first_unit={}", a.first_unit) : "");
  }
  std::string operator()(const Grant& a) const {
    const std::string tells = fmt::format("{}{}", a.tells ? " tells" : "", a.meters ? " meters" : "");
    if (!a.open)
      return fmt::format("close {}{}{}", show(a.launcher), tells,
                         a.why > Grant::Why::kUrgent ? fmt::format(" because={}", name_of(a.why)) : "");
    std::string text = fmt::format("open {}{}", show(a.launcher), tells);
    if (a.from.ns) text += " from=" + to_text(a.from);
    if (a.until != Time::never()) text += " until=" + to_text(a.until);
    text += fmt::format(" depth={}", show(a.depth));
    if (a.launches != Grant{}.launches) text += fmt::format(" launches={}", a.launches);
    if (a.slice.ns) text += " slice=" + show(a.slice);
    if (a.beyond.ns) text += " beyond=" + show(a.beyond);
    if (a.overdraws) text += " overdraws";
    return text;
  }
  std::string operator()(const StopRun& a) const { return fmt::format("stop-run {}", show(a.run)); }
  std::string operator()(const AskFlight& a) const { return fmt::format("ask-flight {}", show(a.device)); }
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

}  // namespace quern::sched
