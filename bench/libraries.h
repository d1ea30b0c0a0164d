// SPDX-License-Identifier: Apache-2.0
//
// Libraries that kernels are held against, opened at run time: nothing of Quern needs them.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace quern::bench {

/// The variables by which the libraries use one thread and the code made for this CPU. They read them when they are
/// opened, so: before that, and before any thread starts.
void prepare_libraries();

/// OpenBLAS. kUnavailable, with the package that has it, if it is not installed.
class OpenBlas {
 public:
  static Result<OpenBlas> open();

  /// c = a * b, all `n` x `n` and row-major.
  void multiply(int n, const float* a, const float* b, float* c) const;
  /// "SkylakeX": which of its codes it uses.
  std::string core() const;

 private:
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
  using CoreName = char* (*)();
  OpenBlas(Sgemm sgemm, CoreName core_name) : sgemm_(sgemm), core_name_(core_name) {}
  Sgemm sgemm_;
  CoreName core_name_;
};

/// relu(conv(x, weights) + bias) of oneDNN for inference: one image, stride 1, a border of zeros that keeps its size,
/// in the layouts that the library likes best.
class OneDnnConvolution {
 public:
  struct Shape {
    int64_t channels = 0, height = 0, width = 0, window = 0;  ///< as many channels out as in
  };
  /// `x` [channels, height, width], `weights` [out, in, window, window], `bias` [out]: row-major. kUnavailable, with
  /// the package, if the library is not installed or is another version.
  static Result<std::unique_ptr<OneDnnConvolution>> create(const Shape& shape, std::span<const float> x,
                                                           std::span<const float> weights, std::span<const float> bias);
  ~OneDnnConvolution();

  Status run();
  /// Of the last run, row-major.
  Result<std::vector<float>> output();
  /// "jit:avx2": which of its codes it uses.
  std::string implementation() const;

 private:
  struct State;
  explicit OneDnnConvolution(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quern::bench
