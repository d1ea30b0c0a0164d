// SPDX-License-Identifier: Apache-2.0
#include "main/drivers.h"

#include <fmt/format.h>

#include <charconv>

#include "base/suggest.h"
#include "hal/fake/fake_driver.h"
#include "hal/guarded.h"
#include "hal/opencl/opencl_driver.h"
#include "hal/sliced.h"

namespace quern::main {
namespace {
constexpr std::string_view kSliced = "sliced:";    // seed, colon, name
constexpr std::string_view kGuarded = "guarded:";  // poison, colon, name

// "sliced:7:opencl": 7, and the driver of the name behind it.
Result<std::unique_ptr<hal::Driver>> create_inner(const std::string& name, std::string_view kind, uint64_t& number) {
  std::from_chars(name.data() + kind.size(), name.data() + name.size(), number);
  return create_driver(name.substr(name.find(':', kind.size()) + 1));
}
}  // namespace

Result<std::unique_ptr<hal::Driver>> create_driver(const std::string& name) {
  if (name == "opencl") return hal::opencl::create_driver();
  if (name == "fake") return hal::fake::create_driver();
  uint64_t number = 0;
  if (name.starts_with(kSliced)) {
    QUERN_TRY(auto driver, create_inner(name, kSliced, number));
    return hal::create_sliced_driver(std::move(driver), number);
  }
  if (name.starts_with(kGuarded)) {
    QUERN_TRY(auto driver, create_inner(name, kGuarded, number));
    return hal::create_guarded_driver(std::move(driver), static_cast<uint8_t>(number));
  }
  const std::string known[] = {"opencl", "fake"};
  return unsupported("driver " + name + ": is not built in" + did_you_mean(name, known));
}

std::string sliced_name(const std::string& driver, uint64_t seed) {
  return fmt::format("{}{}:{}", kSliced, seed, driver);
}

std::string guarded_name(const std::string& driver, uint8_t poison) {
  return fmt::format("{}{}:{}", kGuarded, poison, driver);
}

}  // namespace quern::main
