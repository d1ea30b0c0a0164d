// SPDX-License-Identifier: Apache-2.0
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "server/http/handlers.h"

namespace quern::server {
namespace {

namespace json = boost::json;

json::object request_json(const daemon::RequestStatus& request) {
  json::object out = {{"id", request.id},       {"function", request.function}, {"tenant", request.tenant},
                      {"state", request.state}, {"priority", request.priority}, {"age_ns", request.age.ns}};
  if (!request.device.empty()) out["device"] = request.device;
  if (!request.end.empty()) {
    out["end"] = request.end;
    out["took_ns"] = request.took.ns;
  }
  return out;
}

}  // namespace

Task<Then> list_requests(Connection& connection) {
  co_return co_await connection.ask_and_answer<Result<std::vector<daemon::RequestStatus>>>(
      [&](auto done) { connection.daemon().requests(connection.tenant(), std::move(done)); },
      [](const std::vector<daemon::RequestStatus>& requests) {
        json::array list;
        for (const daemon::RequestStatus& request : requests) list.push_back(request_json(request));
        return answer_of({{"requests", std::move(list)}});
      });
}

Task<Then> cancel_request(Connection& connection) {
  const std::string& id = connection.route().name;
  co_return co_await connection.ask_and_answer<Status>(
      [&](auto done) { connection.daemon().cancel(connection.tenant(), id, std::move(done)); },
      [&] {
        return answer_of({{"cancelled", id}}, 202);
      });
}

}  // namespace quern::server
