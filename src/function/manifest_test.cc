// SPDX-License-Identifier: Apache-2.0
#include "function/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "function/npy.h"
#include "function/yaml_tree.h"

namespace quern {
namespace {

constexpr std::string_view kGood = R"(api: quern/v1
name: saxpy
kind: graph
programs:
  opencl: {files: [saxpy.cl], options: [-cl-mad-enable], defines: {TILE: 64}}
dims:
  n: {default: 1024, min: 1, max: 4096, multiple_of: 4}
  k: 16
params:
  alpha: {dtype: fp32, default: 1}
  rounds: {dtype: uint32, default: 3, min: 1, max: 8}
buffers:
  w: {role: constant, dtype: fp32, shape: [k], file: w.npy}
  x: {role: input, dtype: fp32, shape: [n]}
  z: {role: output, dtype: fp32, shape: [n], zero: true}
  s: {role: scratch, dtype: uint8, shape: [n * rounds]}
kernels:
  - {entry: first, global: [n], local: [4], args: [{in: x}, {out: s}, {uint32: n}, {local: 4 * k}]}
  - entry: second
    global: [n, k]
    args: [{in: w}, {in: s}, {inout: z}, {fp32: alpha / 2}]
settings:
  priority: 3
  limits: {timeout: 2s, device_time: 500ms, memory: 64MiB}
)";

Files files_with(std::string_view manifest) {
  const int64_t shape[] = {16};
  return {{"function.yaml", bytes_of(manifest)},
          {"saxpy.cl", bytes_of("kernel void first() {}")},
          {"more.cl", bytes_of("// more\n")},
          {"w.npy", bytes_of(*npy_header(Dtype::kFp32, shape) + std::string(64, '\0'))},
          {"w.bin", bytes_of(std::string(64, '\0'))}};
}

// kGood with every `from` replaced: the tests below differ from a good manifest in one place.
std::string changed(std::string_view from, std::string_view to, std::string text = std::string(kGood)) {
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return at == text.npos ? text : text.replace(at, from.size(), to);
}

std::string all_text(const ParsedManifest& parsed) {
  std::string text;
  for (const Mistake& mistake : parsed.mistakes) text += to_string(mistake) + "\n";
  return text;
}

// Checks that `to` in place of `from` is a mistake whose text holds `expected`, at the line where it stands.
void expect_mistake(std::string_view from, std::string_view to, std::string_view expected) {
  const std::string text = changed(from, to);
  auto parsed = parse_manifest(files_with(text));
  EXPECT_FALSE(parsed.manifest.has_value()) << to;
  const std::string told = all_text(parsed);
  EXPECT_NE(told.find(expected), told.npos) << "for '" << to << "' wanted '" << expected << "' but got\n" << told;
}

void expect_warning(std::string_view from, std::string_view to, std::string_view expected) {
  auto parsed = parse_manifest(files_with(changed(from, to)));
  const std::string told = all_text(parsed);
  EXPECT_TRUE(parsed.manifest.has_value()) << told;
  EXPECT_NE(told.find(expected), told.npos) << told;
}

TEST(Manifest, ReadsAGoodOne) {
  auto parsed = parse_manifest(files_with(kGood));
  ASSERT_TRUE(parsed.manifest.has_value()) << all_text(parsed);
  EXPECT_EQ(all_text(parsed), "");
  const Manifest& manifest = *parsed.manifest;
  EXPECT_EQ(manifest.name, "saxpy");
  ASSERT_NE(manifest.program_for("opencl"), nullptr);
  EXPECT_EQ(manifest.program_for("cuda"), nullptr);
  EXPECT_EQ(option_text(manifest.programs[0]), "-cl-mad-enable -DTILE=64");
  EXPECT_EQ(*source_text(manifest.programs[0], files_with(kGood)), "#line 1 \"saxpy.cl\"\nkernel void first() {}\n");
  EXPECT_FALSE(manifest.dim("n")->fixed);
  EXPECT_EQ(manifest.dim("n")->value, 1024);
  EXPECT_TRUE(manifest.dim("k")->fixed);
  EXPECT_EQ(manifest.dim("k")->max, 16);
  EXPECT_EQ(number_of(*manifest.param("alpha")->value), 1.0);
  EXPECT_FALSE(manifest.param("alpha")->in_size);
  EXPECT_TRUE(manifest.param("rounds")->in_size);
  ASSERT_EQ(manifest.buffers.size(), 4u);
  EXPECT_EQ(manifest.buffer("w")->role, Role::kConstant);
  EXPECT_TRUE(manifest.buffer("z")->zero);
  ASSERT_EQ(manifest.kernels.size(), 2u);
  EXPECT_EQ(manifest.kernels[0].arguments[3].kind, ArgumentDecl::Kind::kLocal);
  EXPECT_EQ(manifest.kernels[1].arguments[2].access, Access::kInout);
  EXPECT_EQ(manifest.kernels[1].arguments[2].buffer, 2u);
  EXPECT_EQ(manifest.kernel_places[1].line, 19);
  EXPECT_TRUE(manifest.kernels[1].local.empty());
  EXPECT_EQ(manifest.settings.priority, 3);
  EXPECT_EQ(manifest.settings.timeout, Duration::seconds(2));
  EXPECT_EQ(manifest.settings.device_time, Duration::millis(500));
  EXPECT_EQ(manifest.settings.memory_bytes, 64u << 20);
}

TEST(Manifest, ReadsJsonAndTheShortForms) {
  constexpr std::string_view kJson = R"({"api": "quern/v1", "name": "j", "kind": "graph",
    "programs": {"opencl": "saxpy.cl"}, "dims": {"n":8},
	"buffers": {"z": {"role": "output", "dtype": "fp32", "shape": ["n"]}},
    "kernels": [{"entry": "first", "global": ["n*2"], "args": [{"out": "z"}]}]})";
  auto parsed = parse_manifest(files_with(kJson));
  ASSERT_TRUE(parsed.manifest.has_value()) << all_text(parsed);
  EXPECT_EQ(parsed.manifest->programs[0].files, std::vector<std::string>{"saxpy.cl"});
  EXPECT_EQ(parsed.manifest->settings.priority, 5);
  EXPECT_EQ(parsed.manifest->settings.timeout, Duration::seconds(60));
}

