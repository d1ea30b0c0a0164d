// SPDX-License-Identifier: Apache-2.0
#include "server/http/functions.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <set>

#include "base/hash.h"
#include "base/units.h"

namespace quern::server {
namespace {

namespace json = boost::json;

json::array shape_json(const Manifest& manifest, const BufferDecl& buffer) {
  json::array shape;
  for (const int64_t size : open_shape(manifest, buffer)) shape.push_back(size);
  return shape;
}

// As the manifest has them.
json::array expressions_json(const std::vector<Expression>& expressions) {
  json::array texts;
  for (const Expression& one : expressions) texts.emplace_back(one.text());
  return texts;
}

json::array tensors_json(const Manifest& manifest, Role role, bool with_expressions = false) {
  json::array tensors;
  for (const BufferDecl& buffer : manifest.buffers) {
    if (buffer.role != role) continue;
    tensors.push_back(json::object{{"name", buffer.name},
                                   {"datatype", std::string(protocol_name_of(buffer.dtype))},
                                   {"shape", shape_json(manifest, buffer)}});
    // Who makes tensors by dims needs to know which stands where.
    if (with_expressions) tensors.back().as_object()["shape_expressions"] = expressions_json(buffer.shape);
  }
  return tensors;
}

json::value number_json(const Number& number) {
  return std::visit([](auto value) { return json::value(value); }, number);
}

json::value scalar_json(Scalar scalar) {
  if (is_float(scalar.dtype)) return number_of(scalar);
  if (scalar.dtype == Dtype::kBool) return scalar.bits != 0;
  if (scalar.dtype == Dtype::kUint64) return scalar.bits;
  if (scalar.dtype == Dtype::kInt64) return static_cast<int64_t>(scalar.bits);
  return static_cast<int64_t>(number_of(scalar));
}

json::object summary_json(const daemon::Function& function) {
  return {{"name", function.name}, {"version", short_version(function.version)}, {"tenant", function.tenant},
          {"kind", "graph"},       {"created_at", function.created_at},          {"state", "ready"}};
}

json::object problem_json(const std::string& tenant, const daemon::FunctionProblem& problem) {
  return {{"name", problem.name},
          {"version", short_version(problem.version)},
          {"tenant", tenant},
          {"kind", "graph"},
          {"created_at", problem.created_at},
          {"state", problem.is_starting ? "starting" : "damaged"},
          {"error", problem.error.text}};
}

json::object settings_json(const Settings& settings) {
  json::object limits = {{"timeout", to_string(settings.timeout)}};
  limits["device_time"] = to_string(settings.device_time.value_or(settings.timeout));
  if (settings.memory_bytes) limits["memory_bytes"] = *settings.memory_bytes;
  json::object out = {{"priority", settings.priority},
                      {"keep_warm", std::string(name_of(settings.keep_warm))},
                      {"limits", std::move(limits)}};
  json::object quota, time, slo;
  if (settings.time_request) time["request"] = *settings.time_request;
  if (settings.time_limit) time["limit"] = *settings.time_limit;
  if (!time.empty()) quota["time"] = std::move(time);
  if (settings.units) quota["units"] = *settings.units;
  if (!quota.empty()) out["quota"] = std::move(quota);
  if (settings.slo_latency) {
    slo["latency"] = to_string(*settings.slo_latency);
    slo["percentile"] = settings.slo_percentile;
    out["slo"] = std::move(slo);
  }
  return out;
}

// Each of its kernels with its sizes, once: a graph may have a thousand that are alike.
json::array kernels_json(const daemon::Function& function) {
  json::array kernels;
  std::set<std::string> shown;
  for (size_t i = 0; i < function.manifest.kernels.size(); ++i) {
    const KernelDecl& kernel = function.manifest.kernels[i];
    const std::string reason = i < function.unsliceable.size() ? function.unsliceable[i] : "nothing is known of it";
    json::object one = {{"entry", kernel.entry},
                        {"global", expressions_json(kernel.global)},
                        {"local", expressions_json(kernel.local)},
                        {"sliceable", reason.empty()}};
    if (!reason.empty()) one["reason"] = reason;
    if (!kernel.label.empty()) one["label"] = kernel.label;
    if (shown.insert(json::serialize(one)).second) kernels.push_back(std::move(one));
  }
  return kernels;
}

json::object history_json(const std::string& name, const daemon::History& history) {
  json::array versions, items;
  for (const auto& one : history.versions)
    versions.push_back(json::object{
        {"version", short_version(one.version)}, {"created_at", one.created_at}, {"current", one.is_current}});
  for (const auto& item : history.items)
    items.push_back(json::object{{"at", item.at}, {"what", item.what}, {"version", short_version(item.version)}});
  return {{"name", name}, {"versions", std::move(versions)}, {"history", std::move(items)}};
}

json::object details_json(const daemon::Function& function) {
  const Manifest& manifest = function.manifest;
  json::object out = summary_json(function);
  out["hash"] = function.version;
  json::object dims, params;
  for (const DimDecl& dim : manifest.dims) {
    json::object one;
    if (dim.fixed) {
      one["value"] = dim.value.value_or(0);
    } else {
      if (dim.value) one["default"] = *dim.value;
      one["min"] = dim.min;
      one["max"] = dim.max;
      one["multiple_of"] = dim.multiple_of;
    }
    dims[dim.name] = std::move(one);
  }
  for (const ParamDecl& param : manifest.params) {
    json::object one = {{"dtype", std::string(name_of(param.dtype))}};
    if (param.value) one["default"] = scalar_json(*param.value);
    if (param.min) one["min"] = number_json(*param.min);
    if (param.max) one["max"] = number_json(*param.max);
    params[param.name] = std::move(one);
  }
  json::object lets;  // in their order: each is made of those before it
  for (const LetDecl& let : manifest.lets) lets[let.name] = let.value.text();
  out["dims"] = std::move(dims);
  if (!lets.empty()) out["let"] = std::move(lets);
  out["params"] = std::move(params);
  out["inputs"] = tensors_json(manifest, Role::kInput, true);
  out["outputs"] = tensors_json(manifest, Role::kOutput, true);
  json::array drivers;
  for (const ProgramDecl& program : manifest.programs)
    if (program.number == 0) drivers.emplace_back(program.driver);
  out["drivers"] = std::move(drivers);
  out["kernels"] = kernels_json(function);
  out["settings"] = settings_json(function.settings());
  return out;
}

json::object model_json(const daemon::Function& function, const std::vector<daemon::FunctionRef>& all) {
  json::array versions;
  for (const daemon::FunctionRef& one : all) versions.emplace_back(short_version(one->version));
  return {{"name", function.name},
          {"versions", std::move(versions)},
          {"platform", "quern_graph"},
          {"inputs", tensors_json(function.manifest, Role::kInput)},
          {"outputs", tensors_json(function.manifest, Role::kOutput)}};
}

json::object devices_json(const std::vector<daemon::DeviceStatus>& devices) {
  json::array list;
  for (const daemon::DeviceStatus& device : devices) {
    json::array cores;
    for (const int core : device.cores) cores.push_back(core);
    list.push_back(json::object{{"name", device.name},
                                {"driver", device.driver},
                                {"model", device.model},
                                {"up", device.is_up},
                                {"memory_bytes", device.memory_bytes},
                                {"units", device.units},
                                {"cores", std::move(cores)},
                                {"in_place", device.in_place},
                                {"worker_classes", device.worker_classes},
                                {"executors", device.executors},
                                {"running", device.running},
                                {"runs_ended", device.runs_ended},
                                {"device_time_ns", device.device_time_ns}});
  }
  return {{"devices", std::move(list)}};
}

json::object counters_json(const daemon::Counters& counters, const Stages& stages) {
  const auto show = [](const Stage& stage) {
    return json::object{{"ns", stage.ns.load(std::memory_order_relaxed)},
                        {"count", stage.count.load(std::memory_order_relaxed)}};
  };
  json::object out = {{"copied_bytes", counters.copied_bytes},
                      {"builds", counters.builds},
                      {"executors_started", counters.executors_started},
                      {"executors_lost", counters.executors_lost},
                      {"evictions", counters.evictions},
                      {"exits", counters.exits},
                      {"prefetches", counters.prefetches},
                      {"object_hits", counters.object_hits},
                      {"object_misses", counters.object_misses},
                      {"loads", counters.loads},
                      {"loaded_bytes", counters.loaded_bytes},
                      {"fetches", counters.fetches},
                      {"fetched_bytes", counters.fetched_bytes},
                      {"queued", counters.queued},
                      {"past_gate", counters.past_gate},
                      {"fairness_lag_ns", counters.fairness_lag_ns},
                      {"fairness_bound_ns", counters.fairness_bound_ns},
                      {"standings_saved", counters.standings_saved},
                      {"profiles_saved", counters.profiles_saved}};
  out["device_ns"] = stages.device_ns.load(std::memory_order_relaxed);
  out["stages"] = json::object{
      {"parse", show(stages.parse)},   {"body", show(stages.body)},     {"submit", show(stages.submit)},
      {"core", show(stages.core)},     {"ring", show(stages.ring)},     {"executor", show(stages.executor)},
      {"device", show(stages.device)}, {"driver", show(stages.driver)}, {"back", show(stages.back)},
      {"wake", show(stages.wake)},     {"answer", show(stages.answer)}};
  return out;
}

/// Finds a key that an object has twice: json::parse keeps the last of them and does not tell. Nested objects are
/// passed over.
class TwiceFinder {
 public:
  static constexpr size_t max_object_size = -1, max_array_size = -1, max_key_size = -1, max_string_size = -1;
  using Code = json::error_code;

