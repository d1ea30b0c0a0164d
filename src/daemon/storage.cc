// SPDX-License-Identifier: Apache-2.0
#include "daemon/storage.h"

#include <fmt/format.h>

#include "base/units.h"

namespace quern::daemon {

Storage::Storage(const Config& config)
    : limit_bytes_(config.storage_bytes), accounts_(std::make_shared<os::Guarded<Accounts>>()) {
  // Where several share it, none has all of it unless the operator says so.
  const uint64_t usual = config.tenants.size() > 1 ? limit_bytes_ / 2 : limit_bytes_;
  accounts_->with([&](Accounts& accounts) {
    for (const TenantConfig& tenant : config.tenants)
      accounts.by_tenant[tenant.name].limit_bytes =
          tenant.limits.storage_bytes > 0 ? tenant.limits.storage_bytes : usual;
  });
}

Status Storage::check(const Accounts& accounts, const std::string& tenant, uint64_t bytes, bool is_object) const {
  const Account& account = accounts.by_tenant.at(tenant);
  if (account.uploads >= kMostUploadsOfTenant || (accounts.uploads >= kMostUploads && account.uploads > 0))
    return exhausted(fmt::format("tenant {}: {} uploads are under way, the most there may be; retry later", tenant,
                                 account.uploads >= kMostUploadsOfTenant ? account.uploads : accounts.uploads));
  if (is_object && account.stored.objects >= kMostObjects)
    return exhausted(
        fmt::format("tenant {}: stores {} objects, the most there may be; remove some ('quern objects' "
                    "lists them)",
                    tenant, account.stored.objects));
  const uint64_t theirs = account.stored.bytes + account.uploading_bytes;
  if (bytes > account.limit_bytes || theirs > account.limit_bytes - bytes)
    return exhausted(
        fmt::format("tenant {}: stores or uploads {}, may have {}, and this is {}; remove objects or "
                    "functions, or raise limits.storage",
                    tenant, show_bytes(theirs), show_bytes(account.limit_bytes), show_bytes(bytes)));
  const uint64_t all = accounts.stored_bytes + accounts.uploading_bytes;
  if (bytes > limit_bytes_ || all > limit_bytes_ - bytes)
    return exhausted(
        fmt::format("server: all tenants together store or upload as much as they may, {}; remove objects "
                    "or functions, or raise storage",
                    show_bytes(limit_bytes_)));
  return {};
}

Result<std::shared_ptr<void>> Storage::take(const std::string& tenant, uint64_t bytes, bool is_object) {
  QUERN_TRY(accounts_->with([&](Accounts& accounts) -> Status {
    accounts.by_tenant.try_emplace(tenant, Account{limit_bytes_, {}, 0, 0});
    QUERN_TRY(check(accounts, tenant, bytes, is_object));
    Account& account = accounts.by_tenant[tenant];
    ++account.uploads, ++accounts.uploads;
    account.uploading_bytes += bytes, accounts.uploading_bytes += bytes;
    return {};
  }));
  return std::shared_ptr<void>(accounts_.get(), [accounts = accounts_, tenant, bytes](void*) {
    accounts->with([&](Accounts& all) {
      Account& account = all.by_tenant[tenant];
      --account.uploads, --all.uploads;
      account.uploading_bytes -= bytes, all.uploading_bytes -= bytes;
    });
  });
}

void Storage::set_stored(const std::string& tenant, State::Stored stored) {
  accounts_->with([&](Accounts& accounts) {
    Account& account = accounts.by_tenant.try_emplace(tenant, Account{limit_bytes_, {}, 0, 0}).first->second;
    accounts.stored_bytes += stored.bytes - account.stored.bytes;
    account.stored = stored;
  });
}

}  // namespace quern::daemon