TEST(Manifest, TellsEveryMistakeAtOnceWithItsPlace) {
  std::string text = changed("name: saxpy", "name: Saxpy!");
  text = changed("role: input", "role: inptu", text);
  text = changed("priority: 3", "priorty: 3", text);
  text = changed("{in: x}", "{in: xx}", text);
  auto parsed = parse_manifest(files_with(text));
  EXPECT_FALSE(parsed.manifest.has_value());
  EXPECT_EQ(
      all_text(parsed),
      "function.yaml:2:7: error: name is 'Saxpy!'; write a small letter or digit, then at most 62 of a-z 0-9 . _ -\n"
      "function.yaml:14:13: error: buffer 'x': there is no role 'inptu'; write constant, input, output or scratch\n"
      "function.yaml:18:57: error: there is no buffer 'xx'; did you mean 'x'?\n"
      "function.yaml:23:3: error: settings has no key 'priorty'; did you mean 'priority'?\n");
}

TEST(Manifest, RefusesWhatSurroundsAGraph) {
  expect_mistake("quern/v1", "quern/v2", "api is 'quern/v2'; write quern/v1");
  expect_mistake("kind: graph", "kind: model", "kind model is not supported yet");
  expect_mistake("kind: graph", "kind: [a]", "kind is a list");
  expect_mistake("kind: graph", "kind:", "has no 'kind'; write it");
  expect_mistake("kind: graph", "knd: graph", "no key 'knd'; did you mean 'kind'?");
  expect_mistake("kind: graph", "kind: graph\nkind: graph", "key 'kind' is given twice");
  expect_mistake("name: saxpy", "name: 'a/b'", "name is 'a/b'");
  expect_mistake("priority: 3", "priority: 10", "write 0 (most urgent) to 9");
  expect_mistake("priority: 3", "priority: '3'", "write a whole number");
  expect_mistake("timeout: 2s", "timeout: 2", "is not a length of time");
  expect_mistake("timeout: 2s", "timeout: 0s", "more than 0");
  expect_mistake("timeout: 2s", "timeout: 25h", "'25h': is too long; write at most 24h");
  expect_mistake("memory: 64MiB", "memory: 64MB", "is not a size");
  expect_mistake("memory: 64MiB", "memory: 0", "memory is 0");
  expect_mistake("priority: 3", "quota: {units: 1.5}", "units is '1.5'; write a number above 0, at most 1");
  expect_mistake("priority: 3", "slo: {latency: 50}", "latency: ");
}

