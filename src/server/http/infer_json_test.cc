// SPDX-License-Identifier: Apache-2.0
#include "server/http/infer_json.h"

#include <gtest/gtest.h>

namespace quern::server {
namespace {

std::string mistake(std::string_view json) {
  InferRequest request;
  Status status = parse_infer(json, request);
  if (status.ok()) return "";
  EXPECT_EQ(status.error().code, ErrorCode::kInvalid);
  return status.error().text;
}

std::string with_input(const std::string& members) {
  return R"({"inputs":[{"name":"x","shape":[2],"datatype":"FP32")" + members + "}]}";
}

TEST(InferJson, Whole) {
  InferRequest request;
  ASSERT_TRUE(parse_infer(R"( {"id": "7", "outputs": [{"name":"y","parameters":{"binary_data":true}},{"name":"z"}],
    "parameters": {"timeout": 1500, "priority": 3, "n": 5, "alpha": 0.1, "flag": true, "mode": "a\nb",
                   "binary_data_output": true},
    "inputs": [{"data": [[1, 2], [3, 4]], "datatype": "INT8", "shape": [2, 2], "name": "x"},
               {"name": "w", "datatype": "BF16", "shape": [3], "parameters": {"binary_data_size": 6}}]} )",
                          request)
                  .ok());
  EXPECT_EQ(request.id, "7");
  EXPECT_EQ(request.options.timeout, Duration::micros(1500));
  EXPECT_EQ(request.options.priority, 3);
  EXPECT_TRUE(request.binary_data_output);
  EXPECT_EQ(request.spec.parameters.size(), 4u);
  EXPECT_EQ(std::get<int64_t>(request.spec.parameters["n"]), 5);
  EXPECT_EQ(std::get<double>(request.spec.parameters["alpha"]), 0.1);
  EXPECT_EQ(std::get<std::string>(request.spec.parameters["mode"]), "a\nb");
  ASSERT_EQ(request.spec.inputs.size(), 2u);
  EXPECT_EQ(request.spec.inputs[0].dtype, Dtype::kInt8);
  EXPECT_EQ(request.spec.inputs[0].shape, (Shape{2, 2}));
  EXPECT_EQ(request.sources[0].data_elements, 4u);
  EXPECT_EQ(request.sources[1].binary_bytes, 6u);
  ASSERT_EQ(request.outputs.size(), 2u);
  EXPECT_EQ(request.outputs[0].is_binary, true);
  EXPECT_FALSE(request.outputs[1].is_binary.has_value());
  EXPECT_TRUE(request.has_json_data());
}

TEST(InferJson, WholeParametersOf64BitsAreExact) {
  InferRequest request;
  ASSERT_TRUE(parse_infer(R"({"parameters": {"most": 18446744073709551615, "u": 9223372036854775808,
    "i": 9223372036854775807, "least": -9223372036854775808}, "inputs": []})",
                          request)
                  .ok());
  EXPECT_EQ(request.spec.parameters["most"], ParameterValue(UINT64_MAX));
  EXPECT_EQ(request.spec.parameters["u"], ParameterValue(uint64_t{1} << 63));
  EXPECT_EQ(request.spec.parameters["i"], ParameterValue(INT64_MAX));
  EXPECT_EQ(request.spec.parameters["least"], ParameterValue(INT64_MIN));
}

