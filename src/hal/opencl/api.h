// SPDX-License-Identifier: Apache-2.0
#pragma once
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <string>
#include <utility>

#include "base/result.h"

// Every OpenCL function that the driver needs; all are of OpenCL 1.2.
#define QUERN_OPENCL_FUNCTIONS(X)                                                                                     \
  X(GetPlatformIDs)                                                                                                   \
  X(GetPlatformInfo)                                                                                                  \
  X(GetDeviceIDs)                                                                                                     \
  X(GetDeviceInfo)                                                                                                    \
  X(CreateContext)                                                                                                    \
  X(ReleaseContext) X(CreateCommandQueue) X(ReleaseCommandQueue) X(CreateSubBuffer) X(CreateSubDevices)               \
      X(ReleaseDevice) X(CreateBuffer) X(ReleaseMemObject) X(CreateProgramWithSource) X(CreateProgramWithBinary)      \
          X(BuildProgram) X(GetProgramInfo) X(GetProgramBuildInfo) X(ReleaseProgram) X(CreateKernel) X(ReleaseKernel) \
              X(GetKernelInfo) X(GetKernelArgInfo) X(GetKernelWorkGroupInfo) X(SetKernelArg) X(EnqueueNDRangeKernel)  \
                  X(EnqueueReadBuffer) X(EnqueueWriteBuffer) X(EnqueueCopyBuffer) X(EnqueueFillBuffer)                \
                      X(EnqueueNativeKernel) X(EnqueueMarkerWithWaitList) X(EnqueueBarrierWithWaitList)               \
                          X(GetEventInfo) X(GetEventProfilingInfo) X(SetEventCallback) X(RetainEvent) X(ReleaseEvent) \
                              X(WaitForEvents) X(Flush) X(Finish)

namespace quern::hal::opencl {

/// The functions of the ICD loader, found at run time: the program starts on machines that have none.
struct Api {
#define QUERN_OPENCL_POINTER(name) decltype(&::cl##name) name = nullptr;
  QUERN_OPENCL_FUNCTIONS(QUERN_OPENCL_POINTER)
#undef QUERN_OPENCL_POINTER
  /// Of OpenCL 2.1; null if the loader has none. To be called only for devices of that version and later.
  cl_int(CL_API_CALL* GetDeviceAndHostTimer)(cl_device_id, cl_ulong* device_ns, cl_ulong* host_ns) = nullptr;

  /// `library` is an ICD loader or a vendor's own; empty: the loader of this machine. kUnavailable if it cannot be
  /// opened, or is older than OpenCL 1.2. A loader starts no vendor's library yet.
  static Result<Api> load(const std::string& library);
};

/// An OpenCL object with one owner.
template <class T>
class Handle {
 public:
  using Release = cl_int(CL_API_CALL*)(T);

  Handle() = default;
  Handle(T object, Release release) : object_(object), release_(release) {}
  Handle(Handle&& other) noexcept : object_(std::exchange(other.object_, nullptr)), release_(other.release_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(object_, other.object_);
    std::swap(release_, other.release_);
    return *this;
  }
  ~Handle() {
    if (object_) release_(object_);
  }

  T get() const { return object_; }

 private:
  T object_ = nullptr;
  Release release_ = nullptr;
};

}  // namespace quern::hal::opencl
