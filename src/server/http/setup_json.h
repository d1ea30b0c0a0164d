// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <boost/json/array.hpp>
#include <vector>

#include "daemon/daemon.h"

namespace quern::server {

/// What had to be brought for a call, as an answer tells it: each part from and to, counted from `zero`.
boost::json::array setup_json(const std::vector<daemon::Phase>& phases, Time zero);

}  // namespace quern::server
