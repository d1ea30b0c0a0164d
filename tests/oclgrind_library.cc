// SPDX-License-Identifier: Apache-2.0
//
// The OpenCL library that test_oclgrind.py puts in place of the ICD loader, as libOpenCL.so.1. It is oclgrind's library
// with these differences:
//
// * Its options are set here, since no variable of a test reaches an executor.
// * Calls are made one at a time. Oclgrind 21.10 keeps what it runs in globals without a lock, and an executor calls
//   from several threads.
// * A view of a buffer is memory of its own. Executors place the buffers of a run in one allocation, and oclgrind knows
//   the end of an allocation only. So a function must not have views of its buffers: its results would be wrong.
// * The name of each kernel that is launched is written down.
//
// The test compiles this file with QUERN_OCLGRIND, the path of oclgrind's library. A process that opens a device writes
// PID.log (oclgrind's report) and PID.kernels (a name a line) beside this library.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>

#include "hal/opencl/api.h"

namespace {

std::string path_of(const char* kind) {
  Dl_info own = {};
  if (dladdr(reinterpret_cast<void*>(&path_of), &own) == 0) abort();
  const std::string library = own.dli_fname;
  return library.substr(0, library.rfind('/') + 1) + std::to_string(getpid()) + kind;
}

void* oclgrind() {
  static void* const library = [] {
    setenv("OCLGRIND_LOG", path_of(".log").c_str(), 1);
    setenv("OCLGRIND_DATA_RACES", "1", 1);
    void* const opened = dlopen(QUERN_OCLGRIND, RTLD_NOW | RTLD_LOCAL);
    if (!opened) abort();
    return opened;
  }();
  return library;
}

/// Oclgrind's function of this name and type.
template <class F>
F* find(const char* name) {
  return reinterpret_cast<F*>(dlsym(oclgrind(), name));
}

// Recursive, since oclgrind calls back from within a call.
std::recursive_mutex one_at_a_time;

template <class Name, class F>
struct Call;
template <class Name, class R, class... A>
struct Call<Name, R(A...)> {
  static R make(A... arguments) {
    const std::lock_guard lock(one_at_a_time);
    static auto* const function = find<R(A...)>(Name::kText);
    return function(arguments...);
  }
};

#define QUERN_NAME(name)                             \
  struct Name##name {                                \
    static constexpr const char* kText = "cl" #name; \
  };
QUERN_OPENCL_FUNCTIONS(QUERN_NAME)

template <>
struct Call<NameCreateSubBuffer, decltype(clCreateSubBuffer)> {
  static cl_mem make(cl_mem whole, cl_mem_flags flags, cl_buffer_create_type, const void* region, cl_int* code) {
    const std::lock_guard lock(one_at_a_time);
    cl_context context = nullptr;
    find<decltype(clGetMemObjectInfo)>("clGetMemObjectInfo")(whole, CL_MEM_CONTEXT, sizeof context, &context, nullptr);
    const size_t size = static_cast<const cl_buffer_region*>(region)->size;
    return find<decltype(clCreateBuffer)>("clCreateBuffer")(context, flags, size, nullptr, code);
  }
};

template <>
struct Call<NameEnqueueNDRangeKernel, decltype(clEnqueueNDRangeKernel)> {
  static cl_int make(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t* offset,
                     const size_t* global, const size_t* local, cl_uint count, const cl_event* events,
                     cl_event* event) {
    const std::lock_guard lock(one_at_a_time);
    char name[256] = {};
    find<decltype(clGetKernelInfo)>("clGetKernelInfo")(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, nullptr);
    std::ofstream(path_of(".kernels"), std::ios::app) << name << "\n";
    return find<decltype(clEnqueueNDRangeKernel)>("clEnqueueNDRangeKernel")(queue, kernel, dimensions, offset, global,
                                                                            local, count, events, event);
  }
};

}  // namespace

// Defines a function by its type, without a list of its parameters: whoever looks for its name is given `make`.
#define QUERN_FORWARD(name)                                                                                     \
  extern "C" {                                                                                                  \
  static void* find_##name() { return reinterpret_cast<void*>(&Call<Name##name, decltype(::cl##name)>::make); } \
  __attribute__((ifunc("find_" #name))) decltype(::cl##name) cl##name;                                          \
  }
QUERN_OPENCL_FUNCTIONS(QUERN_FORWARD)
