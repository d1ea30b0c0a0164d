// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/api.h"

#include "os/dylib.h"

namespace quern::hal::opencl {

Result<Api> Api::load(const std::string& name) {
  const std::string path = name.empty() ? "libOpenCL.so.1" : name;
  QUERN_TRY(auto library, os::Dylib::open(path));
  Api api;
#define QUERN_OPENCL_FIND(name)                                                \
  api.name = reinterpret_cast<decltype(api.name)>(library.symbol("cl" #name)); \
  if (!api.name) return unavailable(path + ": has no cl" #name "; install an OpenCL 1.2 loader");
  QUERN_OPENCL_FUNCTIONS(QUERN_OPENCL_FIND)
#undef QUERN_OPENCL_FIND
  api.GetDeviceAndHostTimer =
      reinterpret_cast<decltype(api.GetDeviceAndHostTimer)>(library.symbol("clGetDeviceAndHostTimer"));
  return api;
}

}  // namespace quern::hal::opencl
