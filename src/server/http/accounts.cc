// SPDX-License-Identifier: Apache-2.0
#include "daemon/accounts.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "server/http/handlers.h"

namespace quern::server {
namespace {

namespace json = boost::json;

json::object account_json(const daemon::Account& account) {
  json::object waits;
  for (size_t i = 0; i < daemon::kCauses; ++i)
    waits[std::string(name_of(static_cast<daemon::Cause>(i))) + "_ns"] = account.waited_ns[i];
  return {{"requests", account.requests},   {"failed", account.failed},
          {"runs", account.runs},           {"device_time_ns", account.device_time_ns},
          {"bytes_in", account.bytes_in},   {"bytes_out", account.bytes_out},
          {"loads", account.loads},         {"loaded_bytes", account.loaded_bytes},
          {"evictions", account.evictions}, {"waits", std::move(waits)}};
}

json::object table_json(const daemon::AccountTable& table) {
  json::array rows;
  for (const daemon::AccountTable::Row& row : table.rows) {
    json::object out = account_json(row.account);
    out["tenant"] = row.tenant;
    if (table.by == daemon::AccountBy::kFunction) out["function"] = row.function;
    if (table.by == daemon::AccountBy::kDevice) out["device"] = row.device;
    rows.push_back(std::move(out));
  }
  return {{"by", name_of(table.by)},
          {"age_ns", table.age.ns},
          {"accounts", std::move(rows)},
          {"total", account_json(table.total)}};
}

}  // namespace

Task<Then> show_accounts(Connection& connection) {
  const std::string& wanted = connection.route().by;
  const auto by = daemon::parse_account_by(wanted.empty() ? "function" : wanted);
  if (!by.ok()) co_return co_await connection.answer_failure(Failure(by.error()));
  co_return co_await connection.ask_and_answer<Result<daemon::AccountTable>>(
      [&](auto done) { connection.daemon().accounts(connection.tenant(), *by, std::move(done)); },
      [](const daemon::AccountTable& table) { return answer_of(table_json(table)); });
}

}  // namespace quern::server
