// SPDX-License-Identifier: Apache-2.0
#include "bench/raw.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <semaphore>

#include "hal/opencl/api.h"
#include "os/clock.h"
#include "os/env.h"
#include "os/file.h"
#include "os/thread.h"

namespace quern::bench {
namespace {

using hal::opencl::Api;
using hal::opencl::Handle;

constexpr uint32_t kItems = 64, kElements = 16384;
constexpr size_t kBytes = kElements * sizeof(float), kAlignment = 4096;

Error cl_error(std::string_view what, cl_int code) {
  return unavailable(fmt::format("raw OpenCL: {}: error {}", what, code));
}

/// Memory that a device can use in place.
struct Free {
  void operator()(float* memory) const { std::free(memory); }
};
using Floats = std::unique_ptr<float, Free>;
Floats make_floats() { return Floats(static_cast<float*>(std::aligned_alloc(kAlignment, kBytes))); }

Result<cl_device_id> find_cpu(const Api& api) {
  std::array<cl_platform_id, 16> platforms{};
  cl_uint count = 0;
  if (const cl_int code = api.GetPlatformIDs(platforms.size(), platforms.data(), &count); code != CL_SUCCESS)
    return cl_error("clGetPlatformIDs", code);
  for (cl_uint i = 0; i < std::min<cl_uint>(count, platforms.size()); ++i) {
    cl_device_id device = nullptr;
    if (api.GetDeviceIDs(platforms[i], CL_DEVICE_TYPE_CPU, 1, &device, nullptr) == CL_SUCCESS) return device;
  }
  return unavailable("raw OpenCL: shows no CPU; install pocl-opencl-icd");
}

}  // namespace

/// What both lanes use. Constant once made.
struct Raw::Shared {
  Api api;
  int core = 0;
  Handle<cl_context> context;
  cl_device_id device = nullptr;
  Handle<cl_program> spin, chain;

  Status open(const std::string& spin_file, const std::string& chain_file) {
    QUERN_TRY(api, Api::load(""));
    QUERN_TRY(device, find_cpu(api));
    cl_int code = CL_SUCCESS;
    context = {api.CreateContext(nullptr, 1, &device, nullptr, nullptr, &code), api.ReleaseContext};
    if (code != CL_SUCCESS) return cl_error("clCreateContext", code);
    QUERN_TRY(build(spin_file, spin));
    return build(chain_file, chain);
  }

  Status build(const std::string& file, Handle<cl_program>& program) {
    QUERN_TRY(const auto source, os::read_file(file, 1 << 20));
    const std::string text(as_text(source));
    const char* start = text.c_str();
    cl_int code = CL_SUCCESS;
    program = {api.CreateProgramWithSource(context.get(), 1, &start, nullptr, &code), api.ReleaseProgram};
    if (code != CL_SUCCESS) return cl_error("clCreateProgramWithSource", code);
    code = api.BuildProgram(program.get(), 1, &device, "", nullptr, nullptr);
    return code == CL_SUCCESS ? Status() : cl_error("clBuildProgram", code);
  }
};

/// A launch thread on the device's core, with a queue, a kernel and buffers of its own.
class Raw::Lane {
 public:
  explicit Lane(const Shared& shared) : shared_(shared), input_(make_floats()), output_(make_floats()) {}
  ~Lane() {
    is_over_ = true;
    begin_.release();
  }

  Status open() {
    const Api& api = shared_.api;
    for (uint32_t i = 0; i < kElements; ++i) input_.get()[i] = static_cast<float>(i) * 0.5f;
    cl_int code = CL_SUCCESS;
    const auto buffer = [&](float* memory, cl_mem_flags access) {
      return Handle<cl_mem>(
          api.CreateBuffer(shared_.context.get(), access | CL_MEM_USE_HOST_PTR, kBytes, memory, &code),
          api.ReleaseMemObject);
    };
    in_ = buffer(input_.get(), CL_MEM_READ_ONLY);
    if (code != CL_SUCCESS) return cl_error("clCreateBuffer", code);
    out_ = buffer(output_.get(), CL_MEM_READ_WRITE);
    if (code != CL_SUCCESS) return cl_error("clCreateBuffer", code);
    queue_ = {api.CreateCommandQueue(shared_.context.get(), shared_.device, 0, &code), api.ReleaseCommandQueue};
    if (code != CL_SUCCESS) return cl_error("clCreateCommandQueue", code);
    const auto kernel = [&](const Handle<cl_program>& program, const char* entry) {
      return Handle<cl_kernel>(api.CreateKernel(program.get(), entry, &code), api.ReleaseKernel);
    };
    kernel_ = kernel(shared_.spin, "spin");
    if (code != CL_SUCCESS) return cl_error("clCreateKernel", code);
    first_ = kernel(shared_.chain, "first");
    if (code != CL_SUCCESS) return cl_error("clCreateKernel", code);
    next_ = kernel(shared_.chain, "next");
    if (code != CL_SUCCESS) return cl_error("clCreateKernel", code);
    thread_ = os::Thread("bench-raw", [this] { work(); });
    return {};
  }

