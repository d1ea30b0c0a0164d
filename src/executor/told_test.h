// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <optional>
#include <utility>

#include "executor/holdings.h"
#include "os/event.h"
#include "os/guarded.h"

namespace quern::executor {

/// What holdings tell the daemon, in the hands of a test.
class Told {
 public:
  Holdings::Tell tell() {
    return [this](const ipc::Frame& frame) {
      frames_.with([&](auto& frames) { frames.push_back(frame); });
      event_.signal();
    };
  }

  bool empty() const {
    return frames_.with([](const auto& frames) { return frames.empty(); });
  }
  /// The next frame, once it is there; it must be of this kind.
  template <class F>
  F next() {
    for (;;) {
      auto frame = frames_.with([](auto& frames) -> std::optional<ipc::Frame> {
        if (frames.empty()) return std::nullopt;
        std::optional<ipc::Frame> first(std::move(frames.front()));
        frames.pop_front();
        return first;
      });
      if (frame) return std::get<F>(*frame);
      event_.wait(Duration::forever());
      event_.drain();
    }
  }

 private:
  os::Event event_ = *os::Event::create();
  os::Guarded<std::deque<ipc::Frame>> frames_;
};

}  // namespace quern::executor
