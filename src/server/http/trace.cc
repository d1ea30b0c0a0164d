// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace.h"

#include <fmt/format.h>

#include <charconv>

#include "os/thread.h"
#include "server/http/handlers.h"
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

Task<Then> show_trace(Connection& connection) {
  const auto seconds = seconds_of(connection.route().seconds);
  if (!seconds.ok()) co_return co_await connection.answer_failure(Failure(seconds.error()));
  if (const auto then = co_await connection.drop_body()) co_return *then;
  auto traced = co_await connection.asked_watched<Result<daemon::Trace>>(
      &daemon::Daemon::end_trace, [&](const std::string& id, auto done) {
        connection.daemon().trace(connection.tenant(), id, Duration::seconds(*seconds), std::move(done));
      });
  if (!traced) co_return Then::kClose;
  if (!traced->ok()) co_return co_await connection.answer_failure(Failure(traced->error()));
  // A large one takes seconds to write: the other connections of this thread do not wait for it.
  JsonAnswer shown;
  os::Thread thread;
  co_await connection.asked<bool>([&](auto done) {
    thread = os::Thread("trace", [&shown, &traced, done] {
      daemon::complete(**traced);
      shown.json = trace_json(**std::move(traced));
      done(true);
    });
  });
  thread.join();
  co_return co_await connection.answer_json(std::move(shown));
}

Task<Then> end_trace(Connection& connection) {
  co_return co_await connection.ask_and_answer<Status>(
      [&](auto done) { connection.daemon().end_trace(connection.tenant(), std::move(done)); },
      [] {
        return answer_of({{"ended", true}}, 202);
      });
}

}  // namespace quern::server
