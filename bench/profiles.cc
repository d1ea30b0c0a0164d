// SPDX-License-Identifier: Apache-2.0
#include "bench/profiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <exception>
#include <optional>
#include <utility>

namespace quern::bench {
namespace {

namespace json = boost::json;

constexpr double kLongestKernelNs = 60e9;

/// The lines of a text, one after another, without their ends.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}

  std::optional<std::string_view> next() {
    if (text_.empty()) return std::nullopt;
    const size_t end = std::min(text_.find('\n'), text_.size());
    std::string_view line = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number_;
    return line;
  }
  size_t number() const { return number_; }

 private:
  std::string_view text_;
  size_t number_ = 0;
};

template <class T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The last `count` fields of a line: names may have commas in them.
template <size_t count>
std::optional<std::array<std::string_view, count>> last_fields(std::string_view line) {
  std::array<std::string_view, count> fields;
  for (size_t i = count; i-- > 0;) {
    const size_t comma = line.rfind(',');
    if (comma == line.npos) return std::nullopt;
    fields[i] = line.substr(comma + 1);
    line = line.substr(0, comma);
  }
  return fields;
}

}  // namespace

Result<std::vector<Duration>> parse_orion(const std::string& name, std::string_view text) {
  constexpr std::string_view kHead = "Name,Profile,Memory_footprint,SM_usage,Duration";
  // What stands where nothing was measured.
  constexpr double kPlaceholder = 7;
  Lines lines(text);
  if (lines.next() != kHead) return invalid(fmt::format("{}: does not begin with '{}'", name, kHead));
  std::vector<Duration> kernels;
  bool is_measured = false;
  while (const auto line = lines.next()) {
    if (line->empty()) continue;
    const auto fields = last_fields<4>(*line);
    const auto ns = fields ? number_in<double>((*fields)[3]) : std::nullopt;
    if (!ns || !(*ns > 0) || *ns > kLongestKernelNs || kernels.size() == kMostKernels)
      return invalid(fmt::format("{}: line {}: is no kernel", name, lines.number()));
    is_measured |= *ns != kPlaceholder;
    kernels.push_back({static_cast<int64_t>(*ns)});
  }
  if (kernels.empty()) return invalid(fmt::format("{}: has no kernel", name));
  if (!is_measured) return unsupported(fmt::format("{}: its durations were not measured", name));
  return kernels;
}

double RappModel::at(uint32_t sm, uint32_t quota) const {
  const auto quotas = ms.find(sm);
  if (quotas == ms.end()) return std::nan("");
  const auto found = quotas->second.find(quota);
  return found == quotas->second.end() ? std::nan("") : found->second;
}

Result<std::vector<RappModel>> parse_rapp(std::string_view text) {
  constexpr std::string_view kHead = "model,batch,sm_percent,quota_percent,latency_ms";
  Lines lines(text);
  if (lines.next() != kHead) return invalid(fmt::format("rapp-v100.csv: does not begin with '{}'", kHead));
  std::map<std::pair<std::string, uint32_t>, RappModel> models;
  const auto is_part = [](const std::optional<uint32_t>& percent) {
    return percent && *percent > 0 && *percent <= 100;
  };
  while (const auto line = lines.next()) {
    if (line->empty()) continue;
    const auto fields = last_fields<4>(*line);
    const auto wrong = [&] { return invalid(fmt::format("rapp-v100.csv: line {}: is no latency", lines.number())); };
    if (!fields) return wrong();
    const auto batch = number_in<uint32_t>((*fields)[0]), sm = number_in<uint32_t>((*fields)[1]);
    const auto quota = number_in<uint32_t>((*fields)[2]);
    const auto ms = number_in<double>((*fields)[3]);
    if (!batch || *batch == 0 || !is_part(sm) || !is_part(quota) || !ms || !(*ms > 0) || !std::isfinite(*ms))
      return wrong();
    const std::string name(line->substr(0, line->find(',')));
    RappModel& model = models[{name, *batch}];
    model.name = name;
    model.batch = *batch;
    model.ms[*sm][*quota] = *ms;
  }
  std::vector<RappModel> all;
  for (auto& [key, model] : models) all.push_back(std::move(model));
  return all;
}

// Whatever is missing or of another shape makes boost throw; none of it leaves this function.
Result<std::vector<Duration>> parse_reef(const std::string& name, std::string_view graph,
                                         std::string_view profile) try {
  const auto parse = [](std::string_view text) { return json::parse(json::string_view(text.data(), text.size())); };
  const json::value kernels = parse(graph).at("kernels"), latencies = parse(profile).at("kernel_latency");
  std::vector<Duration> all;
  for (const json::value& kernel : kernels.as_array()) {
    const double us = latencies.at(kernel.at("name").as_string()).at("total_latency").to_number<double>();
    if (!(us > 0) || us * 1e3 > kLongestKernelNs || all.size() == kMostKernels)
      return invalid(fmt::format("{}: a kernel takes {} us", name, us));
    all.push_back({static_cast<int64_t>(us * 1e3)});
  }
  if (all.empty()) return invalid(fmt::format("{}: has no kernel", name));
  return all;
} catch (const std::exception& problem) {
  return invalid(fmt::format("{}: {}", name, problem.what()));
}

std::vector<sim::KernelModel> with_gaps(const std::vector<Duration>& kernels, double share, size_t places) {
  const size_t count = kernels.size();
  if (places == 0 || places > count) places = count;
  double busy_ns = 0;
  for (const Duration kernel : kernels) busy_ns += static_cast<double>(kernel.ns);
  const auto gap = static_cast<int64_t>(busy_ns * share / (1 - share) / static_cast<double>(places));
  std::vector<sim::KernelModel> all;
  for (size_t i = 0; i < count; ++i) {
    // Every count / places kernels, rounded so that there are as many places as asked for.
    const bool is_place = (i + 1) * places / count > i * places / count;
    all.push_back({kernels[i], {is_place ? gap : 0}});
  }
  return all;
}

}  // namespace quern::bench
