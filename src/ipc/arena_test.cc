// SPDX-License-Identifier: Apache-2.0
#include "ipc/arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "base/prng.h"
#include "base/units.h"

namespace quern::ipc {
namespace {

TEST(Arena, BlocksAreAlignedApartAndUsable) {
  auto arena = Arena::create("test", Direction::kInput, 1 * kGiB);
  Prng prng(2);
  std::vector<std::pair<Block, std::byte>> held;
  for (int i = 0; i < 3000; ++i) {
    if (!held.empty() && prng.below(2)) {
      const size_t at = prng.below(held.size());
      for (std::byte byte : held[at].first.bytes()) ASSERT_EQ(byte, held[at].second);
      std::swap(held[at], held.back());
      held.pop_back();
      continue;
    }
    auto block = arena->take(1 + prng.below(100'000));
    ASSERT_TRUE(block.ok());
    EXPECT_EQ(block->offset() % kBlockAlignment, 0U);
    const auto mark = static_cast<std::byte>(i);
    std::memset(block->bytes().data(), static_cast<int>(mark), block->bytes().size());
    held.emplace_back(std::move(*block), mark);
  }
  held.clear();
  EXPECT_EQ(arena->bytes_in_use(), 0U);
}

TEST(Arena, FreedNeighboursMergeSoThatTheWholeSegmentCanBeHadAgain) {
  auto arena = Arena::create("test", Direction::kOutput, Arena::kSegmentBytes);
  std::vector<Block> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back(*arena->take(Arena::kSegmentBytes / 64));
  EXPECT_FALSE(arena->take(1).ok());
  for (int i = 0; i < 64; i += 2) blocks[static_cast<size_t>(i)] = Block();
  for (int i = 1; i < 64; i += 2) blocks[static_cast<size_t>(i)] = Block();
  EXPECT_TRUE(arena->take(Arena::kSegmentBytes).ok());
}

TEST(Arena, PastItsLimitIsExhaustedAndSaysTheNumbers) {
  auto arena = Arena::create("test", Direction::kInput, Arena::kSegmentBytes);
  const auto block = arena->take(2 * Arena::kSegmentBytes);
  ASSERT_FALSE(block.ok());
  EXPECT_EQ(block.error().code, ErrorCode::kExhausted);
  EXPECT_NE(block.error().text.find("128MiB"), std::string::npos) << block.error().text;
}

TEST(Arena, AnEmptySegmentIsLetGo) {
  auto arena = Arena::create("test", Direction::kInput, 1 * kGiB);
  auto first = arena->take(Arena::kSegmentBytes);
  auto second = arena->take(Arena::kSegmentBytes);
  std::weak_ptr<Segment> gone = second->segment();
  *second = Block();
  EXPECT_TRUE(gone.expired());
}

TEST(Arena, AnInputSegmentCannotBeMappedWritableByWhoGetsIt) {
  auto arena = Arena::create("test", Direction::kInput, 1 * kGiB);
  auto block = arena->take(100);
  const Segment& segment = *block->segment();
  EXPECT_TRUE(os::check_sealed(segment.fd, segment.size_bytes).ok());
  EXPECT_TRUE(os::map(segment.fd, segment.size_bytes, false).ok());
  EXPECT_FALSE(os::map(segment.fd, segment.size_bytes, true).ok());
  auto out = Arena::create("test", Direction::kOutput, 1 * kGiB)->take(100);
  EXPECT_TRUE(os::map(out->segment()->fd, out->segment()->size_bytes, true).ok());
}

TEST(Arena, ABorrowedBlockKeepsItsOwnerAndGivesNothingBack) {
  auto arena = Arena::create("test", Direction::kOutput, 1 * kGiB);
  auto lent = std::make_shared<const Block>(*arena->take(1000));
  const uint64_t used = arena->bytes_in_use();
  Block second = Block::borrow(lent->segment(), lent->offset(), lent->size(), lent);
  EXPECT_EQ(second.bytes().data(), lent->bytes().data());
  EXPECT_EQ(second.size(), 1000U);
  lent.reset();
  EXPECT_EQ(arena->bytes_in_use(), used);
  Block moved = std::move(second);
  second = Block();
  EXPECT_EQ(arena->bytes_in_use(), used);
  moved = Block();
  EXPECT_EQ(arena->bytes_in_use(), 0U);
}

TEST(Arena, AnOutputIsReadThroughASecondSegmentOfTheSameMemory) {
  auto arena = Arena::create("test", Direction::kOutput, 1 * kGiB);
  auto one = arena->take(100), two = arena->take(100);
  const auto reader = two->reader();
  ASSERT_TRUE(reader.ok()) << reader.error().text;
  EXPECT_EQ((*reader)->direction, Direction::kInput);
  EXPECT_NE((*reader)->id, two->segment()->id);
  EXPECT_EQ(*one->reader(), *reader);
  std::memset(two->bytes().data(), 7, 100);
  const Block read = Block::borrow(*reader, two->offset(), two->size(), nullptr);
  EXPECT_NE(read.bytes().data(), two->bytes().data());
  EXPECT_EQ(std::memcmp(read.bytes().data(), two->bytes().data(), 100), 0);
  // An input is read where it is.
  auto input = Arena::create("test", Direction::kInput, 1 * kGiB)->take(100);
  EXPECT_EQ(*input->reader(), input->segment());
}

TEST(Arena, TheReaderGoesWithItsSegment) {
  auto arena = Arena::create("test", Direction::kOutput, 1 * kGiB);
  auto first = arena->take(Arena::kSegmentBytes);
  auto second = arena->take(Arena::kSegmentBytes);
  std::weak_ptr<Segment> reader = *second->reader();
  EXPECT_FALSE(reader.expired());
  *second = Block();
  EXPECT_TRUE(reader.expired());
}

TEST(Arena, AnAdoptedSegmentIsReadOnlyAndHasAnIdOfItsOwn) {
  const Bytes bytes(5000, std::byte{3});
  auto one = adopt_segment(*os::immutable_copy("test", bytes), bytes.size());
  auto two = adopt_segment(*os::immutable_copy("test", bytes), bytes.size());
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_NE((*one)->id, (*two)->id);
  EXPECT_TRUE(os::check_sealed((*one)->fd, bytes.size()).ok());
  EXPECT_FALSE(os::map((*one)->fd, bytes.size(), true).ok());
  EXPECT_EQ((*one)->mapping.bytes()[4999], std::byte{3});
}

}  // namespace
}  // namespace quern::ipc
