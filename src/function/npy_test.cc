// SPDX-License-Identifier: Apache-2.0
#include "function/npy.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

// A version 1 file with this dict as its header.
std::string file_with(std::string_view dict, size_t data_bytes, char version = 1) {
  std::string file("\x93NUMPY", 6);
  file += version;
  file += '\0';
  file += static_cast<char>(dict.size() & 0xff);
  file += static_cast<char>(dict.size() >> 8);
  if (version != 1) file += std::string(2, '\0');
  return file + std::string(dict) + std::string(data_bytes, '\0');
}

Result<Npy> header_of(const std::string& file) { return read_npy_header(as_bytes_of(file)); }

TEST(Npy, ReadsBackWhatItWrote) {
  for (int i = 0; i < kDtypes; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 3}, Shape{1, 1, 1, 1, 1, 1, 1, 4}, Shape{0}, Shape{5, 0}}) {
      auto header = npy_header(dtype, shape);
      if (dtype == Dtype::kBf16) {
        EXPECT_EQ(header.error().code, ErrorCode::kUnsupported);
        continue;
      }
      EXPECT_EQ(header->size() % 64, 0u);
      EXPECT_EQ(header->back(), '\n');
      size_t bytes = size_of(dtype);
      for (int64_t size : shape) bytes *= static_cast<size_t>(size);
      auto npy = header_of(*header + std::string(bytes, 'x'));
      ASSERT_TRUE(npy.ok()) << npy.error().text;
      EXPECT_EQ(npy->dtype, dtype);
      EXPECT_EQ(npy->shape, shape);
      EXPECT_EQ(npy->data_offset, header->size());
      EXPECT_EQ(header_of(*header + std::string(bytes + 1, 'x')).error().code, ErrorCode::kInvalid);
      if (bytes > 0) {
        EXPECT_EQ(header_of(*header + std::string(bytes - 1, 'x')).error().code, ErrorCode::kInvalid);
      }
    }
  }
}

TEST(Npy, WritesWhatNumpyWrites) {
  const int64_t shape[] = {2, 3}, line[] = {7};
  EXPECT_EQ(npy_header(Dtype::kFp32, shape)->substr(10, 58),
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), ");
  EXPECT_NE(npy_header(Dtype::kUint8, line)->find("'|u1', 'fortran_order': False, 'shape': (7,), }"),
            std::string::npos);
}

TEST(Npy, ReadsOtherVersionsAndSpellings) {
  EXPECT_TRUE(header_of(file_with("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8, 2)).ok());
  EXPECT_TRUE(header_of(file_with("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8, 3)).ok());
  EXPECT_TRUE(header_of(file_with("{\"shape\":(2L,),\"fortran_order\":False,\"descr\":\"<f4\"}\n", 8)).ok());
  EXPECT_EQ(header_of(file_with("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8, 4)).error().code,
            ErrorCode::kUnsupported);
}

TEST(Npy, SaysWhatIsNotSupported) {
  for (std::string_view dict : {"{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }",
                                "{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }",
                                "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }",
                                "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
                                "{'descr': '', 'fortran_order': False, 'shape': (1,), }",
                                "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }"})
    EXPECT_EQ(header_of(file_with(dict, 8)).error().code, ErrorCode::kUnsupported) << dict;
}

TEST(Npy, RefusesWhatIsDamaged) {
  for (std::string_view dict :
       {"", "{", "{}", "[]", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 2}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2 1)}",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
        "{'descr: '<f4', 'fortran_order': False, 'shape': (2,)}",
        "{'other': 1, 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}"})
    EXPECT_EQ(header_of(file_with(dict, 8)).error().code, ErrorCode::kInvalid) << dict;
  EXPECT_FALSE(header_of("").ok());
  EXPECT_FALSE(header_of("\x93NUMPY").ok());
  EXPECT_FALSE(header_of(std::string("\x93NUMPY\x01\0\xff\xff{}", 12)).ok());
  EXPECT_FALSE(header_of(std::string("\x93NUMPY\x02\0\xff\xff\xff\xff{}", 14)).ok());
  std::string deep = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < 40; ++i) deep += "1,";
  EXPECT_FALSE(header_of(file_with(deep + ")}", 4)).ok());
}

TEST(Npy, WritesNoFileThatItCouldNotName) {
  EXPECT_EQ(npy_header(Dtype::kBf16, Shape{2}).error().text,
            "npy: bf16 has no name in .npy files; ask for another dtype");
  EXPECT_EQ(npy_header(Dtype::kFp32, Shape(40000, 1)).error().text, "npy: the shape does not fit a header");
}

}  // namespace
}  // namespace quern
