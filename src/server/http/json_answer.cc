// SPDX-License-Identifier: Apache-2.0
#include "server/http/json_answer.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

namespace quern::server {

JsonAnswer answer_of(const boost::json::object& object, int status) { return {status, boost::json::serialize(object)}; }

}  // namespace quern::server