  /// Starts `count` calls; `finish` waits for them.
  void start(uint32_t iterations, uint32_t count) {
    what_ = &Lane::call;
    begin(iterations, count);
  }
  /// The same of the chain.
  void start_chain(uint32_t iterations, uint32_t count) {
    std::fill_n(output_.get(), kChainElements, -1.0f);
    what_ = &Lane::chain;
    begin(iterations, count);
  }
  Result<std::vector<double>> finish() {
    end_.acquire();
    if (code_ != CL_SUCCESS) return cl_error("call", code_);
    if (std::memcmp(input_.get(), output_.get(), kBytes) != 0) return internal("raw OpenCL: output is not the input");
    return std::move(micros_);
  }

 private:
  void begin(uint32_t iterations, uint32_t count) {
    iterations_ = iterations;
    count_ = count;
    begin_.release();
  }

  void work() {
    const std::array core{shared_.core};
    (void)os::pin_to(core);
    for (;;) {
      begin_.acquire();
      if (is_over_) return;
      micros_.clear();
      micros_.reserve(count_);
      code_ = CL_SUCCESS;
      for (uint32_t i = 0; i < count_ && code_ == CL_SUCCESS; ++i) {
        const Time from = os::now();
        code_ = (this->*what_)();
        micros_.push_back(micros_between(from, os::now()));
      }
      end_.release();
    }
  }

  cl_int call() {
    const Api& api = shared_.api;
    const cl_kernel kernel = kernel_.get();
    const cl_mem in = in_.get(), out = out_.get();
    const cl_uint n = kElements, items = kItems, iterations = iterations_;
    const size_t global = kItems, local = kItems;
    cl_int code = api.SetKernelArg(kernel, 0, sizeof in, &in);
    code |= api.SetKernelArg(kernel, 1, sizeof out, &out);
    code |= api.SetKernelArg(kernel, 2, sizeof n, &n);
    code |= api.SetKernelArg(kernel, 3, sizeof items, &items);
    code |= api.SetKernelArg(kernel, 4, sizeof iterations, &iterations);
    if (code != CL_SUCCESS) return code;
    code = api.EnqueueNDRangeKernel(queue_.get(), kernel, 1, nullptr, &global, &local, 0, nullptr, nullptr);
    return code != CL_SUCCESS ? code : api.Finish(queue_.get());
  }

  cl_int chain() {
    const Api& api = shared_.api;
    const cl_mem in = in_.get(), out = out_.get();
    const cl_uint n = kChainElements, iterations = iterations_;
    const size_t items = kItems;
    cl_int code = api.SetKernelArg(first_.get(), 0, sizeof in, &in);
    code |= api.SetKernelArg(first_.get(), 1, sizeof out, &out);
    code |= api.SetKernelArg(first_.get(), 2, sizeof n, &n);
    code |= api.SetKernelArg(first_.get(), 3, sizeof iterations, &iterations);
    code |= api.SetKernelArg(next_.get(), 0, sizeof out, &out);
    code |= api.SetKernelArg(next_.get(), 1, sizeof n, &n);
    code |= api.SetKernelArg(next_.get(), 2, sizeof iterations, &iterations);
    for (uint32_t i = 0; i < kChainLength && code == CL_SUCCESS; ++i)
      code = api.EnqueueNDRangeKernel(queue_.get(), i == 0 ? first_.get() : next_.get(), 1, nullptr, &items, &items, 0,
                                      nullptr, nullptr);
    return code != CL_SUCCESS ? code : api.Finish(queue_.get());
  }

