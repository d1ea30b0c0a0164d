// SPDX-License-Identifier: Apache-2.0
#include "sim/model_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/suggest.h"
#include "sched/policy/table.h"
#include "sim/faults.h"
#include "sim/model_reader.h"
#include "sim/trace.h"

namespace quern::sim {
namespace {

constexpr int64_t kMostDevices = 100'000, kMostOfAKind = 1'000'000, kMostUnits = 1 << 20;
constexpr int64_t kMostWeight = 1'000'000, kMostClients = 1'000'000, kMostNumber = 0xffffffff, kMostPool = 64;
constexpr int64_t kMostKernels = 1'000'000;
constexpr double kMostRate = 1e9;

DeviceModel read_device(ModelReader& reader, const YamlNode& node, std::set<std::string>& names) {
  DeviceModel device;
  std::string what = "device";
  if (!reader.is_map(node, what)) return device;
  device.name = reader.name(node, what, names);
  reader.refuse_unknown(
      node, what, {"name",    "count",     "units",        "in_halves",    "memory", "context_memory", "copy_bandwidth",
                   "context", "framework", "load_latency", "launch",       "answer", "speed",          "in_place",
                   "classes", "sharing",   "time_slice",   "interference", "gate",   "drift"});
  reader.whole(node, what, "count", device.count, 1, kMostDevices);
  reader.whole(node, what, "units", device.units, 1, kMostUnits);
  reader.flag(node, what, "in_halves", device.in_halves);
  reader.bytes(node, what, "memory", device.memory_bytes, 1);
  reader.bytes(node, what, "context_memory", device.context_bytes);
  reader.bandwidth(node, what, "copy_bandwidth", device.copy_bytes_per_second);
  reader.duration(node, what, "context", device.context);
  reader.duration(node, what, "framework", device.framework);
  reader.duration(node, what, "load_latency", device.load_latency);
  reader.duration(node, what, "launch", device.launch);
  reader.duration(node, what, "answer", device.answer);
  reader.number(node, what, "speed", device.speed, 1e-3, 1e6);
  reader.flag(node, what, "in_place", device.in_place);
  reader.flag(node, what, "classes", device.classes);
  if (const auto sharing = reader.choice(node, what, "sharing", {"turns", "queue", "slices"}))
    device.sharing = static_cast<DeviceModel::Sharing>(*sharing);
  reader.duration(node, what, "time_slice", device.time_slice, 1);
  reader.number(node, what, "interference", device.interference, 0, 100);
  reader.duration(node, what, "gate", device.gate);
  reader.number(node, what, "drift", device.drift, -0.5, 0.5);
  for (const char* key : {"time_slice", "interference", "gate", "drift"})
    if (const YamlNode* at = node.find(key); at && !device.has_kernels())
      reader.mistake(*at, fmt::format("{}: {} means nothing where devices know no kernels; write sharing: queue, or "
                                      "slices, too",
                                      what, key));
  return device;
}

HostModel read_host(ModelReader& reader, const YamlNode& node) {
  HostModel host;
  if (!reader.is_map(node, "host")) return host;
  reader.refuse_unknown(node, "host", {"memory", "disk_bandwidth", "disk_latency"});
  if (reader.required(node, "host", "memory")) reader.bytes(node, "host", "memory", host.memory_bytes, 1);
  reader.bandwidth(node, "host", "disk_bandwidth", host.disk_bytes_per_second);
  reader.duration(node, "host", "disk_latency", host.disk_latency);
  return host;
}

std::vector<std::string> stage_names() {
  std::vector<std::string> names;
  for (const auto stage : {sched::Stage::kNothing, sched::Stage::kContext, sched::Stage::kHost, sched::Stage::kHot})
    names.emplace_back(sched::name_of(stage));
  return names;
}

/// In thousandths, as the core has it; written as parts of 1.
void read_share(ModelReader& reader, const YamlNode& map, const std::string& what, std::string_view key, double least,
                uint32_t& into) {
  double part = into / 1000.0;
  reader.number(map, what, key, part, least, 1);
  into = static_cast<uint32_t>(part * 1000 + 0.5);
}

void read_quota(ModelReader& reader, const YamlNode& node, const std::string& of, sched::Quota& quota) {
  const YamlNode* map = node.find("quota");
  const std::string what = of + ": quota";
  if (!map || !reader.is_map(*map, what)) return;
  reader.refuse_unknown(*map, what, {"time", "units"});
  read_share(reader, *map, what, "units", 0.001, quota.units);
  const YamlNode* time = map->find("time");
  if (!time || !reader.is_map(*time, what + ": time")) return;
  reader.refuse_unknown(*time, what + ": time", {"request", "limit"});
  read_share(reader, *time, what + ": time", "request", 0, quota.request);
  read_share(reader, *time, what + ": time", "limit", 0.001, quota.limit);
  if (quota.request > quota.limit)
    reader.mistake(*time, fmt::format("{}: time: request is above limit; write a limit of at least as much", what));
}

void read_speeds(ModelReader& reader, const YamlNode& node, const std::string& of, std::vector<SpeedAt>& speeds) {
  const std::string what = of + ": speeds";
  reader.each(node, "speeds", [&](const YamlNode& item) {
    if (!reader.is_map(item, what)) return;
    reader.refuse_unknown(item, what, {"share", "speed"});
    SpeedAt point;
    if (reader.required(item, what, "share")) reader.number(item, what, "share", point.share, 1e-6, 1);
    if (reader.required(item, what, "speed")) reader.number(item, what, "speed", point.speed, 1e-6, 1e6);
    if (!speeds.empty() && point.share <= speeds.back().share)
      return reader.mistake(item, fmt::format("{}: share {} comes after {}; write the least share first", what,
                                              point.share, speeds.back().share));
    speeds.push_back(point);
  });
}

class WorkloadReader {
 public:
  WorkloadReader(ModelReader& reader, const ReadFile& read_file) : reader_(reader), read_file_(read_file) {}

