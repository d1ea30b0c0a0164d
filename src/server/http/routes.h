// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "server/http/asio.h"

namespace quern::server {

class Connection;

/// What becomes of a connection once a request is answered.
enum class Then : uint8_t { kNext, kClose };

/// Answers the request that a connection has at hand; see handlers.h.
using Handler = Task<Then> (*)(Connection& connection);

/// The methods of one row.
enum class Verb : uint8_t {
  kRead,  ///< GET, and HEAD, which is answered as GET without the body
  kGet,   ///< GET alone: reading takes long or changes something
  kPost,
  kPut,
  kPatch,
  kDelete,
};

/// Who may call a row.
enum class Caller : uint8_t {
  kAnyone,  ///< also without a key; the handler knows no tenant
  kTenant,  ///< needs the key of a tenant, where the server has keys
};

/// What a row takes as the body of a request.
struct BodyRule {
  std::string_view name = {};  ///< in messages; empty: the row needs no body, and the body of a request is thrown away
  /// 413 for a longer body. ServerLimits::body_bytes holds beside it, for every request.
  uint64_t most_bytes = std::numeric_limits<uint64_t>::max();
};

enum class Endpoint : uint8_t {
  kServer,
  kLive,
  kReady,
  kModel,
  kModelReady,
  kInfer,
  kFunctions,
  kFunction,
  kHistory,
  kRollback,
  kKeep,
  kProfile,
  kRequests,
  kRequest,
  kObjects,
  kObject,
  kMemory,
  kAccounts,
  kTrace,
  kDevices,
  kCounters,
};

/// One method of one path. A new endpoint is a row in routes.cc, its handler, and its entry in api/openapi.yaml, which
/// a test holds against the row.
struct RouteRow {
  Endpoint endpoint;  ///< the path, for the tests
  Verb verb;
  /// As openapi.yaml writes it: "/v1/functions/{name}/keep". `{name}` is a function, alone or as name@version;
  /// `{version}` is a version; `{id}` is the id of a request or an object.
  std::string_view pattern;
  Caller caller;
  BodyRule body;
  Handler handler;
  std::string_view summary;  ///< as in openapi.yaml, word for word
};

/// All rows. Rows of the same pattern stand together, in the order in which `Allow` names their methods.
std::span<const RouteRow> route_table();

}  // namespace quern::server
