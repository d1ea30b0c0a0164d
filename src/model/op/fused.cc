// SPDX-License-Identifier: Apache-2.0
//
// fused: several operators that work element by element, as one. The body of the node says which; passes make it, and
// no ONNX operator becomes it.
#include "model/kernel/any/any.h"
#include "model/op/families.h"

namespace quern::model::op {
namespace {

Result<std::vector<ir::Type>> infer_fused(Site&) { return std::vector<ir::Type>(); }
Status reference_fused(Run&) { return {}; }

}  // namespace

const Family& fused_family() {
  static const Family family{"several operators as one",
                             {{.name = kFused,
                               .least_inputs = 0,
                               .most_inputs = 0,
                               .infer = infer_fused,
                               .reference = reference_fused,
                               .lower = kernel::any::lower_elementwise}},
                             {}};
  return family;
}

}  // namespace quern::model::op
