// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/client.h"
#include "function/manifest.h"
#include "main/tensors.h"

namespace quern::main {

/// A call with what it must give: `expected/NAME/{input,output}/*.npy` and `expected/NAME/case.yaml` (dims, params,
/// rtol, atol).
struct Case {
  std::string name;
  std::map<std::string, ParameterValue> parameters;  ///< dims and params
  double rtol = 1e-5, atol = 1e-6;
  std::vector<OwnedTensor> inputs, outputs;
};

/// In order of name; none if there is no folder `expected`. kInvalid names the file that is wrong.
Result<std::vector<Case>> read_cases(const std::string& folder);

/// How an output compares with what was wanted.
struct Difference {
  bool same = true;
  double largest = 0;  ///< |got - wanted| over all elements
  std::string what;    ///< the first element that differs, for people
};
Difference compare(const client::TensorView& got, const client::TensorView& wanted, double rtol, double atol);

}  // namespace quern::main
