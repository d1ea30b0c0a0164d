// SPDX-License-Identifier: Apache-2.0
#include "client/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/address.h"
#include "client/wire.h"
#include "function/tar.h"
#include "os/file.h"

namespace quern::client {
namespace {

using testing::HasSubstr;

HttpAnswer answer(int status, std::string_view body, uint64_t json_bytes = 0) {
  HttpAnswer one;
  one.status = status;
  const auto bytes = as_bytes_of(body);
  one.body.assign(bytes.begin(), bytes.end());
  one.json_bytes = json_bytes == 0 ? body.size() : json_bytes;
  return one;
}

TEST(Address, TakesHostAndPort) {
  const auto plain = parse_address("http://127.0.0.1:8080/");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->host, "127.0.0.1");
  EXPECT_EQ(plain->port, 8080);
  const auto six = parse_address("http://[::1]:99");
  ASSERT_TRUE(six.ok());
  EXPECT_EQ(six->host, "::1");
  EXPECT_EQ(six->port, 99);
  EXPECT_EQ(parse_address("http://box")->port, 80);
}

TEST(Address, RefusesWhatItIsNot) {
  EXPECT_THAT(parse_address("https://box").error().text, HasSubstr("TLS is not built yet"));
  for (const char* url : {"", "box:80", "http://", "http://:80", "http://box:0", "http://box:99999", "http://box:8x",
                          "http://box/path", "http://user@box", "http://[::1", "http://a b"})
    EXPECT_FALSE(parse_address(url).ok()) << url;
}

TEST(Client, SaysWhatToDoWithoutServer) {
  auto client = Client::create({.url = "http://127.0.0.1:1", .key = ""});
  ASSERT_TRUE(client.ok());
  const auto functions = client->functions();
  ASSERT_FALSE(functions.ok());
  EXPECT_EQ(functions.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(functions.error().text, HasSubstr("quern serve"));
}

TEST(Client, RefusesKeyThatCouldBreakTheHeader) {
  EXPECT_FALSE(Client::create({.url = "http://127.0.0.1:1", .key = "a\r\nX: b"}).ok());
}

TEST(Wire, ErrorCarriesCodeAndText) {
  const auto error = error_of(answer(404, R"({"error":"function x: is not there","code":"not_found","request":"r"})"));
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_EQ(error.text, "function x: is not there");
  EXPECT_EQ(error_of(answer(502, "<html>")).code, ErrorCode::kInternal);
}

TEST(Wire, InferAsksForBinary) {
  InferRequest request;
  request.function = "f";
  const Bytes bytes(8);
  request.inputs.push_back({"x", Dtype::kFp32, {2}, bytes});
  request.parameters["alpha"] = 2.5;
  EXPECT_EQ(infer_json(request),
            R"({"parameters":{"alpha":2.5E0,"binary_data_output":true},"inputs":[{"name":"x","datatype":"FP32",)"
            R"("shape":[2],"parameters":{"binary_data_size":8}}]})");
  request.outputs = {"z"};
  EXPECT_THAT(infer_json(request), HasSubstr(R"("outputs":[{"name":"z","parameters":{"binary_data":true}}])"));
  request.parameters = {{"low", INT64_MIN}, {"high", UINT64_MAX}};
  EXPECT_THAT(infer_json(request), HasSubstr(R"({"high":18446744073709551615,"low":-9223372036854775808})"));
}

TEST(Wire, ObjectsGoByTheirIds) {
  InferRequest request;
  request.function = "f";
  TensorView x{"x", Dtype::kFp32, {2}, {}};
  x.object = "lease-1";
  request.inputs.push_back(x);
  request.outputs = {"y", "z", "w"};
  request.kept = {{"y", Duration::seconds(90)}, {"z", std::nullopt}};
  EXPECT_EQ(infer_json(request),
            R"({"inputs":[{"name":"x","datatype":"FP32","shape":[2],"parameters":{"object":"lease-1"}}],"outputs":[)"
            R"({"name":"y","parameters":{"object":true,"lease":"90s"}},{"name":"z","parameters":{"object":true}},)"
            R"({"name":"w","parameters":{"binary_data":true}}]})");
  const std::string json = R"({"outputs":[{"name":"y","datatype":"FP32","shape":[2],)"
                           R"("parameters":{"object":"lease-2","bytes":8,"expires_in":"90s"}},)"
                           R"({"name":"w","datatype":"UINT8","shape":[3],"parameters":{"binary_data_size":3}}]})";
  const auto read = read_infer_answer(answer(200, json + "abc", json.size()));
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_EQ(read->outputs[0].object, "lease-2");
  EXPECT_EQ(read->outputs[0].expires_in, "90s");
  EXPECT_TRUE(read->outputs[0].bytes.empty());
  EXPECT_EQ(as_text(read->outputs[1].bytes), "abc");
}

TEST(Wire, ReadsObjects) {
  EXPECT_EQ(*read_stored(answer(201, R"({"object":"ab","bytes":3})")), "ab");
  EXPECT_FALSE(read_stored(answer(201, "{}")).ok());
  const auto list =
      read_objects(answer(200, R"({"objects":[{"object":"ab","bytes":3,"kind":"stored","created_at":"t"},)"
                               R"({"object":"lease-1","bytes":4,"kind":"lease","expires_in":"5s"}]})"));
  ASSERT_TRUE(list.ok() && list->items.size() == 2);
  EXPECT_EQ(list->items[0].bytes, 3U);
  EXPECT_EQ(list->items[0].created_at, "t");
  EXPECT_EQ(list->items[1].kind, "lease");
  EXPECT_EQ(list->items[1].expires_in, "5s");
}

TEST(Wire, ReadsBinaryOutputsInPlace) {
  const std::string json = R"({"model_name":"f","model_version":"12","outputs":[)"
                           R"({"name":"a","datatype":"UINT8","shape":[3],"parameters":{"binary_data_size":3}},)"
                           R"({"name":"b","datatype":"INT16","shape":[1],"parameters":{"binary_data_size":2}}]})";
  auto read = read_infer_answer(answer(200, json + "abcde", json.size()));
  ASSERT_TRUE(read.ok()) << read.error().text;
  ASSERT_EQ(read->outputs.size(), 2U);
  EXPECT_EQ(as_text(read->outputs[0].bytes), "abc");
  EXPECT_EQ(as_text(read->outputs[1].bytes), "de");
  EXPECT_EQ(read->version, "12");
  // A server that lies about sizes is not believed.
  EXPECT_FALSE(read_infer_answer(answer(200, json + "abcd", json.size())).ok());
  EXPECT_FALSE(read_infer_answer(answer(200, json + "abcdef", json.size())).ok());
  EXPECT_FALSE(read_infer_answer(answer(200, "{}")).ok());
  EXPECT_FALSE(read_infer_answer(answer(200, R"({"outputs":[{"name":"a","datatype":"FP32","shape":[-1]}]})")).ok());
}

class Pack : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "packXXXXXX";
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override { os::remove_tree(folder_); }
  void write(const std::string& name, std::string_view text) {
    ASSERT_TRUE(os::write_file(folder_ + "/" + name, as_bytes_of(text)).ok());
  }
  std::string folder_;
};

TEST_F(Pack, TakesNameFromManifestAndLeavesDotfiles) {
  write("function.yaml", "name: mill\nprograms: {opencl: mill.cl}\n");
  write("mill.cl", "kernel");
  write(".secret", "no");
  const auto packed = pack_folder(folder_);
  ASSERT_TRUE(packed.ok()) << packed.error().text;
  EXPECT_EQ(packed->name, "mill");
  const auto text = as_text(packed->tar);
  EXPECT_NE(text.find("mill.cl"), std::string_view::npos);
  EXPECT_EQ(text.find(".secret"), std::string_view::npos);
}

TEST_F(Pack, TakesOnlyWhatTheManifestNames) {
  write("function.yaml",
        "programs: {opencl: {files: [a.cl], headers: [a.h]}, cuda: b.cu}\n"
        "buffers: {w: {role: constant, file: w.npy}, x: {role: input}}\n");
  for (const char* name : {"a.cl", "a.h", "b.cu", "w.npy", "notes.txt"}) write(name, "text");
  ASSERT_EQ(symlink("/etc/passwd", (folder_ + "/link").c_str()), 0);
  const auto packed = pack_folder(folder_);
  ASSERT_TRUE(packed.ok()) << packed.error().text;
  const auto files = read_tar(packed->tar);
  ASSERT_TRUE(files.ok());
  std::vector<std::string> names;
  for (const auto& [name, bytes] : *files) names.push_back(name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("function.yaml", "a.cl", "a.h", "b.cu", "w.npy"));
}

TEST_F(Pack, RefusesALinkThatTheManifestNames) {
  write("function.yaml", "programs: {opencl: link/a.cl}\n");
  ASSERT_EQ(symlink("/etc", (folder_ + "/link").c_str()), 0);
  EXPECT_THAT(pack_folder(folder_).error().text, HasSubstr("/link: is a link"));
  write("function.yaml", "programs: {opencl: ../a.cl}\n");
  EXPECT_TRUE(pack_folder(folder_).ok()) << "it is not read, and the parser says that it is not there";
}

TEST_F(Pack, AddsOtherNamesWhereOneIsMissing) {
  write("function.yaml", "programs: {opencl: mil.cl}\n");
  write("mill.cl", "kernel");
  const auto packed = pack_folder(folder_);
  ASSERT_TRUE(packed.ok()) << packed.error().text;
  const auto files = read_tar(packed->tar);
  ASSERT_TRUE(files.ok());
  ASSERT_TRUE(files->contains("mill.cl")) << "so that it can be suggested";
  EXPECT_TRUE(files->at("mill.cl").empty());
}

TEST_F(Pack, WithoutManifestSaysSo) {
  EXPECT_THAT(pack_folder(folder_).error().text, HasSubstr("has no function.yaml"));
  EXPECT_THAT(pack_folder(folder_ + "/none").error().text, HasSubstr("is no folder"));
}

TEST(PercentEncode, KeepsWhatIsPlain) { EXPECT_EQ(percent_encode("a-b@1 /ä"), "a-b%401%20%2F%C3%A4"); }

}  // namespace
}  // namespace quern::client
