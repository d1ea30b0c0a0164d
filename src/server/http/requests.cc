// SPDX-License-Identifier: Apache-2.0
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "server/http/connection.h"

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

Task<Connection::Then> Connection::list_requests(const daemon::Tenant& tenant) {
  const auto listed = co_await asked<Result<std::vector<daemon::RequestStatus>>>(
      [&](auto done) { front_.daemon.requests(tenant, std::move(done)); });
  if (!listed.ok()) co_return co_await answer_failure(Failure(listed.error()));
  json::array list;
  for (const daemon::RequestStatus& request : *listed) list.push_back(request_json(request));
  const std::string text = json::serialize(json::object{{"requests", std::move(list)}});
  co_return co_await answer_json(200, text);
}

Task<Connection::Then> Connection::cancel_request(const daemon::Tenant& tenant) {
  const auto cancelled =
      co_await asked<Status>([&](auto done) { front_.daemon.cancel(tenant, route_.name, std::move(done)); });
  if (!cancelled.ok()) co_return co_await answer_failure(Failure(cancelled.error()));
  const std::string text = json::serialize(json::object{{"cancelled", route_.name}});
  co_return co_await answer_json(202, text);
}

}  // namespace quern::server
