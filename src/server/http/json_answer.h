// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <boost/json/fwd.hpp>
#include <string>

namespace quern::server {

/// An answer that is JSON and nothing else.
struct JsonAnswer {
  int status = 200;
  std::string json;
};

JsonAnswer answer_of(const boost::json::object& object, int status = 200);

}  // namespace quern::server
