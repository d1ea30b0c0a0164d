// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "hal/cts/suite.h"

namespace quern::hal::cts {
namespace {

class Programs : public Suite {
 protected:
  const EntryInfo& entry(const std::string& name) {
    for (const auto& info : program().entries())
      if (info.name == name) return info;
    QUERN_CHECK(false, "no entry " + name);
    std::abort();
  }
};

TEST_F(Programs, ThatAreWrongGiveTheCompilersLog) {
  auto built =
      device().build({"kernel void suite_add(global const int* in, global int* out, int value) {\n"
                      "#error the reason why\n}\n",
                      "",
                      {}});
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, built);
  EXPECT_NE(built.error().text.find("the reason why"), std::string::npos) << built.error().text;
  EXPECT_NE(built.error().text.find(":2:"), std::string::npos) << built.error().text;
  EXPECT_EQ(built.error().text.find(folder()), std::string::npos) << built.error().text;
}

TEST_F(Programs, WithUnbalancedBracesAreRefused) {
  QUERN_EXPECT_CODE(ErrorCode::kInvalid,
                    device().build({"kernel void suite_spin(global uint* out, uint rounds) {", "", {}}));
}

TEST_F(Programs, WithoutKernelsAreRefused) {
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, device().build({"int nothing(int x) { return x; }\n", "", {}}));
}

TEST_F(Programs, TellTheirArguments) {
  EXPECT_EQ(program().entries().size(), 8u);
  const std::vector<ArgumentInfo> add = {{"in", "int*", AddressSpace::kGlobal, true},
                                         {"out", "int*", AddressSpace::kGlobal, false},
                                         {"value", "int", AddressSpace::kPrivate, false}};
  auto seen = entry("suite_add").arguments;
  for (auto& argument : seen) argument.access = Access::kUnknown;  // not every driver can tell
  EXPECT_EQ(seen, add);
  EXPECT_EQ(entry("suite_reverse").arguments.at(2).space, AddressSpace::kLocal);
  EXPECT_EQ(entry("suite_table").arguments.at(0).space, AddressSpace::kConstant);
  EXPECT_TRUE(entry("suite_table").arguments.at(0).is_const);
  const std::vector<std::string> types = {"ulong*", "char", "uchar", "short", "ushort",
                                          "int",    "uint", "long",  "ulong", "float"};
  for (size_t i = 0; i < types.size(); ++i) EXPECT_EQ(entry("suite_scalars").arguments.at(i).type, types[i]);
}

TEST_F(Programs, TellWhatTheyDoWithMemory) {
  const auto access = [&](const char* name, size_t i) { return entry(name).arguments.at(i).access; };
  if (access("suite_add", 0) == Access::kUnknown) GTEST_SKIP() << "nothing tells: " << entry("suite_add").unsliceable;
  EXPECT_EQ(access("suite_add", 0), Access::kRead);
  EXPECT_EQ(access("suite_add", 1), Access::kWritten);
  EXPECT_EQ(access("suite_add", 2), Access::kUnknown) << "no memory";
  EXPECT_EQ(access("suite_reverse", 2), Access::kUnknown) << "local memory";
  EXPECT_EQ(access("suite_table", 0), Access::kRead);
  EXPECT_EQ(access("suite_spin", 0), Access::kWritten);
}

TEST_F(Programs, TellWhatGroupsNeed) {
  EXPECT_EQ(entry("suite_required").required_group_size, (Size3{4, 2, 1}));
  EXPECT_EQ(entry("suite_add").required_group_size, (Size3{0, 0, 0}));
  EXPECT_GE(entry("suite_required").local_memory_bytes, 64u);
  EXPECT_EQ(entry("suite_add").local_memory_bytes, 0u);
}

TEST_F(Programs, SayWhyTheyCannotBeSliced) {
  EXPECT_NE(entry("suite_required").unsliceable, "");
  EXPECT_NE(entry("suite_index").unsliceable, "");
  if (!entry("suite_add").unsliceable.empty()) {
    // A driver that cannot look into kernels says the same of all.
    for (const auto& info : program().entries()) EXPECT_EQ(info.unsliceable, entry("suite_add").unsliceable);
    return;
  }
  EXPECT_EQ(entry("suite_required").unsliceable, "uses get_global_size");
  EXPECT_EQ(entry("suite_index").unsliceable, "uses get_global_offset");
  for (const char* name : {"suite_scalars", "suite_reverse", "suite_table", "suite_spin", "suite_groups"})
    EXPECT_EQ(entry(name).unsliceable, "") << name;
}

TEST_F(Programs, HaveOnlyTheirKernels) { QUERN_EXPECT_CODE(ErrorCode::kNotFound, program().create_kernel("suite_ad")); }

TEST_F(Programs, AreTheSameFromABinary) {
  auto again = device().load(binary());
  QUERN_ASSERT_OK(again);
  ASSERT_EQ((*again)->entries().size(), program().entries().size());
  for (const auto& info : (*again)->entries()) EXPECT_EQ(info.arguments, entry(info.name).arguments);
  for (const auto& range : (*again)->code()) {
    EXPECT_LT(range.begin, range.end);
    entry(range.entry);
  }
}

TEST_F(Programs, FromABinaryHaveNone) { QUERN_EXPECT_CODE(ErrorCode::kUnsupported, program().binary()); }

TEST_F(Programs, DamagedAreRefused) {
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, device().load({}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, device().load(std::as_bytes(std::span("something else"))));
  const size_t step = std::max<size_t>(1, binary().size() / 50);
  for (size_t i = 0; i < binary().size(); i += i < 300 ? 7 : step) {
    Bytes damaged = binary();
    damaged[i] ^= std::byte{0x20};
    QUERN_EXPECT_CODE(ErrorCode::kInvalid, device().load(damaged));
    QUERN_EXPECT_CODE(ErrorCode::kInvalid, device().load(std::span(binary()).first(i)));
  }
  Bytes longer = binary();
  longer.push_back(std::byte{0});
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, device().load(longer));
}

}  // namespace
}  // namespace quern::hal::cts
