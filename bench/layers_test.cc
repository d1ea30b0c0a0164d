// SPDX-License-Identifier: Apache-2.0
#include "bench/layers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "function/plan_builder.h"
#include "function/tar.h"

namespace quern::bench {
namespace {

Files files_of(const Layers& layers) {
  const auto tar = layers.tar();
  EXPECT_TRUE(tar.ok()) << tar.error().text;
  auto files = read_tar(tar.ok() ? *tar : Bytes());
  EXPECT_TRUE(files.ok()) << files.error().text;
  return files.ok() ? std::move(files).value() : Files();
}

Manifest manifest_of(const Layers& layers) {
  ParsedManifest parsed = parse_manifest(files_of(layers));
  EXPECT_TRUE(parsed.manifest) << (parsed.mistakes.empty() ? "" : parsed.mistakes.front().text);
  return parsed.manifest ? *std::move(parsed.manifest) : Manifest();
}

uint64_t weights_of(const Manifest& manifest, size_t* count) {
  const auto plan = make_plan(manifest, corner_of(manifest, Corner::kDefault));
  EXPECT_TRUE(plan.ok()) << plan.error().text;
  uint64_t bytes = 0;
  for (const PlannedBuffer& buffer : plan->buffers)
    if (buffer.role == Role::kConstant) {
      bytes += buffer.size_bytes;
      ++*count;
    }
  return bytes;
}

TEST(Layers, HasItsNameAndItsWeights) {
  const Manifest manifest = manifest_of({.name = "model", .head_bytes = 4096});
  EXPECT_EQ(manifest.name, "model");
  size_t count = 0;
  EXPECT_EQ(weights_of(manifest, &count), 4096u);
  EXPECT_EQ(count, 1u);
}

TEST(Layers, HasTwoConstantsIfItIsToldSo) {
  const Manifest manifest = manifest_of({.name = "model", .head_bytes = 4096, .body_bytes = 512});
  size_t count = 0;
  EXPECT_EQ(weights_of(manifest, &count), 4608u);
  EXPECT_EQ(count, 2u);
}

TEST(Layers, ContentDecidesWhatIsTheSameObject) {
  const Layers one{.name = "one", .head_bytes = 4096, .head_content = 7};
  Layers other = one;
  other.name = "other";
  EXPECT_EQ(files_of(one)["head.bin"], files_of(other)["head.bin"]);
  other.head_content = 8;
  EXPECT_NE(files_of(one)["head.bin"], files_of(other)["head.bin"]);
}

TEST(Layers, AVariantIsAnotherProgram) {
  const Manifest plain = manifest_of({.name = "model"}), variant = manifest_of({.name = "model", .variant = 3});
  EXPECT_NE(plain.programs[0].defines, variant.programs[0].defines);
}

TEST(Layers, ACallFitsTheManifest) {
  const Manifest manifest = manifest_of({.name = "model", .head_bytes = 64});
  const LayersCall call{.input_words = 2048, .scratch_words = 100, .launches = 9, .iterations = 1};
  const auto binding = bind(manifest, call.spec());
  ASSERT_TRUE(binding.ok()) << binding.error().text;
  const auto plan = make_plan(manifest, *binding);
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  ASSERT_EQ(plan->repeats.size(), 1u);
  EXPECT_EQ(plan->repeats[0].rounds, 9u);
}

}  // namespace
}  // namespace quern::bench
