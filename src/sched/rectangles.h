// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace quern::sched {

/// A share of a device: some of its time (x, in thousandths) by some of its units (y).
struct Rectangle {
  uint32_t x = 0, y = 0, width = 0, height = 0;
  bool operator==(const Rectangle&) const = default;
};

/// The shares of one device that are taken, as rectangles that do not overlap, and what is free: all maximal free
/// rectangles, which may overlap each other.
class Rectangles {
 public:
  explicit Rectangles(uint32_t units) : units_(units), free_{{0, 0, kWhole, units}} {}

  /// How well a share would fit: what is left over of the free rectangle it would go to, then its shorter side, as
  /// parts of the device. The smaller the better.
  struct Fit {
    Rectangle at;
    uint64_t left_area = 0;
    uint64_t left_side = 0;
  };
  /// Nothing: there is no room for it.
  std::optional<Fit> fit(uint32_t width, uint32_t height) const;
  void take(const Rectangle& rectangle);
  void release(const Rectangle& rectangle);

  bool empty() const { return taken_.empty(); }
  const std::vector<Rectangle>& taken() const { return taken_; }
  const std::vector<Rectangle>& free() const { return free_; }

  static constexpr uint32_t kWhole = 1000;

 private:
  void cut(const Rectangle& rectangle);

  uint32_t units_;
  std::vector<Rectangle> taken_;
  std::vector<Rectangle> free_;
};

}  // namespace quern::sched