  // Constant once open.
  const Shared& shared_;
  Floats input_, output_;
  Handle<cl_mem> in_, out_;
  Handle<cl_command_queue> queue_;
  Handle<cl_kernel> kernel_, first_, next_;
  // The thread's between begin and end, else the owner's.
  std::binary_semaphore begin_{0}, end_{0};
  cl_int (Lane::*what_)() = nullptr;
  uint32_t iterations_ = 0, count_ = 0;
  std::vector<double> micros_;
  cl_int code_ = CL_SUCCESS;
  bool is_over_ = false;
  os::Thread thread_;  // last: joined first
};

Raw::Raw() = default;
Raw::~Raw() = default;

Result<std::unique_ptr<Raw>> Raw::create(const Layout& layout, const std::string& folder) {
  QUERN_TRY(auto examples, examples_folder());
  QUERN_TRY(auto functions, functions_folder());
  const std::string cache = folder + "/raw-cache";
  QUERN_TRY(os::make_folders(cache));
  os::set_env("POCL_CACHE_DIR", cache);
  for (const char* name : {"POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT", "POCL_MAX_COMPUTE_UNITS"})
    os::set_env(name, "1");  // as PoCL 3, 4 and 5 call it
  std::unique_ptr<Raw> raw(new Raw);
  raw->shared_ = std::make_unique<Shared>();
  raw->shared_->core = layout.device;
  // PoCL's worker starts with the first call and inherits where it may run from its caller.
  const std::vector<int> before = os::allowed_cores();
  const std::array device{layout.device};
  QUERN_TRY(os::pin_to(device));
  const Status opened = raw->shared_->open(examples + "/spin/spin.cl", functions + "/chain300/chain.cl");
  QUERN_TRY(os::pin_to(before));
  QUERN_TRY(Status(opened));
  for (int i = 0; i < 2; ++i) {
    raw->lanes_.push_back(std::make_unique<Lane>(*raw->shared_));
    QUERN_TRY(raw->lanes_.back()->open());
    raw->lanes_.back()->start(1, 3);  // the first launch compiles
    QUERN_TRY(raw->lanes_.back()->finish());
  }
  return raw;
}

Result<std::vector<double>> Raw::call(uint32_t iterations, uint32_t count) {
  lanes_[0]->start(iterations, count);
  return lanes_[0]->finish();
}

Result<double> Raw::throughput(uint32_t iterations, uint32_t count) {
  const Time from = os::now();
  for (auto& lane : lanes_) lane->start(iterations, count / 2);
  for (auto& lane : lanes_) QUERN_TRY(lane->finish());
  return 1e6 * 2 * (count / 2) / micros_between(from, os::now());
}

Result<uint32_t> Raw::calibrate(Duration target) {
  const double goal = static_cast<double>(target.ns) / 1e3;
  double iterations = 2000;
  for (int i = 0; i < 4; ++i) {
    QUERN_TRY(auto micros, call(static_cast<uint32_t>(iterations), 9));
    std::sort(micros.begin(), micros.end());
    // Of a call that is far from the goal the share that is launch and finish is wrong; the next round mends that.
    iterations = std::clamp(iterations * goal / micros[micros.size() / 2], 1.0, 1e9);
  }
  return static_cast<uint32_t>(std::lround(iterations));
}

Result<std::vector<double>> Raw::chain(uint32_t iterations, uint32_t count) {
  lanes_[0]->start_chain(iterations, count);
  return lanes_[0]->finish();
}

Result<Raw::Step> Raw::calibrate_chain(Duration target) {
  const auto per_kernel = [&](uint32_t iterations) -> Result<double> {
    QUERN_TRY(const auto micros, chain(iterations, 15));
    return *std::min_element(micros.begin(), micros.end()) / kChainLength;
  };
  // What a launch costs is the same for any number of iterations, so two numbers of them tell what one takes.
  QUERN_TRY(chain(1, 3));
  QUERN_TRY(const double launch, per_kernel(1));
  const double goal = static_cast<double>(target.ns) / 1e3;
  uint32_t many = 500;
  double one = 0;
  for (int i = 0; i < 3; ++i) {
    QUERN_TRY(const double all, per_kernel(many));
    one = std::max(1e-3, (all - launch) / (many - 1));
    many = static_cast<uint32_t>(std::clamp(2 * goal / one, 2.0, 1e6));
  }
  const auto iterations = static_cast<uint32_t>(std::lround(goal / one));
  return Step{iterations, one * iterations};
}

}  // namespace quern::bench
