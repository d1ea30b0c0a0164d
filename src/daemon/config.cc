// SPDX-License-Identifier: Apache-2.0
#include "daemon/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "base/suggest.h"
#include "base/units.h"
#include "function/manifest.h"
#include "function/yaml_tree.h"
#include "os/shared_memory.h"
#include "sched/policy/table.h"

namespace quern::daemon {
namespace {

constexpr size_t kMostDevices = 64, kMostTenants = 4096;
constexpr int64_t kMostCores = 1024, kMostWeight = 10'000, kMostRequests = 65536, kLeastUrgent = 9, kMostBlanks = 64;

constexpr double kMostLeastShare = 0.1;
constexpr double kMostTime = kMostDevices;  // all of each

/// Reads on after a mistake, so that all of them are told at once. What is wrong keeps its default.
class ConfigReader {
 public:
  explicit ConfigReader(const std::string& file) : file_(file) {}

  Config read(const YamlNode& root) {
    Config config;
    if (root.is_null()) return config;
    if (!is_map(root, file_)) return config;
    refuse_unknown(
        root, file_,
        {"devices", "tenants", "policy", "host_memory", "storage", "pool", "classes", "least_share", "build_limit"});
    each(root, "devices", kMostDevices, [&](const YamlNode& node) { config.devices.push_back(read_device(node)); });
    each(root, "tenants", kMostTenants, [&](const YamlNode& node) { config.tenants.push_back(read_tenant(node)); });
    if (const YamlNode* policy = root.find("policy")) config.policy = read_policy(*policy);
    config.host_bytes = read_bytes(root, file_, "host_memory", "half of what the machine has");
    if (const uint64_t bytes = read_bytes(root, file_, "storage", "64GiB"); bytes > 0) config.storage_bytes = bytes;
    if (const YamlNode* pool = root.find("pool"))
      config.pool = static_cast<uint32_t>(whole(*pool, file_ + ": pool", 0, kMostBlanks).value_or(config.pool));
    if (const auto classes = scalar(root, file_, "classes")) {
      config.classes = *classes == "true";
      if (*classes != "true" && *classes != "false")
        mistake(root.find("classes")->line,
                fmt::format("classes '{}' is neither true nor false", classes->substr(0, 32)));
    }
    if (const auto share = read_share(root, file_, "least_share", kMostLeastShare, "0.01"))
      config.least_share = static_cast<uint32_t>(std::lround(*share * 1000));
    if (const auto limit = scalar(root, file_, "build_limit")) {
      const auto parsed = parse_duration(*limit);
      if (parsed.ok() && parsed->ns > 0)
        config.build_limit = *parsed;
      else
        mistake(root.find("build_limit")->line,
                fmt::format("build_limit '{}' is no length of time; write one as 60s", limit->substr(0, 32)));
    }
    return config;
  }
  void mistake(int line, const std::string& text) { mistakes_.emplace_back(line, text); }
  /// In order of line; empty if there are none.
  std::string text() {
    std::stable_sort(mistakes_.begin(), mistakes_.end(), [](auto& a, auto& b) { return a.first < b.first; });
    std::vector<std::string> lines;
    for (const auto& [line, what] : mistakes_) lines.push_back(fmt::format("{}:{}: error: {}", file_, line, what));
    return fmt::format("{}", fmt::join(lines, "\n"));
  }

 private:
  bool is_map(const YamlNode& node, std::string_view what) {
    if (!node.is_map()) mistake(node.line, fmt::format("{}: is {}; write keys and values", what, node.kind_name()));
    return node.is_map();
  }

  void refuse_unknown(const YamlNode& map, std::string_view what, const std::vector<std::string>& known) {
    for (size_t i = 0; i + 1 < map.children.size(); i += 2) {
      const YamlNode& key = map.children[i];
      if (std::find(known.begin(), known.end(), key.text) == known.end())
        mistake(key.line, fmt::format("{}: '{}' is no key{}; known are {}", what, key.text.substr(0, 64),
                                      did_you_mean(key.text, known), fmt::join(known, ", ")));
    }
  }

