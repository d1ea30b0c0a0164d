// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "server/error_map.h"
#include "server/http/request_head.h"
#include "server/http/routes.h"

namespace quern::server {

/// Where a request goes, from its method and its target.
struct Route {
  const RouteRow* row = nullptr;  ///< null after a failure
  Endpoint endpoint = Endpoint::kServer;
  bool needs_key = true;      ///< also told after a failure: without its key, a caller is told nothing but that
  std::string name, version;  ///< of a function; version "" is the current one. Or the id of a request or an object
  bool keeps = false;         ///< `?keep=true`
  std::string by;             ///< `?by=`; empty: it does not say
  std::string seconds;        ///< `?seconds=`; empty: it does not say
};

/// The value of `key=…` in the query of a target, as it was sent; empty if there is none.
std::string_view query_value(std::string_view target, std::string_view key);

/// Finds the row of a target: percent-decoded, `name@version` taken apart, a query that says nothing to us ignored.
/// kNotFound with "did you mean", 405 with the methods that the path takes, or kInvalid for a name that is malformed.
std::optional<Failure> find_route(Method method, std::string_view target, Route& into);

}  // namespace quern::server
