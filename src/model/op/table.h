// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/op/operator.h"

namespace quern::model::op {

/// All families, in the order of the documentation.
std::span<const Family* const> families();

/// The operator of this name; null if there is none.
const Operator* find_operator(std::string_view name);

/// The rule for an ONNX operator in this version of its domain; null if there is none. The newest rule that is not
/// newer than the version holds.
const OnnxRule* find_rule(std::string_view domain, std::string_view op, int64_t version);

/// "; did you mean 'Conv'?" if a name of the domain is a typing mistake away, else "".
std::string similar_rule(std::string_view domain, std::string_view op);

}  // namespace quern::model::op