  template <class F>
  void each(const YamlNode& root, std::string_view key, size_t most, F&& work) {
    const YamlNode* list = root.find(key);
    if (!list) return;
    if (!list->is_sequence())
      return mistake(list->line, fmt::format("{}: is {}; write a list, as in [{{name: …}}]", key, list->kind_name()));
    if (list->children.empty()) return mistake(list->line, fmt::format("{}: is empty; leave it out, or name one", key));
    if (list->children.size() > most)
      return mistake(list->line, fmt::format("{}: has {} entries; at most {}", key, list->children.size(), most));
    for (const YamlNode& node : list->children) work(node);
  }

  std::optional<std::string> scalar(const YamlNode& map, std::string_view what, std::string_view key) {
    const YamlNode* node = map.find(key);
    if (!node) return std::nullopt;
    if (!node->is_scalar()) {
      mistake(node->line, fmt::format("{}: {} is {}; write one value", what, key, node->kind_name()));
      return std::nullopt;
    }
    return node->text;
  }

  std::optional<int64_t> whole(const YamlNode& node, std::string_view what, int64_t least, int64_t most) {
    int64_t value = 0;
    const char* end = node.text.data() + node.text.size();
    const auto [rest, problem] = std::from_chars(node.text.data(), end, value);
    if (node.is_scalar() && problem == std::errc() && rest == end && value >= least && value <= most) return value;
    mistake(node.line,
            fmt::format("{}: {} is no whole number from {} to {}", what,
                        node.is_scalar() ? "'" + node.text.substr(0, 32) + "'" : node.kind_name(), least, most));
    return std::nullopt;
  }

  /// The name of a device or tenant, known from here on; `what` is how mistakes call the entry.
  std::string read_name(const YamlNode& node, std::string& what, std::set<std::string>& taken) {
    const auto name = scalar(node, what, "name");
    if (!name) {
      if (!node.find("name")) mistake(node.line, fmt::format("{}: has no name; write name: …", what));
      return "";
    }
    if (!is_function_name(*name))
      mistake(node.find("name")->line,
              fmt::format("{}: name '{}' is none; use a-z, 0-9, '.', '_', '-', at most 63", what, name->substr(0, 80)));
    else if (!taken.insert(*name).second)
      mistake(node.find("name")->line, fmt::format("{}: name '{}' is given twice", what, *name));
    what += " " + *name;
    return *name;
  }

  void read_cores(const YamlNode& node, const std::string& what, std::vector<int>& cores) {
    if (!node.is_sequence() || node.children.empty())
      return mistake(node.line, fmt::format("{}: cores is {}; write a list, as in [0, 1]", what,
                                            node.is_sequence() ? "empty" : node.kind_name()));
    for (const YamlNode& core : node.children) {
      const auto number = whole(core, what + ": cores", 0, kMostCores - 1);
      if (!number) continue;
      if (std::find(cores.begin(), cores.end(), *number) != cores.end())
        mistake(core.line, fmt::format("{}: core {} is given twice", what, *number));
      else
        cores.push_back(static_cast<int>(*number));
    }
  }

  /// 0 if it is left out; written as 0 it is a mistake.
  uint64_t read_bytes(const YamlNode& node, std::string_view what, std::string_view key, std::string_view default_is) {
    const auto text = scalar(node, what, key);
    if (!text) return 0;
    const auto bytes = parse_bytes(*text);
    if (bytes.ok() && *bytes > 0) return *bytes;
    mistake(node.find(key)->line, bytes.ok() ? fmt::format("{}: {} is 0; leave it out for {}", what, key, default_is)
                                             : fmt::format("{}: {} {}", what, key, bytes.error().text));
    return 0;
  }

