// SPDX-License-Identifier: Apache-2.0
#include "server/http/front.h"

#include "os/log.h"

namespace quern::server {
namespace {

constexpr Duration kBetweenLines = Duration::seconds(1);

// Whether a line may be logged now; of several threads one may.
bool is_due(std::atomic<int64_t>& last_ns, Time now) {
  int64_t last = last_ns.load(std::memory_order_relaxed);
  return now.ns - last >= kBetweenLines.ns && last_ns.compare_exchange_strong(last, now.ns);
}

}  // namespace

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

std::shared_ptr<void> Front::take_answer_room(const std::string& tenant, uint64_t bytes) {
  const uint64_t most = config.limits.answers_json_bytes;
  const bool is_there = rooms_.with([&](Rooms& rooms) {
    uint64_t& theirs = rooms.by_tenant[tenant];
    if (rooms.all + bytes > most || theirs + bytes > most / 2) return false;
    rooms.all += bytes;
    theirs += bytes;
    return true;
  });
  if (!is_there) return nullptr;
  return std::shared_ptr<void>(this, [this, tenant, bytes](void*) {
    rooms_.with([&](Rooms& rooms) {
      rooms.all -= bytes;
      rooms.by_tenant[tenant] -= bytes;
    });
  });
}

}  // namespace quern::server
