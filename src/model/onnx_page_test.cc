// SPDX-License-Identifier: Apache-2.0
#include "model/onnx_page.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace quern::model {
namespace {

TEST(OnnxPage, the_page_says_what_the_table_has) {
  constexpr const char* kPage = "docs/onnx.md";
  if (std::getenv("QUERN_REWRITE")) std::ofstream(kPage) << onnx_page();
  std::ifstream file(kPage);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, onnx_page()) << "QUERN_REWRITE=1 writes it again";
}

}  // namespace
}  // namespace quern::model
