// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>

#include "model/pass/rewriter.h"

namespace quern::model::pass {

/// The rules of `canonical`, by what they look at.
std::span<const Rule> view_rules();        ///< reshape, transpose, slice, broadcast, concat, pad, cast
std::span<const Rule> arithmetic_rules();  ///< element by element
std::span<const Rule> absorb_rules();      ///< into the weights of conv and matmul

}  // namespace quern::model::pass
