// SPDX-License-Identifier: Apache-2.0
#include "client/wire.h"

#include <fmt/format.h>

#include <boost/json.hpp>

namespace quern::client {
namespace {

namespace json = boost::json;

const json::value* find(const json::value& value, std::string_view key) {
  const auto* object = value.if_object();
  return object ? object->if_contains(key) : nullptr;
}

std::string text_at(const json::value& value, std::string_view key) {
  const auto* found = find(value, key);
  const auto* text = found ? found->if_string() : nullptr;
  return text ? std::string(*text) : "";
}

std::optional<int64_t> whole(const json::value* value) {
  if (value && value->is_int64()) return value->get_int64();
  if (value && value->is_uint64() && value->get_uint64() <= static_cast<uint64_t>(INT64_MAX))
    return static_cast<int64_t>(value->get_uint64());
  return std::nullopt;
}

uint64_t count_at(const json::value& value, std::string_view key) {
  return static_cast<uint64_t>(std::max<int64_t>(0, whole(find(value, key)).value_or(0)));
}

bool flag_at(const json::value& value, std::string_view key) {
  const auto* found = find(value, key);
  return found && found->is_bool() && found->get_bool();
}

template <class F>
void each(const json::value& value, std::string_view key, F&& work) {
  const auto* found = find(value, key);
  const auto* array = found ? found->if_array() : nullptr;
  if (!array) return;
  for (const auto& item : *array) work(item);
}

std::vector<std::string> texts_at(const json::value& value, std::string_view key) {
  std::vector<std::string> texts;
  each(value, key, [&](const json::value& item) {
    if (const auto* text = item.if_string()) texts.emplace_back(*text);
  });
  return texts;
}

Result<json::value> parse(std::span<const std::byte> text) {
  boost::system::error_code code;
  auto value = json::parse(as_text(text), code);
  if (code) return unavailable(fmt::format("server: answered something that is no JSON: {}", code.message()));
  return value;
}

std::optional<Dtype> dtype_at(const json::value& value) {
  if (const auto name = text_at(value, "datatype"); !name.empty()) return dtype_of_protocol(name);
  return dtype_of(text_at(value, "dtype"));
}

FunctionInfo::Tensor read_tensor(const json::value& value) {
  FunctionInfo::Tensor tensor;
  tensor.name = text_at(value, "name");
  tensor.dtype = dtype_at(value).value_or(Dtype::kFp32);
  each(value, "shape", [&](const json::value& size) { tensor.shape.push_back(whole(&size).value_or(-1)); });
  tensor.expressions = texts_at(value, "shape_expressions");
  if (tensor.expressions.size() != tensor.shape.size()) tensor.expressions.clear();
  return tensor;
}

template <class F>
void each_named(const json::value& value, std::string_view key, F&& work) {
  const auto* found = find(value, key);
  const auto* object = found ? found->if_object() : nullptr;
  if (!object) return;
  for (const auto& [name, item] : *object) work(std::string(name), item);
}

FunctionInfo function_of(const json::value& value) {
  FunctionInfo info;
  info.name = text_at(value, "name");
  info.version = text_at(value, "version");
  info.created_at = text_at(value, "created_at");
  info.state = text_at(value, "state");
  info.error = text_at(value, "error");
  each_named(value, "dims", [&](std::string name, const json::value& dim) {
    const auto* fixed = find(dim, "value");
    info.dims.push_back({std::move(name), whole(fixed ? fixed : find(dim, "default"))});
  });
  each_named(value, "let", [&](std::string name, const json::value& let) {
    if (const auto* text = let.if_string()) info.lets.push_back({std::move(name), std::string(*text)});
  });
  each_named(value, "params", [&](std::string name, const json::value& param) {
    info.params.push_back({std::move(name), text_at(param, "dtype")});
  });
  each(value, "inputs", [&](const json::value& tensor) { info.inputs.push_back(read_tensor(tensor)); });
  each(value, "outputs", [&](const json::value& tensor) { info.outputs.push_back(read_tensor(tensor)); });
  each(value, "kernels", [&](const json::value& kernel) {
    const std::string label = text_at(kernel, "label");
    info.kernels.push_back({label.empty() ? text_at(kernel, "entry") : label, texts_at(kernel, "global"),
                            texts_at(kernel, "local"), flag_at(kernel, "sliceable"), text_at(kernel, "reason")});
  });
  info.warnings = texts_at(value, "warnings");
  return info;
}

void put_parameter(json::object& into, const std::string& name, const ParameterValue& value) {
  std::visit([&](const auto& one) { into[name] = one; }, value);
}

Error strange(std::string_view what) { return unavailable(fmt::format("server: answered {}", what)); }

}  // namespace

Error error_of(const HttpAnswer& answer) {
  boost::system::error_code code;
  const auto value = json::parse(as_text(answer.body), code);
  if (!code) {
    const auto known = error_code_of(text_at(value, "code"));
    const auto text = text_at(value, "error");
    if (known && !text.empty()) return {*known, text};
  }
  return internal(fmt::format("server: answered {} without saying why; is it Quern?", answer.status));
}

std::string infer_json(const InferRequest& request) {
  json::object root;
  if (!request.id.empty()) root["id"] = request.id;
  json::object parameters;
  for (const auto& [name, value] : request.parameters) put_parameter(parameters, name, value);
  json::array inputs, outputs;
  for (const TensorView& input : request.inputs) {
    json::array shape(input.shape.begin(), input.shape.end());
    json::object where;
    if (input.object.empty())
      where["binary_data_size"] = input.bytes.size();
    else
      where["object"] = input.object;
    inputs.push_back({{"name", input.name},
                      {"datatype", protocol_name_of(input.dtype)},
                      {"shape", std::move(shape)},
                      {"parameters", std::move(where)}});
  }
  for (const std::string& name : request.outputs) {
    json::object how;
    const auto kept = request.kept.find(name);
    how[kept == request.kept.end() ? "binary_data" : "object"] = true;
    if (kept != request.kept.end() && kept->second) how["lease"] = to_string(*kept->second);
    outputs.push_back({{"name", name}, {"parameters", std::move(how)}});
  }
  if (outputs.empty()) parameters["binary_data_output"] = true;
  if (!parameters.empty()) root["parameters"] = std::move(parameters);
  root["inputs"] = std::move(inputs);
  if (!outputs.empty()) root["outputs"] = std::move(outputs);
  return json::serialize(root);
}

Result<InferAnswer> read_infer_answer(HttpAnswer answer) {
  InferAnswer infer;
  infer.body = std::move(answer.body);
  infer.request = std::move(answer.request);
  QUERN_TRY(auto value, parse(std::span(infer.body).first(answer.json_bytes)));
  infer.version = text_at(value, "model_version");
  if (const auto* parameters = find(value, "parameters")) infer.parameters_json = json::serialize(*parameters);
  std::span<const std::byte> rest = std::span(infer.body).subspan(answer.json_bytes);
  const auto* outputs = find(value, "outputs");
  if (!outputs || !outputs->is_array()) return strange("no outputs");
  for (const auto& output : outputs->get_array()) {
    TensorView view;
    view.name = text_at(output, "name");
    const auto dtype = dtype_at(output);
    if (!dtype) return strange(fmt::format("output '{}' of a datatype that is not known", view.name));
    view.dtype = *dtype;
    uint64_t elements = 1;
    bool fits = true;
    each(output, "shape", [&](const json::value& size) {
      view.shape.push_back(whole(&size).value_or(-1));
      fits = fits && view.shape.back() >= 0 &&
             !__builtin_mul_overflow(elements, static_cast<uint64_t>(view.shape.back()), &elements);
    });
    const auto* parameters = find(output, "parameters");
    if (parameters) view.object = text_at(*parameters, "object");
    if (!view.object.empty()) {
      view.expires_in = text_at(*parameters, "expires_in");
      infer.outputs.push_back(std::move(view));
      continue;
    }
    const auto size = whole(parameters ? find(*parameters, "binary_data_size") : nullptr);
    if (!fits || !size || static_cast<uint64_t>(*size) > rest.size() || *size < 0 ||
        static_cast<uint64_t>(*size) / size_of(view.dtype) != elements)
      return strange(
          fmt::format("output '{}' of another size than its shape {} says", view.name, show_shape(view.shape)));
    view.bytes = rest.first(static_cast<size_t>(*size));
    rest = rest.subspan(view.bytes.size());
    infer.outputs.push_back(std::move(view));
  }
  if (!rest.empty()) return strange(fmt::format("{} bytes more than its outputs say", rest.size()));
  return infer;
}

Result<FunctionInfo> read_function(const HttpAnswer& answer) {
  QUERN_TRY(auto value, parse(answer.body));
  auto info = function_of(value);
  if (info.name.empty()) return strange("no function");
  info.is_new = answer.status == 201;
  if (const auto* flag = value.is_object() ? value.get_object().if_contains("has_new_settings") : nullptr)
    info.has_new_settings = flag->is_bool() && flag->get_bool();
  info.json = as_text(answer.body);
  return info;
}

Result<Listed<FunctionInfo>> read_functions(const HttpAnswer& answer) {
  QUERN_TRY(auto value, parse(answer.body));
  Listed<FunctionInfo> list;
  each(value, "functions", [&](const json::value& item) { list.items.push_back(function_of(item)); });
  list.json = as_text(answer.body);
  return list;
}

Result<Listed<RequestInfo>> read_requests(const HttpAnswer& answer) {
  QUERN_TRY(auto value, parse(answer.body));
  Listed<RequestInfo> list;
  each(value, "requests", [&](const json::value& item) {
    RequestInfo request;
    request.id = text_at(item, "id");
    request.function = text_at(item, "function");
    request.tenant = text_at(item, "tenant");
    request.state = text_at(item, "state");
    request.device = text_at(item, "device");
    request.end = text_at(item, "end");
    request.age_ns = count_at(item, "age_ns");
    list.items.push_back(std::move(request));
  });
  list.json = as_text(answer.body);
  return list;
}

Result<std::string> read_stored(const HttpAnswer& answer) {
  QUERN_TRY(auto value, parse(answer.body));
  std::string id = text_at(value, "object");
  if (id.empty()) return strange("no object");
  return id;
}

Result<Listed<ObjectInfo>> read_objects(const HttpAnswer& answer) {
  QUERN_TRY(auto value, parse(answer.body));
  Listed<ObjectInfo> list;
  each(value, "objects", [&](const json::value& item) {
    ObjectInfo object;
    object.id = text_at(item, "object");
    object.bytes = count_at(item, "bytes");
    object.kind = text_at(item, "kind");
    object.created_at = text_at(item, "created_at");
    object.expires_in = text_at(item, "expires_in");
    list.items.push_back(std::move(object));
  });
  list.json = as_text(answer.body);
  return list;
}

Result<Listed<DeviceInfo>> read_devices(const HttpAnswer& answer) {
  QUERN_TRY(auto value, parse(answer.body));
  Listed<DeviceInfo> list;
  each(value, "devices", [&](const json::value& item) {
    DeviceInfo device;
    device.name = text_at(item, "name");
    device.driver = text_at(item, "driver");
    device.model = text_at(item, "model");
    device.is_up = flag_at(item, "up");
    device.memory_bytes = count_at(item, "memory_bytes");
    device.units = static_cast<uint32_t>(count_at(item, "units"));
    each(item, "cores",
         [&](const json::value& core) { device.cores.push_back(static_cast<int>(whole(&core).value_or(0))); });
    device.executors = count_at(item, "executors");
    device.running = count_at(item, "running");
    device.runs_ended = count_at(item, "runs_ended");
    device.device_time_ns = count_at(item, "device_time_ns");
    list.items.push_back(std::move(device));
  });
  list.json = as_text(answer.body);
  return list;
}

}  // namespace quern::client