  Workload read(const YamlNode& root) {
    if (!reader_.is_map(root, "a workload")) return std::move(workload_);
    reader_.refuse_unknown(root, "a workload",
                           {"tenants", "objects", "functions", "loads", "programs", "length", "requests", "policy",
                            "keep_alive", "rent_second", "faults"});
    reader_.each(root, "tenants", [&](const YamlNode& node) { read_tenant(node); });
    reader_.each(root, "objects", [&](const YamlNode& node) { read_object(node); });
    reader_.each(root, "functions", [&](const YamlNode& node) { read_function(node); });
    reader_.each(root, "loads", [&](const YamlNode& node) { read_load(node); });
    reader_.each(root, "programs", [&](const YamlNode& node) { read_program(node); });
    if (model_.loads.empty() && model_.programs.empty() && !reader_.any())
      reader_.mistake(root,
                      "a workload without loads does nothing; write loads: [{function: …, closed: {clients: 1}}]");
    reader_.whole(root, "workload", "requests", model_.most_requests, 1, int64_t{1} << 40);
    if (model_.most_requests != 0)
      model_.length = Duration::forever();
    else if (last_call_)
      model_.length = std::max(model_.length, *last_call_ - Time{0} + Duration{1});
    reader_.duration(root, "workload", "length", model_.length, 1);
    if (const YamlNode* policy = root.find("policy")) read_policy(*policy);
    reader_.duration(root, "workload", "keep_alive", model_.config.keep_alive);
    reader_.duration(root, "workload", "rent_second", model_.config.rent_second, 1);
    if (const YamlNode* faults = root.find("faults")) read_faults(*faults);
    return std::move(workload_);
  }

 private:
  /// What one entry became: one of each copy of its tenant, or a single one that all share.
  struct Copies {
    uint32_t first = 0, count = 1;
    std::string tenant;  ///< "": of nobody, one for all
    uint32_t of(uint32_t copy) const { return first + (count == 1 ? 0 : copy); }
  };
  using Table = std::map<std::string, Copies>;

  template <class T>
  bool has_room(const YamlNode& node, std::string_view what, const std::vector<T>& all, uint64_t more) {
    if (all.size() + more <= static_cast<uint64_t>(kMostOfAKind)) return true;
    reader_.mistake(node,
                    fmt::format("{} would be number {}; at most {} of a kind", what, all.size() + more, kMostOfAKind));
    return false;
  }

  /// The entry of `table` that is named by `name`; nullptr, and a mistake, if there is none.
  const Copies* find(const YamlNode& at, std::string_view what, std::string_view kind, const Table& table,
                     const std::string& name) {
    const auto found = table.find(name);
    if (found != table.end()) return &found->second;
    std::vector<std::string> known;
    for (const auto& entry : table) known.push_back(entry.first);
    const std::string hint = did_you_mean(name, known);
    reader_.mistake(at, fmt::format("{}: there is no {} '{}'{}", what, kind, name.substr(0, 64),
                                    hint.empty() ? fmt::format("; add it to {}s", kind) : hint));
    return nullptr;
  }
  const Copies* tenant_of(const YamlNode& node, const std::string& what) {
    const auto name = reader_.word(node, what, "tenant");
    return name ? find(*node.find("tenant"), what, "tenant", tenants_, *name) : nullptr;
  }

