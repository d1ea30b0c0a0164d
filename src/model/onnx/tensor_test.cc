// SPDX-License-Identifier: Apache-2.0
#include "model/onnx/tensor.h"

#include <gmock/gmock.h>

#include "model/onnx/external.h"
#include "model/onnx/read.h"
#include "model/onnx/write_test.h"

namespace quern::model::onnx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace test;

struct Decoded {
  std::string file;
  std::string error;
  std::vector<double> values;
  ir::Tensor tensor;
};
Decoded decoded(const Proto& proto, const ExternalFiles& files = {}) {
  Decoded out;
  out.file = proto.text();
  auto read = read_tensor(as_bytes_of(out.file));
  if (!read.ok()) return out.error = read.error().text, out;
  auto tensor = decode(*read, files);
  if (!tensor.ok()) return out.error = tensor.error().text, out;
  for (size_t i = 0; i < tensor->elements(); ++i) out.values.push_back(tensor->real(i));
  out.tensor = std::move(*tensor);
  return out;
}

TEST(OnnxTensor, raw_data_stay_where_they_are) {
  const std::string file = floats("w", {2}, {1.5f, -2}).text();
  auto read = read_tensor(as_bytes_of(file));
  ASSERT_TRUE(read.ok());
  auto tensor = decode(*read, {});
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->real(1), -2);
  const auto* bytes = reinterpret_cast<const char*>(tensor->bytes().data());
  EXPECT_TRUE(bytes > file.data() && bytes < file.data() + file.size());
}

TEST(OnnxTensor, every_field_of_elements_is_read_for_the_types_it_carries) {
  EXPECT_THAT(decoded(tensor("t", 1, {3}).packed_fixed<float>(4, {1, 2, 3})).values, ElementsAre(1, 2, 3));
  EXPECT_THAT(decoded(tensor("t", 1, {2}).real(4, 1).real(4, 2)).values, ElementsAre(1, 2));
  EXPECT_THAT(decoded(tensor("t", 11, {1}).packed_fixed<double>(10, {0.25})).values, ElementsAre(0.25));
  EXPECT_THAT(decoded(tensor("t", 7, {2}).packed(7, {-5, 6})).values, ElementsAre(-5, 6));
  EXPECT_THAT(decoded(tensor("t", 6, {2}).packed(5, {-5, 6})).values, ElementsAre(-5, 6));
  EXPECT_THAT(decoded(tensor("t", 6, {2}).number(5, -5).number(5, 6)).values, ElementsAre(-5, 6));
  EXPECT_THAT(decoded(tensor("t", 3, {2}).packed(5, {-5, 6})).values, ElementsAre(-5, 6));
  EXPECT_THAT(decoded(tensor("t", 2, {2}).packed(5, {200, 6})).values, ElementsAre(200, 6));
  EXPECT_THAT(decoded(tensor("t", 9, {2}).packed(5, {1, 0})).values, ElementsAre(1, 0));
  EXPECT_THAT(decoded(tensor("t", 13, {1}).packed(11, {77})).values, ElementsAre(77));
  EXPECT_THAT(decoded(tensor("t", 12, {1}).packed(11, {77})).values, ElementsAre(77));
}

TEST(OnnxTensor, floats_of_16_bits_ride_in_int32_data_as_their_bits) {
  EXPECT_THAT(decoded(tensor("t", 10, {2}).packed(5, {0x3e00, 0xc000})).values, ElementsAre(1.5, -2));
  EXPECT_THAT(decoded(tensor("t", 16, {2}).packed(5, {0x3fc0, 0xc000})).values, ElementsAre(1.5, -2));
}

TEST(OnnxTensor, a_scalar_has_no_sizes_and_a_tensor_of_size_0_no_elements) {
  EXPECT_THAT(decoded(floats("t", {}, {7})).values, ElementsAre(7));
  EXPECT_THAT(decoded(floats("t", {3, 0}, {})).error, "");
  EXPECT_THAT(decoded(tensor("t", 7, {0})).error, "");
}

