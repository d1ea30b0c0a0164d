// SPDX-License-Identifier: Apache-2.0
#include "client/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/monotonic_resource.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <optional>
#include <utility>

namespace quern::client {
namespace {

namespace json = boost::json;
using Kind = Timeline::Kind;

constexpr std::array<std::string_view, Timeline::kKinds> kNames = {"run",  "work", "kernel", "slice",
                                                                   "gate", "gap",  "load",   "executor"};
// A day: what is longer is no trace, and would not fit its nanoseconds.
constexpr double kLongestUs = 86'400e6;

struct Mistake {
  std::string text;
};

std::optional<Kind> kind_of(std::string_view category) {
  const auto found = std::find(kNames.begin(), kNames.end(), category);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Kind>(found - kNames.begin());
}

Duration time_of(const json::value& value) {
  const auto us = value.to_number<double>();
  if (!(us >= 0 && us <= kLongestUs)) throw Mistake{fmt::format("a time of {} us", us)};
  return {std::llround(us * 1000)};
}

// Events one by one: all of them as one JSON value would take ten times the room of the text.
class Reader {
 public:
  explicit Reader(std::string text) { timeline_.text = std::move(text); }

  Timeline read() {
    const std::string_view text = timeline_.text;
    constexpr std::string_view kList = "\"traceEvents\"";
    size_t at = text.find(kList);  // a quote within a name would have a backslash
    if (at != std::string_view::npos) at = text.find_first_not_of(" \t\r\n:", at + kList.size());
    if (at == std::string_view::npos || text[at] != '[') throw Mistake{"there are no traceEvents"};
    const size_t end = read_events(at + 1);
    read_rest(std::string(text.substr(0, at)) + "[]" + std::string(text.substr(end)));
    std::stable_sort(timeline_.spans.begin(), timeline_.spans.end(),
                     [](const auto& a, const auto& b) { return a.from < b.from; });
    std::stable_sort(timeline_.devices.begin(), timeline_.devices.end(),
                     [](const auto& a, const auto& b) { return a.process < b.process; });
    for (const Timeline::Span& span : timeline_.spans) timeline_.length = std::max(timeline_.length, span.to);
    return std::move(timeline_);
  }

 private:
  // Behind the bracket that ends the list.
  size_t read_events(size_t at) {
    const std::string_view text = timeline_.text;
    size_t begin = at;
    int depth = 0;
    for (bool in_string = false; at < text.size(); ++at) {
      const char c = text[at];
      if (in_string) {
        if (c == '\\') ++at;
        in_string = c != '"';
      } else if (c == '"') {
        in_string = true;
      } else if (c == '{' && ++depth == 1) {
        begin = at;
      } else if (c == '}' && --depth == 0) {
        read_event(begin, at + 1 - begin);
      } else if (c == ']' && depth == 0) {
        return at + 1;
      }
      if (depth < 0) break;
    }
    throw Mistake{"traceEvents does not end"};
  }

  void read_rest(const std::string& text) {
    const json::value rest = json::parse(text);
    const json::value& about = rest.at("otherData");
    if (about.at("program").as_string() != "quern") throw Mistake{"it is another program's"};
    timeline_.length = time_of(about.at("length_us"));
    timeline_.dropped = about.at("dropped").to_number<uint64_t>();
  }

  void read_event(size_t at, size_t size) {
    std::array<unsigned char, 4096> room;
    json::monotonic_resource memory(room.data(), room.size());
    const json::value event = json::parse(std::string_view(timeline_.text).substr(at, size), &memory);
    const std::string_view phase = event.at("ph").as_string();
    if (phase == "M") return read_name(event);
    const json::value* category = event.as_object().if_contains("cat");
    const auto kind = category ? kind_of(category->as_string()) : std::nullopt;
    if (!kind || (phase != "X" && phase != "i")) return;
    const auto row = rows_.find(event.at("tid").to_number<uint64_t>());
    if (row == rows_.end()) throw Mistake{"an event of a thread without a name"};
    Timeline::Span span;
    span.kind = *kind;
    span.row = row->second;
    span.from = span.to = time_of(event.at("ts"));
    if (phase == "X") span.to = span.from + time_of(event.at("dur"));
    span.at = at;
    span.size = size;
    const json::object& args = event.at("args").as_object();
    for (const char* key : {"function", "program"})
      if (const json::value* owner = args.if_contains(key)) span.owner = number_of(owner->as_string());
    if (const json::value* priority = args.if_contains("priority"); priority && span.owner != Timeline::kNone) {
      const auto level = priority->to_number<uint64_t>();
      const auto known = timeline_.priorities.try_emplace(span.owner, level).first;
      known->second = std::min(known->second, level);
    }
    if (*kind == Kind::kGap) {
      timeline_.gaps_length = timeline_.gaps_length + (span.to - span.from);
      timeline_.filled = timeline_.filled + time_of(args.at("filled_us"));
    }
    timeline_.spans.push_back(span);
  }

  void read_name(const json::value& event) {
    const std::string_view what = event.at("name").as_string();
    const auto process = event.at("pid").to_number<uint64_t>();
    const json::object& args = event.at("args").as_object();
    if (what == "process_name") timeline_.devices.push_back({process, std::string(args.at("name").as_string())});
    if (what != "thread_name") return;
    Timeline::Row row;
    row.process = process;
    row.name = args.at("name").as_string();
    const std::string_view kind = args.at("kind").as_string();
    row.kind = kind == "gate"      ? Timeline::Row::Kind::kGate
               : kind == "gaps"    ? Timeline::Row::Kind::kGaps
               : kind == "brought" ? Timeline::Row::Kind::kBrought
                                   : Timeline::Row::Kind::kLauncher;
    if (const json::value* launcher = args.if_contains("launcher")) row.launcher = launcher->to_number<uint64_t>();
    rows_[event.at("tid").to_number<uint64_t>()] = static_cast<uint32_t>(timeline_.rows.size());
    timeline_.rows.push_back(std::move(row));
  }

  uint32_t number_of(std::string_view name) {
    const auto [known, is_new] = numbers_.try_emplace(std::string(name), static_cast<uint32_t>(timeline_.names.size()));
    if (is_new) timeline_.names.emplace_back(name);
    return known->second;
  }

  Timeline timeline_;
  std::map<uint64_t, uint32_t> rows_;  // by thread
  std::map<std::string, uint32_t> numbers_;
};

Error no_trace(std::string_view why) {
  return invalid(fmt::format("trace: is none of quern's ({}); write one with 'quern trace -o FILE'", why));
}

}  // namespace

uint64_t Timeline::count(Kind kind) const {
  return static_cast<uint64_t>(
      std::count_if(spans.begin(), spans.end(), [&](const Span& span) { return span.kind == kind; }));
}

std::string_view name_of(Kind kind) { return kNames[static_cast<size_t>(kind)]; }

Result<Timeline> read_timeline(std::string text) try {
  return Reader(std::move(text)).read();
} catch (const Mistake& mistake) {
  return no_trace(mistake.text);
} catch (const std::exception& problem) {
  return no_trace(problem.what());
}

}  // namespace quern::client
