// SPDX-License-Identifier: Apache-2.0
//
// From top to bottom: a title, a legend, then of each device a heading with the time, and its rows. A launcher's row
// has the bars of its runs, in them those of kernels, in them those of slices, and its gate below; where someone
// paused, a stripe goes through all rows.
#include "client/timeline_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "base/units.h"

namespace quern::client {
namespace {

namespace json = boost::json;
using Kind = Timeline::Kind;
using RowKind = Timeline::Row::Kind;

// Pixels.
constexpr double kWidth = 1200, kLeft = 190, kRight = 16, kPlot = kWidth - kLeft - kRight;
constexpr double kLauncherHeight = 56, kGapsHeight = 30, kBroughtHeight = 24, kHeading = 40;
constexpr double kLetter = 6.2;  // of the font, about
constexpr double kNarrow = 1;    // what is less is drawn together
constexpr size_t kMostOwners = 8, kMostLetters = 28;

constexpr std::string_view kStyle = R"(<style>
text{font:12px system-ui,sans-serif;fill:#222}
.title{font-size:16px;font-weight:600}.small{font-size:10.5px;fill:#666}.band{font-weight:600}
.in{font-size:10.5px;pointer-events:none}.on{font-size:10.5px;fill:#fff;pointer-events:none}
.grid{stroke:#0001}.frame{fill:none;stroke:#bbb}.head{fill:#eef0f3}
.run,.work{fill-opacity:.13}.whole{fill-opacity:.3}
.gate.open{fill:#b9e0b9}.gate.closed{fill:#e3857a}.gate.fills{fill:#f3c83c}
.pause{fill:#f5b800;fill-opacity:.09}.early{fill:#d9dde3}.pause,.filled,.early{pointer-events:none}
.gap{fill:#fff;stroke:#c48a00;stroke-dasharray:3 2}
.load,.executor{fill:#7a8699}.failed{fill:#c0392b}
)";
constexpr std::array<std::string_view, kMostOwners> kColours = {"#2f6db5", "#e07b1a", "#3c9a5f", "#8a55b0",
                                                                "#b8434a", "#1f9a9a", "#84812a", "#8b5e3c"};
constexpr std::string_view kOther = "another tenant", kOtherColour = "#8d9096";

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// By whole characters of UTF-8.
std::string shortened(std::string_view text, size_t most) {
  size_t count = 0, at = 0;
  for (; at < text.size(); ++at)
    if ((text[at] & 0xC0) != 0x80 && count++ == most) break;
  return at == text.size() ? std::string(text) : std::string(text.substr(0, at)) + "…";
}

std::string show(Duration time) { return show_time(static_cast<double>(time.ns)); }
std::string share(Duration part, Duration all) {
  return all.ns <= 0 ? "0 %"
                     : fmt::format("{:.0f} %", 100.0 * static_cast<double>(part.ns) / static_cast<double>(all.ns));
}

std::string text_of(const json::object& args, std::string_view key) {
  const json::value* value = args.if_contains(key);
  return value ? std::string(value->as_string()) : "";
}
uint64_t count_of(const json::object& args, std::string_view key) {
  const json::value* value = args.if_contains(key);
  return value ? value->to_number<uint64_t>() : 0;
}
Duration time_of(const json::object& args, std::string_view key) {
  const json::value* value = args.if_contains(key);
  return {value ? std::llround(value->to_number<double>() * 1000) : 0};
}
bool is_set(const json::object& args, std::string_view key) {
  const json::value* value = args.if_contains(key);
  return value && value->as_bool();
}

/// What a bar says on hover.
std::string tell(const Timeline::Span& span, const json::value& event) {
  const json::object& args = event.at("args").as_object();
  const std::string name(event.at("name").as_string());
  std::string owner = text_of(args, "function");
  if (owner.empty()) owner = text_of(args, "program");
  const std::string took = show(span.to - span.from);
  std::string told;
  switch (span.kind) {
    case Kind::kRun:
      told = fmt::format("run of {}, {}", owner, took);
      if (args.contains("priority")) told += fmt::format(", priority {}", count_of(args, "priority"));
      if (args.contains("request")) told += fmt::format("\nrequest {}", text_of(args, "request"));
      if (is_set(args, "began_before")) told += "\nit began before";
      if (is_set(args, "goes_on")) told += "\nit goes on";
      return told;
    case Kind::kWork:
      return fmt::format("program {} has work, {}\n{} on the device", owner, took, show(time_of(args, "device_us")));
    case Kind::kKernel:
      told = owner == name ? fmt::format("kernel of {}, {}", owner, took)
                           : fmt::format("kernel {} of {}, {}", name, owner, took);
      if (args.contains("slices")) told += fmt::format("\nin {} slices", count_of(args, "slices"));
      return told;
    case Kind::kSlice:
      return fmt::format("slice {} of {} of kernel {} of {}, {}\ngroups {} to {} of {}", count_of(args, "slice"),
                         count_of(args, "slices"), text_of(args, "kernel"), owner, took, count_of(args, "first"),
                         count_of(args, "first") + count_of(args, "parts"), count_of(args, "of"));
    case Kind::kGate:
      told = fmt::format("gate {}, {}", name, took);
      if (args.contains("from_us")) told += fmt::format("\nfrom {} on", show(time_of(args, "from_us")));
      if (args.contains("until_us")) told += fmt::format("\nuntil {}", show(time_of(args, "until_us")));
      if (args.contains("slice_us")) told += fmt::format("\nin slices of {}", show(time_of(args, "slice_us")));
      return told;
    case Kind::kGap:
      told = fmt::format("gap of {}, {}", owner, took);
      for (const json::value& filler : args.at("filled_by").as_array()) {
        const Duration time = time_of(filler.as_object(), "us");
        told += fmt::format("\n{} of it filled by {} ({})", share(time, span.to - span.from),
                            text_of(filler.as_object(), "name"), show(time));
      }
      if (args.at("filled_by").as_array().empty()) told += "\nnobody filled it";
      return told;
    case Kind::kLoad:
      told = fmt::format("{}, {}", name, took);
      if (args.contains("bytes")) told += ", " + show_bytes(count_of(args, "bytes"));
      if (is_set(args, "failed")) told += "\nit failed";
      return told;
    case Kind::kExecutor:
      return span.from == span.to ? name : fmt::format("{}, {}", name, took);
  }
  return told;
}

class Painter {
 public:
  Painter(const Timeline& timeline, Duration from, Duration to) : timeline_(timeline), from_(from), to_(to) {
    bars_.resize(timeline.rows.size());
    for (const Timeline::Span& span : timeline.spans) {
      const bool is_moment = span.from == span.to;
      if (span.from >= to && !(is_moment && span.from == to)) continue;
      if (span.to <= from && !(is_moment && span.from == from)) continue;
      bars_[span.row].push_back(&span);
    }
    choose_colours();
  }

  std::string paint() {
    double y = paint_head();
    for (const Timeline::Device& device : timeline_.devices) y = paint_band(device, y);
    if (timeline_.dropped > 0) {
      put(y += 18, kLeft, "small",
          fmt::format("{} spans more are not in the trace: there was no room for them", timeline_.dropped));
    }
    const double height = y + 14;
    std::string style(kStyle);
    for (size_t i = 0; i < kColours.size(); ++i) style += fmt::format(".c{0}{{fill:{1};stroke:{1}}}", i, kColours[i]);
    style +=
        fmt::format(".other{{fill:{0};stroke:{0}}}\n.kernel,.slice,.filled{{stroke:none}}</style>\n", kOtherColour);
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" viewBox=\"0 0 {0:g} "
               "{1:g}\">\n"
               "<!-- {2} of a trace of quern -->\n{3}<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
               kWidth, height, show(to_ - from_), style) +
           body_ + "</svg>\n";
  }

 private:
  using Bars = std::vector<const Timeline::Span*>;

  // The most urgent first, and whose priority nobody tells at last: others'.
  void choose_colours() {
    std::vector<uint32_t> owners;
    std::set<uint32_t> seen;
    for (const Bars& bars : bars_)
      for (const Timeline::Span* span : bars)
        if (span->owner != Timeline::kNone && seen.insert(span->owner).second) owners.push_back(span->owner);
    std::stable_sort(owners.begin(), owners.end(), [&](uint32_t a, uint32_t b) { return urgency(a) < urgency(b); });
    for (const uint32_t owner : owners) {
      if (timeline_.names[owner] == kOther) {
        has_others_ = true;
      } else if (owners_.size() == kMostOwners) {
        ++uncoloured_;
      } else {
        colours_[owner] = fmt::format("c{}", owners_.size());
        owners_.push_back(owner);
      }
    }
  }

  uint64_t urgency(uint32_t owner) const {
    const auto known = timeline_.priorities.find(owner);
    return known == timeline_.priorities.end() ? UINT64_MAX : known->second;
  }
  std::string colour_of(uint32_t owner) const {
    const auto known = colours_.find(owner);
    return known == colours_.end() ? "other" : known->second;
  }

  double x_of(Duration time) const {
    time = std::clamp(time, from_, to_);
    return kLeft + kPlot * static_cast<double>((time - from_).ns) / static_cast<double>((to_ - from_).ns);
  }
  std::back_insert_iterator<std::string> out() { return std::back_inserter(body_); }
  void put(double y, double x, std::string_view what, std::string_view text) {
    fmt::format_to(out(), "<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\">{}</text>\n", x, y, what, escape(text));
  }
  void box(double x, double y, double width, double height, std::string_view what) {
    fmt::format_to(out(), "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"{}\"/>\n", x, y,
                   width, height, what);
  }

  double paint_head() {
    const bool is_part = from_.ns > 0 || to_ < timeline_.length;
    put(26, 14, "title",
        is_part ? fmt::format("{} of {}, from {}", show(to_ - from_), show(timeline_.length), show(from_))
                : fmt::format("{} of what happened on the devices", show(to_ - from_)));
    double x = 14, y = 48;
    const auto entry = [&](std::string_view label, double marks, auto draw) {
      const double width = marks + 6 + kLetter * static_cast<double>(label.size()) + 18;
      if (x + width > kWidth - kRight) x = 14, y += 20;
      draw();
      put(y + 4, x + marks + 6, "", label);
      x += width;
    };
    for (const uint32_t owner : owners_) {
      const std::string& name = timeline_.names[owner];
      const uint64_t level = urgency(owner);
      entry(shortened(level == UINT64_MAX ? name : fmt::format("{} (priority {})", name, level), 60), 12,
            [&] { box(x, y - 6, 12, 12, "kernel " + colour_of(owner)); });
    }
    std::string rest(has_others_ ? kOther : "");
    if (uncoloured_ > 0) rest += fmt::format("{}{} more", has_others_ ? ", and " : "", uncoloured_);
    if (!rest.empty()) entry(rest, 12, [&] { box(x, y - 6, 12, 12, "kernel other"); });
    if (!owners_.empty() || !rest.empty()) x = 14, y += 22;
    const std::string one = owners_.empty() ? "other" : colour_of(owners_.back());
    entry("run", 22, [&] { box(x, y - 6, 22, 12, "run " + one); });
    entry("kernel", 22, [&] { box(x, y - 6, 22, 12, "kernel " + one); });
    entry("kernel in slices", 22, [&] {
      box(x, y - 6, 22, 12, "kernel whole " + one);
      for (const double at : {2.0, 7.0, 15.0}) box(x + at, y - 6, 4, 12, "slice " + one);
    });
    entry("gate open", 22, [&] { box(x, y - 6, 22, 12, "gate open"); });
    entry("opened to fill a gap", 22, [&] { box(x, y - 6, 22, 12, "gate fills"); });
    entry("opens later", 22, [&] { box(x, y - 6, 22, 12, "early"); });
    entry("gate closed", 22, [&] { box(x, y - 6, 22, 12, "gate closed"); });
    entry("gap, as high as it was filled", 22, [&] {
      box(x, y - 6, 22, 12, "gap");
      box(x, y - 2, 22, 8, "filled " + one);
    });
    entry("load", 22, [&] { box(x, y - 6, 22, 12, "load"); });
    return y + 22;
  }

  double height_of(const Timeline::Row& row) const {
    return row.kind == RowKind::kLauncher ? kLauncherHeight : row.kind == RowKind::kGaps ? kGapsHeight : kBroughtHeight;
  }

  // Launchers by who is the most urgent there, then gaps, then what is brought. A gate is in the row of its launcher.
  std::vector<uint32_t> rows_of(uint64_t process) const {
    std::vector<std::pair<std::tuple<RowKind, uint64_t>, uint32_t>> rows;
    for (uint32_t i = 0; i < timeline_.rows.size(); ++i) {
      const Timeline::Row& row = timeline_.rows[i];
      if (row.process != process || row.kind == RowKind::kGate || bars_[i].empty()) continue;
      uint64_t first = UINT64_MAX;
      for (const Timeline::Span* span : bars_[i])
        if (span->owner != Timeline::kNone) first = std::min(first, urgency(span->owner));
      rows.push_back({{row.kind, first}, i});
    }
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<uint32_t> numbers;
    for (const auto& [key, row] : rows) numbers.push_back(row);
    return numbers;
  }

  double paint_band(const Timeline::Device& device, double y) {
    std::vector<uint32_t> rows = rows_of(device.process);
    if (rows.empty() && device.name == "host") return y;  // that a device is idle says more
    const size_t left_out = rows.size() - std::min(rows.size(), kMostRows);
    rows.resize(rows.size() - left_out);
    double end = y + kHeading;
    for (const uint32_t row : rows) end += height_of(timeline_.rows[row]);
    if (rows.empty()) end += kBroughtHeight;
    box(0, y, kWidth, kHeading - 14, "head");
    put(y + 17, 14, "band", shortened(device.name, kMostLetters));
    paint_axis(y, end);
    double top = y + kHeading;
    if (rows.empty()) put(top + 16, kLeft, "small", "nothing happened here");
    paint_pauses(rows, top, end);
    for (const uint32_t row : rows) {
      paint_row(row, top);
      top += height_of(timeline_.rows[row]);
    }
    if (left_out > 0) put(end += 16, kLeft, "small", fmt::format("{} rows more are not drawn", left_out));
    return end + 16;
  }

  void paint_axis(double y, double end) {
    // Of 1, 2 and 5 times a power of ten, the first that leaves room for its numbers.
    const double least = static_cast<double>((to_ - from_).ns) * 90 / kPlot;
    int64_t step = 1;
    for (size_t i = 0; static_cast<double>(step) < least; ++i) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
    for (int64_t at = (from_.ns + step - 1) / step * step; at <= to_.ns; at += step) {
      const double x = x_of({at});
      fmt::format_to(out(), "<path class=\"grid\" d=\"M{0:.1f} {1:.1f}V{2:.1f}\"/>\n", x, y + kHeading - 14, end);
      const std::string label = step >= 1'000'000'000 ? fmt::format("{} s", at / 1'000'000'000)
                                : step >= 1'000'000   ? fmt::format("{} ms", at / 1'000'000)
                                : step >= 1'000       ? fmt::format("{:g} ms", static_cast<double>(at / 1'000) / 1000)
                                                      : fmt::format("{} ns", at);
      if (x < kWidth - 50) put(y + 17, x + 3, "small", label);
    }
  }

  void paint_row(uint32_t number, double y) {
    const Timeline::Row& row = timeline_.rows[number];
    const double height = height_of(row);
    std::array<Bars, Timeline::kKinds> bars;
    for (const Timeline::Span* span : bars_[number]) bars[static_cast<size_t>(span->kind)].push_back(span);
    const auto of = [&](Kind kind) -> const Bars& { return bars[static_cast<size_t>(kind)]; };
    if (row.kind == RowKind::kLauncher) {
      put(y + 24, 14, "", shortened(owners_of(bars_[number]), kMostLetters));
      put(y + 38, 14, "small", shortened(row.name, kMostLetters + 4));
      for (const Kind kind : {Kind::kRun, Kind::kWork}) paint_bars(of(kind), y + 4, 38);
      for (const Kind kind : {Kind::kKernel, Kind::kSlice}) paint_bars(of(kind), y + 17, 22);
      if (const auto gate = gate_of(row)) paint_bars(bars_[*gate], y + 45, 8);
    } else if (row.kind == RowKind::kGaps) {
      Duration length{0}, filled{0};
      for (const Timeline::Span* span : of(Kind::kGap)) {
        length = length + (span->to - span->from);
        filled = filled + time_of(event_of(*span).at("args").as_object(), "filled_us");
      }
      put(y + 14, 14, "", shortened("gaps of " + owners_of(bars_[number]), kMostLetters));
      put(y + 26, 14, "small", fmt::format("{} of them filled", share(filled, length)));
      paint_bars(of(Kind::kGap), y + 4, height - 8);
    } else {
      put(y + 16, 14, "small", shortened(row.name, kMostLetters + 4));
      for (const Kind kind : {Kind::kExecutor, Kind::kLoad}) paint_bars(of(kind), y + 4, height - 8);
    }
    box(kLeft, y, kPlot, height, "frame");
  }

  std::string owners_of(const Bars& bars) const {
    std::vector<uint32_t> owners;
    for (const Timeline::Span* span : bars)
      if (span->owner != Timeline::kNone && std::find(owners.begin(), owners.end(), span->owner) == owners.end()) {
        owners.push_back(span->owner);
        if (owners.size() > kMostOwners) break;
      }
    std::string text;
    for (size_t i = 0; i < std::min<size_t>(owners.size(), 3); ++i)
      text += (i > 0 ? ", " : "") + timeline_.names[owners[i]];
    return owners.size() > 3 ? text + ", …" : text;
  }

  std::optional<uint32_t> gate_of(const Timeline::Row& row) const {
    if (row.kind != RowKind::kLauncher) return std::nullopt;
    for (uint32_t i = 0; i < timeline_.rows.size(); ++i) {
      const Timeline::Row& one = timeline_.rows[i];
      if (one.kind == RowKind::kGate && one.launcher == row.launcher && one.process == row.process) return i;
    }
    return std::nullopt;
  }

  json::value event_of(const Timeline::Span& span) const { return json::parse(timeline_.event_of(span)); }

  // Bars of one kind, in the order of time. Of two that begin in one pixel and are narrower the second is drawn with
  // the first, whosever it is: so there are at most two bars for each pixel.
  void paint_bars(const Bars& bars, double y, double height) {
    for (size_t i = 0; i < bars.size();) {
      const double x = x_of(bars[i]->from);
      double end = x_of(bars[i]->to);
      size_t next = i + 1;
      while (next < bars.size() && end - x < kNarrow && x_of(bars[next]->from) - x < kNarrow &&
             x_of(bars[next]->to) - x_of(bars[next]->from) < kNarrow)
        end = std::max(end, x_of(bars[next++]->to));
      paint_bar({bars.begin() + static_cast<ptrdiff_t>(i), bars.begin() + static_cast<ptrdiff_t>(next)}, x,
                std::max(end - x, 0.3), y, height);
      i = next;
    }
  }

  void paint_bar(const Bars& bars, double x, double width, double y, double height) {
    const Timeline::Span& span = *bars.front();
    const json::value event = event_of(span);
    const json::object& args = event.at("args").as_object();
    std::string look(name_of(span.kind));
    switch (span.kind) {
      case Kind::kKernel:
        if (args.contains("slices")) look += " whole";
        [[fallthrough]];
      case Kind::kRun:
      case Kind::kWork:
      case Kind::kSlice:
        look += " " + colour_of(span.owner);
        break;
      case Kind::kGate:
        look += !is_set(args, "open") ? " closed" : is_set(args, "fills") ? " fills" : " open";
        break;
      case Kind::kLoad:
      case Kind::kExecutor:
        if (is_set(args, "failed") || (span.kind == Kind::kExecutor && span.from == span.to)) look += " failed";
        break;
      case Kind::kGap:
        break;
    }
    std::string told = tell(span, event), count;
    if (bars.size() > 1) {
      Duration all{0};
      for (const Timeline::Span* one : bars) all = all + (one->to - one->from);
      told = fmt::format("{} of them, {} in all; the first:\n{}", bars.size(), show(all), told);
      count = fmt::format(" data-spans=\"{}\"", bars.size());
    }
    // Slices that follow on each other are to be told apart.
    if (span.kind == Kind::kSlice) width -= std::min(0.4, width / 4);
    fmt::format_to(out(),
                   "<rect x=\"{:.1f}\" y=\"{:g}\" width=\"{:.1f}\" height=\"{:g}\" class=\"{}\"{}><title>{} to {}: "
                   "{}</title></rect>\n",
                   x, y, width, height, look, count, show(span.from), show(span.to), escape_lines(told));
    if (bars.size() == 1) paint_inside(span, event, x, width, y, height);
  }

  static std::string escape_lines(std::string_view text) {
    std::string out;
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      out += (at > 0 ? "\n" : "") + escape(text.substr(at, end - at));
      at = end + 1;
    }
    return out;
  }

  void paint_inside(const Timeline::Span& span, const json::value& event, double x, double width, double y,
                    double height) {
    const std::string name(event.at("name").as_string());
    const double room = width - 6;
    const auto fits = [&](std::string_view text) { return kLetter * static_cast<double>(text.size()) < room; };
    if (span.kind == Kind::kGap) {
      double bottom = y + height;
      for (const json::value& filler : event.at("args").at("filled_by").as_array()) {
        const Duration time = time_of(filler.as_object(), "us");
        const double part = height * static_cast<double>(time.ns) / static_cast<double>((span.to - span.from).ns);
        const std::string by = text_of(filler.as_object(), "name");
        const auto owner = std::find(timeline_.names.begin(), timeline_.names.end(), by);
        bottom -= std::min(part, bottom - y);
        box(x, bottom, width, std::min(part, height),
            "filled " + colour_of(static_cast<uint32_t>(owner - timeline_.names.begin())));
      }
    } else if (span.kind == Kind::kGate) {
      const auto& args = event.at("args").as_object();
      if (args.contains("from_us")) {
        const double opens = x_of(std::min(time_of(args, "from_us"), span.to));
        if (opens > x) box(x, y, opens - x, height, "early");
      }
    } else if (span.kind == Kind::kRun && fits(name)) {
      put(y + 11, x + 3, "in", name);
    } else if ((span.kind == Kind::kKernel || span.kind == Kind::kLoad) && fits(name)) {
      const bool is_pale = event.at("args").as_object().contains("slices");
      if (!is_pale) put(y + height / 2 + 4, x + 3, "on", name);
    }
  }

  // Behind the bars.
  void paint_pauses(const std::vector<uint32_t>& rows, double top, double bottom) {
    Bars gaps;
    for (const uint32_t row : rows)
      if (timeline_.rows[row].kind == RowKind::kGaps) gaps.insert(gaps.end(), bars_[row].begin(), bars_[row].end());
    std::stable_sort(gaps.begin(), gaps.end(), [](const auto* a, const auto* b) { return a->from < b->from; });
    double last = kLeft;
    for (const Timeline::Span* gap : gaps) {
      const double x = std::max(x_of(gap->from), last), end = x_of(gap->to);
      if (end - x < kNarrow) continue;
      box(x, top, end - x, bottom - top, "pause");
      last = end;
    }
  }

  const Timeline& timeline_;
  const Duration from_, to_;
  std::vector<Bars> bars_;  // by row
  std::vector<uint32_t> owners_;
  std::map<uint32_t, std::string> colours_;
  bool has_others_ = false;
  size_t uncoloured_ = 0;  // functions past those that have a colour
  std::string body_;
};

}  // namespace

Result<std::string> timeline_svg(const Timeline& timeline, Duration from, Duration length) {
  if (length.ns <= 0) return invalid(fmt::format("length {}: write more than 0", to_string(length)));
  if (from.ns < 0 || (from >= timeline.length && from.ns > 0))
    return invalid(fmt::format("begin {}: the trace is {} long", to_string(from), show(timeline.length)));
  // One that ended at once still has a width.
  const Duration end = std::max(timeline.length, Duration{1});
  try {
    return Painter(timeline, from, length < end - from ? from + length : end).paint();
  } catch (const std::exception& problem) {
    return invalid(fmt::format("trace: has an event that cannot be drawn ({})", problem.what()));
  }
}

}  // namespace quern::client