TEST(Manifest, RefusesProgramsThatReachOut) {
  expect_mistake("files: [saxpy.cl]", "files: [saxpi.cl]", "there is no file 'saxpi.cl'; did you mean 'saxpy.cl'?");
  expect_mistake("files: [saxpy.cl]", "files: [../etc/passwd]", "there is no file");
  expect_mistake("files: [saxpy.cl]", "files: []", "files is empty");
  expect_mistake("files: [saxpy.cl]", "files: [w.npy]", "is not text");
  expect_mistake("files: [saxpy.cl],", "", "has no 'files'");
  for (std::string_view option :
       {"-I/etc", "-I", "'-include x.h'", "-include", "-o", "-o/tmp/x", "'-cl-mad-enable -I/'", "-cl-mad", "-Xclang",
        "'@file'", "-fplugin=x.so", "/etc/passwd", "\"-w\\n-I/\"", "''"})
    expect_mistake("-cl-mad-enable", option, "is not allowed");
  expect_mistake("-cl-mad-enable", "-DX=1", "write it under defines");
  expect_mistake("-cl-mad-enable", "-cl-mad-enabel", "did you mean '-cl-mad-enable'?");
  expect_mistake("TILE: 64", "2TILE: 64", "define '2TILE' is no name");
  expect_mistake("TILE: 64", "TILE: '1 -I/'", "the value '1 -I/' of define 'TILE' is not allowed");
  expect_mistake("TILE: 64", "TILE: '\"x\"'", "is not allowed");
  expect_mistake("TILE: 64", "TILE: [1]", "write a single value");
  expect_mistake("  opencl:", "  Opencl:", "'Opencl' is no driver");
  expect_mistake("defines: {TILE: 64}", "headers: [a.h]", "there is no file 'a.h'");
}

TEST(Manifest, KeepsProgramsOfOtherDrivers) {
  auto parsed = parse_manifest(
      files_with(changed("dims:", "  cuda: {files: [more.cl], options: [-lineinfo, --fmad=true]}\ndims:")));
  ASSERT_TRUE(parsed.manifest.has_value()) << all_text(parsed);
  EXPECT_EQ(parsed.manifest->program_for("cuda")->files[0], "more.cl");
  expect_warning("dims:", "  opencll: more.cl\ndims:", "did you mean 'opencl'?");
  expect_mistake("dims:", "  cuda: {files: [more.cl], options: [-I/x]}\ndims:", "is not allowed");
}

TEST(Manifest, RefusesOddDims) {
  expect_mistake("k: 16", "k: 0", "dim 'k' is 0; write 1 to");
  expect_mistake("k: 16", "k: -1", "dim 'k' is -1");
  expect_mistake("k: 16", "k: 1.5", "write a whole number");
  expect_mistake("k: 16", "k: '16'", "write a whole number");
  expect_mistake("k: 16", "k: 99999999999999999999", "write a whole number");
  expect_mistake("k: 16", "k: 1099511627777", "write 1 to 1099511627776");
  expect_mistake("k: 16", "k: [16]", "dim 'k' is a list");
  expect_mistake("k: 16", "k-k: 16", "dim 'k-k' is no name");
  expect_mistake("k: 16", "timeout: 16", "reserved");
  expect_mistake("k: 16", "sequence_id: 16", "reserved");
  expect_mistake("k: 16", "min: 16", "is a function of expressions");
  expect_mistake("max: 4096, ", "", "dim 'n' has no 'max'");
  expect_mistake("default: 1024, min: 1,", "default: 1024, min: 5000,", "min 5000 is above max 4096");
  expect_mistake("default: 1024, min: 1,", "default: 1023, min: 1,",
                 "the default 1023 is not a multiple of 4 from 1 to 4096");
  expect_mistake("default: 1024, min: 1,", "default: 8192, min: 1,", "the default 8192");
  expect_mistake("multiple_of: 4", "multiple_of: 5000", "is a multiple of 5000");
  expect_mistake("multiple_of: 4", "multiple: 4", "did you mean 'multiple_of'?");
  expect_mistake("min: 1, max: 4096", "min: 0, max: 4096", "min of dim 'n' is 0");
}

