// SPDX-License-Identifier: Apache-2.0
#include "ipc/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "base/units.h"

namespace quern::ipc {
namespace {
// Unique in the process: executors know segments by it, whatever arena they belong to.
std::atomic<uint32_t> next_segment{1};
}  // namespace

Result<std::shared_ptr<Segment>> adopt_segment(os::Fd fd, uint64_t size_bytes) {
  auto segment = std::make_shared<Segment>();
  segment->id = next_segment.fetch_add(1);
  segment->direction = Direction::kInput;
  segment->size_bytes = size_bytes;
  QUERN_TRY(segment->mapping, os::map(fd, size_bytes, false));
  segment->fd = std::move(fd);
  return segment;
}

Block Block::borrow(std::shared_ptr<Segment> segment, uint64_t offset, uint64_t size,
                    std::shared_ptr<const void> owner) {
  Block block;
  block.segment_ = std::move(segment);
  block.owner_ = std::move(owner);
  block.offset_ = offset;
  block.size_ = size;
  return block;
}

Result<std::shared_ptr<Segment>> Block::reader() const {
  if (segment_->direction == Direction::kInput) return segment_;
  QUERN_CHECK(arena_ != nullptr, "only a block of an arena has a reader");
  return arena_->reader_of(*segment_);
}

Block::Block(Block&& other) noexcept { *this = std::move(other); }

Block& Block::operator=(Block&& other) noexcept {
  std::swap(arena_, other.arena_);
  std::swap(owner_, other.owner_);
  std::swap(segment_, other.segment_);
  std::swap(offset_, other.offset_);
  std::swap(size_, other.size_);
  return *this;
}

Block::~Block() {
  if (arena_) arena_->give_back(*segment_, offset_, size_);
}

Arena::Arena(std::string name, Direction direction, uint64_t most_bytes)
    : name_(std::move(name)), direction_(direction), most_bytes_(most_bytes) {}

std::shared_ptr<Arena> Arena::create(std::string name, Direction direction, uint64_t most_bytes) {
  return std::shared_ptr<Arena>(new Arena(std::move(name), direction, most_bytes));
}

Result<Block> Arena::take(uint64_t size_bytes) {
  Block block;
  const uint64_t need = round_up(std::max<uint64_t>(size_bytes, 1), kBlockAlignment);
  const auto place = [&](Room& room) {
    for (auto it = room.free.begin(); it != room.free.end(); ++it) {
      if (it->second < need) continue;
      const uint64_t offset = it->first, left = it->second - need;
      room.free.erase(it);
      if (left) room.free.emplace(offset + need, left);
      room.used_bytes += need;
      block.segment_ = room.segment;
      block.offset_ = offset;
      block.size_ = size_bytes;
      return true;
    }
    return false;
  };
  QUERN_TRY(rooms_.with([&](Rooms& rooms) -> Status {
    for (Room& room : rooms.list)
      if (place(room)) return {};
    const uint64_t size = std::max(kSegmentBytes, round_up(need, 2 * kMiB));
    if (rooms.total_bytes + size > most_bytes_)
      return exhausted(
          fmt::format("{}: {} more would pass the limit of {} for tensors in flight; retry when others ended", name_,
                      show_bytes(size_bytes), show_bytes(most_bytes_)));
    auto segment = std::make_shared<Segment>();
    segment->id = next_segment.fetch_add(1);
    segment->direction = direction_;
    segment->size_bytes = size;
    QUERN_TRY(segment->fd, os::create_shared_memory("quern-" + name_, size));
    QUERN_TRY(segment->mapping, os::map(segment->fd, size, true));
    QUERN_TRY(
        os::seal(segment->fd, direction_ == Direction::kInput ? os::Sealed::kOwnerWrites : os::Sealed::kSizeOnly));
    rooms.total_bytes += size;
    rooms.list.push_back({std::move(segment), {{0, size}}, 0});
    place(rooms.list.back());
    return {};
  }));
  block.arena_ = shared_from_this();
  return block;
}

void Arena::give_back(const Segment& segment, uint64_t offset, uint64_t size) {
  const uint64_t had = round_up(std::max<uint64_t>(size, 1), kBlockAlignment);
  std::shared_ptr<Segment> dropped;  // unmapped outside the lock
  rooms_.with([&](Rooms& rooms) {
    auto room =
        std::find_if(rooms.list.begin(), rooms.list.end(), [&](auto& r) { return r.segment.get() == &segment; });
    QUERN_CHECK(room != rooms.list.end(), "a block came back to an arena that has no such segment");
    room->used_bytes -= had;
    auto [it, fresh] = room->free.emplace(offset, had);
    QUERN_CHECK(fresh, "a block came back twice");
    if (auto next = std::next(it); next != room->free.end() && it->first + it->second == next->first) {
      it->second += next->second;
      room->free.erase(next);
    }
    if (it != room->free.begin()) {
      auto before = std::prev(it);
      if (before->first + before->second == it->first) {
        before->second += it->second;
        room->free.erase(it);
      }
    }
    if (room->used_bytes == 0 && rooms.list.size() > 1) {
      rooms.total_bytes -= room->segment->size_bytes;
      dropped = std::move(room->segment);
      rooms.list.erase(room);
    }
  });
}

Result<std::shared_ptr<Segment>> Arena::reader_of(Segment& segment) {
  return rooms_.with([&](Rooms&) -> Result<std::shared_ptr<Segment>> {
    if (!segment.reader) {
      QUERN_TRY(os::Fd fd, os::duplicate(segment.fd));
      QUERN_TRY(segment.reader, adopt_segment(std::move(fd), segment.size_bytes));
    }
    return segment.reader;
  });
}

uint64_t Arena::bytes_in_use() const {
  return rooms_.with([](const Rooms& rooms) {
    uint64_t sum = 0;
    for (const Room& room : rooms.list) sum += room.used_bytes;
    return sum;
  });
}

}  // namespace quern::ipc
