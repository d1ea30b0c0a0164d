// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"

namespace quern::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = ipc::Discovered::Found::Kind;

ipc::Discovered::Found shown(Kind kind, const std::string& platform, const std::string& name,
                             uint64_t memory_bytes = kGiB) {
  ipc::Discovered::Found found;
  found.kind = kind;
  found.platform = platform;
  found.name = name;
  found.memory_bytes = memory_bytes;
  return found;
}

ipc::Discovered::Found broken(Kind kind, const std::string& platform, const std::string& error) {
  ipc::Discovered::Found found = shown(kind, platform, kind == Kind::kNone ? "" : "old");
  found.error = error;
  return found;
}

DeviceConfig entry(const std::string& name, const std::string& platform, uint32_t index = 0) {
  DeviceConfig config;
  config.name = name;
  config.platform = platform;
  config.index = index;
  return config;
}

/// The names of the devices that are used; empty for the others.
std::vector<std::string> names_of(const std::vector<Choice>& choices) {
  std::vector<std::string> names;
  for (const Choice& choice : choices) {
    EXPECT_EQ(choice.is_used, !choice.name.empty());
    EXPECT_FALSE(choice.why.empty()) << choice.found.name;
    names.push_back(choice.name);
  }
  return names;
}

TEST(Choose, TheOnlyCpuIsUsed) {
  const auto choices = choose({shown(Kind::kCpu, "P", "cpu")});
  EXPECT_THAT(names_of(choices), ElementsAre("cpu0"));
  EXPECT_EQ(to_text(choices[0]), "device 'cpu' of platform 'P' is used as cpu0: the only CPU device");
}

TEST(Choose, OfTwoCpuPlatformsOverTheSameCoresTheFirstIsUsed) {
  const auto choices = choose({shown(Kind::kCpu, "P", "cpu"), shown(Kind::kCpu, "Q", "CPU")});
  EXPECT_THAT(names_of(choices), ElementsAre("cpu0", ""));
  EXPECT_EQ(choices[0].why, "the first CPU device");
  EXPECT_EQ(to_text(choices[1]), "device 'CPU' of platform 'Q' is not used: same cores as cpu0 of platform 'P'");
}

TEST(Choose, EveryGpuIsUsedAndThenNoCpu) {
  const auto choices =
      choose({shown(Kind::kCpu, "P", "cpu"), shown(Kind::kGpu, "Q", "card"), shown(Kind::kGpu, "R", "other card")});
  EXPECT_THAT(names_of(choices), ElementsAre("", "gpu0", "gpu1"));
  EXPECT_THAT(choices[0].why, HasSubstr("there is a GPU"));
}

TEST(Choose, AGpuThatTwoPlatformsShowIsUsedOnce) {
  const auto choices = choose({shown(Kind::kGpu, "P", "card"), shown(Kind::kGpu, "Q", "card")});
  EXPECT_THAT(names_of(choices), ElementsAre("gpu0", ""));
  EXPECT_EQ(choices[1].why, "same GPU as gpu0 of platform 'P'");
}

TEST(Choose, EqualGpusOfOnePlatformAreSeveralAlsoIfTwoPlatformsShowThem) {
  const auto p = shown(Kind::kGpu, "P", "card"), q = shown(Kind::kGpu, "Q", "card");
  EXPECT_THAT(names_of(choose({p, p})), ElementsAre("gpu0", "gpu1"));
  const auto choices = choose({p, p, q, q, q});
  EXPECT_THAT(names_of(choices), ElementsAre("gpu0", "gpu1", "", "", "gpu2"));
  EXPECT_EQ(choices[3].why, "same GPU as gpu1 of platform 'P'");
}

TEST(Choose, GpusOfDifferentNameOrMemoryAreDifferent) {
  EXPECT_THAT(names_of(choose({shown(Kind::kGpu, "P", "card", kGiB), shown(Kind::kGpu, "Q", "card", 2 * kGiB),
                               shown(Kind::kGpu, "Q", "other", kGiB)})),
              ElementsAre("gpu0", "gpu1", "gpu2"));
}

TEST(Choose, ABrokenPlatformOrDeviceIsNotUsedAndHidesNoOther) {
  const auto choices = choose({broken(Kind::kCpu, "Old", "has OpenCL 1.1"), broken(Kind::kGpu, "Old", "is gone"),
                               shown(Kind::kCpu, "P", "cpu"), broken(Kind::kNone, "Empty", "shows no device")});
  EXPECT_THAT(names_of(choices), ElementsAre("", "", "cpu0", ""));
  EXPECT_EQ(choices[0].why, "has OpenCL 1.1");
  EXPECT_EQ(choices[2].why, "the only CPU device");
  EXPECT_EQ(to_text(choices[3]), "platform 'Empty' is not used: shows no device");
}