  void read_tenant(const YamlNode& node) {
    TenantModel tenant;
    std::string what = "tenant";
    if (!reader_.is_map(node, what)) return;
    tenant.name = reader_.name(node, what, tenant_names_);
    reader_.refuse_unknown(node, what, {"name", "copies", "weight", "domain", "limits"});
    reader_.whole(node, what, "weight", tenant.weight, 1, kMostWeight);
    if (const auto domain = reader_.word(node, what, "domain"))
      tenant.domain = domains_.try_emplace(*domain, domains_.size() + 1).first->second;
    if (const YamlNode* limits = node.find("limits"); limits && reader_.is_map(*limits, what + ": limits")) {
      const std::string of = what + ": limits";
      reader_.refuse_unknown(*limits, of, {"in_flight", "queued", "memory", "priority"});
      reader_.whole(*limits, of, "in_flight", tenant.limits.in_flight, 0, kMostNumber);
      reader_.whole(*limits, of, "queued", tenant.limits.queued, 0, kMostNumber);
      reader_.bytes(*limits, of, "memory", tenant.limits.memory_bytes);
      reader_.whole(*limits, of, "priority", tenant.limits.priority, 0, 9);
    }
    uint32_t copies = 1;
    reader_.whole(node, what, "copies", copies, 1, kMostOfAKind);
    if (!has_room(node, what, model_.tenants, copies)) return;
    tenants_[tenant.name] = {static_cast<uint32_t>(model_.tenants.size()), copies, tenant.name};
    for (uint32_t i = 0; i < copies; ++i) {
      model_.tenants.push_back(tenant);
      if (copies > 1) model_.tenants.back().name = fmt::format("{}-{}", tenant.name, i + 1);
    }
  }

  void read_object(const YamlNode& node) {
    std::string what = "object";
    if (!reader_.is_map(node, what)) return;
    ObjectModel object;
    object.name = reader_.name(node, what, object_names_);
    reader_.refuse_unknown(node, what, {"name", "bytes", "tenant"});
    if (reader_.required(node, what, "bytes")) reader_.bytes(node, what, "bytes", object.bytes, 1);
    const Copies* tenant = tenant_of(node, what);
    const uint32_t copies = tenant ? tenant->count : 1;
    if (!has_room(node, what, model_.objects, copies)) return;
    objects_[object.name] = {static_cast<uint32_t>(model_.objects.size()), copies, tenant ? tenant->tenant : ""};
    model_.objects.insert(model_.objects.end(), copies, object);
  }

  void read_function(const YamlNode& node) {
    std::string what = "function";
    if (!reader_.is_map(node, what)) return;
    FunctionModel function;
    function.name = reader_.name(node, what, function_names_);
    reader_.refuse_unknown(
        node, what,
        {"name", "tenant", "device_time", "spread", "memory", "objects", "passes", "leaves", "timeout", "device_limit",
         "priority", "keep_warm", "quota", "kernels", "sliceable", "speeds"});
    if (!reader_.required(node, what, "tenant")) return;
    const Copies* tenant = tenant_of(node, what);
    if (!tenant) return;
    if (reader_.required(node, what, "device_time"))
      reader_.duration(node, what, "device_time", function.device_time, 1);
    reader_.number(node, what, "spread", function.spread, 0, 10);
    reader_.bytes(node, what, "memory", function.memory_bytes);
    reader_.bytes(node, what, "passes", function.passes_bytes);
    reader_.bytes(node, what, "leaves", function.leaves_bytes);
    reader_.duration(node, what, "timeout", function.timeout, 1);
    reader_.duration(node, what, "device_limit", function.device_limit, 1);
    reader_.whole(node, what, "priority", function.priority, 0, 9);
    if (const auto stage = reader_.choice(node, what, "keep_warm", stage_names()))
      function.keep_warm = static_cast<sched::Stage>(*stage);
    read_quota(reader_, node, what, function.quota);
    reader_.durations(node, what, "kernels", function.kernels, 1);
    reader_.flag(node, what, "sliceable", function.sliceable);
    read_speeds(reader_, node, what, function.speeds);
    std::vector<const Copies*> objects;
    reader_.each(node, "objects", [&](const YamlNode& item) { read_need(item, what, *tenant, objects); });
    if (!has_room(node, what, model_.functions, tenant->count)) return;
    functions_[function.name] = {static_cast<uint32_t>(model_.functions.size()), tenant->count, tenant->tenant};
    for (uint32_t copy = 0; copy < tenant->count; ++copy) {
      function.tenant = tenant->of(copy);
      function.objects.clear();
      for (const Copies* object : objects) function.objects.push_back(object->of(copy));
      model_.functions.push_back(function);
    }
  }

