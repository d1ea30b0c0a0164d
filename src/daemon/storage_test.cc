// SPDX-License-Identifier: Apache-2.0
#include "daemon/storage.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/units.h"

namespace quern::daemon {
namespace {

Config two_tenants() {
  Config config;
  config.tenants.resize(2);
  config.tenants[0].name = "a";
  config.tenants[1].name = "b";
  config.storage_bytes = kGiB;
  return config;
}

TEST(StorageTest, ATenantStoresOnlySoManyObjects) {
  Storage storage(two_tenants());
  storage.set_stored("a", {.bytes = 1, .objects = Storage::kMostObjects});
  const auto refused = storage.take("a", 1, true);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kExhausted);
  EXPECT_EQ(refused.error().text,
            "tenant a: stores 4096 objects, the most there may be; remove some ('quern objects' lists them)");
  EXPECT_TRUE(storage.take("a", 1, false).ok()) << "a function is no object";
  EXPECT_TRUE(storage.take("b", 1, true).ok());
}

TEST(StorageTest, ATenantWithoutUploadsMayAlwaysBeginOne) {
  Config config = two_tenants();
  for (int i = 0; i < 4; ++i) config.tenants.emplace_back().name = "c" + std::to_string(i);
  Storage storage(config);
  std::vector<std::shared_ptr<void>> held;
  for (const TenantConfig& tenant : config.tenants)
    for (auto room = storage.take(tenant.name, 1, true); room.ok(); room = storage.take(tenant.name, 1, true)) {
      held.push_back(*std::move(room));
      if (tenant.name == "b") break;  // one, and not as many as it may
    }
  EXPECT_FALSE(storage.take("b", 1, true).ok()) << "all there are, are taken";
  held.erase(held.begin() + Storage::kMostUploadsOfTenant);  // that of b
  EXPECT_TRUE(storage.take("b", 1, true).ok());
}

}  // namespace
}  // namespace quern::daemon
