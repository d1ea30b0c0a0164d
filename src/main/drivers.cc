// SPDX-License-Identifier: Apache-2.0
#include "main/drivers.h"

#include "base/suggest.h"
#include "hal/fake/fake_driver.h"
#include "hal/opencl/opencl_driver.h"

namespace quern::main {

Result<std::unique_ptr<hal::Driver>> create_driver(const std::string& name) {
  if (name == "opencl") return hal::opencl::create_driver();
  if (name == "fake") return hal::fake::create_driver();
  const std::string known[] = {"opencl", "fake"};
  return unsupported("driver " + name + ": is not built in" + did_you_mean(name, known));
}

}  // namespace quern::main