  bool on_object_begin(Code&) { return ++level_ > 0; }
  bool on_object_end(size_t, Code&) { return --level_ >= 0; }
  bool on_key_part(json::string_view s, size_t, Code&) {
    key_.append(s.data(), s.size());
    return true;
  }
  bool on_key(json::string_view s, size_t, Code&) {
    key_.append(s.data(), s.size());
    if (level_ == 1 && !keys_.insert(key_).second && twice.empty()) twice = key_;
    key_.clear();
    return true;
  }
  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_array_begin(Code&) { return true; }
  bool on_array_end(size_t, Code&) { return true; }
  bool on_string_part(json::string_view, size_t, Code&) { return true; }
  bool on_string(json::string_view, size_t, Code&) { return true; }
  bool on_number_part(json::string_view, Code&) { return true; }
  bool on_int64(int64_t, json::string_view, Code&) { return true; }
  bool on_uint64(uint64_t, json::string_view, Code&) { return true; }
  bool on_double(double, json::string_view, Code&) { return true; }
  bool on_bool(bool, Code&) { return true; }
  bool on_null(Code&) { return true; }
  bool on_comment_part(json::string_view, Code&) { return true; }
  bool on_comment(json::string_view, Code&) { return true; }

  std::string twice;  ///< the first such key; "" if there is none

