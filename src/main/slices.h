// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "main/local.h"

namespace quern::main {

/// The bytes of outputs, to compare others with.
using OutputBytes = std::vector<Bytes>;
OutputBytes copy_of(std::span<const client::TensorView> outputs);

/// The first element that is not the same to the bit, for people; nothing if all are.
std::optional<std::string> difference(const OutputBytes& whole, std::span<const client::TensorView> outputs);

/// Holds a function that is launched whole against itself in slices: makes the same calls in a daemon of its own, whose
/// executors cut at random whatever can be sliced.
class Slices {
 public:
  static Result<std::unique_ptr<Slices>> create(LocalFlags flags, const Folder& folder);

  /// Makes the call kRounds times, each time in other slices. What was not as in `whole`; nothing if all was.
  std::optional<std::string> run(const client::InferRequest& request, const OutputBytes& whole);
  /// Counts for the report what `run` launches of this call, and how much of it in slices, which it returns. `call` is
  /// the same one, whole and with its profile.
  Result<uint64_t> note(const Binding& binding, const daemon::Call& call);

  void print() const;
  /// A list, one element per kernel.
  std::string json() const;

  static constexpr int kRounds = 3;
  static constexpr uint64_t kSeed = 1;

 private:
  struct Row {
    std::string entry;
    uint64_t launches = 0, sliced = 0;
    std::string reason;  ///< why none of them was
  };
  Slices(std::unique_ptr<Local> local, daemon::FunctionRef function)
      : local_(std::move(local)), function_(std::move(function)) {}

  std::unique_ptr<Local> local_;
  daemon::FunctionRef function_;
  std::vector<Row> rows_;
};

}  // namespace quern::main
