// SPDX-License-Identifier: Apache-2.0
//
// Bodies that are no call: read as a whole, sent on to the disk, or thrown away.
#include <algorithm>

#include "server/http/connection.h"

namespace quern::server {
namespace {

constexpr uint64_t kPiece = 256 * kKiB;

}  // namespace

// While one piece is written the next is read: a caller is as fast as the slower of network and disk, and has two
// pieces in memory, however much it sends.
Task<Connection::Received> Connection::send_on(daemon::Upload& upload) {
  uint64_t length = *head_.content_length;
  Received received;
  received.io = co_await discard(head_.size - taken_);
  if (received.io != Io::kOk) co_return received;
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
    upload.write(std::move(piece), handing_to(written));
    piece = std::move(spare);
  }
  if (written) co_await done_.wait();
  if (written && !written->ok()) received.written = written->error();
  co_return received;
}

Task<std::optional<Then>> Connection::receive(std::unique_ptr<daemon::Upload>& upload) {
  if (const Io io = co_await send_continue(); io != Io::kOk) co_return Then::kClose;
  const Received received = co_await send_on(*upload);
  // What a refused upload has on disk, and its room, are free before its caller has read why.
  if (received.io != Io::kOk || !received.written.ok()) upload.reset();
  if (received.io != Io::kOk) co_return co_await failed_read(received.io);
  if (!received.written.ok()) co_return co_await answer_failure(Failure(received.written.error()));
  leave_buffer();
  co_return std::nullopt;
}

Task<std::optional<Then>> Connection::read_body(std::string& into) {
  if (const Io io = co_await send_continue(); io != Io::kOk) co_return Then::kClose;
  if (const Io io = co_await discard(head_.size - taken_); io != Io::kOk) co_return co_await failed_read(io);
  into.resize(*head_.content_length);
  asio::mutable_buffer rest(into.data(), into.size());
  if (const Io io = co_await read_all({&rest, 1}); io != Io::kOk) co_return co_await failed_read(io);
  leave_buffer();
  co_return std::nullopt;
}

Task<std::optional<Then>> Connection::drop_body() {
  if (const Io io = co_await send_continue(); io != Io::kOk) co_return Then::kClose;
  if (const Io io = co_await discard(unread_); io != Io::kOk) co_return co_await failed_read(io);
  leave_buffer();
  co_return std::nullopt;
}

}  // namespace quern::server
