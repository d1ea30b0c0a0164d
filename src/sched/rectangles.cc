// SPDX-License-Identifier: Apache-2.0
#include "sched/rectangles.h"

#include <algorithm>
#include <tuple>

namespace quern::sched {
namespace {

bool overlap(const Rectangle& a, const Rectangle& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

bool contains(const Rectangle& a, const Rectangle& b) {
  return a.x <= b.x && a.y <= b.y && b.x + b.width <= a.x + a.width && b.y + b.height <= a.y + a.height;
}

}  // namespace

std::optional<Rectangles::Fit> Rectangles::fit(uint32_t width, uint32_t height) const {
  std::optional<Fit> best;
  for (const Rectangle& room : free_) {
    if (width > room.width || height > room.height) continue;
    Fit fit;
    fit.at = {room.x, room.y, width, height};
    fit.left_area = uint64_t{room.width} * room.height - uint64_t{width} * height;
    fit.left_side = std::min(uint64_t{room.width - width} * units_, uint64_t{room.height - height} * kWhole);
    const auto key = [](const Fit& one) { return std::tuple(one.left_area, one.left_side, one.at.x, one.at.y); };
    if (!best || key(fit) < key(*best)) best = fit;
  }
  return best;
}

void Rectangles::take(const Rectangle& rectangle) {
  taken_.push_back(rectangle);
  cut(rectangle);
}

// Every free one that it overlaps leaves up to four, each as large as can be; those inside another are not maximal.
void Rectangles::cut(const Rectangle& by) {
  std::vector<Rectangle> pieces;
  for (const Rectangle& room : free_) {
    if (!overlap(room, by)) {
      pieces.push_back(room);
      continue;
    }
    const uint32_t right = room.x + room.width, top = room.y + room.height;
    if (by.x > room.x) pieces.push_back({room.x, room.y, by.x - room.x, room.height});
    if (by.x + by.width < right) pieces.push_back({by.x + by.width, room.y, right - by.x - by.width, room.height});
    if (by.y > room.y) pieces.push_back({room.x, room.y, room.width, by.y - room.y});
    if (by.y + by.height < top) pieces.push_back({room.x, by.y + by.height, room.width, top - by.y - by.height});
  }
  free_.clear();
  for (size_t i = 0; i < pieces.size(); ++i) {
    bool is_inside = false;
    for (size_t j = 0; j < pieces.size() && !is_inside; ++j)
      is_inside = i != j && contains(pieces[j], pieces[i]) && (pieces[i] != pieces[j] || j < i);
    if (!is_inside) free_.push_back(pieces[i]);
  }
}

// There are few: what is free is worked out anew.
void Rectangles::release(const Rectangle& rectangle) {
  const auto it = std::find(taken_.begin(), taken_.end(), rectangle);
  if (it == taken_.end()) return;
  taken_.erase(it);
  free_ = {{0, 0, kWhole, units_}};
  for (const Rectangle& one : taken_) cut(one);
}

}  // namespace quern::sched
