// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "base/result.h"

namespace quern::bench {

/// Public data that is no part of the project, by its path: in $QUERN_DATA, or in shared/data beside it. kNotFound,
/// with what to do, where it is not.
Result<std::string> find_data(const std::string& path);

}  // namespace quern::bench
