// SPDX-License-Identifier: Apache-2.0
//
// What the runs of a lane compute in: scratch, and tensors where the device has memory of its own. One memory serves
// all plans of the lane in turn, so that the daemon's ledger can say what a lane holds without knowing its plans. It is
// allocated for the first run that needs it, again when a run needs more, and freed by a trim.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "executor/lane.h"

namespace quern::executor {

Status Lane::take_memory(Ready& ready, uint64_t lane_bytes) {
  const auto& arenas = ready.prepared->binding.placement.arenas;
  if (!has_room_for(arenas)) {
    // First what is there: nobody promised room for both.
    release_memory();
    Status made = allocate(arenas, lane_bytes);
    if (made.ok()) made = scrub();
    if (!made.ok()) {
      (void)drain();
      release_memory();
      return made;
    }
  }
  return ready.own.empty() ? place(ready) : Status();
}

bool Lane::has_room_for(const std::vector<uint64_t>& arenas) const {
  return arenas.size() <= arenas_.size() &&
         std::equal(arenas.begin(), arenas.end(), arenas_.begin(),
                    [](uint64_t bytes, const auto& arena) { return bytes <= arena->size_bytes(); });
}

// A plan with one arena gets all that the lane may have, so that larger ones find their place in it too. One with
// several, because a device allocates only so much at a time, gets just those.
Status Lane::allocate(const std::vector<uint64_t>& arenas, uint64_t lane_bytes) {
  hal::Device& device = holdings_.device();
  std::vector<uint64_t> sizes = arenas;
  if (sizes.size() == 1)
    sizes[0] = std::max(sizes[0], std::min<uint64_t>(lane_bytes, device.caps().max_allocation_bytes));
  for (const uint64_t bytes : sizes) {
    auto arena = device.allocate(bytes);
    if (!arena.ok())
      return Error{arena.error().code,
                   fmt::format("device {}: has no room for {} bytes that a run computes in; {}", device.caps().name,
                               std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}), arena.error().text)};
    arenas_.push_back(*std::move(arena));
  }
  return {};
}

// What a driver hands out may have been another domain's. What comes later is this executor's own: it belongs to one
// domain for life.
Status Lane::scrub() {
  if (holdings_.device().caps().fresh_memory_is_zero) return {};
  static constexpr std::array<std::byte, 16> kZeros{};
  for (const auto& arena : arenas_) {
    const uint64_t bytes = arena->size_bytes();
    QUERN_TRY(const uint64_t point,
              queue_->fill(*arena, 0, bytes, std::span(kZeros).first(bytes % kZeros.size() == 0 ? kZeros.size() : 1)));
    in_flight_.push_back({.point = point, .launch = ipc::kNoLaunch});
  }
  return {};
}

Status Lane::place(Ready& ready) {
  std::vector<std::shared_ptr<hal::Buffer>> own;
  const auto& buffers = ready.plan().buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Placement::Place& at = ready.prepared->binding.placement.places[i];
    own.emplace_back();
    if (at.arena == Placement::kElsewhere) continue;
    QUERN_TRY(own.back(), holdings_.device().view(arenas_[at.arena], at.offset, buffers[i].size_bytes));
  }
  ready.own = std::move(own);
  return {};
}

// Its bytes are no concern of a kernel that keeps to its elements; of one that does not, they are this domain's.
Result<hal::Buffer*> Lane::nothing() {
  constexpr uint64_t kBytes = 256;
  if (!nothing_) {
    QUERN_TRY(auto made, holdings_.device().allocate(kBytes));
    const std::array<std::byte, 16> zeros{};
    QUERN_TRY(const uint64_t point, queue_->fill(*made, 0, kBytes, zeros));
    in_flight_.push_back({.point = point, .launch = ipc::kNoLaunch});
    nothing_ = std::move(made);
  }
  return nothing_.get();
}

// Views keep what they are views of.
void Lane::release_memory() {
  for (auto& [plan, ready] : ready_) {
    ready.own.clear();
    ready.own_views.clear();
  }
  arenas_.clear();
}

}  // namespace quern::executor