TEST(InferJson, ObjectsInAndOut) {
  InferRequest request;
  ASSERT_TRUE(parse_infer(R"({"inputs":[{"name":"x","shape":[2],"datatype":"FP16","parameters":{"object":"ab"}}],
    "outputs":[{"name":"y","parameters":{"object":true,"lease":"90s"}},{"name":"z","parameters":{"object":true}},
               {"name":"w","parameters":{"object":false}}]})",
                          request)
                  .ok());
  EXPECT_EQ(request.sources[0].object, "ab");
  EXPECT_TRUE(request.names_objects());
  EXPECT_FALSE(request.has_json_data());
  ASSERT_EQ(request.outputs.size(), 3u);
  EXPECT_TRUE(request.outputs[0].stays);
  EXPECT_EQ(request.outputs[0].lease, Duration::seconds(90));
  EXPECT_TRUE(request.outputs[1].stays && !request.outputs[1].lease);
  EXPECT_FALSE(request.outputs[2].stays);
  ASSERT_TRUE(parse_infer(with_input(R"(,"data":[1,2])"), request).ok());
  EXPECT_FALSE(request.names_objects()) << "what one request named is not the next one's";

  // The picks: a lease of its own, the usual one, and none; fp16 needs no binary where it stays.
  std::vector<BufferDecl> decls(2);
  decls[0].name = "y";
  decls[0].dtype = Dtype::kFp16;
  decls[1].name = "z";
  const std::vector<const BufferDecl*> outputs = {&decls[0], &decls[1]};
  std::vector<OutputPick> picks;
  ASSERT_TRUE(
      parse_infer(R"({"inputs":[],"outputs":[{"name":"z"},{"name":"y","parameters":{"object":true}}]})", request).ok());
  ASSERT_TRUE(pick_outputs(request, outputs, picks).ok());
  EXPECT_EQ(picks[1].lease, daemon::kUsualLease);
  EXPECT_FALSE(picks[0].lease.has_value());

  daemon::Function function;
  function.name = "f";
  function.version = std::string(64, '0');
  daemon::Call call;
  std::vector<float> z = {1};
  Bytes y(4);
  call.outputs.push_back({"y", Dtype::kFp16, {2}, y, "lease-1", Duration::seconds(60)});
  call.outputs.push_back({"z", Dtype::kFp32, {1}, std::as_writable_bytes(std::span(z))});
  std::string out;
  AnswerWriter writer(out, function, request, call, picks, kMiB);
  EXPECT_FALSE(*writer.append(100)) << "all is written";
  EXPECT_EQ(
      out,
      R"({"model_name":"f","model_version":"000000000000","parameters":{},"outputs":[)"
      R"({"name":"z","datatype":"FP32","shape":[1],"data":[1.0]},)"
      R"({"name":"y","datatype":"FP16","shape":[2],"parameters":{"object":"lease-1","bytes":4,"expires_in":"1m"}}]})");
}

