// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <memory>
#include <semaphore>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/stage.h"
#include "daemon/daemon.h"

namespace quern::bench {

/// A daemon in this process: what a call costs without a front door.
class Ring {
 public:
  static Result<std::unique_ptr<Ring>> create(const Layout& layout, const std::string& folder);
  ~Ring();

  /// The function in a folder, ready to be called. One thread at a time.
  Result<daemon::FunctionRef> deploy(const std::string& path);

  struct Ended {
    std::unique_ptr<daemon::Call> call;
    double micros = 0;      ///< prepare, submit and the way back
    double prepare_us = 0;  ///< its part of them
  };
  /// One call from begin to end, whose inputs are in the order of `spec`. Writing them is not in `micros`, as those
  /// that it is held against have their input where it is. Any thread.
  Result<Ended> call(const daemon::FunctionRef& function, const CallSpec& spec,
                     std::span<const std::span<const std::byte>> inputs);

 private:
  Ring() = default;
  std::unique_ptr<daemon::Daemon> daemon_;
  const daemon::Tenant* tenant_ = nullptr;
};

/// Where the time of calls went, for a note.
class Legs {
 public:
  void add(const Ring::Ended& ended);
  /// Medians in microseconds: "prepare 3.1, submit 1.2, …".
  std::string text() const;

 private:
  std::vector<double> prepare_, device_;
  std::array<std::vector<double>, 7> legs_;
};

}  // namespace quern::bench
