// SPDX-License-Identifier: Apache-2.0
#include "executor/device_object.h"

#include <utility>

namespace quern::executor {

void DeviceObject::watch(const os::Event& wake) {
  watchers_.with([&](auto& all) { all.push_back(&wake); });
}

void DeviceObject::unwatch(const os::Event& wake) {
  watchers_.with([&](auto& all) { std::erase(all, &wake); });
}

void DeviceObject::become_ready(std::shared_ptr<hal::Buffer> buffer, std::shared_ptr<const void> memory) {
  memory_ = std::move(memory);
  buffer_ = std::move(buffer);
  settle(State::kReady);
}

// The state first: who begins to watch too late to be signalled looks at it afterwards.
void DeviceObject::settle(State state) {
  state_.store(state, std::memory_order_release);
  watchers_.with([](auto& all) {
    for (const os::Event* wake : all) wake->signal();
  });
}

}  // namespace quern::executor
