// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "server/http/handlers.h"

namespace quern::server {
namespace {

namespace json = boost::json;

json::object object_json(const daemon::ObjectStatus& object) {
  json::object out = {{"object", object.id}, {"bytes", object.bytes}, {"kind", object.is_lease ? "lease" : "stored"}};
  if (object.is_lease)  // whole milliseconds: the rest says nothing
    out["expires_in"] = to_string(Duration::millis(std::max<int64_t>(1, object.expires_in.ns / 1'000'000)));
  else
    out["created_at"] = object.created_at;
  return out;
}

}  // namespace

Task<Then> put_object(Connection& connection) {
  auto upload = connection.daemon().begin_object(connection.tenant(), *connection.head().content_length);
  if (!upload.ok()) co_return co_await connection.answer_failure(Failure(std::move(upload).error()));
  if (const auto then = co_await connection.receive(*upload)) co_return *then;
  co_return co_await connection.ask_and_answer<Result<daemon::ObjectStatus>>(
      [&](auto done) { connection.daemon().put_object(connection.tenant(), *std::move(upload), std::move(done)); },
      [](const daemon::ObjectStatus& stored) {
        return answer_of({{"object", stored.id}, {"bytes", stored.bytes}}, 201);
      });
}

Task<Then> list_objects(Connection& connection) {
  co_return co_await connection.ask_and_answer<Result<std::vector<daemon::ObjectStatus>>>(
      [&](auto done) { connection.daemon().objects(connection.tenant(), std::move(done)); },
      [](const std::vector<daemon::ObjectStatus>& objects) {
        json::array list;
        for (const daemon::ObjectStatus& object : objects) list.push_back(object_json(object));
        return answer_of({{"objects", std::move(list)}});
      });
}

// A lease is over before its last byte leaves, so that nobody who has read it finds it again; should it not get
// through, it is there again.
Task<Then> send_object(Connection& connection) {
  const bool keeps = connection.route().keeps || connection.head().method == Method::kHead;
  const auto object = co_await connection.asked<Result<daemon::ObjectRef>>([&](auto done) {
    connection.daemon().read_object(connection.tenant(), connection.route().name, keeps, std::move(done));
  });
  if (!object.ok()) co_return co_await connection.answer_failure(Failure(object.error()));
  const Then then = co_await connection.answer(200, "application/octet-stream", as_text((*object)->bytes), {});
  if (!connection.is_written() && !keeps) connection.daemon().unread_object(*object);
  co_return then;
}

Task<Then> remove_object(Connection& connection) {
  const std::string& id = connection.route().name;
  co_return co_await connection.ask_and_answer<Status>(
      [&](auto done) { connection.daemon().remove_object(connection.tenant(), id, std::move(done)); },
      [&] {
        return answer_of({{"removed", id}});
      });
}

}  // namespace quern::server
