// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <semaphore>
#include <span>
#include <vector>

#include "base/result.h"
#include "bench/launcher.h"
#include "bench/priority_site.h"
#include "os/guarded.h"
#include "os/thread.h"

namespace quern::bench {

/// Less urgent work that never ends by itself. One thread.
class Filler {
 public:
  virtual ~Filler() = default;
  /// Waits for what is under way.
  virtual Status end() = 0;
  /// Groups of work that are done, also of what is under way; grows from the beginning to the end.
  virtual uint64_t groups_done() = 0;
};

/// Calls of a function, as many on their way as keep its device busy, by a thread of this process.
class FunctionFiller final : public Filler {
 public:
  /// `site` outlives it. A call has `groups` in all its kernels and takes `call_ms`, by which the number of them is
  /// chosen, at most `most`.
  FunctionFiller(PrioritySite& site, PrioritySite::Work work, uint32_t groups, double call_ms, size_t most = 4);
  ~FunctionFiller() override;
  Status end() override;
  uint64_t groups_done() override;

 private:
  struct Ended {
    size_t place = 0;
    std::unique_ptr<daemon::Call> call;
  };
  struct State {
    uint64_t ended_groups = 0;
    std::vector<std::span<std::byte>> marks;  ///< of the call in each place; empty: there is none
    std::vector<Ended> ended;                 ///< and not seen by the caller's thread
    Status status;
  };
  void call_again_and_again();
  Status submit(size_t place);

  // Constant after construction.
  PrioritySite& site_;
  PrioritySite::Work work_;
  uint32_t groups_;
  // Each guards itself.
  std::atomic<bool> is_over_{false};
  std::counting_semaphore<> ended_{0};
  os::Guarded<State> state_;
  os::Thread thread_;  // last: joined first
};

/// A bench/launcher at a gate of its own.
class ProgramFiller final : public Filler {
 public:
  /// `launcher` outlives it.
  static Result<std::unique_ptr<Filler>> begin(Launcher& launcher, uint32_t gate, uint32_t groups);
  Status end() override { return launcher_.end(); }
  uint64_t groups_done() override { return launcher_.groups_done(); }

 private:
  explicit ProgramFiller(Launcher& launcher) : launcher_(launcher) {}
  Launcher& launcher_;
};

}  // namespace quern::bench
