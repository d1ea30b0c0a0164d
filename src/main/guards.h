// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "main/local.h"
#include "main/slices.h"

namespace quern::main {

/// Looks for what a function does outside of its buffers: makes each call twice in daemons of its own, whose executors
/// have guards around every buffer and fill all memory with another byte each time (hal/guarded.h).
///
/// A kernel that writes to a guard is told at once. An element of an output that has the byte of its run in both runs
/// was never written. An output that differs between the two runs, although the function otherwise gives the same each
/// time, depends on memory that nobody wrote: scratch, or what lies outside of a buffer.
///
/// A guarded run is slower, because it examines the guards behind each launch, and needs more memory. The limits of the
/// function therefore do not hold for it, and if it still cannot end, that is no mistake of the function.
class Guards {
 public:
  /// What the guarded runs of a call showed, for people.
  struct Verdict {
    std::optional<std::string> mistake = {};           ///< what the function does wrong
    std::optional<std::string> why_not_examined = {};  ///< what kept the guarded runs from ending
  };

  /// `folder` outlives it.
  Guards(LocalFlags flags, const Folder& folder) : flags_(std::move(flags)), folder_(folder) {}

  /// Makes the guarded runs of a call that succeeded without guards. `is_same` says that two calls without guards gave
  /// the same, `alone` how long the last of them took. Fails only if the user interrupts.
  Result<Verdict> run(const client::InferRequest& request, const Binding& binding, bool is_same, Duration alone);
  /// Of a call whose kernel faulted: which buffer it writes outside of, if it stays near one.
  Result<std::optional<std::string>> explain_fault(const client::InferRequest& request, const Binding& binding);

 private:
  /// One byte for all memory. The first is NaN as a float, which a product with 0 does not hide. The second is a number
  /// of moderate size, so that a sum with it has other bits than the byte itself.
  struct Side {
    uint8_t poison;
    std::unique_ptr<Local> local = nullptr;
    daemon::FunctionRef function = nullptr;
    std::set<std::string> plans = {};  ///< keys of those that it ran
  };
  Result<Local::Answer> call(Side& side, const client::InferRequest& request, const Binding& binding, Duration alone);
  Result<Verdict> verdict_of(Side& side, const Error& error, Duration alone);
  Result<Verdict> compare(const client::InferRequest& request, const Binding& binding, const OutputBytes& first,
                          std::span<const client::TensorView> second, bool is_same, Duration alone);

  // Constant after construction.
  LocalFlags flags_;
  const Folder& folder_;

  std::array<Side, 2> sides_ = {Side{0xff}, Side{0x42}};
};

}  // namespace quern::main
