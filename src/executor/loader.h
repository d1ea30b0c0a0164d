// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "executor/device_object.h"
#include "hal/device.h"
#include "os/shared_memory.h"
#include "os/thread.h"
#include "os/work_queue.h"

namespace quern::executor {

/// Copies constants to the device, one after the other in the order they were given, on a thread and a queue of its
/// own. A copy goes in chunks, so that kernels of lanes get in between.
class Loader {
 public:
  struct Load {
    uint64_t id = 0;
    std::shared_ptr<DeviceObject> object;
    os::Mapping memory;
    uint64_t offset = 0;  ///< of its bytes in there
  };
  /// Called on the loader's thread with every load that was added: its buffer, or why there is none. The next begins
  /// when it returns.
  using Ended = std::function<void(Load load, Result<std::shared_ptr<hal::Buffer>> buffer)>;

  /// Called on the loader's thread if its queue fails: nothing more can be loaded, and the process is to end.
  using Broken = std::function<void(const Error& why)>;

  static Result<std::unique_ptr<Loader>> create(hal::Device& device, Ended ended, Broken broken);
  /// Waits for the load under way; those behind it are not heard of.
  ~Loader();

  /// False if kMostLoads wait already. Any thread.
  [[nodiscard]] bool add(Load load) { return loads_.push(std::move(load)); }

  /// Large enough that waiting for each costs nothing, small enough that no kernel waits long.
  static constexpr uint64_t kChunkBytes = uint64_t{4} << 20;
  /// More than one function can have.
  static constexpr size_t kMostLoads = size_t{1} << 16;

 private:
  Loader(hal::Device& device, Ended ended, Broken broken, std::unique_ptr<hal::Queue> queue);
  void serve();
  Result<std::shared_ptr<hal::Buffer>> load(const Load& load);
  Status copy(const Load& load, hal::Buffer& buffer);

  // Constant after construction.
  hal::Device& device_;
  Ended ended_;
  Broken broken_;
  // Guards itself.
  os::WorkQueue<Load> loads_{kMostLoads};
  // The loader's thread only.
  std::unique_ptr<hal::Queue> queue_;
  os::Thread thread_;
};

}  // namespace quern::executor
