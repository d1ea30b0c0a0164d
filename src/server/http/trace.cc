// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace.h"

#include <fmt/format.h>

#include <charconv>

#include "os/thread.h"
#include "server/http/connection.h"
#include "server/http/trace_json.h"

namespace quern::server {
namespace {

constexpr uint32_t kUsualSeconds = 5;

Result<uint32_t> seconds_of(std::string_view text) {
  constexpr auto kMost = static_cast<uint32_t>(daemon::kLongestTrace.ns / Duration::seconds(1).ns);
  if (text.empty()) return kUsualSeconds;
  uint32_t seconds = 0;
  const auto [rest, problem] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (problem != std::errc() || rest != text.data() + text.size() || seconds < 1 || seconds > kMost)
    return invalid(fmt::format("seconds {}: write a whole number from 1 to {}", text.substr(0, 32), kMost));
  return seconds;
}

}  // namespace

// While it goes on, the peek for the next head is out: should it find the end of the stream, the caller has gone, and
// the trace ends.
Task<Connection::Then> Connection::trace(const daemon::Tenant& tenant) {
  const auto seconds = seconds_of(route_.seconds);
  if (!seconds.ok()) co_return co_await answer_failure(Failure(seconds.error()));
  if (const Io io = co_await send_continue(); io != Io::kOk) co_return Then::kClose;
  if (const Io io = co_await discard(unread_); io != Io::kOk) co_return co_await failed_read(io);
  // From here on the buffer belongs to the next request.
  filled_ = taken_ = 0;
  head_.target = head_.key = head_.method_text = head_.content_encoding = {};
  if (request_id_.empty()) request_id_ = front_.make_id();
  is_tracing_ = true;
  start_peek();
  auto traced = co_await asked<Result<daemon::Trace>>(
      [&](auto done) { front_.daemon.trace(tenant, request_id_, Duration::seconds(*seconds), std::move(done)); });
  is_tracing_ = false;
  if (has_gone_ || is_ending_) co_return Then::kClose;
  if (!traced.ok()) co_return co_await answer_failure(Failure(traced.error()));
  // A large one takes seconds to write: the other connections of this thread do not wait for it.
  std::string text;
  os::Thread thread;
  co_await asked<bool>([&](auto done) {
    thread = os::Thread("trace", [&text, &traced, done] {
      daemon::complete(*traced);
      text = trace_json(*std::move(traced));
      done(true);
    });
  });
  thread.join();
  co_return co_await answer_json(200, text);
}

Task<Connection::Then> Connection::end_trace(const daemon::Tenant& tenant) {
  const auto ended = co_await asked<Status>([&](auto done) { front_.daemon.end_trace(tenant, std::move(done)); });
  if (!ended.ok()) co_return co_await answer_failure(Failure(ended.error()));
  co_return co_await answer_json(202, R"({"ended":true})");
}

}  // namespace quern::server
