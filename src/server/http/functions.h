// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <variant>

#include "daemon/daemon.h"
#include "server/error_map.h"
#include "server/http/front.h"
#include "server/http/request_head.h"
#include "server/http/router.h"

namespace quern::server {

/// What a path answers with JSON of its own.
struct JsonAnswer {
  int status = 200;
  std::string json;
};
using Answer = std::variant<JsonAnswer, Failure>;

/// Every endpoint that takes no body and waits for nothing. `tenant` is null for those that are open to all.
Answer answer_now(Front& front, const daemon::Tenant* tenant, Method method, const Route& route);

/// The answer to a PATCH of a function: a JSON object of settings by path.
Answer answer_changed(Front& front, const daemon::Tenant& tenant, const Route& route, std::string_view body);

/// The answer to a PUT of a function: 201 where it is new, 200 where it was current already.
JsonAnswer answer_deployed(const daemon::Deployed& deployed);

}  // namespace quern::server