  DeviceConfig read_device(const YamlNode& node) {
    DeviceConfig device;
    std::string what = "device";
    if (!is_map(node, what)) return device;
    device.name = read_name(node, what, device_names_);
    refuse_unknown(node, what,
                   {"name", "driver", "platform", "index", "library", "cores", "memory", "context_memory", "in_place"});
    if (const auto driver = scalar(node, what, "driver")) {
      const std::vector<std::string> known{"opencl", "fake"};
      if (std::find(known.begin(), known.end(), *driver) == known.end())
        mistake(node.find("driver")->line, fmt::format("{}: driver '{}' is none{}; known are opencl, fake", what,
                                                       driver->substr(0, 32), did_you_mean(*driver, known)));
      device.driver = *driver;
    }
    if (const auto platform = scalar(node, what, "platform")) device.platform = platform->substr(0, 256);
    if (const auto library = scalar(node, what, "library")) {
      if (!library->starts_with('/'))
        mistake(node.find("library")->line,
                fmt::format("{}: library '{}' is no path; write the whole path of the library that the driver opens",
                            what, library->substr(0, 80)));
      device.library = *library;
    }
    if (const YamlNode* index = node.find("index"))
      device.index = static_cast<uint32_t>(whole(*index, what + ": index", 0, 255).value_or(0));
    if (const YamlNode* cores = node.find("cores")) read_cores(*cores, what, device.cores);
    device.memory_bytes = read_bytes(node, what, "memory", "what the device says");
    device.context_bytes = read_bytes(node, what, "context_memory", "none");
    if (const auto in_place = scalar(node, what, "in_place")) {
      if (*in_place != "true" && *in_place != "false")
        mistake(node.find("in_place")->line,
                fmt::format("{}: in_place '{}' is neither true nor false", what, in_place->substr(0, 32)));
      device.in_place = *in_place != "false";
    }
    return device;
  }

  TenantConfig read_tenant(const YamlNode& node) {
    TenantConfig tenant;
    std::string what = "tenant";
    if (!is_map(node, what)) return tenant;
    tenant.name = read_name(node, what, tenant_names_);
    refuse_unknown(node, what, {"name", "key_sha256", "domain", "weight", "limits"});
    if (const auto key = scalar(node, what, "key_sha256")) {
      const int line = node.find("key_sha256")->line;
      const bool is_hash = key->size() == 64 && key->find_first_not_of("0123456789abcdef") == std::string::npos;
      // The value is not shown: who wrote the key itself here would find it in a log.
      if (!is_hash)
        mistake(line,
                fmt::format("{}: key_sha256 is no hash; write the 64 small hex digits of `printf %s KEY | sha256sum`",
                            what));
      else if (!keys_.insert(*key).second)
        mistake(line, fmt::format("{}: key_sha256 is that of another tenant", what));
      tenant.key_sha256 = *key;
    } else if (!node.find("key_sha256")) {
      mistake(node.line, fmt::format("{}: has no key_sha256; write the output of `printf %s KEY | sha256sum`", what));
    }
    if (const auto domain = scalar(node, what, "domain")) {
      if (!is_function_name(*domain))
        mistake(node.find("domain")->line,
                fmt::format("{}: domain '{}' is no name; use a-z, 0-9, '.', '_', '-'", what, domain->substr(0, 80)));
      tenant.domain = *domain;
    }
    if (const YamlNode* weight = node.find("weight"))
      tenant.weight = static_cast<uint32_t>(whole(*weight, what + ": weight", 1, kMostWeight).value_or(1));
    if (const YamlNode* limits = node.find("limits")) tenant.limits = read_limits(*limits, what + ": limits");
    return tenant;
  }

  TenantLimits read_limits(const YamlNode& node, const std::string& what) {
    TenantLimits limits;
    if (!is_map(node, what)) return limits;
    refuse_unknown(node, what, {"in_flight", "queued", "memory", "storage", "priority", "quota"});
    const auto count = [&](std::string_view key, int64_t least, int64_t most) {
      const YamlNode* number = node.find(key);
      return number ? whole(*number, fmt::format("{}: {}", what, key), least, most).value_or(0) : 0;
    };
    limits.in_flight = static_cast<uint32_t>(count("in_flight", 1, kMostRequests));
    limits.queued = static_cast<uint32_t>(count("queued", 1, kMostRequests));
    limits.memory_bytes = read_bytes(node, what, "memory", "no limit");
    limits.storage_bytes = read_bytes(node, what, "storage", "what the server lets a tenant have");
    limits.priority = static_cast<uint8_t>(count("priority", 0, kLeastUrgent));
    const std::string quota_of = what + ": quota";
    if (const YamlNode* quota = node.find("quota"); quota && is_map(*quota, quota_of)) {
      refuse_unknown(*quota, quota_of, {"time", "units"});
      limits.quota_time = read_share(*quota, quota_of, "time", kMostTime, "0.5");
      limits.quota_units = read_share(*quota, quota_of, "units", 1, "0.5");
    }
    return limits;
  }

