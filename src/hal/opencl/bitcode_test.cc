// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/bitcode.h"

#include "hal/cts/suite.h"
#include "hal/opencl/portable_ir.h"

namespace quern::hal::opencl {
namespace {

class Bitcode : public cts::Suite {
 protected:
  void SetUp() override {
    cts::Suite::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (clang_path().empty()) GTEST_SKIP() << "clang-15 is not installed";
  }

  // Of a program with the one kernel `k`, whose body is `body`.
  std::string reason_of(const std::string& body, const std::string& before = "") {
    auto built = device().build({before + "kernel void k(global int* o, int n, local int* s) {" + body + "}", "", {}});
    if (!built.ok()) return built.error().text;
    return (*built)->entries().at(0).unsliceable;
  }
};

// Every reason why a kernel cannot be sliced is in sliceable_test.cc.
TEST_F(Bitcode, ShowsWhatAKernelUses) {
  EXPECT_EQ(reason_of("o[get_global_id(0)] = get_local_id(0) + get_local_size(1) + get_work_dim();"), "");
  EXPECT_EQ(reason_of("o[get_global_id(n)] = get_local_id(n) + get_local_size(n);"), "");
  EXPECT_EQ(reason_of("o[get_global_id(0)] = get_group_id(0) + get_group_id(n);"), "");
  EXPECT_EQ(reason_of("o[get_global_id(0)] = get_global_size(0);"), "uses get_global_size");
  EXPECT_EQ(reason_of("o[get_global_id(0)] = get_num_groups(n);"), "uses get_num_groups");
  EXPECT_EQ(reason_of("o[get_global_id(0)] = get_global_offset(1);"), "uses get_global_offset");
  EXPECT_EQ(reason_of("o[0] = get_global_size(0) * 0;"), "") << "what the compiler took out is not used";
}

TEST_F(Bitcode, IsFollowedIntoWhatAKernelCalls) {
  const std::string helpers =
      "__attribute__((noinline)) int two(int n) { return get_num_groups(0) + n; }\n"
      "__attribute__((noinline)) int one(int n) { return two(n) + n; }\n";
  EXPECT_EQ(reason_of("o[get_global_id(0)] = one(n);", helpers), "uses get_num_groups");
  EXPECT_EQ(reason_of("o[get_global_id(0)] = n;", helpers), "");
}

TEST_F(Bitcode, IsNoneOfTheirBusinessWhereBuiltInsAreHarmless) {
  EXPECT_EQ(reason_of("atomic_add(o, 1); atomic_inc(s); barrier(CLK_LOCAL_MEM_FENCE);"), "");
  EXPECT_EQ(reason_of("float4 v = vload4(n, (global float*)o); vstore4(sin(v) + pow(v, v), n, (global float*)o);"), "");
  EXPECT_EQ(reason_of("event_t e = async_work_group_copy(s, o, 64, 0); wait_group_events(1, &e); o[n] = s[0];"), "");
  EXPECT_EQ(reason_of("o[get_global_id(0)] = clamp(n, 1, 7) + popcount(n) + convert_int_sat(exp((float)n));"), "");
}

TEST_F(Bitcode, IsNotDeceivedByNames) {
  EXPECT_EQ(reason_of("o[get_global_id(0)] = get_group_id(0);", "#undef get_group_id\n"), "uses get_group_id");
  EXPECT_EQ(reason_of("o[get_global_id(0)] = f(0);", "ulong f(uint d) __asm__(\"_Z12get_group_idj\");\n"),
            "uses get_group_id");
}

TEST_F(Bitcode, IsFoundAgain) {
  // PoCL has this program already and does not compile it again.
  for (int i = 0; i < 2; ++i) EXPECT_EQ(reason_of("o[7] = get_global_size(2);"), "uses get_global_size") << i;
}

TEST_F(Bitcode, ShowsWhatAKernelDoesWithMemory) {
  auto built = device().build({R"(
float helper(global float* p, int i) { return p[i]; }
void store(global float* p, int i) { p[i] = 1; }
kernel void k(global float* read, global float* written, global float* both, global float* unused,
              constant float* table, global int* counter,
              global float* helped, global float* stored, global float* vectors, int n) {
  const int i = get_global_id(0);
  written[i] = read[i] + table[3] + helper(helped, i) + vload4(i, vectors).x;
  both[i] += 2;
  atomic_inc(counter);
  store(stored, i);
}
kernel void choice(global float* a, global float* b, global float* c, int n) {
  global float* one = n > 3 ? a : b;
  *one = 1;
  c[0] = n > 4 ? 3 : 4;
}
kernel void through(global const float* in, global float* out) { ((global float*)in)[get_global_id(0)] = out[0]; }
)",
                               "",
                               {}});
  QUERN_ASSERT_OK(built);
  std::map<std::string, std::vector<Access>> seen;
  for (const auto& entry : (*built)->entries())
    for (const auto& argument : entry.arguments) seen[entry.name].push_back(argument.access);
  using enum Access;
  EXPECT_EQ(seen["k"], (std::vector{kRead, kWritten, kReadWritten, kUnused, kRead, kReadWritten, kRead, kWritten, kRead,
                                    kUnknown}));
  EXPECT_EQ(seen["choice"], (std::vector{kUnknown, kUnknown, kWritten, kUnknown}));
  EXPECT_EQ(seen["through"], (std::vector{kWritten, kRead})) << "const promises nothing";
}

TEST_F(Bitcode, OfASourceThatCompilersSeeDifferentlyDecidesNothing) {
  const auto log = reason_of("o[0] = VALUE;", "#ifdef __POCL__\n#define VALUE 1\n#else\n#define VALUE 2\n#endif\n");
  EXPECT_EQ(log, "asks for __POCL__, which compilers define differently");
  EXPECT_EQ(reason_of("o[get_global_id(0)] = n;",
                      "#ifdef cl_khr_fp64\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
                      "#endif\n"),
            "");
}

TEST_F(Bitcode, WhatOneProcessorSeesCountsForAll) {
  const auto reason = [&](const std::string& other) {
    auto built = device().build({"#ifdef __AVX512F__\n#define AT get_global_id(0)\n#else\n#define AT " + other +
                                     "\n#endif\nkernel void k(global float* y) { y[AT] = 1; }\n",
                                 "",
                                 {}});
    EXPECT_TRUE(built.ok()) << built.error().text;
    return built.ok() ? (*built)->entries().at(0).unsliceable : "not built";
  };
  EXPECT_EQ(reason("get_global_id(0)"), "");
  EXPECT_EQ(reason("get_num_groups(0)"), "uses get_num_groups");
}

TEST(CompilerDependentMacro, IsFoundInConditionsOnly) {
  const auto found = [](const char* text) {
    return compiler_dependent_macro(text, {}, {"__OPENCL_C_VERSION__", "cl_khr_"});
  };
  EXPECT_EQ(found("#if defined(__CUDA__) || defined(__x86_64__)\n#endif\n"), "__CUDA__");
  EXPECT_EQ(found("#ifdef TILE\n#endif\nint __POCL__;\n#define A __POCL__\n"), "");
  EXPECT_EQ(found("  #  elif \\\n  __INTEL_X > 3\n"), "__INTEL_X");
  EXPECT_EQ(found("#ifndef __MY_HEADER_H\n#define __MY_HEADER_H 1\n#endif\n"), "") << "its own";
  EXPECT_EQ(found("#if __OPENCL_C_VERSION__ >= 120 && defined(cl_khr_fp64)\n#endif\n"), "");
  EXPECT_EQ(compiler_dependent_macro("#ifdef __A\n#endif\n", {"#define __A\n"}, {}), "");
  EXPECT_EQ(compiler_dependent_macro("", {"#ifdef __A\n#endif\n"}, {}), "__A");
}

TEST_F(Bitcode, ThatIsDamagedIsRefused) {
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, read_kernels({}));
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, read_kernels(std::as_bytes(std::span("BC\xc0\xde and no more"))));
}

TEST_F(Bitcode, LeavesLinesAlone) {
  const auto log = reason_of("\n\n  o[0] = missing;");
  EXPECT_NE(log.find("program.cl:3:"), std::string::npos) << log;
  const auto named = reason_of("\n\n  o[0] = missing;", "#line 1 \"mill.cl\"\n");
  EXPECT_NE(named.find("mill.cl:3:"), std::string::npos) << named;
}

}  // namespace
}  // namespace quern::hal::opencl