TEST(Manifest, RefusesOddParams) {
  expect_mistake("alpha: {dtype: fp32", "alpha: {dtype: float", "there is no dtype 'float'");
  expect_mistake("alpha: {dtype: fp32", "alpha: {dtype: fp23", "did you mean 'fp32'?");
  expect_mistake("dtype: fp32, default: 1}", "default: 1}", "has no 'dtype'");
  expect_mistake("dtype: fp32, default: 1}", "dtype: fp32, default: one}", "write a number");
  expect_mistake("dtype: fp32, default: 1}", "dtype: fp32, default: .inf}", "write a number");
  expect_mistake("dtype: fp32, default: 1}", "dtype: fp32, default: nan}", "write a number");
  expect_mistake("dtype: fp32, default: 1}", "dtype: fp32, default: 1e39}", "does not fit fp32");
  expect_mistake("dtype: fp32, default: 1}", "dtype: int8, default: 128}", "does not fit int8");
  expect_mistake("dtype: fp32, default: 1}", "dtype: int8, default: 1.5}", "write a whole number");
  expect_mistake("dtype: fp32, default: 1}", "dtype: bool, default: 1}", "write true or false");
  expect_mistake("dtype: fp32, default: 1}", "dtype: bool, default: true, min: false}", "leave out min and max");
  expect_mistake("default: 3, min: 1, max: 8", "default: 9, min: 1, max: 8", "the default 9 is not between");
  expect_mistake("default: 3, min: 1, max: 8", "default: 3, min: 9, max: 8", "max 8 is below min 9");
  expect_mistake("default: 3, min: 1, max: 8", "default: 3, min: 1", "has no bounds; give it min and max");
  expect_mistake("alpha: {", "n: {", "a dim or param has this name");
  expect_mistake("alpha: {", "priority: {", "reserved");
}

TEST(Manifest, RefusesOddBuffers) {
  expect_mistake("shape: [k], file: w.npy", "shape: [n], file: w.npy",
                 "which a request may change; make this dim a number");
  expect_mistake("shape: [k], file: w.npy", "shape: [rounds], file: w.npy", "names the param 'rounds'");
  expect_mistake("shape: [k], file: w.npy", "shape: [k]", "is a constant without file");
  expect_mistake("shape: [k], file: w.npy", "shape: [k], file: v.npy",
                 "there is no file 'v.npy'; did you mean 'w.npy'?");
  expect_mistake("shape: [k], file: w.npy", "shape: [k, 1], file: w.npy",
                 "has shape [16] but the manifest says [16,1]");
  expect_mistake("w: {role: constant, dtype: fp32", "w: {role: constant, dtype: fp64",
                 "has dtype fp32 but the manifest says fp64");
  expect_mistake("shape: [k], file: w.npy", "shape: [2 * k], file: w.bin", "is 64 bytes, but fp32 [32] needs 128");
  expect_mistake("file: w.npy", "file: w.npy, tensor: a", "tensor names one of a .safetensors file");
  expect_mistake("x: {role: input, dtype: fp32", "x: {role: input, file: w.npy, dtype: fp32",
                 "only constants have file");
  expect_mistake("x: {role: input, dtype: fp32", "x: {role: input, zero: true, dtype: fp32", "leave out zero");
  expect_mistake("zero: true", "zero: yes", "write true or false");
  expect_mistake("shape: [n * rounds]", "shape: []", "shape has 0 sizes; write 1 to 8");
  expect_mistake("shape: [n * rounds]", "shape: [1,1,1,1,1,1,1,1,1]", "shape has 9 sizes");
  expect_mistake("shape: [n * rounds]", "shape: n", "shape is a single value; write a list");
  expect_mistake("shape: [n * rounds]", "shape: [n *]", "is no expression");
  expect_mistake("shape: [n * rounds]", "shape: [-1]", "a shape is -1; write at least 0");
  expect_mistake("shape: [n * rounds]", "shape: [nn]", "which is no dim and no param; did you mean 'n'?");
  expect_mistake("shape: [n * rounds]", "shape: [n * alpha]", "is whole, but names 'alpha', which is fp32");
  expect_mistake("shape: [n * rounds]", "shape: [n - 2000]", "its shape has -976");
  expect_mistake("shape: [n * rounds]", "shape: [1 << 50]", "it is larger than");
  expect_mistake("  s: {", "  s-s: {", "is no name");
}