 private:
  int level_ = 0;
  std::string key_;
  std::set<std::string> keys_;
};

std::string key_given_twice(std::string_view object) {
  json::basic_parser<TwiceFinder> parser{json::parse_options{}};
  TwiceFinder::Code ec;
  (void)parser.write_some(false, object.data(), object.size(), ec);
  return parser.handler().twice;
}

Answer ok(const json::object& object) { return JsonAnswer{200, json::serialize(object)}; }

}  // namespace

JsonAnswer answer_deployed(const daemon::Deployed& deployed) {
  json::object out = summary_json(*deployed.function);
  json::array warnings;
  for (const std::string& warning : deployed.warnings) warnings.emplace_back(warning);
  out["warnings"] = std::move(warnings);
  out["has_new_settings"] = deployed.has_new_settings;
  return {deployed.is_new ? 201 : 200, json::serialize(out)};
}

Result<std::map<std::string, std::string>> read_changes(const Route& route, std::string_view body) {
  if (!route.version.empty())
    return invalid("function " + route.name + ": settings are those of all versions; leave out the @" + route.version);
  boost::system::error_code problem;
  const json::value parsed = json::parse({body.data(), body.size()}, problem);
  const auto wrong = [](std::string_view what) {
    return invalid(fmt::format("settings: {}; send {{\"limits.timeout\": \"2s\", \"priority\": 3}}", what));
  };
  if (problem) return wrong("the body is no JSON");
  if (!parsed.is_object()) return wrong("the body is no object");
  if (const std::string key = key_given_twice(body); !key.empty())
    return invalid(fmt::format("settings: '{}' is given twice; give it once", key.substr(0, 64)));
  std::map<std::string, std::string> changes;
  for (const auto& item : parsed.get_object()) {
    const std::string path(item.key());
    if (item.value().is_string())
      changes[path] = item.value().get_string();
    else if (item.value().is_null())
      changes[path] = "";
    else if (item.value().is_double())
      changes[path] = plain_number(item.value().get_double());  // as people write it; json::serialize writes 5E-1
    else if (item.value().is_number())
      changes[path] = json::serialize(item.value());
    else
      return wrong(fmt::format("'{}' is neither text nor a number", path.substr(0, 64)));
  }
  if (changes.empty()) return wrong("nothing is to be changed");
  return changes;
}

JsonAnswer answer_changed(const daemon::Function& function) {
  json::object out = summary_json(function);
  out["settings"] = settings_json(function.settings());
  return {200, json::serialize(out)};
}

JsonAnswer answer_rolled_back(const daemon::Function& function) {
  return {200, json::serialize(summary_json(function))};
}

JsonAnswer answer_removed(const std::string& name) { return {200, json::serialize(json::object{{"removed", name}})}; }

JsonAnswer answer_history(const std::string& name, const daemon::History& history) {
  return {200, json::serialize(history_json(name, history))};
}

Answer answer_now(Front& front, const daemon::Tenant* tenant, const Route& route) {
  daemon::Daemon& daemon = front.daemon;
  switch (route.endpoint) {
    case Endpoint::kServer:
      return ok(
          {{"name", "quern"}, {"version", front.config.version}, {"extensions", json::array{"binary_tensor_data"}}});
    case Endpoint::kLive:
      return ok({{"live", true}});
    case Endpoint::kReady:
      if (!daemon.is_ready()) return Failure(unavailable("server: no device is up"));
      return ok({{"ready", true}});
    default:
      break;
  }
  QUERN_CHECK(tenant != nullptr, "all other paths need a tenant");
  switch (route.endpoint) {
    case Endpoint::kFunctions: {
      json::array list;
      for (const daemon::FunctionRef& function : daemon.functions(*tenant)) list.push_back(summary_json(*function));
      for (const daemon::FunctionProblem& problem : daemon.problems(*tenant))
        list.push_back(problem_json(tenant->name, problem));
      return ok({{"functions", std::move(list)}});
    }
    case Endpoint::kDevices:
      return ok(devices_json(daemon.devices()));
    case Endpoint::kCounters:
      return ok(counters_json(daemon.counters(), front.stages));
    default:
      break;
  }
  Result<daemon::FunctionRef> function = daemon.find(*tenant, route.name, route.version);
  if (!function.ok()) return Failure(std::move(function).error());
  switch (route.endpoint) {
    case Endpoint::kModel:
      return ok(model_json(**function, daemon.versions(*tenant, route.name)));
    case Endpoint::kModelReady:
      if (!daemon.is_ready()) return Failure(unavailable("function " + route.name + ": no device is up"));
      return ok({{"name", route.name}, {"ready", true}});
    default:
      return ok(details_json(**function));
  }
}

}  // namespace quern::server
