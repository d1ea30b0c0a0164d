// SPDX-License-Identifier: Apache-2.0
//
// What changes functions: each answer waits for the disk, and no thread of ours does.
#include "server/http/functions.h"
#include "server/http/handlers.h"

namespace quern::server {

Task<Then> deploy(Connection& connection) {
  const Route& route = connection.route();
  if (!route.version.empty())
    co_return co_await connection.answer_failure(Failure(
        invalid("function " + route.name + ": its version follows from its content; leave out the @" + route.version)));
  auto upload = connection.daemon().begin_deploy(connection.tenant(), *connection.head().content_length);
  if (!upload.ok()) co_return co_await connection.answer_failure(Failure(std::move(upload).error()));
  if (const auto then = co_await connection.receive(*upload)) co_return *then;
  const auto deployed = co_await connection.asked_watched<Result<daemon::Deployed>>(
      &daemon::Daemon::abandon_deploy, [&](const std::string& id, auto done) {
        connection.daemon().deploy(connection.tenant(), id, route.name, *std::move(upload), std::move(done));
      });
  if (!deployed) co_return Then::kClose;
  if (!deployed->ok()) co_return co_await connection.answer_failure(Failure(deployed->error()));
  co_return co_await connection.answer_json(answer_deployed(**deployed));
}

Task<Then> change_settings(Connection& connection) {
  const Route& route = connection.route();
  std::string body;
  if (const auto then = co_await connection.read_body(body)) co_return *then;
  auto changes = read_changes(route, body);
  if (!changes.ok()) co_return co_await connection.answer_failure(Failure(std::move(changes).error()));
  co_return co_await connection.ask_and_answer<Result<daemon::FunctionRef>>(
      [&](auto done) {
        connection.daemon().set(connection.tenant(), route.name, *std::move(changes), std::move(done));
      },
      [](const daemon::FunctionRef& function) { return answer_changed(*function); });
}

Task<Then> remove_function(Connection& connection) {
  const Route& route = connection.route();
  if (!route.version.empty())
    co_return co_await connection.answer_failure(Failure(
        invalid("function " + route.name + ": all versions are removed together; leave out the @" + route.version)));
  co_return co_await connection.ask_and_answer<Status>(
      [&](auto done) { connection.daemon().remove(connection.tenant(), route.name, std::move(done)); },
      [&] { return answer_removed(route.name); });
}

Task<Then> roll_back(Connection& connection) {
  const Route& route = connection.route();
  co_return co_await connection.ask_and_answer<Result<daemon::FunctionRef>>(
      [&](auto done) { connection.daemon().rollback(connection.tenant(), route.name, route.version, std::move(done)); },
      [](const daemon::FunctionRef& function) { return answer_rolled_back(*function); });
}

Task<Then> show_history(Connection& connection) {
  const Route& route = connection.route();
  co_return co_await connection.ask_and_answer<Result<daemon::History>>(
      [&](auto done) { connection.daemon().history(connection.tenant(), route.name, std::move(done)); },
      [&](const daemon::History& history) { return answer_history(route.name, history); });
}

}  // namespace quern::server
