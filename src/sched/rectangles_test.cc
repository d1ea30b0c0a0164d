// SPDX-License-Identifier: Apache-2.0
#include "sched/rectangles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/prng.h"

namespace quern::sched {
namespace {

constexpr uint32_t kStep = 100, kCells = Rectangles::kWhole / kStep;
/// The same by brute force: which tenths by tenths are taken.
using Grid = std::array<std::array<bool, kCells>, kCells>;

Grid grid_of(const std::vector<Rectangle>& taken) {
  Grid grid{};
  for (const Rectangle& one : taken)
    for (uint32_t x = one.x / kStep; x < (one.x + one.width) / kStep; ++x)
      for (uint32_t y = one.y / kStep; y < (one.y + one.height) / kStep; ++y) {
        EXPECT_FALSE(grid[x][y]) << "two share " << x << "," << y;
        grid[x][y] = true;
      }
  return grid;
}

bool is_free(const Grid& grid, const Rectangle& one) {
  if (one.x + one.width > Rectangles::kWhole || one.y + one.height > Rectangles::kWhole) return false;
  for (uint32_t x = one.x / kStep; x < (one.x + one.width) / kStep; ++x)
    for (uint32_t y = one.y / kStep; y < (one.y + one.height) / kStep; ++y)
      if (grid[x][y]) return false;
  return true;
}

bool is_maximal(const Grid& grid, const Rectangle& one) {
  const bool left = one.x > 0 && is_free(grid, {one.x - kStep, one.y, one.width + kStep, one.height});
  const bool right = is_free(grid, {one.x, one.y, one.width + kStep, one.height});
  const bool down = one.y > 0 && is_free(grid, {one.x, one.y - kStep, one.width, one.height + kStep});
  const bool up = is_free(grid, {one.x, one.y, one.width, one.height + kStep});
  return !left && !right && !down && !up;
}

std::vector<Rectangle> all_maximal(const Grid& grid) {
  std::vector<Rectangle> all;
  for (uint32_t x = 0; x < kCells; ++x)
    for (uint32_t y = 0; y < kCells; ++y)
      for (uint32_t width = 1; x + width <= kCells; ++width)
        for (uint32_t height = 1; y + height <= kCells; ++height) {
          const Rectangle one{x * kStep, y * kStep, width * kStep, height * kStep};
          if (is_free(grid, one) && is_maximal(grid, one)) all.push_back(one);
        }
  return all;
}

void expect_true(const Rectangles& shares) {
  const Grid grid = grid_of(shares.taken());
  std::vector<Rectangle> free = shares.free(), expected = all_maximal(grid);
  const auto before = [](const Rectangle& a, const Rectangle& b) {
    return std::tie(a.x, a.y, a.width, a.height) < std::tie(b.x, b.y, b.width, b.height);
  };
  std::sort(free.begin(), free.end(), before);
  std::sort(expected.begin(), expected.end(), before);
  EXPECT_TRUE(free == expected) << free.size() << " are free, and " << expected.size() << " are maximal";
}

TEST(Rectangles, AWholeDeviceIsTakenOnce) {
  Rectangles shares(Rectangles::kWhole);
  EXPECT_TRUE(shares.empty());
  const auto fit = shares.fit(1000, 1000);
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->left_area, 0U);
  shares.take(fit->at);
  EXPECT_FALSE(shares.fit(1, 1));
  shares.release(fit->at);
  EXPECT_TRUE(shares.empty());
  EXPECT_TRUE(shares.fit(1000, 1000));
}

TEST(Rectangles, WhatIsLeftOverDecides) {
  Rectangles shares(Rectangles::kWhole);
  shares.take({0, 0, 600, 500});
  // Right of it 400 by 1000, above it 1000 by 500: the second wastes less of what is as wide as the device.
  const auto wide = shares.fit(900, 500);
  ASSERT_TRUE(wide);
  EXPECT_EQ(wide->at, (Rectangle{0, 500, 900, 500}));
  const auto high = shares.fit(400, 900);
  ASSERT_TRUE(high);
  EXPECT_EQ(high->at, (Rectangle{600, 0, 400, 900}));
  EXPECT_FALSE(shares.fit(900, 900));
  shares.release({7, 7, 7, 7});  // nobody's
  EXPECT_FALSE(shares.fit(900, 900));
}

TEST(Rectangles, WhatIsFreeIsAllThatIsFree) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Prng prng(seed);
    Rectangles shares(Rectangles::kWhole);
    uint64_t area = 0;
    for (int i = 0; i < 60; ++i) {
      if (!shares.empty() && prng.below(3) == 0) {
        const Rectangle one = shares.taken()[prng.below(shares.taken().size())];
        shares.release(one);
        area -= uint64_t{one.width} * one.height;
      } else {
        const auto width = static_cast<uint32_t>(1 + prng.below(7)) * kStep;
        const auto height = static_cast<uint32_t>(1 + prng.below(7)) * kStep;
        const auto fit = shares.fit(width, height);
        const auto free = all_maximal(grid_of(shares.taken()));
        EXPECT_EQ(fit.has_value(), std::any_of(free.begin(), free.end(), [&](const Rectangle& room) {
                    return width <= room.width && height <= room.height;
                  }));
        if (!fit) continue;
        shares.take(fit->at);
        area += uint64_t{width} * height;
      }
      expect_true(shares);
      uint64_t taken = 0;
      for (const Rectangle& one : shares.taken()) taken += uint64_t{one.width} * one.height;
      EXPECT_EQ(taken, area);
      EXPECT_LE(area, uint64_t{1000} * 1000);
      if (HasFailure()) FAIL() << "seed " << seed << ", step " << i;
    }
  }
}

}  // namespace
}  // namespace quern::sched
