// SPDX-License-Identifier: Apache-2.0
//
// Which kernels may be launched in slices, and every reason why a kernel may not. The lists hold for every driver: what
// decides is clang-15 and not the compiler of the device.
#include <algorithm>

#include "hal/cts/suite.h"
#include "hal/opencl/bitcode.h"
#include "hal/opencl/changed_device_test.h"
#include "hal/opencl/portable_ir.h"

namespace quern::hal::opencl {
namespace {

// A program with one kernel, and why that kernel cannot be sliced; an empty reason: it can be.
struct Judged {
  const char* text;
  const char* reason;
  const char* options = "";
};

// The compiler of the device takes these too.
constexpr Judged kBuilt[] = {
    {"kernel void k(global int* o, int n) {\n"
     "  o[get_global_id(n)] = get_local_id(n) + get_local_size(n) + get_work_dim(); }",
     ""},
    {"kernel void k(global int* o) { o[get_global_id(0)] = get_group_id(0); }", ""},
    {"kernel void k(global int* o, local int* s) {\n"
     "  s[get_local_id(0)] = o[get_global_id(0)];\n"
     "  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);\n"
     "  o[get_global_id(0)] = s[get_local_size(0) - 1 - get_local_id(0)]; }",
     ""},
    {"kernel void k(global int* o) { atomic_add(o, 1); atomic_cmpxchg(o + 1, 3, 4); }", ""},
    {"kernel void k(global int* o, local int* s) {\n"
     "  event_t e = async_work_group_copy(s, o, 64, 0);\n"
     "  wait_group_events(1, &e);\n"
     "  o[get_global_id(0)] = s[get_local_id(0)]; }",
     ""},
    {"constant int table[4] = {1, 2, 3, 4};\n"
     "kernel void k(global int* o, int n) { o[get_global_id(0)] = table[n & 3]; }",
     ""},
    {"kernel void k(global int* o) { o[get_global_id(0)] = get_local_linear_id(); }", "", "-cl-std=CL2.0"},

    {"#undef get_group_id\nkernel void k(global int* o) { o[get_global_id(0)] = get_group_id(0); }",
     "uses get_group_id"},
    {"kernel void k(global int* o) { o[get_global_id(0)] = get_num_groups(0); }", "uses get_num_groups"},
    {"kernel void k(global int* o) { o[get_global_id(0)] = get_global_size(0); }", "uses get_global_size"},
    {"kernel void k(global int* o) { o[get_global_id(0)] = get_global_offset(0); }", "uses get_global_offset"},
    {"kernel void k(global int* o) { o[get_global_linear_id()] = 1; }", "uses get_global_linear_id", "-cl-std=CL2.0"},
    {"kernel void k(global int* o) { o[get_global_id(0)] = get_enqueued_local_size(0); }",
     "uses get_enqueued_local_size", "-cl-std=CL2.0"},
    {"kernel void k(int n) { printf(\"%d\\n\", n); }", "prints"},
    {"kernel void k(global int* o) { o[0] = 1; __asm__ volatile(\"nop\"); }", "has inline assembly"},
    {"#ifdef __POCL__\n#define FIRST 1\n#else\n#define FIRST 2\n#endif\nkernel void k(global int* o) { o[0] = FIRST; }",
     "asks for __POCL__, which compilers define differently"},
    {"#if defined(__AVX__) || defined(__AVX2__) || defined(__AVX512F__) || defined(__ARM_NEON)\n#endif\n"
     "kernel void k(global int* o) { o[0] = 1; }",
     "asks for __ARM_NEON and 3 other macros of the processor; 3 are looked at"},
    // A macro that clang-15 does not have for spir64, outside of the preprocessor's conditions.
    {"kernel void k(global int* o) { o[0] = __OPENCL_VERSION__; }",
     "clang-15 does not take this source, though the compiler of the device does"},
    {"#define JOIN(a, b) a##b\n#define NAME(b) JOIN(k, b)\n"
     "kernel void NAME(__OPENCL_VERSION__)(global int* o) { o[0] = 1; }",
     "clang-15 and the compiler of the device see different kernels in this source"},
};

// Programs that no driver has to compile, though the extension of a vendor may allow them.
constexpr Judged kOnlyClang[] = {
    {"kernel void k(global int* o) { o[get_global_id(0)] = get_enqueued_num_sub_groups(); }",
     "uses get_enqueued_num_sub_groups", "-cl-std=CL3.0"},
    {"#pragma OPENCL EXTENSION __cl_clang_function_pointers : enable\n"
     "int one(int n) { return n + 1; }\nint two(int n) { return n * 2; }\n"
     "kernel void k(global int* o, int n) { int (*f)(int) = n > 3 ? one : two; o[get_global_id(0)] = f(n); }",
     "calls a function by its address", "-cl-std=CL3.0"},
    {"int far_away(int n);\nkernel void k(global int* o, int n) { o[get_global_id(0)] = far_away(n); }",
     "calls far_away, which cannot be looked at"},
    {"extern constant int table[4];\nkernel void k(global int* o, int n) { o[get_global_id(0)] = table[n & 3]; }",
     "uses table, which is not its own"},
};

class Sliceable : public cts::Suite {
 protected:
  void SetUp() override {
    cts::Suite::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (clang_path().empty()) GTEST_SKIP() << "clang-15 is not installed";
  }