TEST(Manifest, RefusesOddKernels) {
  expect_mistake("entry: first", "entry: 1st", "entry '1st' is no name");
  expect_mistake("entry: first, ", "", "has no 'entry'");
  expect_mistake("global: [n], ", "", "has no 'global'");
  expect_mistake("global: [n],", "global: [1, 1, 1, 1],", "global has 4 sizes; write 1 to 3");
  expect_mistake("local: [4]", "local: [4, 1]", "local has 2 sizes and global 1");
  expect_mistake("local: [4]", "local: [n]", "which a request may change");
  expect_mistake("local: [4]", "local: [3]", "does not divide");
  expect_mistake("local: [4]", "local: [alpha]", "is whole");
  expect_mistake("{uint32: n}", "{uint33: n}", "did you mean 'uint32'?");
  expect_mistake("{uint32: n}", "{uint32: alpha}", "is whole, but names 'alpha'");
  expect_mistake("{uint32: n}", "{int8: n}", "'n' is 1024, which does not fit int8");
  expect_mistake("{uint32: n}", "{uint32: n, in: x}", "an argument has no key 'uint32'");
  expect_mistake("{uint32: n}", "n", "an argument is a single value");
  expect_mistake("{uint32: n}", "{uint32: 1.5}", "1.5 is not whole");
  expect_mistake("{local: 4 * k}", "{local: 0}", "local memory is 0");
  expect_mistake("{out: s}", "{out: x}", "buffer 'x' is an input and never written; write in: x");
  expect_mistake("{inout: z}", "{inout: w}", "buffer 'w' is a constant and never written");
  expect_mistake("{inout: z}", "{in: z}", "no kernel writes output 'z'");
  expect_mistake("{in: s}, {inout: z}", "{inout: z}, {in: z}", "twice and writes it");
  expect_mistake("{in: x}", "{in: x, offset: 4}", "a view has an offset and a count");
  expect_mistake("entry: first, global: [n]", "repeat: {times: 3}", "a repeat has no 'kernels'");
  expect_mistake("entry: first, global: [n]", "fill: z, value: 0", "a fill has no key 'local'");
  expect_mistake("entry: first,", "entry: first, flops: q,", "flops and bytes names 'q'");
}

TEST(Manifest, WarnsAndStillReads) {
  expect_warning("{in: x}, {out: s}", "{out: s}", "no kernel reads input 'x'");
  expect_warning("zero: true", "zero: false", "reads output 'z' before any kernel wrote it; write zero: true");
  expect_warning("  k: 16", "  k: 16\n  unused: 3", "nothing uses dim 'unused'");
  expect_warning("{uint32: n}", "{int16: n * 16}", "at the largest dims and params: saxpy: kernel 'first'");
  expect_warning("memory: 64MiB", "memory: 1KiB", "limits.memory is 1024");
}

