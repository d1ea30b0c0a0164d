// SPDX-License-Identifier: Apache-2.0
//
// What changes functions: each answer waits for the disk, and no thread of ours does.
#include <fmt/format.h>

#include <algorithm>

#include "server/http/connection.h"

namespace quern::server {
namespace {

constexpr uint64_t kPiece = 256 * kKiB;
constexpr uint64_t kMostSettings = 64 * kKiB;

}  // namespace

// While one piece is written the next is read: a caller is as fast as the slower of network and disk, and has two
// pieces in memory, however much it sends.
Task<Connection::Received> Connection::receive(daemon::Upload& upload, uint64_t length) {
  Received received;
  std::optional<Result<Bytes>> written;
  Bytes piece(std::min(length, kPiece)), spare;
  while (length > 0) {
    piece.resize(std::min(length, kPiece));
    asio::mutable_buffer into(piece.data(), piece.size());
    received.io = co_await read_all({&into, 1});
    length -= piece.size();
    if (written) co_await done_.wait();
    if (written && !written->ok()) received.written = written->error();
    if (received.io != Io::kOk || !received.written.ok()) co_return received;
    if (written) spare = **std::move(written);
    written.emplace(Bytes());
    shard_.callbacks.fetch_add(1, std::memory_order_relaxed);
    upload.write(std::move(piece), [this, &written](Result<Bytes> back) {
      Shard& shard = shard_;
      written = std::move(back);
      asio::post(shard.io, [this] { done_.set(); });
      shard.callbacks.fetch_sub(1, std::memory_order_release);
    });
    piece = std::move(spare);
  }
  if (written) co_await done_.wait();
  if (written && !written->ok()) received.written = written->error();
  co_return received;
}

Task<Connection::Then> Connection::deploy(const daemon::Tenant& tenant) {
  const uint64_t length = *head_.content_length;
  if (!route_.version.empty())
    co_return co_await answer_failure(Failure(invalid(
        "function " + route_.name + ": its version follows from its content; leave out the @" + route_.version)));
  auto upload = front_.daemon.begin_deploy(tenant, length);
  if (!upload.ok()) co_return co_await answer_failure(Failure(std::move(upload).error()));
  if (const Io io = co_await send_continue(); io != Io::kOk) co_return Then::kClose;
  if (const Io io = co_await discard(head_.size - taken_); io != Io::kOk) co_return co_await failed_read(io);
  const Received received = co_await receive(**upload, length);
  // What a refused upload has on disk, and its room, are free before its caller has read why.
  if (received.io != Io::kOk || !received.written.ok()) upload->reset();
  if (received.io != Io::kOk) co_return co_await failed_read(received.io);
  if (!received.written.ok()) co_return co_await answer_failure(Failure(received.written.error()));

  // From here on the buffer belongs to the next request, and whoever goes is noticed.
  filled_ = taken_ = 0;
  head_.target = head_.key = head_.method_text = head_.content_encoding = head_.host = head_.origin = {};
  request_id_ = front_.make_id();
  is_deploying_ = true;
  start_peek();
  const auto deployed = co_await asked<Result<daemon::Deployed>>(
      [&](auto done) { front_.daemon.deploy(tenant, request_id_, route_.name, *std::move(upload), std::move(done)); });
  is_deploying_ = false;
  if (has_gone_) co_return Then::kClose;
  if (!deployed.ok()) co_return co_await answer_failure(Failure(deployed.error()));
  co_return co_await answer_told(answer_deployed(*deployed));
}

Task<Connection::Then> Connection::change(const daemon::Tenant& tenant) {
  const uint64_t length = *head_.content_length;
  if (length > kMostSettings)
    co_return co_await answer_failure(
        Failure(invalid(fmt::format("settings: {} bytes, and at most {} are taken", length, kMostSettings)), 413));
  if (const Io io = co_await send_continue(); io != Io::kOk) co_return Then::kClose;
  if (const Io io = co_await discard(head_.size - taken_); io != Io::kOk) co_return co_await failed_read(io);
  std::string body(length, '\0');
  asio::mutable_buffer rest(body.data(), body.size());
  if (const Io io = co_await read_all({&rest, 1}); io != Io::kOk) co_return co_await failed_read(io);
  filled_ = taken_ = 0;
  auto changes = read_changes(route_, body);
  if (!changes.ok()) co_return co_await answer_failure(Failure(std::move(changes).error()));
  const auto changed = co_await asked<Result<daemon::FunctionRef>>(
      [&](auto done) { front_.daemon.set(tenant, route_.name, *std::move(changes), std::move(done)); });
  if (!changed.ok()) co_return co_await answer_failure(Failure(changed.error()));
  co_return co_await answer_told(answer_changed(**changed));
}

Task<Connection::Then> Connection::remove_function(const daemon::Tenant& tenant) {
  if (!route_.version.empty())
    co_return co_await answer_failure(Failure(
        invalid("function " + route_.name + ": all versions are removed together; leave out the @" + route_.version)));
  const auto removed =
      co_await asked<Status>([&](auto done) { front_.daemon.remove(tenant, route_.name, std::move(done)); });
  if (!removed.ok()) co_return co_await answer_failure(Failure(removed.error()));
  co_return co_await answer_told(answer_removed(route_.name));
}

Task<Connection::Then> Connection::roll_back(const daemon::Tenant& tenant) {
  const auto function = co_await asked<Result<daemon::FunctionRef>>(
      [&](auto done) { front_.daemon.rollback(tenant, route_.name, route_.version, std::move(done)); });
  if (!function.ok()) co_return co_await answer_failure(Failure(function.error()));
  co_return co_await answer_told(answer_rolled_back(**function));
}

Task<Connection::Then> Connection::show_history(const daemon::Tenant& tenant) {
  const auto history = co_await asked<Result<daemon::History>>(
      [&](auto done) { front_.daemon.history(tenant, route_.name, std::move(done)); });
  if (!history.ok()) co_return co_await answer_failure(Failure(history.error()));
  co_return co_await answer_told(answer_history(route_.name, *history));
}

Task<Connection::Then> Connection::answer_told(const JsonAnswer& told) {
  co_return co_await answer_json(told.status, told.json);
}

}  // namespace quern::server
