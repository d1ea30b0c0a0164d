// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hal/program.h"

namespace quern::hal::fake {

/// The kernels that OpenCL C text defines: names, arguments, required group sizes, arrays in local memory.
///
/// No compiler: what it cannot read, an `#error` and brackets that do not match give kInvalid with a line in the form
/// of a compiler's log. Macros are not expanded and conditions not followed.
Result<std::vector<EntryInfo>> read_signatures(std::string_view text);

}  // namespace quern::hal::fake
