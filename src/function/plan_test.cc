// SPDX-License-Identifier: Apache-2.0
#include "function/plan.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace quern {
namespace {

constexpr std::string_view kManifest = R"(api: quern/v1
name: graph
kind: graph
programs: {opencl: a.cl}
dims:
  n: {default: 8, min: 4, max: 1099511627776, multiple_of: 4}
  m: {min: 1, max: 100}
  k: 48
params:
  alpha: {dtype: fp32, default: 1, min: -10, max: 10}
  seed: {dtype: uint64, default: 7}
  steps: {dtype: int32, default: 2, min: 1, max: 4}
  flag: {dtype: bool, default: false}
  must: {dtype: int8}
buffers:
  x: {role: input, dtype: fp32, shape: [n]}
  y: {role: input, dtype: uint8, shape: [m, 2 * n, steps]}
  z: {role: output, dtype: fp32, shape: [n, m]}
  s: {role: scratch, dtype: fp64, shape: [n * k], zero: true}
kernels:
  - {entry: one, global: [n, m], local: [4, 1],
     args: [{in: x}, {in: y}, {inout: s}, {local: 8 * n}, {uint32: n + m}, {fp32: alpha / 4}]}
  - {entry: two, global: [k, 3], args: [{in: s}, {out: z}, {uint64: seed}, {bool: flag}, {int8: must}]}
  - {entry: three, global: [n], args: [{inout: z}]}
  - {entry: four, global: [64], local: [1 << steps], args: [{inout: z}]}
)";

Manifest manifest_of(std::string_view text = kManifest) {
  Files files;
  files["function.yaml"] = bytes_of(text);
  files["a.cl"] = {};
  auto parsed = parse_manifest(files);
  for (const Mistake& mistake : parsed.mistakes) EXPECT_TRUE(mistake.is_warning) << to_string(mistake);
  return parsed.manifest.value_or(Manifest{});
}

CallSpec good_call() {
  CallSpec call;
  call.inputs = {{"x", Dtype::kFp32, {16}}, {"y", Dtype::kUint8, {3, 32, 2}}};
  call.parameters["must"] = int64_t{-5};
  return call;
}

// What bind says about a call that differs from a good one.
template <class Change>
std::string problem(Change change) {
  const Manifest manifest = manifest_of();
  CallSpec call = good_call();
  change(call);
  auto binding = bind(manifest, call);
  if (binding.ok()) return "";
  EXPECT_EQ(binding.error().code, ErrorCode::kInvalid);
  return binding.error().text;
}
std::string parameter_problem(const std::string& name, ParameterValue value) {
  return problem([&](CallSpec& call) { call.parameters[name] = std::move(value); });
}

TEST(Bind, TakesDimsFromShapesParametersAndDefaults) {
  const Manifest manifest = manifest_of();
  auto binding = bind(manifest, good_call());
  ASSERT_TRUE(binding.ok()) << binding.error().text;
  EXPECT_EQ(binding->dims, (std::vector<int64_t>{16, 3, 48}));
  ASSERT_EQ(binding->params.size(), 5u);
  EXPECT_EQ(number_of(binding->params[0]), 1.0);
  EXPECT_EQ(binding->params[1], (Scalar{Dtype::kUint64, 7}));
  EXPECT_EQ(number_of(binding->params[4]), -5.0);
  EXPECT_EQ(problem([](CallSpec& call) { call.parameters["n"] = int64_t{16}; }), "") << "both may say it if they agree";
  EXPECT_EQ(problem([](CallSpec& call) { call.parameters["k"] = int64_t{48}; }), "");
  EXPECT_EQ(problem([](CallSpec& call) { call.parameters["n"] = 16.0; }), "");
  EXPECT_EQ(problem([](CallSpec& call) { std::swap(call.inputs[0], call.inputs[1]); }), "") << "in any order";
}