TEST(Manifest, RefusesTextsThatAreExpensiveOrNoYaml) {
  expect_mistake("name: saxpy", "name: &a saxpy", "anchors (&name) are not allowed");
  expect_mistake("name: saxpy", "name: *a", "");
  expect_mistake("name: saxpy", "name: !!str saxpy", "tags (!name) are not allowed");
  expect_mistake("name: saxpy", "? [a, b]\n: c\nname: saxpy", "a key must be a plain word");
  expect_mistake("name: saxpy", "<<: {a: b}\nname: saxpy", "no key '<<'");
  EXPECT_NE(all_text(parse_manifest(files_with("a: b\nc: @\n"))).find("function.yaml:2:4: error: is neither YAML"),
            std::string::npos);
  for (std::string text : {std::string(""), std::string("# nothing\n"), std::string("- a"), std::string("just text"),
                           std::string("a: b\n---\nc: d\n"), std::string("a\0b", 3), std::string(100'000, '['),
                           std::string(100'000, '{'), std::string((1 << 20) + 1, ' ')}) {
    auto parsed = parse_manifest(files_with(text));
    EXPECT_FALSE(parsed.manifest.has_value());
    EXPECT_FALSE(parsed.mistakes.empty());
  }
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'k'; ++c) {
    const std::string before(1, static_cast<char>(c - 1));
    bomb += std::string(1, c) + ": &" + c + " [*" + before + ", *" + before + "]\n";
  }
  EXPECT_NE(all_text(parse_manifest(files_with(bomb))).find("anchors"), std::string::npos);
}

TEST(Manifest, BoundsHowMuchItTells) {
  std::string text(kGood);
  for (int i = 0; i < 500; ++i) text += "unknown" + std::to_string(i) + ": 1\n";
  auto parsed = parse_manifest(files_with(text));
  EXPECT_EQ(parsed.mistakes.size(), 101u);
  EXPECT_EQ(parsed.mistakes.back().text, "400 more; correct these first");
}

TEST(Manifest, RefusesMoreThanItsLimits) {
  const auto told = [](const std::string& parts) {
    return all_text(
        parse_manifest(files_with("api: quern/v1\nname: a\nkind: graph\nprograms: {opencl: saxpy.cl}\n" + parts)));
  };
  std::string dims = "dims:\n", kernels = "kernels:\n", buffers = "buffers:\n", tensors = "buffers:\n";
  for (int i = 0; i < 65; ++i) dims += "  d" + std::to_string(i) + ": 1\n";
  for (int i = 0; i < 16385; ++i) {
    buffers += "  b" + std::to_string(i) + ": {role: scratch, dtype: fp32, shape: [1]}\n";
    kernels += "  - {entry: k, global: [1]}\n";
  }
  for (int i = 0; i < 257; ++i) tensors += "  b" + std::to_string(i) + ": {role: input, dtype: fp32, shape: [1]}\n";
  const std::string one = "kernels: [{entry: k, global: [1]}]\n";
  EXPECT_THAT(told(dims + one), testing::HasSubstr("65 dims; at most 64"));
  EXPECT_THAT(told(buffers + one), testing::HasSubstr("16385 buffers; at most 16384"));
  EXPECT_THAT(told(tensors + one), testing::HasSubstr("more than 256 inputs and outputs"));
  EXPECT_THAT(told(kernels), testing::HasSubstr("more than 16384 kernels"));
  std::string list = "kernels: [1";
  for (int i = 0; i < 600'000; ++i) list += ",1";
  EXPECT_THAT(told(list + "]\n"), testing::HasSubstr("more than 600000 values; make it smaller"));
  EXPECT_THAT(told("#" + std::string(size_t{4} << 20, ' ')), testing::HasSubstr("bytes; at most 4194304 are read"));
}

// What a compiler of models writes: each kernel with a name of its own.
TEST(Manifest, TakesTenThousandKernels) {
  std::string text =
      "api: quern/v1\nname: huge\nkind: graph\nprograms: {opencl: saxpy.cl}\ndims: {n: {default: 4, max: 8}}\n"
      "buffers:\n  b0: {role: input, dtype: fp32, shape: [n, 64]}\n";
  std::string kernels = "kernels:\n";
  constexpr int kKernels = 10'000;
  for (int i = 1; i <= kKernels; ++i) {
    const std::string role = i == kKernels ? "output" : "scratch";
    text += "  b" + std::to_string(i) + ": {role: " + role + ", dtype: fp32, shape: [n, 64]}\n";
    kernels += "  - {entry: gemm_6x16_relu, label: /encoder/layer." + std::to_string(i) +
               "/MatMul, global: [n * 64], local: [64], args: [{in: b" + std::to_string(i - 1) + "}, {out: b" +
               std::to_string(i) + "}, {uint32: n}, {uint32: 64}, {fp32: 0.5}]}\n";
  }
  const ParsedManifest parsed = parse_manifest(files_with(text + kernels));
  ASSERT_TRUE(parsed.manifest.has_value()) << all_text(parsed);
  EXPECT_EQ(parsed.manifest->kernels.size(), size_t{kKernels});
}

TEST(Manifest, RefusesProgramsOfVeryManyKernels) {
  std::string source;
  for (int i = 0; i < 1024; ++i) source += "__kernel void k" + std::to_string(i) + "() {}  // kernels, my_kernel\n";
  Files files = files_with(kGood);
  files["saxpy.cl"] = bytes_of(source);
  EXPECT_TRUE(parse_manifest(files).manifest.has_value());
  files["saxpy.cl"] = bytes_of(source + "kernel void last() {}");
  EXPECT_THAT(all_text(parse_manifest(files)), testing::HasSubstr("has about 1025 kernels; at most 1024 are compiled"));
}

TEST(Manifest, NeedsNoFilesOfConstantsThatWereCheckedBefore) {
  Files files = files_with(kGood);
  files.erase("w.npy");
  EXPECT_FALSE(parse_manifest(files).manifest.has_value());
  const auto parsed = parse_manifest(files, ConstantFiles::kElsewhere);
  ASSERT_TRUE(parsed.manifest.has_value()) << all_text(parsed);
  EXPECT_EQ(parsed.manifest->buffer("w")->file, "w.npy");
  files.erase("saxpy.cl");
  EXPECT_FALSE(parse_manifest(files, ConstantFiles::kElsewhere).manifest.has_value()) << "sources are needed";
}

TEST(Manifest, SaysThatThereIsNone) {
  auto parsed = parse_manifest({{"function.yml", {}}});
  EXPECT_EQ(all_text(parsed), "function.yaml: error: is not in the folder; did you mean 'function.yml'?\n");
}

TEST(Manifest, VersionFollowsContentAndNotSettings) {
  const Files files = files_with(kGood);
  auto version = [](std::string_view text, const Files* with = nullptr) {
    const Files own = files_with(text);
    auto parsed = parse_manifest(with ? *with : own);
    EXPECT_TRUE(parsed.manifest.has_value()) << all_text(parsed);
    return parsed.manifest ? version_of(*parsed.manifest, with ? *with : own) : "";
  };
  const std::string original = version(kGood);
  EXPECT_EQ(original.size(), 64u);
  EXPECT_EQ(original, version(changed("priority: 3", "priority: 7")));
  EXPECT_EQ(original, version(changed("alpha / 2", "alpha/2")));
  EXPECT_EQ(original, version(changed("kind: graph", "kind: graph   # a comment")));
  EXPECT_NE(original, version(changed("name: saxpy", "name: other")));
  EXPECT_NE(original, version(changed("alpha / 2", "alpha / 3")));
  EXPECT_NE(original, version(changed("TILE: 64", "TILE: 32")));
  EXPECT_NE(original, version(changed("max: 4096", "max: 8192")));
  EXPECT_NE(original, version(changed("default: 1}", "default: 2}")));
  EXPECT_NE(original, version(changed("zero: true", "zero: false")));
  EXPECT_NE(original, version(changed("{entry: ", "{label: first, entry: ")));
  Files touched = files;
  touched["saxpy.cl"].push_back(std::byte{' '});
  EXPECT_NE(original, version(kGood, &touched));
  touched = files;
  touched["w.npy"].back() = std::byte{1};
  EXPECT_NE(original, version(kGood, &touched));
  touched = files;
  touched["README.md"] = {};
  EXPECT_EQ(original, version(kGood, &touched)) << "files nobody names are not part of the version";
}

TEST(Manifest, KnowsNames) {
  for (std::string_view good : {"a", "0", "saxpy", "a.b-c_d", "9lives"}) EXPECT_TRUE(is_function_name(good)) << good;
  for (std::string_view bad : {"", "A", "-a", ".a", "_a", "a/b", "a b", "a@b", "é", "a\n"})
    EXPECT_FALSE(is_function_name(bad)) << bad;
  EXPECT_TRUE(is_function_name(std::string(63, 'a')));
  EXPECT_FALSE(is_function_name(std::string(64, 'a')));
  for (std::string_view name :
       {"timeout", "priority", "setup", "binary_data_output", "sequence_id", "sequence_start", "sequence_end"})
    EXPECT_TRUE(is_reserved_parameter(name));
  for (std::string_view name : {"timeouts", "sequence", "sequence_", "sequence_length", "n", ""})
    EXPECT_FALSE(is_reserved_parameter(name));
}

TEST(Manifest, NamesTheFilesOfAllPrograms) {
  const std::string text = R"(
programs:
  opencl: {conv: conv.cl, pool: {files: [pool.cl, more.cl], headers: [pool.h], options: [-w]}}
  cuda: all.cu
buffers: {w: {file: w.npy}}
)";
  EXPECT_EQ(files_named_in(text),
            (std::set<std::string>{"function.yaml", "conv.cl", "pool.cl", "more.cl", "pool.h", "all.cu", "w.npy"}));
  const std::string one = "programs: {opencl: {files: [a.cl], headers: [a.h], defines: {X: 1}}}";
  EXPECT_TRUE(files_named_in(one).contains("a.cl") && files_named_in(one).contains("a.h"));
}

TEST(Manifest, KnowsNamesOfBuffers) {
  for (std::string_view good : {"x", "495", "input.1", "/encoder/out_0", "onnx::MatMul_12", "a b", "größe", "-", "é"})
    EXPECT_TRUE(is_buffer_name(good)) << good;
  for (std::string_view bad : {"", " x", "x ", "a\nb", "a\"b", "a\\b", "\x7f", "\xff", "a\tb", "\xc2\x80"})
    EXPECT_FALSE(is_buffer_name(bad)) << bad;
  EXPECT_TRUE(is_buffer_name(std::string(255, 'a')));
  EXPECT_FALSE(is_buffer_name(std::string(256, 'a')));
}

TEST(Manifest, JoinsSourcesWithTheirNames) {
  const Files files = {{"a \"b\\.cl", bytes_of("one")}, {"c.cl", bytes_of("two\n")}};
  ProgramDecl program;
  program.driver = "opencl";
  program.files = {"a \"b\\.cl", "c.cl"};
  program.defines = {{"A", ""}, {"B", "2"}};
  EXPECT_EQ(*source_text(program, files), "#line 1 \"a \\\"b\\\\.cl\"\none\n#line 1 \"c.cl\"\ntwo\n");
  EXPECT_EQ(option_text(program), "-DA -DB=2");
  program.files = {"gone.cl"};
  EXPECT_EQ(source_text(program, files).error().code, ErrorCode::kNotFound);
}

TEST(YamlTree, KeepsPlaces) {
  auto tree = read_yaml("a: 1\nb:\n  - 'x'\n  - {c: d}\n");
  const auto& root = std::get<YamlNode>(tree);
  const YamlNode* list = root.find("b");
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(list->children.size(), 2u);
  EXPECT_EQ(list->children[0].line, 3);
  EXPECT_EQ(list->children[0].column, 5);
  EXPECT_TRUE(list->children[0].quoted);
  EXPECT_FALSE(root.find("a")->quoted);
  EXPECT_EQ(list->children[1].find("c")->text, "d");
  EXPECT_EQ(root.find("z"), nullptr);
}

}  // namespace
}  // namespace quern
