// SPDX-License-Identifier: Apache-2.0
#include "sched/homes.h"

#include <algorithm>
#include <tuple>

#include "sched/mutant.h"

namespace quern::sched {

Homes::Home* Homes::settle(FunctionId function, const Quota& quota, uint64_t bytes, const Devices& devices, Time now) {
  const auto known = homes_.find(function);
  if (known == homes_.end()) {
    while (by_own_.size() >= kShared)
      if (!drop_idle()) return nullptr;
    Home home;
    // The lowest that is free.
    while (by_own_.contains(home.own)) ++home.own;
    home.quota = quota;
    home.used = now;
    if (!place(home, bytes, devices)) return nullptr;
    by_own_[home.own] = function;
    return &(homes_[function] = home);
  }
  Home& home = known->second;
  home.used = now;
  if (home.quota == quota && (home.device || quota.request == 0)) return &home;
  const Home before = home;
  leave(home);
  home.quota = quota;
  ++home.holders;  // it makes no room for itself
  const bool is_placed = place(home, bytes, devices);
  --home.holders;
  if (is_placed) return &home;
  // It keeps what it had.
  home = before;
  if (home.device) shares_.at(*home.device).take(home.at);
  return nullptr;
}

bool Homes::place(Home& home, uint64_t bytes, const Devices& devices) {
  if (home.quota.request == 0) return true;
  bool is_placed = find_place(home, bytes, devices);
  while (!is_placed && drop_idle()) is_placed = find_place(home, bytes, devices);
  return is_placed;
}

// The one with the least left over beside it; devices that are used already before others.
bool Homes::find_place(Home& home, uint64_t bytes, const Devices& devices) {
  using Score = std::tuple<bool, uint64_t, uint64_t, DeviceId>;
  std::optional<Score> best;
  for (const DeviceId id : devices.all_up(bytes)) {
    const Units units = devices.find(id)->units;
    const Rectangles& shares = shares_.try_emplace(id, units).first->second;
    const auto fit = shares.fit(home.quota.request, units_of(home.quota, units));
    if (!fit) continue;
    const Score score{shares.empty(), fit->left_area, fit->left_side, id};
    if (best && *best <= score) continue;
    best = score;
    home.device = id;
    home.at = fit->at;
  }
  if (!best) return false;
  if (!QUERN_MUTANT(50)) shares_.at(*home.device).take(home.at);
  return true;
}

void Homes::leave(Home& home) {
  if (home.device) shares_.at(*home.device).release(home.at);
  home.device.reset();
}

// The one that was used least lately.
bool Homes::drop_idle() {
  auto oldest = homes_.end();
  for (auto it = homes_.begin(); it != homes_.end(); ++it)
    if (it->second.holders == 0 && (oldest == homes_.end() || it->second.used < oldest->second.used)) oldest = it;
  if (oldest == homes_.end()) return false;
  drop(oldest);
  return true;
}

void Homes::drop(std::map<FunctionId, Home>::iterator it) {
  leave(it->second);
  by_own_.erase(it->second.own);
  homes_.erase(it);
}

void Homes::hold(FunctionId function) {
  if (const auto it = homes_.find(function); it != homes_.end()) ++it->second.holders;
}

void Homes::release(FunctionId function, Time now) {
  const auto it = homes_.find(function);
  if (it == homes_.end() || it->second.holders == 0) return;
  --it->second.holders;
  it->second.used = now;
}

void Homes::gone(FunctionId function) {
  if (const auto it = homes_.find(function); it != homes_.end() && it->second.holders == 0) drop(it);
}

// Those that were at home there run anywhere until they find another.
void Homes::device_down(DeviceId device) {
  shares_.erase(device);
  for (auto& [function, home] : homes_)
    if (home.device == device) home.device.reset();
}

const Homes::Home* Homes::find(FunctionId function) const {
  const auto it = homes_.find(function);
  return it == homes_.end() ? nullptr : &it->second;
}

std::optional<DeviceId> Homes::device_of(LevelNo level) const {
  const auto own = static_cast<LevelNo>(level & 255);
  const auto it = own == kShared ? by_own_.end() : by_own_.find(own);
  return it == by_own_.end() ? std::nullopt : homes_.at(it->second).device;
}

const Rectangles* Homes::shares(DeviceId device) const {
  const auto it = shares_.find(device);
  return it == shares_.end() ? nullptr : &it->second;
}

}  // namespace quern::sched