  void read_need(const YamlNode& item, const std::string& what, const Copies& tenant,
                 std::vector<const Copies*>& objects) {
    if (!item.is_scalar())
      return reader_.mistake(item, fmt::format("{}: objects holds {}; write names", what, item.kind_name()));
    const Copies* object = find(item, what, "object", objects_, item.text);
    if (!object) return;
    if (!object->tenant.empty() && object->tenant != tenant.tenant)
      return reader_.mistake(item, fmt::format("{}: object '{}' is of tenant '{}'; name one of '{}', or leave its "
                                               "tenant out",
                                               what, item.text, object->tenant, tenant.tenant));
    if (std::find(objects.begin(), objects.end(), object) != objects.end())
      return reader_.mistake(item, fmt::format("{}: object '{}' is named twice; once is enough", what, item.text));
    objects.push_back(object);
  }

  void read_load(const YamlNode& node) {
    static const std::vector<std::string> kKinds{"closed", "poisson", "uniform", "burst", "trace"};
    const std::string what = "load";
    if (!reader_.is_map(node, what)) return;
    reader_.refuse_unknown(node, what, {"function", "closed", "poisson", "uniform", "burst", "trace"});
    const YamlNode* how = nullptr;
    LoadModel load;
    for (size_t i = 0; i < kKinds.size(); ++i) {
      const YamlNode* found = node.find(kKinds[i]);
      if (!found) continue;
      if (how)
        return reader_.mistake(*found, fmt::format("load: has two kinds; write one of {}", fmt::join(kKinds, ", ")));
      how = found;
      load.kind = static_cast<LoadModel::Kind>(i);
    }
    if (!how) return reader_.mistake(node, fmt::format("load: has no kind; write one of {}", fmt::join(kKinds, ", ")));
    const std::string of = "load: " + kKinds[static_cast<size_t>(load.kind)];
    if (!reader_.is_map(*how, of)) return;
    if (load.kind == LoadModel::Kind::kTrace && how->find("file")) return read_trace(node, *how, of);
    read_kind(*how, of, load);
    if (!reader_.required(node, what, "function")) return;
    const auto name = reader_.word(node, what, "function");
    const Copies* function = name ? find(*node.find("function"), what, "function", functions_, *name) : nullptr;
    if (!function || !has_room(node, what, model_.loads, function->count)) return;
    for (uint32_t copy = 0; copy < function->count; ++copy) {
      load.function = function->of(copy);
      model_.loads.push_back(load);
    }
  }

  void read_kind(const YamlNode& how, const std::string& of, LoadModel& load) {
    if (load.kind == LoadModel::Kind::kClosed) {
      reader_.refuse_unknown(how, of, {"clients", "think"});
      reader_.whole(how, of, "clients", load.clients, 1, kMostClients);
      reader_.duration(how, of, "think", load.think);
      return;
    }
    if (load.kind == LoadModel::Kind::kTrace) {
      reader_.refuse_unknown(how, of, {"times", "file"});
      if (!reader_.required(how, of, "times")) return;
      reader_.each(how, "times", [&](const YamlNode& item) {
        const auto at = item.is_scalar() ? parse_duration(item.text) : Result<Duration>(invalid(""));
        if (at.ok())
          load.times.push_back(Time{at->ns});
        else
          reader_.mistake(item, fmt::format("{}: times holds what is no time; write them as in [0ms, 1.5s]", of));
      });
      std::sort(load.times.begin(), load.times.end());
      if (!load.times.empty()) note_last_call(load.times.back());
      return;
    }
    const bool is_burst = load.kind == LoadModel::Kind::kBurst;
    reader_.refuse_unknown(
        how, of, is_burst ? std::vector<std::string>{"per_second", "burst"} : std::vector<std::string>{"per_second"});
    if (reader_.required(how, of, "per_second"))
      reader_.number(how, of, "per_second", load.per_second, 1e-9, kMostRate);
    if (is_burst) reader_.whole(how, of, "burst", load.burst, 1, kMostClients);
  }

