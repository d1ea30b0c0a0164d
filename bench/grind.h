// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "function/plan.h"

namespace quern::bench {

/// bench/functions/grind as someone deploys it: under a name, in this much of a hurry.
struct Grind {
  std::string name;
  std::string manifest = "function.yaml";  ///< or until.yaml, chain.yaml: which of the folder's
  uint8_t priority = 5;
  std::string quota = {};  ///< of its settings, as in "{time: {limit: 0.4}}"; empty: none

  /// The function's folder. kNotFound if bench/functions is not here.
  Result<Bytes> tar() const;
};

/// One call of it: kernels of so many groups. `steps`: how many, of a manifest that has them; 0: one.
CallSpec grind_call(uint32_t groups, uint32_t iterations, uint32_t steps = 0);

}  // namespace quern::bench
