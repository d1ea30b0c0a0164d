// SPDX-License-Identifier: Apache-2.0
//
// What people ask of a running server: why a request took so long, what is in memory; and leases, which change the
// latter.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/suggest.h"
#include "daemon/story.h"
#include "server/http/handlers.h"
#include "server/http/setup_json.h"

namespace quern::server {
namespace {

namespace json = boost::json;

// One per cause, and for whom, that took any time.
json::array waits_json(const daemon::Waits& waits) {
  json::array out;
  for (size_t i = 0; i < daemon::kCauses; ++i) {
    const auto cause = static_cast<daemon::Cause>(i);
    if (cause != daemon::Cause::kUrgent && waits.time[i].ns > 0)
      out.push_back(json::object{{"cause", name_of(cause)}, {"ns", waits.time[i].ns}});
  }
  for (const auto& one : waits.urgent) {
    json::object wait = {{"cause", name_of(daemon::Cause::kUrgent)}, {"ns", one.time.ns}};
    if (!one.function.empty()) wait["for"] = one.function;
    out.push_back(std::move(wait));
  }
  return out;
}

json::object account_json(const daemon::RequestAccount& account) {
  return {{"runs", account.runs},           {"device_time_ns", account.device_time_ns},
          {"bytes_in", account.bytes_in},   {"bytes_out", account.bytes_out},
          {"loads", account.loads},         {"loaded_bytes", account.loaded_bytes},
          {"evictions", account.evictions}, {"evicted_bytes", account.evicted_bytes}};
}

json::object story_json(const daemon::Story& story) {
  const daemon::CallTimes& times = story.times;
  const auto after = [&](Time time) { return (time - times.submitted).ns; };
  json::object out = {{"id", story.status.id},
                      {"function", story.status.function},
                      {"state", story.status.state},
                      {"device", story.status.device},
                      {"end", story.status.end}};
  json::object moments;
  const Time placed = times.placed.ns != 0 ? times.placed : times.pushed;
  if (placed.ns != 0) moments["placed_ns"] = after(placed);
  if (times.pushed.ns != 0) moments["ready_ns"] = after(times.pushed);
  if (times.started.ns != 0) moments["started_ns"] = after(times.started);
  if (times.finished.ns != 0) moments["finished_ns"] = after(times.finished);
  if (times.answered.ns != 0) moments["answered_ns"] = after(times.answered);
  out["times"] = std::move(moments);
  out["device_time_ns"] = times.device_time_ns;
  out["account"] = account_json(story.account);
  out["gated_ns"] = times.waits.gated().ns;
  out["waits"] = waits_json(times.waits);
  if (times.whole)
    out["held_up"] = {{"kernel", times.whole->entry}, {"why", times.whole->why}, {"ns", times.whole->held.ns}};
  out["setup"] = setup_json(story.setup, times.submitted);
  out["sentences"] = json::array(story.sentences.begin(), story.sentences.end());
  return out;
}

json::object place_json(const daemon::MemoryPlace& place) {
  json::array items;
  for (const daemon::MemoryItem& item : place.items)
    items.push_back(json::object{{"kind", item.kind},
                                 {"name", item.name},
                                 {"function", item.function},
                                 {"tenant", item.tenant},
                                 {"bytes", item.bytes},
                                 {"state", item.state},
                                 {"pins", item.pins},
                                 {"since_ns", item.since.ns},
                                 {"why", item.why}});
  const uint64_t used = place.held_bytes + place.promised_bytes;
  return {{"name", place.name},
          {"is_host", place.is_host},
          {"memory_bytes", place.memory_bytes},
          {"held_bytes", place.held_bytes},
          {"pinned_bytes", place.pinned_bytes},
          {"promised_bytes", place.promised_bytes},
          {"leaving_bytes", place.leaving_bytes},
          {"free_bytes", place.memory_bytes > used ? place.memory_bytes - used : 0},
          {"others_bytes", place.others_bytes},
          {"blanks", place.blanks},
          {"blank_bytes", place.blank_bytes},
          {"items", std::move(items)}};
}

Result<KeepWarm> stage_of(std::string_view text) {
  if (text.empty()) return KeepWarm::kHot;
  const std::vector<std::string> known = {"context", "host", "hot"};
  const auto at = std::find(known.begin(), known.end(), text);
  if (at == known.end())
    return invalid(fmt::format("stage {}: there is none{}; write context, host or hot", text.substr(0, 32),
                               did_you_mean(text, known)));
  return static_cast<KeepWarm>(1 + (at - known.begin()));
}

Result<Duration> lease_of(std::string_view text) {
  if (text.empty()) return daemon::kUsualLease;
  const auto lease = parse_duration(text);
  if (!lease.ok() || lease->ns <= 0 || *lease > daemon::kLongestLease)
    return invalid(fmt::format("lease {}: write a time of at most {}, as 60s", text.substr(0, 32),
                               to_string(daemon::kLongestLease)));
  return *lease;
}

Task<Then> keep_at(Connection& connection, KeepWarm stage, Duration lease) {
  const std::string& function = connection.route().name;
  const Status kept = connection.daemon().keep(connection.tenant(), function, stage, lease);
  if (!kept.ok()) return connection.answer_failure(Failure(kept.error()));
  return connection.answer_json(
      answer_of({{"function", function}, {"stage", name_of(stage)}, {"lease_ns", lease.ns}}, 202));
}

}  // namespace

json::array setup_json(const std::vector<daemon::Phase>& phases, Time zero) {
  json::array out;
  for (const daemon::Phase& phase : phases)
    out.push_back(json::object{{"name", phase.name},
                               {"from_us", (phase.from - zero).ns / 1000},
                               {"to_us", (phase.to - zero).ns / 1000},
                               {"detail", phase.detail}});
  return out;
}

Task<Then> tell_why(Connection& connection) {
  co_return co_await connection.ask_and_answer<Result<daemon::Story>>(
      [&](auto done) { connection.daemon().why(connection.tenant(), connection.route().name, std::move(done)); },
      [](const daemon::Story& story) { return answer_of(story_json(story)); });
}

Task<Then> show_memory(Connection& connection) {
  co_return co_await connection.ask_and_answer<Result<std::vector<daemon::MemoryPlace>>>(
      [&](auto done) { connection.daemon().memory(connection.tenant(), std::move(done)); },
      [](const std::vector<daemon::MemoryPlace>& places) {
        json::array list;
        for (const daemon::MemoryPlace& place : places) list.push_back(place_json(place));
        return answer_of({{"places", std::move(list)}});
      });
}

Task<Then> keep_function(Connection& connection) {
  const std::string_view target = connection.head().target;
  const auto stage = stage_of(query_value(target, "stage"));
  if (!stage.ok()) return connection.answer_failure(Failure(stage.error()));
  const auto lease = lease_of(query_value(target, "for"));
  if (!lease.ok()) return connection.answer_failure(Failure(lease.error()));
  return keep_at(connection, *stage, *lease);
}

Task<Then> release_function(Connection& connection) { return keep_at(connection, KeepWarm::kNothing, Duration{0}); }

}  // namespace quern::server
