// SPDX-License-Identifier: Apache-2.0
#include "daemon/accounts.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "server/http/connection.h"

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

}  // namespace

Task<Connection::Then> Connection::show_accounts(const daemon::Tenant& tenant) {
  const auto by = daemon::parse_account_by(route_.by.empty() ? "function" : route_.by);
  if (!by.ok()) co_return co_await answer_failure(Failure(by.error()));
  const auto table = co_await asked<Result<daemon::AccountTable>>(
      [&](auto done) { front_.daemon.accounts(tenant, *by, std::move(done)); });
  if (!table.ok()) co_return co_await answer_failure(Failure(table.error()));
  json::array rows;
  for (const daemon::AccountTable::Row& row : table->rows) {
    json::object out = account_json(row.account);
    out["tenant"] = row.tenant;
    if (table->by == daemon::AccountBy::kFunction) out["function"] = row.function;
    if (table->by == daemon::AccountBy::kDevice) out["device"] = row.device;
    rows.push_back(std::move(out));
  }
  const std::string text = json::serialize(json::object{{"by", name_of(table->by)},
                                                        {"age_ns", table->age.ns},
                                                        {"accounts", std::move(rows)},
                                                        {"total", account_json(table->total)}});
  co_return co_await answer_json(200, text);
}

}  // namespace quern::server
