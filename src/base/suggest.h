// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace quern {

/// "; did you mean 'saxpy'?" if one of `known` is a typing mistake away from `given`, else "".
std::string did_you_mean(std::string_view given, std::span<const std::string> known);

}  // namespace quern
