// SPDX-License-Identifier: Apache-2.0
#include "os/file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "os/thread.h"

namespace quern::os {
namespace {

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "quern_file_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { remove_tree(folder_); }
  std::string folder_;
};

// Whoever removes the file holds its lock. One that opened it before must not take the lock of a file without a name
// for that of the file of today.
TEST_F(FileTest, ALockIsOfTheFileThatHasTheName) {
  const std::string path = folder_ + "/lock";
  std::atomic<bool> is_over{false};
  std::atomic<int> held{0};
  const auto lock_and_remove = [&](bool checks) {
    for (int i = 0; checks ? i < 3000 : !is_over.load(); ++i) {
      const auto lock = lock_file(path);
      if (!lock.ok()) {
        ASSERT_EQ(lock.error().code, ErrorCode::kConflict) << lock.error().text;
        continue;
      }
      ASSERT_EQ(held.fetch_add(1), 0) << "two have the lock";
      struct stat mine {
      }, named{};
      ASSERT_EQ(fstat(lock->get(), &mine), 0);
      ASSERT_EQ(stat(path.c_str(), &named), 0);
      ASSERT_EQ(mine.st_ino, named.st_ino);
      held.fetch_sub(1);
      remove_file(path);
    }
  };
  Thread other("other", [&] { lock_and_remove(false); });
  lock_and_remove(true);
  is_over = true;
}

TEST_F(FileTest, ACopyHasAllBytesAndAListOfAFolderSaysWhyThereIsNone) {
  Bytes bytes((3 << 20) + 5);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  ASSERT_TRUE(write_file(folder_ + "/a", bytes).ok());
  ASSERT_TRUE(copy_file(folder_ + "/a", folder_ + "/b").ok());
  EXPECT_EQ(*read_file(folder_ + "/b"), bytes);
  EXPECT_EQ(copy_file(folder_ + "/none", folder_ + "/c").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(*read_folder(folder_), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(read_folder(folder_ + "/none").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(read_folder(folder_ + "/a").ok());
  EXPECT_EQ(size_of_tree(folder_).files, 2u);
  EXPECT_EQ(size_of_tree(folder_).bytes, 2 * bytes.size());
}

TEST_F(FileTest, BytesArePutInPlaceOfTheFirst) {
  const std::string path = folder_ + "/count";
  const auto file = open_to_change(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(status_of(path)->mode & 077, 0u);
  ASSERT_TRUE(overwrite(*file, path, as_bytes_of("1234\n")).ok());
  ASSERT_TRUE(overwrite(*file, path, as_bytes_of("56")).ok());
  EXPECT_EQ(as_text(*read_file(path)), "5634\n");
}

TEST_F(FileTest, LinksAreResolved) {
  ASSERT_TRUE(write_file(folder_ + "/a", {}).ok());
  ASSERT_EQ(symlink((folder_ + "/a").c_str(), (folder_ + "/link").c_str()), 0);
  ASSERT_EQ(symlink((folder_ + "/none").c_str(), (folder_ + "/broken").c_str()), 0);
  EXPECT_EQ(resolved(folder_ + "/link"), resolved(folder_ + "/a"));
  EXPECT_EQ(resolved(folder_ + "/broken"), folder_ + "/broken");
  EXPECT_TRUE(is_own_folder(folder_));
  EXPECT_FALSE(is_own_folder(folder_ + "/link"));
}

// Reads `size` bytes that come through a pipe.
Result<Bytes> read_from_pipe(size_t size, uint64_t most) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::pipe(ends), 0);
  Fd out(ends[0]), in(ends[1]);
  Bytes sent(size);
  for (size_t i = 0; i < size; ++i) sent[i] = static_cast<std::byte>(i % 251);
  Thread writer("writer", [&] { (void)append(in, "pipe", sent), in.reset(); });
  auto got = read_to_end(out, "input", most);
  Bytes rest(1 << 16);
  while (::read(out.get(), rest.data(), rest.size()) > 0) {
  }
  writer.join();
  if (got.ok() && *got != sent) return internal("other bytes came");
  return got;
}

TEST(ReadToEnd, TakesAsManyBytesAsAreAllowedAndNoMore) {
  constexpr uint64_t kMost = 2 << 20;  // a multiple of the step in which it reads
  for (const size_t size : {size_t{0}, size_t{1}, size_t{kMost - 1}, size_t{kMost}}) {
    const auto got = read_from_pipe(size, kMost);
    ASSERT_TRUE(got.ok()) << size << ": " << got.error().text;
    EXPECT_EQ(got->size(), size);
  }
  for (const size_t size : {size_t{kMost + 1}, size_t{kMost + 5000}, size_t{2 * kMost}}) {
    const auto got = read_from_pipe(size, kMost);
    ASSERT_FALSE(got.ok()) << size;
    EXPECT_EQ(got.error().code, ErrorCode::kExhausted);
    EXPECT_EQ(got.error().text, "input: has more than 2097152 bytes, the most that are read");
  }
}

TEST(ReadToEnd, TellsWhatCannotBeRead) {
  const auto got = read_to_end(Fd(), "input", 10);
  ASSERT_FALSE(got.ok());
  EXPECT_TRUE(got.error().text.starts_with("input: ")) << got.error().text;
}

}  // namespace
}  // namespace quern::os