TEST(Bind, SaysWhatIsWrongWithInputs) {
  EXPECT_EQ(problem([](CallSpec& call) { call.inputs[0].dtype = Dtype::kFp64; }),
            "graph: input 'x' has dtype FP64 but the function takes FP32; send FP32");
  EXPECT_EQ(problem([](CallSpec& call) {
              call.inputs[0].shape = {16, 1};
            }),
            "graph: input 'x' has shape [16,1] but the function takes [n]; send 1 dims");
  EXPECT_EQ(problem([](CallSpec& call) { call.inputs[0].shape = {}; }),
            "graph: input 'x' has shape [] but the function takes [n]; send 1 dims");
  EXPECT_EQ(problem([](CallSpec& call) { call.inputs[0].shape = {20}; }),
            "graph: input 'y' has shape [3,32,2] but the function takes [m,2 * n,steps], where 2 * n is 40");
  EXPECT_EQ(problem([](CallSpec& call) { call.parameters["n"] = int64_t{20}; }),
            "graph: input 'x' has shape [16] but the function takes [n] with n = 20");
  EXPECT_EQ(problem([](CallSpec& call) { call.parameters["steps"] = int64_t{3}; }),
            "graph: input 'y' has shape [3,32,2] but the function takes [m,2 * n,steps], where steps is 3");
  EXPECT_EQ(problem([](CallSpec& call) { call.inputs.pop_back(); }),
            "graph: input 'y' is missing; send UINT8 [m,2 * n,steps]");
  EXPECT_EQ(problem([](CallSpec& call) { call.inputs.push_back(call.inputs[0]); }),
            "graph: input 'x' is given twice; send it once");
  EXPECT_EQ(problem([](CallSpec& call) { call.inputs[0].name = "xx"; }),
            "graph: there is no input 'xx'; did you mean 'x'?");
  EXPECT_EQ(problem([](CallSpec& call) { call.inputs[0].name = "weather"; }),
            "graph: there is no input 'weather'; it takes x, y");
  EXPECT_EQ(problem([](CallSpec& call) { call.inputs[0].name = "z"; }),
            "graph: 'z' is an output, not an input; leave it out");
  EXPECT_EQ(problem([](CallSpec& call) { call.inputs[0].name = "s"; }),
            "graph: 's' is a scratch, not an input; leave it out");
  EXPECT_EQ(problem([](CallSpec& call) { call.inputs[1].shape[0] = 101; }), "graph: dim 'm' is 101; send 1 to 100");
  EXPECT_EQ(problem([](CallSpec& call) { call.inputs[1].shape[0] = 0; }), "graph: dim 'm' is 0; send 1 to 100");
  EXPECT_EQ(problem([](CallSpec& call) { call.inputs[1].shape[0] = -3; }), "graph: dim 'm' is -3; send 1 to 100");
  EXPECT_EQ(problem([](CallSpec& call) { call.inputs[0].shape = {18}; }), "graph: dim 'n' is 18; send a multiple of 4");
}

