// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace quern::model {

/// docs/onnx.md: what is supported, from the table of operators.
std::string onnx_page();

}  // namespace quern::model
