// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "daemon/config.h"
#include "daemon/state.h"
#include "os/guarded.h"

namespace quern::daemon {

/// What tenants have on disk and are about to put there, against what they may: an upload is refused before its first
/// byte is read. Any thread.
class Storage {
 public:
  explicit Storage(const Config& config);

  /// Room for an upload; taken until nobody holds it. kExhausted, with what to do, if the tenant or all of them have as
  /// much as they may.
  Result<std::shared_ptr<void>> take(const std::string& tenant, uint64_t bytes, bool is_object);
  /// What the tenant has now.
  void set_stored(const std::string& tenant, State::Stored stored);

  static constexpr uint64_t kMostObjects = 4096;  ///< that a tenant put
  static constexpr uint32_t kMostUploads = 64,
                            kMostUploadsOfTenant = 16;  ///< at a time; a tenant without any may always begin one

 private:
  struct Account {
    uint64_t limit_bytes = 0;
    State::Stored stored;
    uint64_t uploading_bytes = 0;
    uint32_t uploads = 0;
  };
  struct Accounts {
    std::map<std::string, Account> by_tenant;
    uint64_t stored_bytes = 0, uploading_bytes = 0;
    uint32_t uploads = 0;
  };
  Status check(const Accounts& accounts, const std::string& tenant, uint64_t bytes, bool is_object) const;

  const uint64_t limit_bytes_;
  const std::shared_ptr<os::Guarded<Accounts>> accounts_;
};

}  // namespace quern::daemon