TEST(InferJson, Mistakes) {
  const std::string data = R"(,"data":[1,2])";
  ASSERT_EQ(mistake(with_input(data)), "");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "no JSON at byte 0"},
      {"{", "no JSON"},
      {"[]", "it must be an object"},
      {"{}", "\"inputs\" is missing"},
      {R"({"inputs":[]} x)", "JSON ends at byte"},
      {R"({"input":[]})", "unknown key \"input\"; did you mean 'inputs'?"},
      {R"({"inputs":{}})", "\"inputs\" is an object; it must be an array"},
      {R"({"inputs":[1]})", "a number where an object"},
      {R"({"inputs":[],"inputs":[]})", "given twice"},
      {R"({"id":5,"inputs":[]})", "\"id\" is a number; it must be a string"},
      {R"({"inputs":[],"parameters":{"timeout":0}})", "timeout must be"},
      {R"({"inputs":[],"parameters":{"timeout":1.5}})", "timeout must be"},
      {R"({"inputs":[],"parameters":{"priority":10}})", "priority must be"},
      {R"({"inputs":[],"parameters":{"a":null}})", "a is null"},
      {R"({"inputs":[],"parameters":{"a":[1]}})", "a is an array"},
      {R"({"inputs":[],"parameters":{"a":1,"a":1}})", "a is given twice"},
      {R"({"inputs":[],"outputs":[{}]})", "\"name\" is missing"},
      {R"({"inputs":[],"outputs":[{"name":"y","parameters":{"classification":3}}]})",
       "unknown parameter \"classification\""},
      {with_input(""), "input x: no \"data\""},
      {with_input(R"(,"data":[1])"), "data has 1 elements, but shape [2] has 2"},
      {with_input(R"(,"data":["a","b"])"), "BYTES"},
      {with_input(R"(,"data":[1,null])"), "data has null"},
      {with_input(data + R"(,"parameters":{"binary_data_size":8})"), "both"},
      {with_input(R"(,"parameters":{"binary_data_size":-1})"), "number of bytes"},
      {with_input(R"(,"parameters":{"shared_memory_region":"a"})"), "unknown parameter \"shared_memory_region\""},
      {with_input(R"(,"parameters":{"objekt":"a"})"),
       "did you mean 'object'?; here there are binary_data_size, object"},
      {with_input(R"(,"parameters":{"object":5})"), "object is a number; it is the id of an object"},
      {with_input(R"(,"parameters":{"object":true})"), "object is true; it is the id of an object"},
      {with_input(R"(,"parameters":{"object":""})"), "object is empty"},
      {with_input(R"(,"parameters":{"binary_data_size":"8"})"), "binary_data_size is a string; it is a number"},
      {with_input(data + R"(,"parameters":{"object":"a"})"), "both object and \"data\""},
      {with_input(R"(,"parameters":{"object":"a","binary_data_size":8})"), "both object and binary_data_size"},
      {R"({"inputs":[],"outputs":[{"name":"y","parameters":{"object":"a"}}]})",
       "object is a string; it is true or false"},
      {R"({"inputs":[],"outputs":[{"name":"y","parameters":{"lease":"60s"}}]})", "a lease without"},
      {R"({"inputs":[],"outputs":[{"name":"y","parameters":{"object":true,"lease":60}}]})", "lease is a number"},
      {R"({"inputs":[],"outputs":[{"name":"y","parameters":{"object":true,"lease":"soon"}}]})", "lease is 'soon'"},
      {R"({"inputs":[],"outputs":[{"name":"y","parameters":{"object":true,"lease":"0s"}}]})", "lease is '0s'"},
      {R"({"inputs":[],"outputs":[{"name":"y","parameters":{"object":true,"lease":"2h"}}]})", "at most 1h"},
      {R"({"inputs":[],"outputs":[{"name":"y","parameters":{"object":true,"binary_data":true}}]})",
       "both object and binary_data"},
      {R"({"inputs":[{"name":"x","shape":[2],"datatype":"FP31","data":[1,2]}]})", "did you mean 'FP3"},
      {R"({"inputs":[{"name":"x","shape":[2],"datatype":"BYTES","data":[1,2]}]})", "BYTES is not taken"},
      {R"({"inputs":[{"name":"x","shape":[2],"datatype":"FP16","data":[1,2]}]})", "binary only"},
      {R"({"inputs":[{"name":"x","shape":[-1],"datatype":"FP32","data":[1,2]}]})", "not negative"},
      {R"({"inputs":[{"name":"x","shape":[9000000000000000000,9],"datatype":"FP32","data":[1]}]})", "too large"},
      {R"({"inputs":[{"name":"x","shape":2,"datatype":"FP32","data":[1,2]}]})", "\"shape\" is"},
      {R"({"inputs":[{"name":"x","shape":[2],"data":[1,2]}]})", "\"datatype\" is missing"},
  };
  for (const auto& [json, part] : cases)
    EXPECT_NE(mistake(json).find(part), std::string::npos) << json << "\n" << mistake(json);
}

TEST(InferJson, DataGoesToItsPlace) {
  // `data` before its shape, two JSON inputs round a binary one, and a parameter of the name "data".
  const std::string json =
      R"({"parameters":{"data":1},"inputs":[{"data":[[1,2],[3,4]],"name":"a","shape":[2,2],"datatype":"INT16"},)"
      R"({"name":"b","shape":[1],"datatype":"UINT8","parameters":{"binary_data_size":1}},)"
      R"({"name":"c","shape":[2],"datatype":"FP64","data":[0.1,1e400]}]})";
  InferRequest request;
  ASSERT_TRUE(parse_infer(json, request).ok());
  std::vector<int16_t> a(4);
  std::vector<uint8_t> b(1, 9);
  std::vector<double> c(2);
  std::vector<daemon::CallTensor> tensors(3);
  tensors[0].bytes = std::as_writable_bytes(std::span(a));
  tensors[1].bytes = std::as_writable_bytes(std::span(b));
  tensors[2].bytes = std::as_writable_bytes(std::span(c));
  const Status status = read_tensors(json, request, tensors);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().text, "input c: element 1: 1e400 is no FP64");
  EXPECT_EQ(a, (std::vector<int16_t>{1, 2, 3, 4}));
  EXPECT_EQ(b[0], 9);
  EXPECT_EQ(c[0], 0.1);
}

}  // namespace
}  // namespace quern::server
