// SPDX-License-Identifier: Apache-2.0
//
// An allocation that fails though the books have room shows that someone else uses the device. It is an executor that
// says so, and kernels are native code in it: what one domain says alone costs nobody else. As much as it asked for
// leaves of what the domain has there and nobody needs, and it is tried again, once; then the device is not for what
// that domain lacks there for a while. Only what another domain says as well within that time counts for all: then the
// device has what is held, and no more.
#include <algorithm>
#include <vector>

#include "sched/core.h"
#include "sched/mutant.h"

namespace quern::sched {

void Scheduler::Impl::could_not_give(Device& device, DomainId domain, uint64_t bytes) {
  const bool others_say_so = std::any_of(device.claims.begin(), device.claims.end(), [&](const auto& entry) {
    return entry.first != domain && entry.second.until > now_;
  });
  Claim& claim = device.claims[domain];
  claim.until = now_ + config_.room_back;
  claim.bytes = bytes;
  ++claim.in_row;
  if (others_say_so || QUERN_MUTANT(66)) {
    // What it does to one it does to all.
    for (auto& [id, other] : device.claims) other.is_out = false;
    doubt(device);
  } else {
    const auto domain_of = [&](Ledger::Key key) { return devices_.find(key.first)->group.domain; };
    // It may be true, and nobody else there to say so: what it asks for again is made free as for a run.
    const bool is_again = claim.in_row > 1;
    const bool has_left = give_up(device, bytes, [&](Ledger::Key key) { return is_again || domain_of(key) == domain; });
    claim.is_out = is_again || !has_left;
  }
  touched_.insert(device.id);
  arm_doubt(device);
}

void Scheduler::Impl::could_give(Device& device, DomainId domain, uint64_t bytes) {
  const auto claim = device.claims.find(domain);
  if (claim == device.claims.end() || bytes < claim->second.bytes) return;
  device.claims.erase(claim);
  arm_doubt(device);
}

void Scheduler::Impl::doubt(Device& device) {
  device.believed_at = now_ + config_.room_back;
  // What is held was given; the next byte was not. Never so small that nothing is asked of it again.
  const uint64_t given = std::max(device.ledger.held_bytes(), device.context_bytes);
  set_memory(device, std::min(device.memory_bytes, given));
}

template <class F>
bool Scheduler::Impl::give_up(Device& device, uint64_t bytes, F&& is_chosen) {
  constexpr int kMostLooked = 256;
  std::vector<Ledger::Key> leaving;
  uint64_t left = 0;
  int looked = 0;
  const auto& idle = device.ledger.idle();
  for (auto it = idle.begin(); it != idle.end() && left < bytes && looked < kMostLooked; ++it, ++looked) {
    const auto key = std::get<Ledger::Key>(*it);
    if (key.second == Ledger::kContext || !is_chosen(key)) continue;
    leaving.push_back(key);
    left += device.ledger.find(key)->bytes;
  }
  for (const Ledger::Key& key : leaving) {
    ++evictions_;
    leave(device, key);
  }
  return !leaving.empty();
}

bool Scheduler::Impl::passes_by(const Device& device, const Request& request) {
  if (!is_out(device, request)) return false;
  tenants_.set_aside(request.submit.tenant, device.claims.at(request.group.domain).until);
  return true;
}

bool Scheduler::Impl::is_out(const Device& device, const Request& request) const {
  if (device.claims.empty()) return false;
  const auto claim = device.claims.find(request.group.domain);
  if (claim == device.claims.end() || !claim->second.is_out || claim->second.until <= now_) return false;
  // What needs nothing more than is there is not about room.
  const auto executor = device.executors.find(request.group);
  if (executor == device.executors.end() || !devices_.has_all(device, request)) return true;
  if (request.submit.memory_bytes == 0) return false;
  const uint32_t lane = devices_.find(executor->second)->free_lane();
  const Ledger::Item* item = device.ledger.find({executor->second, Ledger::lane_id(lane)});
  return !item || item->state != Ledger::State::kResident || item->bytes < round_up(request.submit.memory_bytes);
}

// How often it was said in a row is remembered for as long again: who was out for a while comes back then.
void Scheduler::Impl::arm_doubt(Device& device) {
  Time ends = device.believed_at;
  for (const auto& [domain, claim] : device.claims)
    ends = std::min(ends, claim.until > now_ ? claim.until : claim.until + config_.room_back);
  if (ends == device.doubt_ends) return;
  if (device.doubt_ends != Time::never()) doubts_.erase({device.doubt_ends, device.id});
  device.doubt_ends = ends;
  if (ends != Time::never()) doubts_.insert({ends, device.id});
}

void Scheduler::Impl::believe_again() {
  tenants_.come_back(now_);
  while (!doubts_.empty() && doubts_.begin()->first <= now_) {
    Device& device = *devices_.find(doubts_.begin()->second);
    std::erase_if(device.claims, [&](const auto& entry) { return entry.second.until + config_.room_back <= now_; });
    if (device.believed_at <= now_) {
      device.believed_at = Time::never();
      set_memory(device, device.told_bytes);
    }
    touched_.insert(device.id);
    arm_doubt(device);
  }
}

}  // namespace quern::sched
