// SPDX-License-Identifier: Apache-2.0
#include "sched/devices.h"

#include <algorithm>

#include "sched/mutant.h"

namespace quern::sched {
namespace {

template <class K>
const DeviceSet& find_or_none(const std::map<K, DeviceSet>& sets, const K& key) {
  static const DeviceSet none;
  const auto found = sets.find(key);
  return found == sets.end() ? none : found->second;
}

template <class K, class C>
void erase_from(std::map<K, DeviceSet, C>& sets, const K& key, uint64_t bytes, DeviceId device) {
  const auto found = sets.find(key);
  found->second.erase(bytes, device);
  if (found->second.empty()) sets.erase(found);
}

}  // namespace

void DeviceSet::erase(uint64_t bytes, DeviceId device) {
  const auto size = sizes_.find(bytes);
  if (size == sizes_.end()) return;
  size->second.erase(device);
  if (size->second.empty()) sizes_.erase(size);
}

std::optional<DeviceId> DeviceSet::first(uint64_t bytes) const {
  std::optional<DeviceId> first;
  for (auto size = sizes_.lower_bound(bytes); size != sizes_.end(); ++size)
    if (!first || *size->second.begin() < *first) first = *size->second.begin();
  return first;
}

std::vector<DeviceId> DeviceSet::first_few(uint64_t bytes, size_t most) const {
  std::vector<DeviceId> few;
  for (auto size = sizes_.lower_bound(bytes); size != sizes_.end(); ++size)
    for (auto it = size->second.begin(); it != size->second.end() && few.size() < most; ++it) few.push_back(*it);
  return few;
}

uint32_t Executor::runs_at(LevelNo level) const {
  return static_cast<uint32_t>(
      std::count_if(runs.begin(), runs.end(), [&](const auto& entry) { return entry.second->level == level; }));
}

std::vector<ExecutorId> Device::serving_executors() const {
  std::vector<ExecutorId> executors;
  for (const auto& [level, executor] : serving)
    if (std::find(executors.begin(), executors.end(), executor) == executors.end()) executors.push_back(executor);
  return executors;
}

bool Executor::has_lane(uint32_t lane) const {
  return std::any_of(runs.begin(), runs.end(), [&](const auto& entry) { return entry.second->lane == lane; });
}

uint32_t Executor::free_lane() const {
  uint32_t lane = 0;
  while (has_lane(lane) && !QUERN_MUTANT(11)) ++lane;
  return lane;
}

void Devices::up(DeviceId id, uint64_t memory_bytes, uint64_t context_bytes, bool in_place, Units units) {
  Device& device = devices_[id];
  device.id = id;
  device.memory_bytes = device.told_bytes = memory_bytes;
  device.context_bytes = context_bytes;
  device.in_place = in_place;
  device.units = {std::max(1U, units.count), units.in_halves};
  device.ledger.set_policy(eviction_);
  device.ledger.set_memory(memory_bytes);
  device.up = true;
  ++count_up_;
  largest_known_ = std::max(largest_known_, device.usable_bytes());
  if (device.can_serve()) up_.insert(device.usable_bytes(), id);
  if (device.can_serve()) told_.insert(device.usable_bytes(), id);
  if (homes_.try_emplace(id, 0).second) by_homes_.insert({0, id});
  reindex(id);
}

void Devices::down(DeviceId id) {
  Device& device = devices_.at(id);
  device.up = false;
  for (const FunctionId function : device.recent) {
    const auto homes = homes_of_.find(function);
    homes->second.erase(id);
    if (homes->second.empty()) homes_of_.erase(homes);
  }
  device.recent.clear();
  device.aheads.clear();
  device.ahead.reset();
  device.ahead_of.reset();
  --count_up_;
  up_.erase(device.usable_bytes(), id);
  told_.erase(device.told_usable_bytes(), id);
  reindex(id);
}

void Devices::set_memory(Device& device, uint64_t memory_bytes) {
  if (device.up) up_.erase(device.usable_bytes(), device.id);
  for (const auto& [group, executor] : device.executors) erase_from(with_, group, device.usable_bytes(), device.id);
  device.memory_bytes = memory_bytes;
  for (const auto& [group, executor] : device.executors) with_[group].insert(device.usable_bytes(), device.id);
  device.ledger.set_memory(memory_bytes);
  if (device.can_serve()) up_.insert(device.usable_bytes(), device.id);
  largest_known_ = std::max(largest_known_, device.usable_bytes());
  reindex(device.id);
}

void Devices::tell(Device& device, uint64_t memory_bytes) {
  if (device.up) told_.erase(device.told_usable_bytes(), device.id);
  device.told_bytes = memory_bytes;
  if (device.up && memory_bytes >= device.context_bytes) told_.insert(device.told_usable_bytes(), device.id);
  largest_known_ = std::max(largest_known_, device.told_usable_bytes());
}

Device* Devices::find(DeviceId id) {
  const auto found = devices_.find(id);
  return found == devices_.end() ? nullptr : &found->second;
}

const Device* Devices::find(DeviceId id) const {
  const auto found = devices_.find(id);
  return found == devices_.end() ? nullptr : &found->second;
}

Executor& Devices::plan_executor(ExecutorId id, DeviceId device, const Group& group) {
  Executor& executor = executors_[id];
  executor.id = id;
  executor.device = device;
  executor.group = group;
  devices_.at(device).executors[group] = id;
  on_device_[device].insert(id);
  with_[group].insert(devices_.at(device).usable_bytes(), device);
  if (group.own_function) own_[*group.own_function].insert(id);
  reindex(device);
  return executor;
}

void Devices::end_executor(Executor& executor) {
  if (executor.state == Executor::State::kEnding) return;
  executor.state = Executor::State::kEnding;
  devices_.at(executor.device).executors.erase(executor.group);
  erase_from(with_, executor.group, devices_.at(executor.device).usable_bytes(), executor.device);
  reindex(executor.device);
}

void Devices::drop_executor(ExecutorId id) {
  const auto executor = executors_.find(id);
  end_executor(executor->second);
  Device& device = devices_.at(executor->second.device);
  std::erase_if(device.serving, [&](const auto& entry) { return entry.second == id; });
  on_device_.at(device.id).erase(id);
  if (const auto function = executor->second.group.own_function) {
    const auto own = own_.find(*function);
    own->second.erase(id);
    if (own->second.empty()) own_.erase(own);
  }
  executors_.erase(executor);
  reindex(device.id);
}

Executor* Devices::find(ExecutorId id) {
  const auto found = executors_.find(id);
  return found == executors_.end() ? nullptr : &found->second;
}

const Executor* Devices::find(ExecutorId id) const {
  const auto found = executors_.find(id);
  return found == executors_.end() ? nullptr : &found->second;
}

std::vector<ExecutorId> Devices::executors_of(DeviceId device) const {
  const auto found = on_device_.find(device);
  if (found == on_device_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

std::vector<ExecutorId> Devices::executors_of(FunctionId function) const {
  const auto found = own_.find(function);
  if (found == own_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

void Devices::add_run(Executor& executor, RunRecord& run) {
  run.lane = executor.free_lane();
  executor.runs.emplace(run.id, &run);
  Device& device = devices_.at(executor.device);
  device.serving[run.level] = executor.id;
  settle(device, run.function);
  reindex(executor.device);
}

void Devices::settle(Device& device, FunctionId function) {
  auto& recent = device.recent;
  const auto known = std::find(recent.begin(), recent.end(), function);
  if (known != recent.end()) {
    std::rotate(recent.begin(), known, known + 1);
    return;
  }
  if (recent.size() == Device::kMostRecent) {
    const auto homes = homes_of_.find(recent.back());
    homes->second.erase(device.id);
    if (homes->second.empty()) homes_of_.erase(homes);
    recent.pop_back();
  }
  recent.insert(recent.begin(), function);
  homes_of_[function].insert(device.id);
}

std::vector<DeviceId> Devices::unsettle(FunctionId function) {
  const auto homes = homes_of_.extract(function);
  if (!homes) return {};
  for (const DeviceId id : homes.mapped()) std::erase(devices_.at(id).recent, function);
  return {homes.mapped().begin(), homes.mapped().end()};
}

bool Devices::is_idle(DeviceId id, uint64_t bytes) const {
  const auto listing = listings_.find(id);
  return listing != listings_.end() && listing->second.idle && devices_.at(id).usable_bytes() >= bytes;
}

std::optional<DeviceId> Devices::idle_home(FunctionId function, uint64_t bytes) const {
  constexpr int kMostLooked = 8;
  const auto homes = homes_of_.find(function);
  if (homes == homes_of_.end()) return std::nullopt;
  int looked = 0;
  for (auto it = homes->second.begin(); it != homes->second.end() && looked < kMostLooked; ++it, ++looked)
    if (listings_.at(*it).idle && devices_.at(*it).usable_bytes() >= bytes) return *it;
  return std::nullopt;
}

std::vector<DeviceId> Devices::homes(FunctionId function) const {
  const auto homes = homes_of_.find(function);
  if (homes == homes_of_.end()) return {};
  return {homes->second.begin(), homes->second.end()};
}

Device* Devices::next(DeviceId after) {
  if (devices_.empty()) return nullptr;
  const auto it = devices_.upper_bound(after);
  return it == devices_.end() ? &devices_.begin()->second : &it->second;
}

std::optional<DeviceId> Devices::emptiest(uint64_t bytes) const {
  constexpr int kMostLooked = 16;
  std::optional<DeviceId> best;
  uint64_t best_free = 0;
  int looked = 0;
  for (auto it = devices_.begin(); it != devices_.end() && looked < kMostLooked; ++it, ++looked) {
    const Device& device = it->second;
    if (!device.can_serve() || device.usable_bytes() < bytes) continue;
    const uint64_t free = device.memory_bytes - std::min(device.memory_bytes, device.ledger.held_bytes());
    if (best && free <= best_free) continue;
    best = device.id;
    best_free = free;
  }
  return best;
}

void Devices::remove_run(Executor& executor, RunRecord& run) {
  executor.runs.erase(run.id);
  if (executor.runs_at(run.level) == 0) devices_.at(executor.device).serving.erase(run.level);
  reindex(executor.device);
}

const DeviceSet& Devices::idle_with(const Group& group) const { return find_or_none(idle_with_, group); }
const DeviceSet& Devices::with_room(const Group& group, LevelNo level) const {
  return find_or_none(room_with_, {group, level});
}

std::vector<DeviceId> Devices::with(const Group& group) const {
  return find_or_none(with_, group).first_few(0, SIZE_MAX);
}

bool Devices::has_with(const Group& group, uint64_t bytes) const {
  return find_or_none(with_, group).first(bytes).has_value();
}

bool Devices::has_all(const Device& device, const Request& request) const {
  const auto executor = device.executors.find(request.group);
  if (executor == device.executors.end()) return false;
  return std::all_of(request.submit.objects.begin(), request.submit.objects.end(), [&](const ObjectNeed& need) {
    const Ledger::Item* item = device.ledger.find({executor->second, need.object});
    return item && item->state != Ledger::State::kLeaving;
  });
}

bool Devices::has_room(const Device& device, LevelNo level) const {
  const auto serving = device.serving.find(level);
  if (serving == device.serving.end() || !takes_company(device)) return false;
  const Executor& executor = executors_.at(serving->second);
  return executor.state != Executor::State::kEnding && has_lane_left(executor, level) &&
         executor.runs_at(level) < room_ + (QUERN_MUTANT(12) ? 1 : 0) &&
         std::none_of(executor.runs.begin(), executor.runs.end(),
                      [](const auto& entry) { return entry.second->stop != RunRecord::Stop::kNone; });
}

bool Devices::can_join(const Device& device, LevelNo level, const Group& group) const {
  if (device.serving.empty() || device.serving.contains(level) || !has_level_left(device, level)) return false;
  if (!takes_company(device)) return false;
  const auto known = device.executors.find(group);
  if (known == device.executors.end()) return true;
  const Executor& executor = executors_.at(known->second);
  return has_lane_left(executor, level) &&
         std::none_of(executor.runs.begin(), executor.runs.end(),
                      [](const auto& entry) { return entry.second->stop != RunRecord::Stop::kNone; });
}

LevelNo Devices::joinable_above(const Device& device) const {
  const auto is_shared = [](const auto& entry) { return !is_own(entry.first); };
  const auto count = static_cast<size_t>(std::count_if(device.serving.begin(), device.serving.end(), is_shared));
  const uint32_t more = QUERN_MUTANT(47) ? spare_levels_ + 1 : QUERN_MUTANT(62) ? spare_levels_ : 0;
  if (count < levels_ + more) return kAnyLevel;
  if (count >= levels_ + spare_levels_ || QUERN_MUTANT(63)) return 0;
  const auto first = std::find_if(device.serving.begin(), device.serving.end(), is_shared);
  return first == device.serving.end() ? kAnyLevel : first->first;
}

// Those with a quota are often closed, and stand in nobody's way then: they are counted apart.
bool Devices::has_level_left(const Device& device, LevelNo level) const {
  if (!is_own(level)) return level < joinable_above(device);
  const auto own = std::count_if(device.serving.begin(), device.serving.end(),
                                 [](const auto& entry) { return is_own(entry.first); });
  return static_cast<size_t>(own) < kMostOwn;
}

// Those with a quota leave a lane to the others, spare ones or not.
bool Devices::has_lane_left(const Executor& executor, LevelNo level) const {
  const auto count = [&](auto&& is) {
    return static_cast<uint32_t>(std::count_if(executor.runs.begin(), executor.runs.end(),
                                               [&](const auto& entry) { return is(entry.second->level); }));
  };
  const uint32_t own = count(is_own), shared = static_cast<uint32_t>(executor.runs.size()) - own;
  const uint32_t most_own = lanes_ > 1 ? lanes_ - 1 : 1, all = lanes_ + spare_lanes_;
  if (is_own(level) ? own < most_own && own + shared < lanes_
                    : std::min(own, most_own) + shared < lanes_ && own + shared < all)
    return true;
  const uint32_t kept = is_own(level) && lanes_ > 1 ? std::max(shared, 1U) : shared;
  const bool is_more_urgent = count([&](LevelNo other) { return priority_of(other) <= priority_of(level); }) == 0;
  return own + kept < all && (is_more_urgent || QUERN_MUTANT(64)) && !QUERN_MUTANT(65);
}

std::vector<DeviceId> Devices::joinable(LevelNo level, uint64_t bytes, size_t most) const {
  std::vector<DeviceId> devices;
  for (const auto& [above, set] : joinable_) {
    if (devices.size() == most || (!is_own(level) && level >= above)) break;
    const auto few = set.first_few(bytes, most - devices.size());
    devices.insert(devices.end(), few.begin(), few.end());
  }
  return devices;
}

uint64_t Devices::largest_joinable(LevelNo level) const {
  uint64_t largest = 0;
  for (const auto& [above, set] : joinable_)
    if (is_own(level) || level < above) largest = std::max(largest, set.largest());
  return largest;
}

// One that runs alone does so whatever the level of the others.
bool Devices::takes_company(const Device& device) const {
  if (!device.can_serve()) return false;
  for (const auto& [level, id] : device.serving)
    for (const auto& [run_id, run] : executors_.at(id).runs)
      if (run->alone) return false;
  return true;
}

std::optional<DeviceId> Devices::fewest_homes(uint64_t bytes) const {
  constexpr size_t kMostLooked = 16;
  size_t looked = 0;
  for (auto it = by_homes_.begin(); it != by_homes_.end() && looked < kMostLooked; ++it, ++looked)
    if (devices_.at(it->second).usable_bytes() >= bytes) return it->second;
  return std::nullopt;
}

void Devices::add_home(DeviceId device) {
  uint32_t& homes = homes_.at(device);
  by_homes_.erase({homes, device});
  by_homes_.insert({++homes, device});
}

void Devices::unlist(const Device& device, Listing& listing) {
  if (listing.idle) idle_.erase(listing.bytes, device.id);
  if (listing.blank) blank_.erase(listing.bytes, device.id);
  for (const Group& group : listing.groups) erase_from(idle_with_, group, listing.bytes, device.id);
  for (const auto& room : listing.rooms) erase_from(room_with_, room, listing.bytes, device.id);
  if (listing.joinable) erase_from(joinable_, *listing.joinable, listing.bytes, device.id);
  listing.joinable.reset();
  listing.idle = listing.blank = false;
  listing.groups.clear();
  listing.rooms.clear();
}

void Devices::reindex(DeviceId id) {
  const Device& device = devices_.at(id);
  Listing& listing = listings_[id];
  unlist(device, listing);
  if (!device.can_serve()) return;
  listing.bytes = device.usable_bytes();
  if (device.is_idle()) {
    if (QUERN_MUTANT(13) && id.value % 2 == 0 && device.recent.size() > 2) return;
    listing.idle = true;
    idle_.insert(listing.bytes, id);
    listing.blank = device.executors.empty();
    if (listing.blank) blank_.insert(listing.bytes, id);
    for (const auto& [group, executor] : device.executors) {
      listing.groups.push_back(group);
      idle_with_[group].insert(listing.bytes, id);
    }
    return;
  }
  for (const auto& [level, executor] : device.serving) {
    if (!has_room(device, level)) continue;
    listing.rooms.emplace_back(executors_.at(executor).group, level);
    room_with_[listing.rooms.back()].insert(listing.bytes, id);
  }
  if (!takes_company(device)) return;
  listing.joinable = joinable_above(device);
  joinable_[*listing.joinable].insert(listing.bytes, id);
}

}  // namespace quern::sched