TEST(Choose, NothingAndWhatIsNeitherCpuNorGpuLeaveNothing) {
  EXPECT_THAT(choose({}), IsEmpty());
  const auto choices = choose({shown(Kind::kOther, "P", "board")});
  EXPECT_THAT(names_of(choices), ElementsAre(""));
  EXPECT_THAT(choices[0].why, HasSubstr("name it in quern.yaml"));
}

TEST(Choose, OnlyWhatIsNamedIsUsedAlsoOverTheSameCores) {
  const std::vector found = {shown(Kind::kCpu, "Portable", "a"), shown(Kind::kGpu, "Intel", "b"),
                             shown(Kind::kCpu, "Intel", "c"), broken(Kind::kNone, "Empty", "shows no device")};
  const auto choices = choose(found, {entry("one", "Portable"), entry("two", "Intel", 1)});
  EXPECT_THAT(names_of(choices), ElementsAre("one", "", "two", ""));
  EXPECT_EQ(choices[0].why, "named in quern.yaml");
  EXPECT_EQ(choices[1].why, "not named in quern.yaml");
  EXPECT_EQ(choices[3].why, "shows no device");
  EXPECT_THAT(names_of(choose(found, {entry("x", "", 2), entry("y", "Intel", 1)})), ElementsAre("", "", "x, y", ""));
}

TEST(Choose, ANamedDeviceThatIsBrokenIsNotUsed) {
  const auto choices = choose({broken(Kind::kCpu, "Old", "has OpenCL 1.1")}, {entry("one", "Old")});
  EXPECT_THAT(names_of(choices), ElementsAre(""));
  EXPECT_EQ(choices[0].why, "has OpenCL 1.1");
}

TEST(FindDevice, CountsTheDevicesOfThePlatformsThatMatch) {
  const std::vector found = {shown(Kind::kCpu, "Portable", "a"), shown(Kind::kGpu, "Intel", "b"),
                             shown(Kind::kCpu, "Intel", "c"), broken(Kind::kNone, "Empty", "shows no device")};
  EXPECT_EQ(find_device(found, entry("x", "")), 0U);
  EXPECT_EQ(find_device(found, entry("x", "tel", 1)), 2U);
  EXPECT_EQ(find_device(found, entry("x", "Intel", 2)), std::nullopt);
  EXPECT_EQ(find_device(found, entry("x", "NVIDIA")), std::nullopt);
  EXPECT_EQ(find_device(found, entry("x", "Empty")), std::nullopt);
  DeviceConfig fake = entry("x", "");
  fake.driver = "fake";
  EXPECT_EQ(find_device(found, fake), std::nullopt);
  DeviceConfig other_library = entry("x", "");
  other_library.library = "/opt/libOpenCL.so.1";
  EXPECT_EQ(find_device(found, other_library), std::nullopt);
}

TEST(FindDevice, AWholeNameOfAPlatformIsNoPartOfAnother) {
  const std::vector found = {shown(Kind::kGpu, "Intel(R) OpenCL Graphics", "gpu"),
                             shown(Kind::kCpu, "Intel(R) OpenCL", "cpu")};
  EXPECT_EQ(find_device(found, entry("x", "Intel(R) OpenCL")), 1U);
  EXPECT_EQ(find_device(found, entry("x", "Intel(R) OpenCL", 1)), std::nullopt);
  EXPECT_EQ(find_device(found, entry("x", "Intel", 1)), 1U);
}

TEST(SharedCores, TwoPlatformsOnOneCoreAreWarnedAbout) {
  const auto warnings = warnings_of_shared_cores({{"a", "P", {0, 1}}, {"b", "Q", {1, 2}}, {"c", "R", {3}}});
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], HasSubstr("device b: shares cores 1 with device a of another platform"));
}

TEST(SharedCores, ADeviceWithoutAListOfCoresIsOnAll) {
  EXPECT_THAT(warnings_of_shared_cores({{"a", "P", {}}, {"b", "Q", {2}}}), ElementsAre(HasSubstr("shares cores 2 ")));
  EXPECT_THAT(warnings_of_shared_cores({{"a", "P", {}}, {"b", "Q", {}}}), ElementsAre(HasSubstr("shares all cores ")));
}

TEST(SharedCores, OnePlatformOrDifferentCoresAreNot) {
  EXPECT_THAT(warnings_of_shared_cores({{"a", "P", {0}}, {"b", "P", {0}}}), IsEmpty());
  EXPECT_THAT(warnings_of_shared_cores({{"a", "P", {0}}, {"b", "Q", {1}}}), IsEmpty());
}

}  // namespace
}  // namespace quern::daemon
