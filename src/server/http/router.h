// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "server/error_map.h"
#include "server/http/request_head.h"

namespace quern::server {

enum class Endpoint : uint8_t {
  kServer,      ///< /v2
  kLive,        ///< /v2/health/live
  kReady,       ///< /v2/health/ready
  kModel,       ///< /v2/models/NAME[/versions/V]
  kModelReady,  ///< …/ready
  kInfer,       ///< …/infer
  kFunctions,   ///< /v1/functions
  kFunction,    ///< /v1/functions/NAME
  kHistory,     ///< …/history
  kRollback,    ///< …/rollback
  kKeep,        ///< …/keep
  kProfile,     ///< …/profile
  kRequests,    ///< /v1/requests
  kRequest,     ///< /v1/requests/ID
  kObjects,     ///< /v1/objects
  kObject,      ///< /v1/objects/ID
  kMemory,      ///< /v1/memory
  kAccounts,    ///< /v1/accounts
  kTrace,       ///< /v1/trace
  kDevices,     ///< /v1/devices
  kCounters,    ///< /v1/counters
};

struct Route {
  Endpoint endpoint = Endpoint::kServer;
  std::string name, version;  ///< of a function; version "" is the current one. Or the id of a request or an object
  bool keeps = false;         ///< of an object: `?keep=true`
  std::string by;             ///< of accounts: `?by=`; empty: it does not say
  std::string seconds;        ///< of a trace: `?seconds=`; empty: it does not say
};

/// The value of `key=…` in the query of a target, as it was sent; empty if there is none.
std::string_view query_value(std::string_view target, std::string_view key);

/// Whether the path asks for no key: health does not.
bool is_open_to_all(std::string_view target);

/// The endpoint of a target: percent-decoded, `name@version` taken apart, a query that says nothing to us ignored.
/// not_found with "did you mean", or 405 with what is allowed.
std::optional<Failure> find_route(Method method, std::string_view target, Route& into);

}  // namespace quern::server
