// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "server/http/connection.h"

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

Task<Connection::Then> Connection::put_object(const daemon::Tenant& tenant) {
  auto upload = front_.daemon.begin_object(tenant, *head_.content_length);
  if (!upload.ok()) co_return co_await answer_failure(Failure(std::move(upload).error()));
  if (const Io io = co_await send_continue(); io != Io::kOk) co_return Then::kClose;
  if (const Io io = co_await discard(head_.size - taken_); io != Io::kOk) co_return co_await failed_read(io);
  const Received received = co_await receive(**upload, *head_.content_length);
  // What a refused upload has on disk, and its room, are free before its caller has read why.
  if (received.io != Io::kOk || !received.written.ok()) upload->reset();
  if (received.io != Io::kOk) co_return co_await failed_read(received.io);
  if (!received.written.ok()) co_return co_await answer_failure(Failure(received.written.error()));
  filled_ = taken_ = 0;
  const auto stored = co_await asked<Result<daemon::ObjectStatus>>(
      [&](auto done) { front_.daemon.put_object(tenant, *std::move(upload), std::move(done)); });
  if (!stored.ok()) co_return co_await answer_failure(Failure(stored.error()));
  const std::string text = json::serialize(json::object{{"object", stored->id}, {"bytes", stored->bytes}});
  co_return co_await answer_json(201, text);
}

Task<Connection::Then> Connection::list_objects(const daemon::Tenant& tenant) {
  const auto listed = co_await asked<Result<std::vector<daemon::ObjectStatus>>>(
      [&](auto done) { front_.daemon.objects(tenant, std::move(done)); });
  if (!listed.ok()) co_return co_await answer_failure(Failure(listed.error()));
  json::array list;
  for (const daemon::ObjectStatus& object : *listed) list.push_back(object_json(object));
  const std::string text = json::serialize(json::object{{"objects", std::move(list)}});
  co_return co_await answer_json(200, text);
}

// A lease is over before its last byte leaves, so that nobody who has read it finds it again; should it not get
// through, it is there again.
Task<Connection::Then> Connection::send_object(const daemon::Tenant& tenant) {
  const bool keeps = route_.keeps || is_head_;
  const auto object = co_await asked<Result<daemon::ObjectRef>>(
      [&](auto done) { front_.daemon.read_object(tenant, route_.name, keeps, std::move(done)); });
  if (!object.ok()) co_return co_await answer_failure(Failure(object.error()));
  const Then then = co_await answer(200, "application/octet-stream", as_text((*object)->bytes), {});
  if (!is_written_ && !keeps) front_.daemon.unread_object(*object);
  co_return then;
}

Task<Connection::Then> Connection::remove_object(const daemon::Tenant& tenant) {
  const auto removed =
      co_await asked<Status>([&](auto done) { front_.daemon.remove_object(tenant, route_.name, std::move(done)); });
  if (!removed.ok()) co_return co_await answer_failure(Failure(removed.error()));
  const std::string text = json::serialize(json::object{{"removed", route_.name}});
  co_return co_await answer_json(200, text);
}

}  // namespace quern::server