  void read_trace(const YamlNode& node, const YamlNode& how, const std::string& of) {
    reader_.refuse_unknown(how, of, {"file", "time_scale", "object_bytes", "memory", "rows"});
    if (const YamlNode* function = node.find("function"))
      reader_.mistake(*function, "load: a trace from a file makes its own functions; leave function out");
    TraceOptions options;
    reader_.number(how, of, "time_scale", options.time_scale, 1e-9, 1e9);
    reader_.bytes(how, of, "object_bytes", options.object_bytes, 1);
    reader_.bytes(how, of, "memory", options.memory_bytes);
    reader_.whole(how, of, "rows", options.most_rows, 1, kMostNumber);
    const auto file = reader_.word(how, of, "file");
    if (!file) return;
    const auto text = read_file_(*file);
    if (!text.ok()) return reader_.mistake(*how.find("file"), fmt::format("{}: {}", of, text.error().text));
    const auto read = add_trace(*text, options, model_);
    if (!read.ok()) return reader_.mistake(*how.find("file"), fmt::format("{}: {}:{}", of, *file, read.error().text));
    note_last_call(read->last);
    if (read->skipped == 0) return;
    workload_.notes.push_back(fmt::format("{}: {} of {} rows became no calls; the first: line {}", *file, read->skipped,
                                          read->rows + read->skipped, fmt::join(read->why, "; line ")));
  }

  void read_sequence(const YamlNode& node, const YamlNode& sequence, const std::string& what, ProgramModel& program) {
    for (const char* key : {"kernels", "kernel", "gap"})
      if (const YamlNode* other = node.find(key))
        reader_.mistake(*other, fmt::format("{}: has a sequence and {}; write one of both", what, key));
    reader_.each(node, "sequence", [&](const YamlNode& item) {
      const std::string of = what + ": sequence";
      if (!reader_.is_map(item, of)) return;
      reader_.refuse_unknown(item, of, {"time", "gap"});
      KernelModel kernel;
      if (reader_.required(item, of, "time")) reader_.duration(item, of, "time", kernel.time, 1);
      reader_.duration(item, of, "gap", kernel.gap);
      program.sequence.push_back(kernel);
    });
    if (program.sequence.empty() && !reader_.any())
      reader_.mistake(sequence, fmt::format("{}: sequence has no kernels; write [{{time: 1ms, gap: 2ms}}]", what));
    if (program.sequence.size() > static_cast<size_t>(kMostKernels))
      reader_.mistake(sequence, fmt::format("{}: sequence has {} kernels; at most {}", what, program.sequence.size(),
                                            kMostKernels));
  }

  void read_program(const YamlNode& node) {
    std::string what = "program";
    if (!reader_.is_map(node, what)) return;
    ProgramModel program;
    program.name = reader_.name(node, what, program_names_);
    reader_.refuse_unknown(node, what,
                           {"name", "device", "priority", "kernels", "kernel", "gap", "jitter", "sliceable", "quota",
                            "sequence", "think", "speeds"});
    uint32_t device = 1;
    reader_.whole(node, what, "device", device, 1, kMostDevices);
    program.device = device - 1;
    reader_.whole(node, what, "priority", program.priority, 0, 9);
    if (const YamlNode* sequence = node.find("sequence")) {
      read_sequence(node, *sequence, what, program);
    } else {
      reader_.whole(node, what, "kernels", program.kernels, 1, kMostKernels);
      if (reader_.required(node, what, "kernel")) reader_.duration(node, what, "kernel", program.kernel, 1);
      if (reader_.required(node, what, "gap")) reader_.duration(node, what, "gap", program.gap, 1);
    }
    reader_.duration(node, what, "think", program.think);
    reader_.number(node, what, "jitter", program.jitter, 0, 10);
    reader_.flag(node, what, "sliceable", program.sliceable);
    read_quota(reader_, node, what, program.quota);
    read_speeds(reader_, node, what, program.speeds);
    if (has_room(node, what, model_.programs, 1)) model_.programs.push_back(program);
  }

  void note_last_call(Time at) { last_call_ = std::max(last_call_.value_or(Time{0}), at); }

