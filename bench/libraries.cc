// SPDX-License-Identifier: Apache-2.0
//
// The prototypes are those of OpenBLAS 0.3 and oneDNN 2 (dnnl.h): their headers are in packages that are not needed to
// build Quern.
#include "bench/libraries.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "os/env.h"

namespace quern::bench {
namespace {

/// Never closed: libgomp, which comes with oneDNN, does not like that.
Result<void*> open_library(const char* file, const char* package) {
  if (void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL)) return library;
  return unavailable(fmt::format("{}: is not installed; apt-get install {}", file, package));
}

template <class F>
Status find(void* library, const char* name, F& function) {
  void* found = dlsym(library, name);
  if (!found) return unavailable(fmt::format("{}: is not in this version of its library", name));
  function = reinterpret_cast<F>(found);
  return {};
}

}  // namespace

void prepare_libraries() {
  for (const char* name : {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"}) os::set_env(name, "1");
  os::set_env("OMP_WAIT_POLICY", "passive");
  // A CPU that OpenBLAS does not know gets code for one of 2004. On AMD's Zen its code for Haswell is as good as that
  // for Zen (Zen 3: 23.5 and 23.8 ms at best).
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
  if (has_avx512 || __builtin_cpu_supports("avx2"))
    os::set_env("OPENBLAS_CORETYPE", has_avx512 ? "SkylakeX" : "Haswell");
}

Result<OpenBlas> OpenBlas::open() {
  QUERN_TRY(void* library, open_library("libopenblas.so.0", "libopenblas0-pthread"));
  Sgemm sgemm = nullptr;
  CoreName core_name = nullptr;
  QUERN_TRY(find(library, "cblas_sgemm", sgemm));
  QUERN_TRY(find(library, "openblas_get_corename", core_name));
  return OpenBlas(sgemm, core_name);
}

void OpenBlas::multiply(int n, const float* a, const float* b, float* c) const {
  constexpr int kRowMajor = 101, kAsItIs = 111;
  sgemm_(kRowMajor, kAsItIs, kAsItIs, n, n, n, 1.0f, a, n, b, n, 0.0f, c, n);
}

std::string OpenBlas::core() const { return core_name_(); }

namespace {

// What oneDNN hands out is opaque but for descriptors, which it copies: these are large enough for those of all
// versions 2 (696 and 5976 bytes in 2.6).
struct alignas(16) MemoryDesc {
  std::array<std::byte, 4096> bytes{};
};
struct alignas(16) ConvolutionDesc {
  std::array<std::byte, 16384> bytes{};
};
struct ExecArgument {
  int which = 0;
  void* memory = nullptr;
};

constexpr int kCpu = 1, kFp32 = 3, kAny = 1, kVector = 2, kRowMajor4 = 5, kForwardInference = 96, kDirect = 1,
              kRelu = 31;
constexpr int kSource = 1, kTarget = 17, kWeights = 33, kBias = 41;
constexpr int kSourceDesc = 129, kWeightsDesc = 131, kTargetDesc = 133, kImplementationName = 8;
constexpr int kDimsLong = 12;
using Dims = std::array<int64_t, kDimsLong>;

struct Version {
  int major = 0;
};

struct OneDnn {
  const Version* (*version)() = nullptr;
  int (*engine_create)(void**, int, size_t) = nullptr;
  int (*engine_destroy)(void*) = nullptr;
  int (*stream_create)(void**, void*, unsigned) = nullptr;
  int (*stream_wait)(void*) = nullptr;
  int (*stream_destroy)(void*) = nullptr;
  int (*memory_desc_init_by_tag)(void*, int, const int64_t*, int, int) = nullptr;
  int (*memory_create)(void**, const void*, void*, void*) = nullptr;
  int (*memory_destroy)(void*) = nullptr;
  int (*convolution_forward_desc_init)(void*, int, int, const void*, const void*, const void*, const void*,
                                       const int64_t*, const int64_t*, const int64_t*) = nullptr;
  int (*post_ops_create)(void**) = nullptr;
  int (*post_ops_append_eltwise)(void*, float, int, float, float) = nullptr;
  int (*post_ops_destroy)(void*) = nullptr;
  int (*attr_create)(void**) = nullptr;
  int (*attr_set_post_ops)(void*, const void*) = nullptr;
  int (*attr_destroy)(void*) = nullptr;
  int (*desc_create)(void**, const void*, const void*, void*, const void*) = nullptr;
  const void* (*desc_query_md)(const void*, int, int) = nullptr;
  int (*desc_query)(const void*, int, int, void*) = nullptr;
  int (*desc_destroy)(void*) = nullptr;
  int (*reorder_desc_create)(void**, const void*, void*, const void*, void*, const void*) = nullptr;
  int (*primitive_create)(void**, const void*) = nullptr;
  int (*primitive_execute)(const void*, void*, int, const ExecArgument*) = nullptr;
  int (*primitive_destroy)(void*) = nullptr;

  Status open() {
    constexpr const char* kPackage = "libdnnl2";
    QUERN_TRY(void* library, open_library("libdnnl.so.2", kPackage));
    QUERN_TRY(find(library, "dnnl_version", version));
    if (version()->major != 2) return unavailable(fmt::format("oneDNN: is not version 2; install {}", kPackage));
    QUERN_TRY(find(library, "dnnl_engine_create", engine_create));
    QUERN_TRY(find(library, "dnnl_engine_destroy", engine_destroy));
    QUERN_TRY(find(library, "dnnl_stream_create", stream_create));
    QUERN_TRY(find(library, "dnnl_stream_wait", stream_wait));
    QUERN_TRY(find(library, "dnnl_stream_destroy", stream_destroy));
    QUERN_TRY(find(library, "dnnl_memory_desc_init_by_tag", memory_desc_init_by_tag));
    QUERN_TRY(find(library, "dnnl_memory_create", memory_create));
    QUERN_TRY(find(library, "dnnl_memory_destroy", memory_destroy));
    QUERN_TRY(find(library, "dnnl_convolution_forward_desc_init", convolution_forward_desc_init));
    QUERN_TRY(find(library, "dnnl_post_ops_create", post_ops_create));
    QUERN_TRY(find(library, "dnnl_post_ops_append_eltwise", post_ops_append_eltwise));
    QUERN_TRY(find(library, "dnnl_post_ops_destroy", post_ops_destroy));
    QUERN_TRY(find(library, "dnnl_primitive_attr_create", attr_create));
    QUERN_TRY(find(library, "dnnl_primitive_attr_set_post_ops", attr_set_post_ops));
    QUERN_TRY(find(library, "dnnl_primitive_attr_destroy", attr_destroy));
    QUERN_TRY(find(library, "dnnl_primitive_desc_create", desc_create));
    QUERN_TRY(find(library, "dnnl_primitive_desc_query_md", desc_query_md));
    QUERN_TRY(find(library, "dnnl_primitive_desc_query", desc_query));
    QUERN_TRY(find(library, "dnnl_primitive_desc_destroy", desc_destroy));
    QUERN_TRY(find(library, "dnnl_reorder_primitive_desc_create", reorder_desc_create));
    QUERN_TRY(find(library, "dnnl_primitive_create", primitive_create));
    QUERN_TRY(find(library, "dnnl_primitive_execute", primitive_execute));
    return find(library, "dnnl_primitive_destroy", primitive_destroy);
  }
};

Status check(int code, const char* what) {
  return code == 0 ? Status() : unavailable(fmt::format("oneDNN: {}: error {}", what, code));
}

/// Something of oneDNN's with the function that gives it back.
class Owned {
 public:
  Owned() = default;
  Owned(void* object, int (*destroy)(void*)) : object_(object, destroy) {}
  void* get() const { return object_.get(); }

 private:
  std::unique_ptr<void, int (*)(void*)> object_{nullptr, [](void*) { return 0; }};
};

template <class F, class... Arguments>
Status make(Owned& into, int (*destroy)(void*), const char* what, F create, Arguments... arguments) {
  void* object = nullptr;
  QUERN_TRY(check(create(&object, arguments...), what));
  into = {object, destroy};
  return {};
}

}  // namespace

struct OneDnnConvolution::State {
  OneDnn api;
  size_t elements = 0;
  MemoryDesc x_rows, weights_rows, bias_desc;  // row-major: as callers have them
  // In the order they are made; given back the other way round.
  Owned engine, stream, desc, primitive, x, weights, bias, y;

  Status describe(MemoryDesc& desc, std::initializer_list<int64_t> sizes, int layout) const {
    Dims dims{};
    std::copy(sizes.begin(), sizes.end(), dims.begin());
    return check(
        api.memory_desc_init_by_tag(desc.bytes.data(), static_cast<int>(sizes.size()), dims.data(), kFp32, layout),
        "memory descriptor");
  }

  Status make_memory(Owned& into, const void* desc, void* at) const {
    static void* const kAllocate = reinterpret_cast<void*>(-1);  // by the library
    return make(into, api.memory_destroy, "memory", api.memory_create, desc, engine.get(), at ? at : kAllocate);
  }

  Status describe_convolution(const Shape& shape) {
    const int64_t c = shape.channels, h = shape.height, w = shape.width, border = shape.window / 2;
    MemoryDesc any_x, any_weights, any_y;
    QUERN_TRY(describe(x_rows, {1, c, h, w}, kRowMajor4));
    QUERN_TRY(describe(weights_rows, {c, c, shape.window, shape.window}, kRowMajor4));
    QUERN_TRY(describe(bias_desc, {c}, kVector));
    QUERN_TRY(describe(any_x, {1, c, h, w}, kAny));
    QUERN_TRY(describe(any_weights, {c, c, shape.window, shape.window}, kAny));
    QUERN_TRY(describe(any_y, {1, c, h, w}, kAny));
    const Dims strides{1, 1}, borders{border, border};
    ConvolutionDesc convolution;
    QUERN_TRY(
        check(api.convolution_forward_desc_init(convolution.bytes.data(), kForwardInference, kDirect,
                                                any_x.bytes.data(), any_weights.bytes.data(), bias_desc.bytes.data(),
                                                any_y.bytes.data(), strides.data(), borders.data(), borders.data()),
              "convolution descriptor"));
    Owned post_ops, attributes;
    QUERN_TRY(make(post_ops, api.post_ops_destroy, "post-ops", api.post_ops_create));
    QUERN_TRY(check(api.post_ops_append_eltwise(post_ops.get(), 1.0f, kRelu, 0.0f, 0.0f), "relu"));
    QUERN_TRY(make(attributes, api.attr_destroy, "attributes", api.attr_create));
    QUERN_TRY(check(api.attr_set_post_ops(attributes.get(), post_ops.get()), "attributes"));
    QUERN_TRY(make(desc, api.desc_destroy, "convolution", api.desc_create,
                   static_cast<const void*>(convolution.bytes.data()), static_cast<const void*>(attributes.get()),
                   engine.get(), static_cast<const void*>(nullptr)));
    return make(primitive, api.primitive_destroy, "convolution", api.primitive_create,
                static_cast<const void*>(desc.get()));
  }

  Status reorder(const void* from_desc, void* from, const void* to_desc, void* to) const {
    Owned reorder_desc, reorder;
    QUERN_TRY(make(reorder_desc, api.desc_destroy, "reorder", api.reorder_desc_create, from_desc, engine.get(), to_desc,
                   engine.get(), static_cast<const void*>(nullptr)));
    QUERN_TRY(make(reorder, api.primitive_destroy, "reorder", api.primitive_create,
                   static_cast<const void*>(reorder_desc.get())));
    const std::array arguments{ExecArgument{kSource, from}, ExecArgument{kTarget, to}};
    QUERN_TRY(check(api.primitive_execute(reorder.get(), stream.get(), arguments.size(), arguments.data()), "reorder"));
    return check(api.stream_wait(stream.get()), "reorder");
  }

  // Memory in the layout that the convolution wants, with these contents.
  Status bring(Owned& into, int which, int index, const MemoryDesc& rows, std::span<const float> values) const {
    const void* wanted = api.desc_query_md(desc.get(), which, index);
    QUERN_TRY(make_memory(into, wanted, nullptr));
    Owned plain;
    QUERN_TRY(make_memory(plain, rows.bytes.data(), const_cast<float*>(values.data())));
    return reorder(rows.bytes.data(), plain.get(), wanted, into.get());
  }
};

OneDnnConvolution::OneDnnConvolution(std::unique_ptr<State> state) : state_(std::move(state)) {}
OneDnnConvolution::~OneDnnConvolution() = default;

Result<std::unique_ptr<OneDnnConvolution>> OneDnnConvolution::create(const Shape& shape, std::span<const float> x,
                                                                     std::span<const float> weights,
                                                                     std::span<const float> bias) {
  auto state = std::make_unique<State>();
  State& s = *state;
  s.elements = x.size();
  QUERN_TRY(s.api.open());
  QUERN_TRY(make(s.engine, s.api.engine_destroy, "engine", s.api.engine_create, kCpu, size_t{0}));
  QUERN_TRY(make(s.stream, s.api.stream_destroy, "stream", s.api.stream_create, s.engine.get(), 1U));
  QUERN_TRY(s.describe_convolution(shape));
  QUERN_TRY(s.bring(s.x, kSourceDesc, 0, s.x_rows, x));
  QUERN_TRY(s.bring(s.weights, kWeightsDesc, 0, s.weights_rows, weights));
  QUERN_TRY(s.bring(s.bias, kWeightsDesc, 1, s.bias_desc, bias));
  QUERN_TRY(s.make_memory(s.y, s.api.desc_query_md(s.desc.get(), kTargetDesc, 0), nullptr));
  return std::unique_ptr<OneDnnConvolution>(new OneDnnConvolution(std::move(state)));
}

Status OneDnnConvolution::run() {
  const State& s = *state_;
  const std::array arguments{ExecArgument{kSource, s.x.get()}, ExecArgument{kWeights, s.weights.get()},
                             ExecArgument{kBias, s.bias.get()}, ExecArgument{kTarget, s.y.get()}};
  QUERN_TRY(check(s.api.primitive_execute(s.primitive.get(), s.stream.get(), arguments.size(), arguments.data()),
                  "convolution"));
  return check(s.api.stream_wait(s.stream.get()), "convolution");
}

Result<std::vector<float>> OneDnnConvolution::output() {
  const State& s = *state_;
  std::vector<float> values(s.elements);
  Owned plain;
  QUERN_TRY(s.make_memory(plain, s.x_rows.bytes.data(), values.data()));
  QUERN_TRY(
      s.reorder(s.api.desc_query_md(s.desc.get(), kTargetDesc, 0), s.y.get(), s.x_rows.bytes.data(), plain.get()));
  return values;
}

std::string OneDnnConvolution::implementation() const {
  const char* name = nullptr;
  const State& s = *state_;
  return s.api.desc_query(s.desc.get(), kImplementationName, 0, &name) == 0 && name ? name : "unknown";
}

}  // namespace quern::bench
