// SPDX-License-Identifier: Apache-2.0
#include "sched/text.h"
#include "sched/words.h"

namespace quern::sched {
namespace {

using namespace words;

// The one list of settings: read by parse_config, written by to_text.
template <class C, class F>
void each_setting(C& config, F&& with) {
  with("lanes", config.lanes);
  with("runs_in_flight", config.runs_in_flight);
  with("levels_in_flight", config.levels_in_flight);
  with("spare_lanes", config.spare_lanes);
  with("spare_levels", config.spare_levels);
  with("most_queued", config.most_queued);
  with("most_queued_per_tenant", config.most_queued_per_tenant);
  with("most_queued_per_function", config.most_queued_per_function);
  with("most_attempts", config.most_attempts);
  with("stop_grace", config.stop_grace);
  with("prepare_grace", config.prepare_grace);
  with("flight_sample", config.flight_sample);
  with("own_executor_runs", config.own_executor_runs);
  with("quarantine_after", config.quarantine_after);
  with("quarantine", config.quarantine);
  with("locality", config.locality);
  with("first_estimate", config.first_estimate);
  with("granularity_bytes", config.granularity_bytes);
  with("rent_second", config.rent_second);
  with("keep_alive", config.keep_alive);
  with("room_back", config.room_back);
  with("depth", config.depth);
  with("shared_depth", config.shared_depth);
  with("slice", config.slice);
  with("probe_slice", config.probe_slice);
  with("soft_slice", config.soft_slice);
  with("shortest_gap", config.shortest_gap);
  with("launch_latency", config.launch_latency);
  with("least_share", config.least_share);
  with("best_effort", config.best_effort);
  with("window", config.window);
  with("unit_turn", config.unit_turn);
  with("fairness", config.policy.fairness);
  with("placement", config.policy.placement);
  with("eviction", config.policy.eviction);
  with("setup", config.policy.setup);
  with("exit", config.policy.exit);
  with("dispatch", config.policy.dispatch);
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
