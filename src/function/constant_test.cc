// SPDX-License-Identifier: Apache-2.0
#include "function/constant.h"

#include <gtest/gtest.h>

#include "function/npy.h"
#include "function/safetensors.h"

namespace quern {
namespace {

std::string safetensors(std::string header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  for (size_t i = 0; i < data_bytes; ++i) header += static_cast<char>(i);
  return file + header;
}

class ConstantTest : public testing::Test {
 protected:
  ConstantTest() {
    buffer_.name = "w";
    buffer_.role = Role::kConstant;
    set(Dtype::kFp32, {2, 3});
  }
  void set(Dtype dtype, Shape shape) {
    buffer_.dtype = planned_.dtype = dtype;
    planned_.shape = shape;
    planned_.size_bytes = size_of(dtype);
    for (const int64_t size : shape) planned_.size_bytes *= static_cast<uint64_t>(size);
  }
  Result<std::span<const std::byte>> read(const std::string& name, std::string_view content) {
    buffer_.file = name;
    files_ = {{name, bytes_of(content)}};
    QUERN_TRY(const ConstantElements elements, constant_elements(buffer_, planned_, files_));
    EXPECT_EQ(elements.slice, nullptr);
    // Of a large file only the head is here: the same elements are found as a slice, or the same is wrong with it.
    EXPECT_EQ(text_of_large(name, content), as_text(elements.bytes));
    return elements.bytes;
  }
  std::string text_of_large(const std::string& name, std::string_view content) {
    const std::string_view head = content.substr(0, head_bytes_of(name));
    Files files = {{name, bytes_of(head)}};
    files.large[name] = {content.size(), "", slices_of(name, as_bytes_of(head), content.size())};
    const auto elements = constant_elements(buffer_, planned_, files);
    if (!elements.ok()) return elements.error().text;
    if (!elements->slice) return std::string(as_text(elements->bytes));
    return std::string(content.substr(elements->slice->offset, elements->slice->size_bytes));
  }

  BufferDecl buffer_;
  PlannedBuffer planned_;
  Files files_;
};

TEST_F(ConstantTest, RawFilesAreTakenAsTheyAre) {
  EXPECT_EQ(as_text(*read("w.bin", std::string(24, 'x'))), std::string(24, 'x'));
  EXPECT_EQ(read("w.bin", std::string(23, 'x')).error().text,
            "constant 'w': file 'w.bin': is 23 bytes, but fp32 [2,3] needs 24");
  EXPECT_FALSE(read("w.bin", std::string(25, 'x')).ok());
  files_.clear();
  EXPECT_EQ(constant_elements(buffer_, planned_, files_).error().code, ErrorCode::kNotFound);
}

TEST_F(ConstantTest, NpyFilesMustMatch) {
  const std::string file = *npy_header(Dtype::kFp32, planned_.shape) + std::string(24, 'x');
  EXPECT_EQ(as_text(*read("w.npy", file)), std::string(24, 'x'));
  EXPECT_FALSE(read("w.npy", std::string(24, 'x')).ok()) << "the name says .npy";
  set(Dtype::kFp32, {3, 2});
  EXPECT_EQ(read("w.npy", file).error().text,
            "constant 'w': file 'w.npy': has shape [2,3] but the manifest says [3,2]");
  set(Dtype::kInt32, {2, 3});
  EXPECT_EQ(read("w.npy", file).error().text, "constant 'w': file 'w.npy': has dtype fp32 but the manifest says int32");
  set(Dtype::kBf16, {4});
  EXPECT_EQ(read("w.npy", *npy_header(Dtype::kUint16, planned_.shape) + std::string(8, 'x'))->size(), 8u);
}

TEST_F(ConstantTest, SafetensorsAreFoundByName) {
  const std::string header = R"({"__metadata__":{"format":"pt"},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},)"
                             R"("c":{"dtype":"F8","shape":[1],"data_offsets":[28,29]}})";
  const std::string file = safetensors(header, 29);
  buffer_.tensor = "b";
  const auto bytes = read("w.safetensors", file);
  ASSERT_TRUE(bytes.ok()) << bytes.error().text;
  EXPECT_EQ(bytes->size(), 24u);
  EXPECT_EQ(bytes->front(), std::byte{4});
  buffer_.tensor = "bb";
  EXPECT_EQ(read("w.safetensors", file).error().text,
            "constant 'w': file 'w.safetensors': has no tensor 'bb' of a dtype we know; did you mean 'b'?");
  buffer_.tensor = "a";
  EXPECT_EQ(read("w.safetensors", file).error().text,
            "constant 'w': file 'w.safetensors': has dtype uint8 but the manifest says fp32");
}

TEST_F(ConstantTest, DamagedSafetensorsAreRefused) {
  buffer_.tensor = "a";
  const auto problem = [&](const std::string& header, size_t bytes) {
    const auto read_back = read("w.safetensors", safetensors(header, bytes));
    return read_back.ok() ? "" : read_back.error().text;
  };
  for (const char* header :
       {R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})",
        R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[8,4]}})",
        R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0]}})", R"({"a":{"dtype":"F32","shape":[2,3]}})",
        R"({"a":{"dtype":"F32","shape":"x","data_offsets":[0,20]}})", R"({"a":{"shape":[5],"data_offsets":[0,20]}})",
        R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,20]}})",
        R"({"a":{"dtype":"F32","shape":[-5],"data_offsets":[0,20]}})",
        R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,20]}})", "[]", "{", "", "{\"a\": 3}"})
    EXPECT_NE(problem(header, 20), "") << header;
  EXPECT_NE(read("w.safetensors", "1234").error().text.find("shorter"), std::string::npos);
  EXPECT_NE(read("w.safetensors", std::string(8, '\xff')).error().text.find("at most"), std::string::npos);
  EXPECT_NE(read("w.safetensors", std::string("\x09\0\0\0\0\0\0\0{}", 10)).error().text.find("within"),
            std::string::npos);
}

TEST_F(ConstantTest, SlicesOfLargeFilesDoNotOverlap) {
  const auto slices = [](const std::string& header, size_t data) {
    std::string head(8, '\0');
    head[0] = static_cast<char>(header.size());
    head += header;
    return slices_of("w.safetensors", as_bytes_of(head), head.size() + data);
  };
  const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]})";
  const auto two = slices("{" + a + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 16);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_LT(two[0].offset, two[1].offset) << "in the order of the file";
  EXPECT_EQ(slices("{" + a + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 16).size(), 0u);
  EXPECT_EQ(slices_of("w.npy", as_bytes_of("no npy"), 1 << 20).size(), 0u);
}

TEST_F(ConstantTest, DataInTheManifestMustFill) {
  buffer_.data = Bytes(24);
  EXPECT_EQ(constant_elements(buffer_, planned_, {})->bytes.size(), 24u);
  buffer_.data = Bytes(20);
  EXPECT_EQ(constant_elements(buffer_, planned_, {}).error().text,
            "constant 'w': data has 5 elements, but shape [2,3] needs 6");
}

}  // namespace
}  // namespace quern
