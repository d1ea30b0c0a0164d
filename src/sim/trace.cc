// SPDX-License-Identifier: Apache-2.0
#include "sim/trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "base/printable.h"
#include "base/suggest.h"
#include "sim/draws.h"

namespace quern::sim {
namespace {

constexpr size_t kMostTold = 5;
enum Column : size_t { kWhen, kTook, kGroup, kCheckpoint, kColumns };
const std::vector<std::string>& column_names() {
  static const std::vector<std::string> names{"gmt_create", "exec_time_seconds", "groupId",
                                              "checkpoint_model_version_id"};
  return names;
}

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  while (true) {
    const size_t comma = line.find(',');
    cells.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

// Days since 1970-01-01 of a date of the Gregorian calendar.
int64_t days_of(int64_t year, int64_t month, int64_t day) {
  year -= month <= 2;
  const int64_t era = year / 400, year_of_era = year - era * 400;
  const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

std::optional<int64_t> digits(std::string_view text, size_t at, size_t count, int64_t least, int64_t most) {
  int64_t value = 0;
  const char* begin = text.data() + at;
  const auto [rest, problem] = std::from_chars(begin, begin + count, value);
  if (problem != std::errc() || rest != begin + count || value < least || value > most) return std::nullopt;
  return value;
}

std::optional<int64_t> seconds_of(std::string_view text) {
  if (text.size() != 19 || text[4] != '-' || text[7] != '-' || text[10] != ' ' || text[13] != ':' || text[16] != ':')
    return std::nullopt;
  const auto year = digits(text, 0, 4, 1970, 9999), month = digits(text, 5, 2, 1, 12), day = digits(text, 8, 2, 1, 31);
  const auto hour = digits(text, 11, 2, 0, 23), minute = digits(text, 14, 2, 0, 59),
             second = digits(text, 17, 2, 0, 60);
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  return days_of(*year, *month, *day) * 86400 + *hour * 3600 + *minute * 60 + *second;
}

bool is_word(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !text.empty() && text.size() <= 63 && std::all_of(text.begin(), text.end(), plain);
}

struct Call {
  int64_t seconds = 0;
  Duration took;
  std::string_view group, checkpoint;
};

class TraceReader {
 public:
  Status read_heading(std::string_view line) {
    const auto cells = cells_of(line);
    std::vector<std::string> given;
    for (const std::string_view cell : cells) given.push_back(printable(cell.substr(0, 64)));
    for (size_t column = 0; column < kColumns; ++column) {
      const std::string& name = column_names()[column];
      const auto found = std::find(cells.begin(), cells.end(), name);
      if (found == cells.end())
        return invalid(fmt::format("1: there is no column '{}'{}; a trace has {}", name, did_you_mean(name, given),
                                   fmt::join(column_names(), ", ")));
      places_[column] = static_cast<size_t>(found - cells.begin());
    }
    return {};
  }

  /// What is wrong with the row; "" if nothing is.
  std::string read_row(std::string_view line, Call& call) const {
    const auto cells = cells_of(line);
    const auto cell = [&](Column column) {
      return places_[column] < cells.size() ? cells[places_[column]] : std::string_view();
    };
    const auto wrong = [&](Column column, std::string_view what) {
      return fmt::format("{} '{}' {}", column_names()[column], printable(cell(column).substr(0, 40)), what);
    };
    const auto seconds = seconds_of(cell(kWhen));
    if (!seconds) return wrong(kWhen, "is no time");
    call.seconds = *seconds;
    double took = 0;
    const std::string_view text = cell(kTook);
    const auto [rest, problem] =
        std::from_chars(text.data(), text.data() + text.size(), took, std::chars_format::fixed);
    if (problem != std::errc() || rest != text.data() + text.size() || !(took > 0) || took > 1e8)
      return wrong(kTook, "is no length of time above 0");
    call.took = whole_duration(took * 1e9);
    call.group = cell(kGroup);
    if (!is_word(call.group)) return wrong(kGroup, "is no name");
    call.checkpoint = cell(kCheckpoint);
    if (!is_word(call.checkpoint)) return wrong(kCheckpoint, "is no name");
    return "";
  }

 private:
  std::array<size_t, kColumns> places_{};
};

class TraceBuilder {
 public:
  TraceBuilder(const TraceOptions& options, Model& model) : options_(options), model_(model) {}

  void add(const Call& call, int64_t first_seconds) {
    const Time at{static_cast<int64_t>(static_cast<double>(call.seconds - first_seconds) * 1e9 * options_.time_scale)};
    LoadModel& load = model_.loads[load_of(call)];
    load.times.push_back(at);
    load.device_times.push_back(call.took);
    last_ = std::max(last_, at);
  }
  Time finish() {
    for (const auto& [key, index] : loads_) {
      const LoadModel& load = model_.loads[index];
      double sum = 0;
      for (const Duration took : load.device_times) sum += static_cast<double>(took.ns);
      model_.functions[load.function].device_time = whole_duration(sum / static_cast<double>(load.times.size()));
    }
    return last_;
  }

 private:
  uint32_t tenant_of(std::string_view group) {
    const auto [at, is_new] = tenants_.try_emplace(group, static_cast<uint32_t>(model_.tenants.size()));
    if (is_new) model_.tenants.emplace_back().name = group;
    return at->second;
  }
  uint32_t object_of(std::string_view checkpoint) {
    const auto [at, is_new] = objects_.try_emplace(checkpoint, static_cast<uint32_t>(model_.objects.size()));
    if (is_new) model_.objects.push_back({std::string(checkpoint), options_.object_bytes});
    return at->second;
  }
  size_t load_of(const Call& call) {
    const auto [at, is_new] = loads_.try_emplace(std::pair{call.group, call.checkpoint}, model_.loads.size());
    if (!is_new) return at->second;
    FunctionModel function;
    function.name = call.checkpoint;
    function.tenant = tenant_of(call.group);
    function.memory_bytes = options_.memory_bytes;
    function.objects = {object_of(call.checkpoint)};
    LoadModel load;
    load.kind = LoadModel::Kind::kTrace;
    load.function = static_cast<uint32_t>(model_.functions.size());
    model_.functions.push_back(std::move(function));
    model_.loads.push_back(std::move(load));
    return at->second;
  }

  const TraceOptions& options_;
  Model& model_;
  std::map<std::string_view, uint32_t> tenants_, objects_;
  std::map<std::pair<std::string_view, std::string_view>, size_t> loads_;
  Time last_;
};

}  // namespace

Result<TraceRead> add_trace(std::string_view text, const TraceOptions& options, Model& model) {
  TraceReader reader;
  TraceRead read;
  std::vector<Call> calls;
  for (uint64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (number == 1) {
      QUERN_TRY(reader.read_heading(line));
      continue;
    }
    if (line.empty()) continue;
    if (options.most_rows != 0 && calls.size() >= options.most_rows) break;
    Call call;
    const std::string wrong = reader.read_row(line, call);
    if (wrong.empty()) {
      calls.push_back(call);
      continue;
    }
    ++read.skipped;
    if (read.why.size() < kMostTold) read.why.push_back(fmt::format("{}: {}", number, wrong));
  }
  if (calls.empty())
    return invalid(fmt::format("{}; there is no row of which calls can be made",
                               read.why.empty() ? "1: holds no rows" : read.why.front()));
  std::stable_sort(calls.begin(), calls.end(), [](const Call& a, const Call& b) { return a.seconds < b.seconds; });
  TraceBuilder builder(options, model);
  for (const Call& call : calls) builder.add(call, calls.front().seconds);
  read.rows = calls.size();
  read.last = builder.finish();
  return read;
}

}  // namespace quern::sim
