// SPDX-License-Identifier: Apache-2.0
//
// Names for whom tests of parts of the core are about.
#pragma once
#include "sched/types.h"

namespace quern::sched {

inline constexpr DeviceId d1{1}, d2{2};
inline constexpr FunctionId f1{1}, f2{2};

}  // namespace quern::sched
