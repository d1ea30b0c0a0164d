// SPDX-License-Identifier: Apache-2.0
#include "hal/fake/fake_driver.h"

#include <fmt/format.h>

#include "base/units.h"
#include "hal/fake/fake_device.h"

namespace quern::hal::fake {
namespace {

constexpr uint32_t kDevices = 8;

class FakeDriver final : public Driver {
 public:
  explicit FakeDriver(std::shared_ptr<Faults> faults) : faults_(std::move(faults)) {}

  Result<std::vector<Found>> enumerate() override {
    Found found;
    found.name = "fake-0";
    found.kind = Found::Kind::kCpu;
    found.memory_bytes = kGiB;
    found.platform = "fake";
    found.undivided = "it has one unit";
    found.clock = "the host's monotonic clock";
    found.in_place = true;
    return std::vector<Found>{found};
  }

  Result<std::unique_ptr<Device>> open(const DeviceOptions& options) override {
    if (options.index >= kDevices)
      return not_found(fmt::format("fake device {}: does not exist; there are {}", options.index, kDevices));
    return FakeDevice::create(options, faults_);
  }

 private:
  // Constant after construction.
  std::shared_ptr<Faults> faults_;
};

}  // namespace

Result<std::unique_ptr<Driver>> create_driver() { return create_driver(std::make_shared<Faults>()); }

Result<std::unique_ptr<Driver>> create_driver(std::shared_ptr<Faults> faults) {
  return std::unique_ptr<Driver>(std::make_unique<FakeDriver>(std::move(faults)));
}

}  // namespace quern::hal::fake
