// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace quern {
namespace {

TEST(Hash, IsTheSameInPieces) {
  constexpr std::string_view kEmpty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  EXPECT_EQ(sha256(""), kEmpty);
  EXPECT_EQ(Sha256().take(), kEmpty);
  const std::string text(1000, 'x');
  for (const size_t piece : {size_t{1}, size_t{63}, size_t{64}, size_t{999}, size_t{1000}}) {
    Sha256 hash;
    for (size_t at = 0; at < text.size(); at += piece) hash.add(as_bytes_of(std::string_view(text).substr(at, piece)));
    EXPECT_EQ(hash.take(), sha256(text)) << piece;
  }
}

TEST(Hash, FnvStaysWhatItIs) {
  EXPECT_EQ(Fnv1a().value(), 0xcbf29ce484222325);
  EXPECT_EQ(Fnv1a().add("").value(), Fnv1a().add(uint64_t{0}).value());
  EXPECT_EQ(Fnv1a().add("saxpy").add(uint64_t{640}).value(), 0xa2d3d9903890bb4f);
  EXPECT_NE(Fnv1a().add("saxpy").add(uint64_t{640}).value(), Fnv1a().add("saxpy").add(uint64_t{641}).value());
  EXPECT_NE(Fnv1a().add("ab").add("c").value(), Fnv1a().add("a").add("bc").value());
}

}  // namespace
}  // namespace quern
