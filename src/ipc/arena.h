// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/fd.h"
#include "os/guarded.h"
#include "os/shared_memory.h"

namespace quern::ipc {

/// Which way the tensors of an arena go: decides who may write.
enum class Direction : uint8_t {
  kInput,   ///< the daemon writes, executors map read-only
  kOutput,  ///< executors write, the daemon sends from it
};

/// One memfd of an arena, or of an object. Executors map it whole, once.
struct Segment {
  uint32_t id = 0;
  Direction direction = Direction::kInput;
  uint64_t size_bytes = 0;
  os::Fd fd;
  os::Mapping mapping;
  /// Of an output segment, once somebody asked (Block::reader). Guarded by its arena.
  std::shared_ptr<Segment> reader;
};

/// A segment that is no arena's, over an immutable memfd of at least `size_bytes`, which are not 0. Read-only, for
/// executors and for us.
Result<std::shared_ptr<Segment>> adopt_segment(os::Fd fd, uint64_t size_bytes);

class Arena;

/// A piece of a segment, given back with its owner. Starts at a multiple of kBlockAlignment.
class Block {
 public:
  /// A piece of memory that `owner` keeps: nothing is given back but the hold on `owner`.
  static Block borrow(std::shared_ptr<Segment> segment, uint64_t offset, uint64_t size,
                      std::shared_ptr<const void> owner);

  Block() = default;
  Block(Block&& other) noexcept;
  Block& operator=(Block&& other) noexcept;
  ~Block();

  std::span<std::byte> bytes() const { return segment_->mapping.bytes().subspan(offset_, size_); }
  const std::shared_ptr<Segment>& segment() const { return segment_; }
  uint64_t offset() const { return offset_; }
  uint64_t size() const { return size_; }

  /// The same memory, at the same offsets, as executors may only read it, so that what was an output can be an input:
  /// this segment, or a second one over the same memfd, made for the first who asks and kept as long as this one. Of a
  /// block that an arena gave.
  Result<std::shared_ptr<Segment>> reader() const;

 private:
  friend class Arena;
  std::shared_ptr<Arena> arena_;       ///< null: it is borrowed
  std::shared_ptr<const void> owner_;  ///< of a borrowed one
  std::shared_ptr<Segment> segment_;
  uint64_t offset_ = 0, size_ = 0;
};

constexpr uint64_t kBlockAlignment = 256;

/// The tensors of one domain in one direction: blocks inside memfd segments. Any thread. Memory never passes to
/// another domain, so nothing has to be zeroed; a segment that falls empty is let go unless it is the last.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  static constexpr uint64_t kSegmentBytes = uint64_t{64} << 20;

  /// `most_bytes`: of all segments together.
  static std::shared_ptr<Arena> create(std::string name, Direction direction, uint64_t most_bytes);

  /// First fit. kExhausted past `most_bytes`; a size of 0 is given one byte.
  Result<Block> take(uint64_t size_bytes);
  uint64_t bytes_in_use() const;

 private:
  friend class Block;
  struct Room {
    std::shared_ptr<Segment> segment;
    std::map<uint64_t, uint64_t> free;  ///< offset to size; neighbours are merged
    uint64_t used_bytes = 0;
  };
  struct Rooms {
    std::vector<Room> list;
    uint64_t total_bytes = 0;
  };
  Arena(std::string name, Direction direction, uint64_t most_bytes);
  void give_back(const Segment& segment, uint64_t offset, uint64_t size);
  Result<std::shared_ptr<Segment>> reader_of(Segment& segment);

  // Constant after construction.
  std::string name_;
  Direction direction_;
  uint64_t most_bytes_;
  os::Guarded<Rooms> rooms_;
};

}  // namespace quern::ipc
