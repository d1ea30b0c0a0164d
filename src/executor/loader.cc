// SPDX-License-Identifier: Apache-2.0
#include "executor/loader.h"

#include <algorithm>

namespace quern::executor {

Result<std::unique_ptr<Loader>> Loader::create(hal::Device& device, Ended ended, Broken broken) {
  QUERN_TRY(auto queue, device.create_queue());
  std::unique_ptr<Loader> loader(new Loader(device, std::move(ended), std::move(broken), std::move(queue)));
  loader->thread_ = os::Thread("loader", [loader = loader.get()] { loader->serve(); });
  return loader;
}

Loader::Loader(hal::Device& device, Ended ended, Broken broken, std::unique_ptr<hal::Queue> queue)
    : device_(device), ended_(std::move(ended)), broken_(std::move(broken)), queue_(std::move(queue)) {}

Loader::~Loader() {
  (void)loads_.close();
  thread_.join();
}

void Loader::serve() {
  while (auto next = loads_.pop()) {
    auto buffer = load(*next);
    ended_(*std::move(next), std::move(buffer));
  }
}

// Allocated here and not when it was asked for: what an abandoned load before it held is free by now.
Result<std::shared_ptr<hal::Buffer>> Loader::load(const Load& load) {
  if (load.object->is_abandoned()) return Error{ErrorCode::kCancelled, "object: was dropped before it was loaded"};
  QUERN_TRY(auto buffer, device_.allocate(load.object->size_bytes()));
  if (Status copied = copy(load, *buffer); !copied.ok()) {
    if (const auto reached = queue_->timeline().reached(); !reached.ok()) broken_(reached.error());
    return std::move(copied).error();
  }
  return buffer;
}

// Every byte is overwritten before anyone may read it, so that fresh memory needs no zeros. Two chunks are under way:
// the device has the next when one ends, and in between it takes what lanes have for it.
Status Loader::copy(const Load& load, hal::Buffer& buffer) {
  const std::span<const std::byte> bytes = load.memory.bytes().subspan(load.offset, load.object->size_bytes());
  Status status;
  uint64_t last = 0;
  for (uint64_t at = 0; status.ok() && at < bytes.size(); at += kChunkBytes) {
    if (load.object->is_abandoned()) {
      status = Error{ErrorCode::kCancelled, "object: was dropped while it was loaded"};
      break;
    }
    const auto point = queue_->write(buffer, at, bytes.subspan(at, std::min(kChunkBytes, bytes.size() - at)));
    status = point.ok() ? queue_->flush() : Status(point.error());
    if (last != 0 && status.ok()) status = queue_->timeline().wait(last, Duration::forever());
    if (point.ok()) last = *point;
  }
  // Whatever went wrong, nothing may still write to the buffer when it is let go of.
  Status drained = last != 0 ? queue_->timeline().wait(last, Duration::forever()) : Status();
  return status.ok() ? drained : status;
}

}  // namespace quern::executor