  void read_policy(const YamlNode& node) {
    if (node.is_scalar()) {
      if (const auto preset = sched::preset(node.text)) {
        model_.config.policy = *preset;
        return;
      }
      std::vector<std::string> known;
      for (const std::string_view name : sched::presets()) known.emplace_back(name);
      return reader_.mistake(node, fmt::format("policy: there is no '{}'{}; known are {}", node.text.substr(0, 64),
                                               did_you_mean(node.text, known), fmt::join(known, ", ")));
    }
    if (!reader_.is_map(node, "policy")) return;
    reader_.refuse_unknown(node, "policy", {"fairness", "placement", "eviction", "setup", "exit", "dispatch"});
    read_part(node, "fairness", sched::fairnesses(), model_.config.policy.fairness);
    read_part(node, "placement", sched::placements(), model_.config.policy.placement);
    read_part(node, "eviction", sched::evictions(), model_.config.policy.eviction);
    read_part(node, "setup", sched::setups(), model_.config.policy.setup);
    read_part(node, "exit", sched::exits(), model_.config.policy.exit);
    read_part(node, "dispatch", sched::dispatches(), model_.config.policy.dispatch);
  }
  template <class Rows>
  void read_part(const YamlNode& node, std::string_view part, const Rows& rows, std::string& into) {
    std::vector<std::string> known;
    for (const auto& row : rows) known.emplace_back(row.name);
    if (const auto chosen = reader_.choice(node, "policy", part, known)) into = known[*chosen];
  }

  void read_faults(const YamlNode& node) {
    if (!reader_.is_map(node, "faults")) return;
    std::vector<std::string> known{"until"};
    for (const FaultRow& row : fault_rows()) known.emplace_back(row.name);
    reader_.refuse_unknown(node, "faults", known);
    for (const FaultRow& row : fault_rows()) reader_.number(node, "faults", row.name, model_.faults.*row.rate, 0, 1e6);
    model_.faults.until = model_.length;
    reader_.duration(node, "faults", "until", model_.faults.until, 1);
    if (model_.faults.until == Duration::forever())
      reader_.mistake(node, "faults: has no end; write until: 10s, or a length beside requests");
  }

  ModelReader& reader_;
  const ReadFile& read_file_;
  Workload workload_;
  Model& model_ = workload_.model;
  Table tenants_, objects_, functions_;
  std::set<std::string> tenant_names_, object_names_, function_names_, program_names_;
  std::map<std::string, uint64_t> domains_;
  std::optional<Time> last_call_;
};

/// The tree of a text; nothing, and a mistake, if it is none.
std::optional<YamlNode> read_tree(ModelReader& reader, std::string_view text) {
  auto tree = read_yaml(text);
  if (const auto* problem = std::get_if<YamlProblem>(&tree)) {
    reader.mistake(problem->line, problem->column, problem->text);
    return std::nullopt;
  }
  return std::get<YamlNode>(std::move(tree));
}

}  // namespace

Result<Machine> parse_devices(std::string_view text, const std::string& file_name) {
  ModelReader reader(file_name);
  Machine machine;
  if (const auto root = read_tree(reader, text); root && reader.is_map(*root, "a file of devices")) {
    std::set<std::string> names;
    int64_t count = 0;
    reader.refuse_unknown(*root, "a file of devices", {"devices", "host", "pool"});
    reader.each(*root, "devices", [&](const YamlNode& node) {
      machine.devices.push_back(read_device(reader, node, names));
      count += machine.devices.back().count;
    });
    if (const YamlNode* host = root->find("host")) machine.host = read_host(reader, *host);
    if (root->find("pool")) reader.whole(*root, "a file of devices", "pool", machine.pool.emplace(), 0, kMostPool);
    if (count == 0 && !reader.any())
      reader.mistake(*root, "there is no device; write devices: [{name: …, memory: 16GiB}]");
    if (count > kMostDevices) reader.mistake(*root, fmt::format("{} devices; at most {}", count, kMostDevices));
  }
  if (reader.any()) return invalid(reader.text());
  return machine;
}

Result<Workload> parse_workload(std::string_view text, const std::string& file_name, const ReadFile& read_file) {
  ModelReader reader(file_name);
  Workload workload;
  if (const auto root = read_tree(reader, text)) workload = WorkloadReader(reader, read_file).read(*root);
  if (reader.any()) return invalid(reader.text());
  return workload;
}

}  // namespace quern::sim
