// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "base/dtype.h"
#include "model/ir/dim.h"

namespace quern::model::ir {

/// What is known of a tensor before its elements are: dtype and sizes.
struct Type {
  Dtype dtype = Dtype::kFp32;
  Dims dims;

  size_t rank() const { return dims.size(); }
  bool operator==(const Type&) const = default;
};

/// "fp32[batch, 3, 224, 224]"
std::string show_type(const Type& type);

}  // namespace quern::model::ir