TEST(Bind, SaysWhatIsWrongWithParameters) {
  EXPECT_EQ(parameter_problem("alhpa", 1.0), "graph: there is no parameter 'alhpa'; did you mean 'alpha'?");
  EXPECT_NE(parameter_problem(std::string(100'000, 'a'), 1.0).find("it takes"), std::string::npos);
  EXPECT_LT(parameter_problem(std::string(100'000, 'a'), 1.0).size(), 300u);
  EXPECT_EQ(parameter_problem("alpha", 11.0), "graph: param 'alpha' is 11; send -10 to 10");
  EXPECT_EQ(parameter_problem("alpha", int64_t{-11}), "graph: param 'alpha' is -11; send -10 to 10");
  EXPECT_EQ(parameter_problem("alpha", std::string("2")),
            "graph: param 'alpha' is the text '2'; send a number that fits fp32");
  EXPECT_EQ(parameter_problem("alpha", true), "graph: param 'alpha' is true; send a number that fits fp32");
  EXPECT_NE(parameter_problem("alpha", std::nan("")), "");
  EXPECT_NE(parameter_problem("alpha", 1e300), "");
  EXPECT_EQ(parameter_problem("must", int64_t{128}),
            "graph: param 'must' is 128, which does not fit int8; send a whole number from -128 to 127, without a "
            "fraction or an exponent");
  EXPECT_EQ(parameter_problem("must", 1.5),
            "graph: param 'must' is 1.5, which does not fit int8; send a whole number from -128 to 127, without a "
            "fraction or an exponent");
  EXPECT_EQ(parameter_problem("must", 2.0), "");
  EXPECT_EQ(parameter_problem("flag", true), "");
  EXPECT_EQ(parameter_problem("flag", int64_t{1}), "graph: param 'flag' is 1; send true or false");
  EXPECT_EQ(parameter_problem("n", 16.5), "graph: dim 'n' is 16.5; send a whole number");
  EXPECT_EQ(parameter_problem("n", std::numeric_limits<double>::infinity()),
            "graph: dim 'n' is inf; send a whole number");
  EXPECT_EQ(parameter_problem("n", true), "graph: dim 'n' is true; send a whole number");
  EXPECT_EQ(parameter_problem("k", int64_t{47}), "graph: dim 'k' is always 48, not 47; leave it out");
  EXPECT_EQ(problem([](CallSpec& call) { call.parameters.clear(); }),
            "graph: param 'must' has no default; send it as a parameter (int8)");
}

TEST(Bind, NeedsEveryDim) {
  const Manifest manifest = manifest_of(R"(api: quern/v1
name: source
kind: graph
programs: {opencl: a.cl}
dims: {n: {max: 8}}
buffers: {z: {role: output, dtype: fp32, shape: [n]}}
kernels: [{entry: fill, global: [n], args: [{out: z}]}]
)");
  EXPECT_EQ(bind(manifest, {}).error().text, "source: dim 'n' is not known; send it as a parameter");
  CallSpec call;
  call.parameters["n"] = int64_t{8};
  EXPECT_EQ(bind(manifest, call)->dims[0], 8);
  call.inputs = {{"x", Dtype::kFp32, {1}}};
  EXPECT_EQ(bind(manifest, call).error().text, "source: there is no input 'x'; it takes none");
}

TEST(Plan, HoldsSizesOfOneBinding) {
  const Manifest manifest = manifest_of();
  auto binding = bind(manifest, good_call());
  auto plan = make_plan(manifest, *binding);
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  ASSERT_EQ(plan->buffers.size(), 4u);
  EXPECT_EQ(plan->buffers[1].shape, (Shape{3, 32, 2}));
  EXPECT_EQ(plan->buffers[2].size_bytes, 16u * 3 * 4);
  EXPECT_EQ(plan->buffers[3].size_bytes, 16u * 48 * 8);
  ASSERT_EQ(plan->fills.size(), 1u) << "zero: true is a fill before the first use";
  EXPECT_EQ(plan->fills[0].buffer, 3u);
  EXPECT_EQ(plan->fills[0].size_bytes, 16u * 48 * 8);
  EXPECT_EQ(plan->memory_bytes, 64u + 192 + 192 + 6144);
  ASSERT_EQ(plan->launches.size(), 4u);
  const PlannedLaunch& one = plan->launches[0];
  EXPECT_EQ(one.dimensions, 2u);
  EXPECT_EQ(one.global, (Size3{16, 3, 1}));
  EXPECT_EQ(one.local, (Size3{4, 1, 1}));
  EXPECT_EQ(one.arguments[3].local_bytes, 128u);
  EXPECT_EQ(one.arguments[4].scalar.slot, PlannedScalar::kFixed) << "dims do not change within a plan";
  EXPECT_EQ(one.arguments[4].scalar.fixed, (Scalar{Dtype::kUint32, 19}));
  EXPECT_EQ(one.arguments[5].scalar.slot, 0u);
  EXPECT_EQ(plan->launches[1].local, (Size3{16, 1, 1})) << "picked: the largest power of two that divides 48";
  EXPECT_EQ(plan->launches[2].local, (Size3{0, 0, 0})) << "the driver picks where n is free";
  EXPECT_EQ(plan->launches[3].local, (Size3{4, 1, 1}));
  auto scalars = scalars_of(manifest, *plan, *binding);
  ASSERT_TRUE(scalars.ok());
  ASSERT_EQ(scalars->size(), 4u);
  EXPECT_EQ(number_of((*scalars)[0]), 0.25);
  EXPECT_EQ((*scalars)[3], (Scalar{Dtype::kInt8, 0xfb}));
}

TEST(Plan, PassesLargeParamsAsTheyAre) {
  const Manifest manifest = manifest_of();
  CallSpec call = good_call();
  for (const uint64_t seed : {uint64_t{1} << 63, (uint64_t{1} << 63) + 1, UINT64_MAX}) {
    call.parameters["seed"] = seed;
    auto binding = bind(manifest, call);
    ASSERT_TRUE(binding.ok()) << binding.error().text;
    EXPECT_EQ((*scalars_of(manifest, *make_plan(manifest, *binding), *binding))[1].bits, seed);
  }
}

TEST(Bind, WholeNumbersOf64BitsAreExactOrRefused) {
  const Manifest manifest = manifest_of(R"(api: quern/v1
name: seeds
kind: graph
programs: {opencl: a.cl}
params:
  u: {dtype: uint64, default: 0, max: 18446744073709551614}
  i: {dtype: int64, default: 0}
buffers: {z: {role: output, dtype: fp32, shape: [8]}}
kernels: [{entry: fill, global: [8], args: [{out: z}, {uint64: u}, {int64: i}]}]
)");
  const auto with = [&](const std::string& name, ParameterValue value) {
    CallSpec call;
    call.parameters[name] = std::move(value);
    return bind(manifest, call);
  };
  EXPECT_EQ(with("u", UINT64_MAX - 1)->params[0].bits, UINT64_MAX - 1);
  EXPECT_EQ(with("i", INT64_MIN)->params[1].bits, uint64_t{1} << 63);
  EXPECT_EQ(with("i", INT64_MAX)->params[1].bits, static_cast<uint64_t>(INT64_MAX));
  EXPECT_EQ(with("u", UINT64_MAX).error().text,
            "seeds: param 'u' is 18446744073709551615; send at most 18446744073709551614");
  EXPECT_EQ(with("i", uint64_t{1} << 63).error().text,
            "seeds: param 'i' is 9223372036854775808, which does not fit int64; send a whole number from "
            "-9223372036854775808 to 9223372036854775807, without a fraction or an exponent");
  // What JSON has as a double: -2^63 - 1 is rounded to -2^63, which is not what the caller wrote.
  EXPECT_NE(with("i", -0x1p63).error().text.find("which does not fit int64"), std::string::npos);
  EXPECT_NE(with("u", 0x1p63).error().text.find("which does not fit uint64"), std::string::npos);
  EXPECT_EQ(with("u", 0x1p53 - 1)->params[0].bits, (uint64_t{1} << 53) - 1);
}

// Of a buffer that is written in part, what was there before is needed: nobody else may have its memory in between.
TEST(Plan, APartialAccessKeepsTheRestAlive) {
  const auto lives_from = [](const std::string& access) {
    const Manifest manifest = manifest_of(R"(api: quern/v1
name: parts
kind: graph
programs: {opencl: a.cl}
buffers:
  s: {role: scratch, dtype: fp32, shape: [64]}
  z: {role: output, dtype: fp32, shape: [64]}
kernels:
  - {fill: z, value: 0}
  - repeat: {times: 3}
    kernels:
      - {entry: touch, global: [64], args: [{inout: z}]}
      - {entry: write, global: [64], args: [{)" +
                                          access +
                                          R"(: s}]}
      - {entry: read, global: [64], args: [{in: s}, {inout: z}]}
)");
    return make_plan(manifest, {})->buffers[0].first;
  };
  EXPECT_EQ(lives_from("out"), 3u);
  EXPECT_EQ(lives_from("partial"), 1u) << "all rounds";
}

TEST(Plan, CompilesAProgramForTheSizesOfItsOwnKernels) {
  const Manifest manifest = manifest_of(R"(api: quern/v1
name: two
kind: graph
programs: {opencl: {conv: a.cl, pool: a.cl}}
buffers: {z: {role: output, dtype: fp32, shape: [64]}}
kernels:
  - {program: pool, entry: k, global: [64], local: [16], args: [{out: z}]}
  - {program: conv, entry: k, global: [64], local: [8], args: [{inout: z}]}
  - {program: conv, entry: k, global: [64], local: [4], args: [{inout: z}]}
)");
  EXPECT_EQ(manifest.program_names, (std::vector<std::string>{"conv", "pool"}));
  EXPECT_EQ(group_sizes_of(manifest, 0), (std::vector<Size3>{{8, 1, 1}, {4, 1, 1}}));
  EXPECT_EQ(group_sizes_of(manifest, 1), (std::vector<Size3>{{16, 1, 1}}));
  const auto plan = make_plan(manifest, {});
  EXPECT_EQ(plan->launches[0].program, 1u);
  EXPECT_EQ(plan->launches[1].program, 0u);
  // Entries of one name in two programs are two kernels.
  Signature with{"k", {{"z", "float*", 'g', false}}}, without{"k", {}};
  const auto problems = check_signatures(manifest, std::array{ProgramSignatures{with}, ProgramSignatures{without}});
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].kernel, 0u);
}

TEST(Plan, RefusesWhatDoesNotFit) {
  const Manifest manifest = manifest_of();
  auto binding = bind(manifest, good_call());
  binding->dims[0] = int64_t{1} << 40;
  EXPECT_NE(make_plan(manifest, *binding).error().text.find("input 'x': it is larger than"), std::string::npos);
  binding->dims[0] = std::numeric_limits<int64_t>::max();
  EXPECT_FALSE(make_plan(manifest, *binding).ok());
  binding->dims[0] = -4;
  EXPECT_EQ(make_plan(manifest, *binding).error().text,
            "graph: input 'x': its shape has -4 for 'n'; sizes are not negative");
  binding->dims[0] = 6;
  EXPECT_NE(make_plan(manifest, *binding).error().text.find("local size 4 does not divide its global size 6"),
            std::string::npos);
  EXPECT_EQ(make_plan(manifest, {}).error().code, ErrorCode::kInternal);
  binding->dims[0] = 16;
  EXPECT_EQ(scalars_of(manifest, *make_plan(manifest, *binding), {}).error().code, ErrorCode::kInternal);
}

TEST(Plan, KeyFollowsWhatSizesDependOn) {
  const Manifest manifest = manifest_of();
  auto key = [&](auto change) {
    CallSpec call = good_call();
    change(call);
    return plan_key(manifest, *bind(manifest, call));
  };
  const std::string original = key([](CallSpec&) {});
  EXPECT_EQ(original.size(), 24u) << "n, m and steps; k is fixed";
  EXPECT_EQ(original, key([](CallSpec& call) { call.parameters["alpha"] = 3.0; }));
  EXPECT_NE(original, key([](CallSpec& call) { call.inputs[1].shape[0] = 4; }));
  EXPECT_NE(original, key([](CallSpec& call) {
              call.parameters["steps"] = int64_t{3};
              call.inputs[1].shape[2] = 3;
            }));
}

TEST(Plan, ListsGroupSizes) {
  EXPECT_EQ(group_sizes_of(manifest_of()), (std::vector<Size3>{{4, 1, 1}, {16, 1, 1}, {2, 1, 1}}))
      << "4 of the defaults, 16 is picked and the largest 1 << steps, 2 its smallest";
}

TEST(Plan, ShapesAreOpenWhereARequestDecides) {
  const Manifest manifest = manifest_of();
  EXPECT_EQ(open_shape(manifest, *manifest.buffer("y")), (Shape{-1, -1, -1}));
  BufferDecl fixed = *manifest.buffer("z");
  fixed.shape = {*Expression::parse("k / 2"), Expression::constant(3), *Expression::parse("n")};
  EXPECT_EQ(open_shape(manifest, fixed), (Shape{24, 3, -1}));
  EXPECT_EQ(show_shape(Shape{2, 3}), "[2,3]");
  EXPECT_EQ(show_shape({}), "[]");
}

Signature::Argument argument(std::string type, char space = 'g', bool is_const = false) {
  return {"a", std::move(type), space, is_const};
}

std::vector<Signature> good_signatures() {
  return {{"one",
           {argument("float4*", 'g', true), argument("uchar*", 'c'), argument("double*"), argument("float*", 'l'),
            argument("uint", 'p'), argument("float", 'p')},
           {0, 0, 0},
           0},
          {"two",
           {argument("double*", 'g', true), argument("float*"), argument("unsigned long", 'p'), argument("uchar", 'p'),
            argument("char", 'p')},
           {0, 0, 0},
           0},
          {"three", {argument("float*")}, {0, 0, 0}, 0},
          {"four", {argument("float*")}, {4, 1, 1}, 0}};
}

template <class Change>
std::string signature_mistakes(Change change) {
  auto signatures = good_signatures();
  change(signatures);
  std::string text;
  const Manifest manifest = manifest_of();
  for (const Mistake& mistake : mistakes_in(manifest, check_signatures(manifest, std::array{signatures})))
    text += to_string(mistake) + "\n";
  return text;
}

TEST(Signatures, MatchTheManifest) {
  EXPECT_EQ(signature_mistakes([](auto&) {}), "");
  EXPECT_EQ(signature_mistakes([](auto& s) { s[2].entry = "thre"; }),
            "function.yaml:24:5: error: kernel 'three' is not in the program; did you mean 'thre'?\n");
  EXPECT_NE(signature_mistakes([](auto& s) { s.clear(); }).find("it has no kernels"), std::string::npos);
  EXPECT_NE(signature_mistakes([](auto& s) { s[2].arguments.clear(); }).find("takes 0 arguments, but args has 1"),
            std::string::npos);
  EXPECT_NE(signature_mistakes([](auto& s) {
              s[2].arguments[0].type = "int*";
            }).find("argument 1 ('a') is int*, but buffer 'z' is fp32; write float* or dtype: int32"),
            std::string::npos);
  EXPECT_NE(
      signature_mistakes([](auto& s) { s[2].arguments[0].is_const = true; }).find("is const, but args has inout: z"),
      std::string::npos);
  EXPECT_EQ(
      signature_mistakes([](auto& s) { s[0].arguments[0].is_const = false; }),
      "function.yaml:21:5: warning: kernel 'one' argument 1 ('a') is not const, but args has in: x; write const\n");
  EXPECT_NE(signature_mistakes([](auto& s) {
              s[0].arguments[4].type = "int";
            }).find("is int, but args has uint32; write {int32: …}"),
            std::string::npos);
  EXPECT_NE(signature_mistakes([](auto& s) {
              s[0].arguments[4].type = "Point";
            }).find("structs and vectors are not supported"),
            std::string::npos);
  EXPECT_NE(signature_mistakes([](auto& s) { s[0].arguments[4].type = "float4"; }).find("structs and vectors"),
            std::string::npos);
  EXPECT_NE(signature_mistakes([](auto& s) {
              s[0].arguments[3] = argument("uint", 'p');
            }).find("is uint by value, but args has local; write {uint32: expression}"),
            std::string::npos);
  EXPECT_NE(signature_mistakes([](auto& s) {
              s[0].arguments[0] = argument("float*", 'l');
            }).find("is __local float*, but args has a buffer; write {local: bytes}"),
            std::string::npos);
  EXPECT_NE(
      signature_mistakes([](auto& s) { s[0].arguments[5] = argument("float*", 'g'); }).find("but args has a scalar"),
      std::string::npos);
  EXPECT_NE(signature_mistakes([](auto& s) {
              s[2].arguments[0] = argument("image2d_t", 'g');
            }).find("images, samplers and pipes"),
            std::string::npos);
  EXPECT_NE(
      signature_mistakes([](auto& s) { s[2].arguments[0] = argument("Point*", 'g'); }).find("warning: kernel 'three'"),
      std::string::npos);
  EXPECT_EQ(signature_mistakes([](auto& s) { s[2].arguments[0] = argument("void*", 'g'); }), "");
  EXPECT_NE(signature_mistakes([](auto& s) {
              s[3].required_local = {8, 1, 1};
            }).find("reqd_work_group_size(8, 1, 1), but local is [4, 1, 1]"),
            std::string::npos);
  EXPECT_NE(signature_mistakes([](auto& s) {
              s[2].required_local = {8, 1, 1};
            }).find("names no local size"),
            std::string::npos);
}

TEST(Signatures, HoldWhatAKernelDoesWithMemoryAgainstItsArgs) {
  const auto with = [](size_t kernel, char access) {
    return signature_mistakes([&](auto& s) { s[kernel].arguments[0].access = access; });
  };
  for (const char fine : {'?', '-', 'r'}) EXPECT_EQ(with(0, fine), "") << fine;
  for (const char wrong : {'w', 'b'})
    EXPECT_EQ(with(0, wrong),
              "function.yaml:21:5: error: kernel 'one' argument 1 ('a') is written by the kernel, but args has in: x; "
              "write inout, or store elsewhere\n");
  // An earlier Quern took it, so a function that was stored goes on.
  auto signatures = good_signatures();
  signatures[0].arguments[0].access = 'w';
  const auto mistakes = check_signatures(manifest_of(), std::array{signatures}, Origin::kStored);
  ASSERT_EQ(mistakes.size(), 1u);
  EXPECT_TRUE(mistakes[0].is_warning);
  signatures[0].arguments.pop_back();
  EXPECT_FALSE(check_signatures(manifest_of(), std::array{signatures}, Origin::kStored).at(0).is_warning)
      << "other mistakes stay";
  // An inout may be anything.
  for (const char fine : {'?', '-', 'r', 'w', 'b'}) EXPECT_EQ(with(2, fine), "") << fine;
}

TEST(Signatures, SayWhyAKernelIsLaunchedWhole) {
  const Manifest manifest = manifest_of();
  auto signatures = good_signatures();
  signatures[0].unsliceable = "uses get_global_size";
  KernelDecl kernel = manifest.kernels[0];
  kernel.entry = "one";
  EXPECT_EQ(unsliceable(kernel, signatures), "uses get_global_size");
  kernel.entry = "three";
  kernel.local = {Expression::constant(4)};
  EXPECT_EQ(unsliceable(kernel, signatures), "");
  kernel.local.clear();
  EXPECT_EQ(unsliceable(kernel, signatures), "names no local size");
  kernel.entry = "five";
  EXPECT_EQ(unsliceable(kernel, signatures), "is not in the program");

  PlannedLaunch launch;
  launch.global = {64, 32, 1};
  EXPECT_EQ(most_groups(launch), 1u);
  launch.local = {16, 2, 1};
  EXPECT_EQ(most_groups(launch), 16u);
}

TEST(Signatures, SmallFloatsAreUshort) {
  Manifest manifest = manifest_of();
  manifest.kernels = {manifest.kernels[2]};
  struct Row {
    Dtype dtype;
    std::string type;
    bool matches;
  };
  for (const Row& row :
       {Row{Dtype::kFp16, "ushort*", true}, Row{Dtype::kBf16, "ushort8*", true}, Row{Dtype::kFp16, "half16*", true},
        Row{Dtype::kBf16, "half*", false}, Row{Dtype::kBool, "uchar*", true}, Row{Dtype::kBool, "char*", false},
        Row{Dtype::kUint8, "unsigned char*", true}, Row{Dtype::kInt8, "char3*", true},
        Row{Dtype::kInt64, "long2*", true}, Row{Dtype::kUint32, "const unsigned int *", true},
        Row{Dtype::kInt16, "ushort*", false}}) {
    manifest.buffers[2].dtype = row.dtype;
    const Signature signature{"three", {argument(row.type)}, {0, 0, 0}, 0};
    EXPECT_EQ(check_signatures(manifest, std::array{ProgramSignatures{signature}}).empty(), row.matches)
        << name_of(row.dtype) << " " << row.type;
  }
}

}  // namespace
}  // namespace quern