  /// Nothing if it is left out, or a mistake.
  std::optional<double> read_share(const YamlNode& node, const std::string& what, std::string_view key, double most,
                                   std::string_view example) {
    const auto share = scalar(node, what, key);
    if (!share) return std::nullopt;
    double value = -1;
    const auto [rest, problem] = std::from_chars(share->data(), share->data() + share->size(), value);
    if (problem == std::errc() && rest == share->data() + share->size() && value >= 0 && value <= most) return value;
    const std::string of = what == file_ ? "" : what + ": ";
    mistake(node.find(key)->line, fmt::format("{}{} '{}' is no share from 0 to {}; write one as {}, or 0 for none", of,
                                              key, share->substr(0, 32), most, example));
    return std::nullopt;
  }

  /// A preset by its name, or a policy for each part.
  PolicyConfig read_policy(const YamlNode& node) {
    if (node.is_scalar()) {
      if (const auto preset = sched::preset(node.text))
        return {preset->fairness, preset->placement, preset->eviction, preset->setup, preset->exit, preset->dispatch};
      const auto names = sched::presets();
      const std::vector<std::string> known(names.begin(), names.end());
      mistake(node.line, fmt::format("policy: '{}' is none{}; known are {}", node.text.substr(0, 32),
                                     did_you_mean(node.text, known), fmt::join(known, ", ")));
      return {};
    }
    PolicyConfig policy;
    if (!is_map(node, "policy")) return policy;
    refuse_unknown(node, "policy", {"fairness", "placement", "eviction", "setup", "exit", "dispatch"});
    const auto part = [&](std::string_view key, const auto& rows, std::string& into) {
      const auto name = scalar(node, "policy", key);
      if (!name) return;
      std::vector<std::string> known;
      for (const auto& row : rows) known.emplace_back(row.name);
      if (std::find(known.begin(), known.end(), *name) != known.end())
        into = *name;
      else
        mistake(node.find(key)->line, fmt::format("policy: {} '{}' is none{}; known are {}", key, name->substr(0, 32),
                                                  did_you_mean(*name, known), fmt::join(known, ", ")));
    };
    part("fairness", sched::fairnesses(), policy.fairness);
    part("placement", sched::placements(), policy.placement);
    part("eviction", sched::evictions(), policy.eviction);
    part("setup", sched::setups(), policy.setup);
    part("exit", sched::exits(), policy.exit);
    part("dispatch", sched::dispatches(), policy.dispatch);
    return policy;
  }

  std::string file_;
  std::vector<std::pair<int, std::string>> mistakes_;
  std::set<std::string> device_names_, tenant_names_, keys_;
};

// read_yaml wants a document; a file of comments has none and means the defaults.
bool is_blank(std::string_view text) {
  bool in_comment = false;
  for (const char c : text) {
    if (c == '\n') in_comment = false;
    if (c == '#') in_comment = true;
    if (!in_comment && c != ' ' && c != '\t' && c != '\r' && c != '\n') return false;
  }
  return true;
}

}  // namespace

uint64_t host_bytes_of(const Config& config) {
  return config.host_bytes > 0 ? config.host_bytes : os::memory_bytes() / 2;
}

Result<Config> parse_config(std::string_view text, const std::string& file_name) {
  if (is_blank(text)) return Config{};
  ConfigReader reader(file_name);
  const auto tree = read_yaml(text);
  if (const auto* problem = std::get_if<YamlProblem>(&tree)) {
    reader.mistake(problem->line, problem->text);
    return invalid(reader.text());
  }
  Config config = reader.read(std::get<YamlNode>(tree));
  if (auto mistakes = reader.text(); !mistakes.empty()) return invalid(std::move(mistakes));
  return config;
}

}  // namespace quern::daemon