TEST(OnnxTensor, data_that_do_not_fit_the_sizes_are_refused) {
  EXPECT_THAT(decoded(floats("t", {3}, {1, 2})).error,
              HasSubstr("'t': has 8 bytes of data, and its sizes [3] ask for 12"));
  EXPECT_THAT(decoded(tensor("t", 7, {2}).packed(7, {1})).error, HasSubstr("has 1 elements"));
  EXPECT_THAT(decoded(tensor("t", 7, {2}).packed(7, {1, 2, 3})).error, HasSubstr("ask for 2"));
  EXPECT_THAT(decoded(tensor("t", 7, {1 << 20, 1 << 19}).packed(7, {1})).error, HasSubstr("has 1 elements"));
  EXPECT_THAT(decoded(tensor("t", 7, {1 << 30, 1 << 30})).error, HasSubstr("split it"));
  EXPECT_THAT(decoded(tensor("t", 7, {1}).bytes(7, "\xff")).error, HasSubstr("end within a number"));
}

TEST(OnnxTensor, types_without_a_dtype_are_named) {
  EXPECT_THAT(decoded(tensor("t", 8, {1}).bytes(6, "text")).error, HasSubstr("elements of STRING are not supported"));
  EXPECT_THAT(decoded(tensor("t", 17, {1})).error, HasSubstr("elements of FLOAT8E4M3FN are not supported"));
  EXPECT_THAT(decoded(tensor("t", 99, {1})).error, HasSubstr("elements of type 99 are not supported"));
}

TEST(OnnxTensor, a_bool_is_0_or_1) {
  EXPECT_THAT(decoded(tensor("t", 9, {1}).bytes(9, "\x02")).error, HasSubstr("holds a bool of 2"));
}

Proto external(std::string_view location, std::string_view offset = "0", std::string_view length = "8") {
  auto entry = [](std::string_view key, std::string_view value) { return Proto().bytes(1, key).bytes(2, value); };
  return tensor("t", 1, {2})
      .message(13, entry("location", location))
      .message(13, entry("offset", offset))
      .message(13, entry("length", length))
      .number(14, 1);
}

TEST(OnnxExternal, elements_come_from_the_named_range_of_the_named_file) {
  const float data[] = {9, 1, 2};
  std::string asked;
  const ExternalFiles files = [&](const std::string& path) -> Result<Span> {
    asked = path;
    return Span(std::as_bytes(std::span(data)));
  };
  EXPECT_THAT(decoded(external("sub/weights.bin", "4"), files).values, ElementsAre(1, 2));
  EXPECT_EQ(asked, "sub/weights.bin");
  EXPECT_THAT(decoded(external("./weights.bin"), files).values, ElementsAre(9, 1));
  EXPECT_EQ(asked, "weights.bin");
  EXPECT_THAT(decoded(external("w", "5"), files).error, HasSubstr("bytes 5 to 13 of 'w' are asked for, which has 12"));
  EXPECT_THAT(decoded(external("w", "18446744073709551615"), files).error, HasSubstr("cut off"));
  EXPECT_THAT(decoded(external("w", "0", "4"), files).error, HasSubstr("has 4 bytes of external data"));
  EXPECT_THAT(decoded(external("w", "-1"), files).error, HasSubstr("is no number"));
}

TEST(OnnxExternal, a_path_that_leaves_the_folder_is_never_opened) {
  const ExternalFiles files = [&](const std::string& path) -> Result<Span> {
    ADD_FAILURE() << path;
    return Span();
  };
  for (const char* path :
       {"", "/etc/passwd", "../w", "a/../../w", "a//b", "a/", ".", "..", "a/./b", "a\\..\\b", "./../w"})
    EXPECT_THAT(decoded(external(path), files).error, HasSubstr("not below the model's folder")) << path;
}

TEST(OnnxExternal, a_model_without_its_folder_says_which_file_is_missing) {
  EXPECT_THAT(decoded(external("w.bin")).error, HasSubstr("in the file 'w.bin', which is not here"));
}

}  // namespace
}  // namespace quern::model::onnx
