// SPDX-License-Identifier: Apache-2.0
#include "main/drivers.h"

#include <fmt/format.h>

#include <charconv>

#include "base/suggest.h"
#include "hal/fake/fake_driver.h"
#include "hal/opencl/opencl_driver.h"
#include "hal/sliced.h"

namespace quern::main {
namespace {
constexpr std::string_view kSliced = "sliced:";  // seed, colon, name
}  // namespace

Result<std::unique_ptr<hal::Driver>> create_driver(const std::string& name) {
  if (name == "opencl") return hal::opencl::create_driver();
  if (name == "fake") return hal::fake::create_driver();
  if (name.starts_with(kSliced)) {
    uint64_t seed = 0;
    std::from_chars(name.data() + kSliced.size(), name.data() + name.size(), seed);
    QUERN_TRY(auto driver, create_driver(name.substr(name.find(':', kSliced.size()) + 1)));
    return hal::create_sliced_driver(std::move(driver), seed);
  }
  const std::string known[] = {"opencl", "fake"};
  return unsupported("driver " + name + ": is not built in" + did_you_mean(name, known));
}

std::string sliced_name(const std::string& driver, uint64_t seed) {
  return fmt::format("{}{}:{}", kSliced, seed, driver);
}

}  // namespace quern::main
