// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "function/plan.h"

namespace quern::bench {

/// bench/functions/layers as someone deploys it: under a name, with weights of its own.
struct Layers {
  std::string name;
  uint64_t head_bytes = 4, body_bytes = 0;      ///< of its weights, in multiples of 4; a body of 0: there is none
  uint64_t head_content = 1, body_content = 2;  ///< weights of the same size and content are one object
  uint64_t variant = 0;                         ///< of its program: each is compiled for itself

  /// The function's folder. kNotFound if bench/functions is not here.
  Result<Bytes> tar() const;
};

/// One call of it.
struct LayersCall {
  int64_t input_words = 1024, scratch_words = 64;
  int64_t launches = 1;      ///< after the first
  int64_t iterations = 100;  ///< of each

  CallSpec spec() const;
};

}  // namespace quern::bench
