// SPDX-License-Identifier: Apache-2.0
#include "server/http/front.h"

#include "os/log.h"

namespace quern::server {
namespace {

constexpr Duration kBetweenLines = Duration::seconds(1);

}  // namespace

bool is_due(std::atomic<int64_t>& last_ns, Time now) {
  int64_t last = last_ns.load(std::memory_order_relaxed);
  return now.ns - last >= kBetweenLines.ns && last_ns.compare_exchange_strong(last, now.ns);
}

void Front::tell_crowd(Time now) {
  if (shed.load(std::memory_order_relaxed) + refused.load(std::memory_order_relaxed) == 0) return;
  if (!is_due(told_ns_, now)) return;
  const uint32_t closed = shed.exchange(0), turned_away = refused.exchange(0);
  os::log_warning("server: {} connections are open and at most {} may be; closed {} idle ones, refused {} new ones",
                  connections.load(std::memory_order_relaxed), config.limits.connections, closed, turned_away);
}

void Front::cannot_accept(const std::string& why, Time now) {
  if (is_due(not_accepted_ns_, now)) os::log_warning("server: cannot accept connections: {}", why);
}

std::shared_ptr<void> Budget::take(const std::string& tenant, uint64_t bytes) {
  const bool is_there = taken_.with([&](Taken& taken) {
    uint64_t& theirs = taken.by_tenant[tenant];
    if (bytes > bytes_ - taken.all || bytes > bytes_of_tenant_ - theirs) return false;
    taken.all += bytes;
    theirs += bytes;
    return true;
  });
  if (!is_there) return nullptr;
  return std::shared_ptr<void>(this, [this, tenant, bytes](void*) {
    taken_.with([&](Taken& taken) {
      taken.all -= bytes;
      taken.by_tenant[tenant] -= bytes;
    });
  });
}

}  // namespace quern::server
