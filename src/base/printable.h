// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

namespace quern {

/// A stranger's text as it may stand in one line of a message: control characters become \n, \t or \xNN, and so do
/// bytes that are no UTF-8. Everything else stays.
std::string printable(std::string_view text);

}  // namespace quern
