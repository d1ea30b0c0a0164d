// SPDX-License-Identifier: Apache-2.0
#include "bench/profiles.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>

#include "bench/data.h"

namespace quern::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kOrion = "Name,Profile,Memory_footprint,SM_usage,Duration\n";
const std::string kRapp = "model,batch,sm_percent,quota_percent,latency_ms\n";

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Profiles, KernelsOfOrionAreReadInOrder) {
  const auto kernels = parse_orion("x.csv", kOrion + "Conv,1,0,49,26688\nvoid a<b, c>,-1,0,1,7\r\n\n");
  ASSERT_TRUE(kernels.ok()) << kernels.error().text;
  EXPECT_THAT(*kernels, ElementsAre(Duration{26688}, Duration{7})) << "a name may have a comma";
}

TEST(Profiles, OrionSaysWhatIsWrong) {
  const auto problem = [](const std::string& text) {
    const auto kernels = parse_orion("x.csv", text);
    EXPECT_FALSE(kernels.ok()) << text;
    return kernels.ok() ? "" : kernels.error().text;
  };
  EXPECT_THAT(problem(""), HasSubstr("x.csv: does not begin"));
  EXPECT_THAT(problem("Name,Duration\n"), HasSubstr("does not begin"));
  EXPECT_THAT(problem(kOrion), HasSubstr("has no kernel"));
  for (const char* line : {"Conv,1,0,49", "Conv,1,0,49,", "Conv,1,0,49,0", "Conv,1,0,49,-3", "Conv,1,0,49,9ns",
                           "Conv,1,0,49,nan", "Conv,1,0,49,1e99"})
    EXPECT_THAT(problem(kOrion + "Conv,1,0,49,8\n" + line), HasSubstr("line 3: is no kernel")) << line;
  EXPECT_EQ(parse_orion("x.csv", kOrion + "Conv,-1,1,1,7\nConv,-1,1,1,7\n").error().code, ErrorCode::kUnsupported);
}

TEST(Profiles, LatenciesOfRappAreReadByModelAndBatch) {
  const auto models = parse_rapp(kRapp + "vgg16,8,5,10,250.4\nvgg16,1,5,100,20\nvgg16,8,5,100,250\nalexnet,1,5,10,3\n");
  ASSERT_TRUE(models.ok()) << models.error().text;
  ASSERT_EQ(models->size(), 3u);
  EXPECT_EQ((*models)[0].name, "alexnet");
  EXPECT_EQ((*models)[2].name, "vgg16");
  EXPECT_EQ((*models)[2].batch, 8u);
  EXPECT_EQ((*models)[2].at(5, 10), 250.4);
  EXPECT_EQ((*models)[2].at(5, 100), 250);
  EXPECT_TRUE(std::isnan((*models)[2].at(5, 20)));
  EXPECT_TRUE(std::isnan((*models)[2].at(6, 10)));
}

TEST(Profiles, RappSaysWhatIsWrong) {
  EXPECT_FALSE(parse_rapp("").ok());
  for (const char* line : {"x", "x,1,5,10", "x,0,5,10,3", "x,1,0,10,3", "x,1,101,10,3", "x,1,5,0,3", "x,1,5,200,3",
                           "x,1,5,10,0", "x,1,5,10,inf", "x,1,5,10,3s", "x,1.5,5,10,3"}) {
    const auto models = parse_rapp(kRapp + line);
    ASSERT_FALSE(models.ok()) << line;
    EXPECT_THAT(models.error().text, HasSubstr("line 2: is no latency")) << line;
  }
}

TEST(Profiles, KernelsOfReefAreReadInTheOrderOfTheGraph) {
  const std::string profile = R"({"kernel_latency": {"a": {"total_latency": 3, "latency": [3]},
                                                     "b": {"total_latency": 40, "latency": [30, 40]}}})";
  const auto kernels = parse_reef("x", R"({"kernels": [{"name": "b"}, {"name": "a"}, {"name": "b"}]})", profile);
  ASSERT_TRUE(kernels.ok()) << kernels.error().text;
  EXPECT_THAT(*kernels, ElementsAre(Duration::micros(40), Duration::micros(3), Duration::micros(40)));
  for (const char* graph : {"", "[]", R"({"kernels": []})", R"({"kernels": [{"name": "c"}]})", R"({"kernels": [7]})"}) {
    const auto wrong = parse_reef("x", graph, profile);
    ASSERT_FALSE(wrong.ok()) << graph;
    EXPECT_THAT(wrong.error().text, HasSubstr("x: ")) << graph;
  }
}

TEST(Profiles, GapsAreTheShareAskedForInAsManyPlaces) {
  const std::vector<Duration> kernels(7, Duration::micros(100));
  for (const size_t places : {1, 3, 7, 0, 100}) {
    const auto sequence = with_gaps(kernels, 0.3, places);
    ASSERT_EQ(sequence.size(), kernels.size());
    const auto gaps = std::count_if(sequence.begin(), sequence.end(), [](const auto& one) { return one.gap.ns > 0; });
    EXPECT_EQ(static_cast<size_t>(gaps), places == 0 || places > 7 ? 7 : places);
    EXPECT_GT(sequence.back().gap.ns, 0) << places;
    const double all = std::accumulate(sequence.begin(), sequence.end(), 0.0,
                                       [](double sum, const auto& one) { return sum + double(one.gap.ns); });
    EXPECT_NEAR(all / (all + 700e3), 0.3, 1e-4) << places;
  }
}

TEST(Profiles, ThePublicOnesAreReadWhole) {
  const auto rapp = find_data("profiles/rapp-v100.csv");
  if (!rapp.ok()) GTEST_SKIP() << rapp.error().text;
  const auto models = parse_rapp(text_of(*rapp));
  ASSERT_TRUE(models.ok()) << models.error().text;
  EXPECT_EQ(models->size(), 69u * 4 - 1) << "69 models at four batch sizes, but for one that was not measured";
  size_t measured = 0, placeholders = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(std::filesystem::path(*rapp).parent_path() / "orion-v100")) {
    const auto kernels = parse_orion(file.path().filename(), text_of(file.path()));
    const bool is_placeholder = file.path().string().ends_with("_fb0.csv");
    EXPECT_EQ(kernels.ok(), !is_placeholder) << file.path() << (kernels.ok() ? "" : kernels.error().text);
    (is_placeholder ? placeholders : measured) += 1;
  }
  EXPECT_EQ(measured, 12u);
  EXPECT_EQ(placeholders, 7u);
}

}  // namespace
}  // namespace quern::bench