  // EntryInfo::unsliceable of the only kernel that `source` has on `on`; the log if that does not build it.
  static std::string reason_on(Device& on, const Source& source) {
    auto built = on.build(source);
    if (!built.ok()) return built.error().text;
    if ((*built)->entries().size() != 1) return "has other kernels";
    return (*built)->entries()[0].unsliceable;
  }

  std::string reason_by_clang(const Source& source) {
    const auto programs = compile_portable(source, "", folder(), clang_path());
    if (!programs.ok()) return programs.error().text;
    const auto kernels = read_kernels(programs->at(0));
    if (!kernels.ok()) return kernels.error().text;
    return kernels->contains("k") ? kernels->at("k").unsliceable : "has other kernels";
  }
};

TEST_F(Sliceable, AreTheKernelsThatShowNothingOfTheirRangeAndNoOthers) {
  for (const Judged& one : kBuilt) {
    const Source source{one.text, one.options, {}};
    // A device of OpenCL 1.2 need not have newer languages.
    const bool is_newer = !source.options.empty() && !device().build(source).ok();
    EXPECT_EQ(is_newer ? reason_by_clang(source) : reason_on(device(), source), one.reason) << one.text;
  }
}

TEST_F(Sliceable, AreNoKernelsThatReachWhatClangDoesNotSee) {
  for (const Judged& one : kOnlyClang) EXPECT_EQ(reason_by_clang({one.text, one.options, {}}), one.reason) << one.text;
}

TEST_F(Sliceable, IsNothingWithoutClang) {
  const auto programs = compile_portable({cts::suite_source(), "", {}}, "", folder(), "");
  QUERN_EXPECT_CODE(ErrorCode::kUnavailable, programs);
  EXPECT_EQ(programs.error().text,
            "clang-15 is not installed where programs are built, so nothing tells what a kernel uses");
}

TEST_F(Sliceable, IsNothingWhereNoFileCanBeWritten) {
  auto without = open_changed([](OpenclDevice::Setup& setup) { setup.cache_folder.clear(); });
  QUERN_ASSERT_OK(without);
  EXPECT_EQ(reason_on(**without, {kBuilt[0].text, "", {}}), "the device has no folder for clang-15 to work in");
  EXPECT_FALSE(compile_portable({kBuilt[0].text, "", {}}, "", "/dev/null", clang_path()).ok());
}

TEST_F(Sliceable, IsNothingThatLlvmDoesNotRead) {
  const auto damaged = read_kernels({});
  QUERN_EXPECT_CODE(ErrorCode::kInvalid, damaged);
  EXPECT_EQ(damaged.error().text, "bitcode: LLVM cannot read it");
  const auto other = read_kernels({}, "libc.so.6");
  QUERN_EXPECT_CODE(ErrorCode::kUnavailable, other);
  EXPECT_EQ(other.error().text, "libc.so.6: has no LLVMContextCreate");
  const auto none = read_kernels({}, "libLLVM-none.so");
  QUERN_EXPECT_CODE(ErrorCode::kUnavailable, none);
  EXPECT_TRUE(none.error().text.starts_with("libLLVM-none.so: ")) << none.error().text;
}

}  // namespace
}  // namespace quern::hal::opencl
