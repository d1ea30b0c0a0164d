// SPDX-License-Identifier: Apache-2.0
#include "daemon/intake.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/hash.h"
#include "function/npy.h"
#include "os/file.h"

namespace quern::daemon {
namespace {

class FolderReceiverTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "quern_intake_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    store_ = std::make_unique<ObjectStore>(*ObjectStore::open(folder_));
  }
  void TearDown() override { os::remove_tree(folder_); }

  /// All of a folder, in pieces of so many bytes.
  std::unique_ptr<FolderReceiver> receive(const Files& files, size_t size) {
    const Bytes tar = *write_tar(files);
    auto receiver = std::make_unique<FolderReceiver>(*store_);
    for (size_t at = 0; at < tar.size(); at += size) {
      const Status added = receiver->add(std::span(tar).subspan(at).first(std::min(size, tar.size() - at)));
      EXPECT_TRUE(added.ok()) << added.error().text;
    }
    EXPECT_TRUE(receiver->finish().ok());
    return receiver;
  }

  std::string folder_;
  std::unique_ptr<ObjectStore> store_;
};

Bytes numbers(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

TEST_F(FolderReceiverTest, ElementsOfLargeFilesAreObjectsAlready) {
  const Bytes elements = numbers(400'000);
  Files files;
  files["function.yaml"] = bytes_of("name: one");
  const std::vector<int64_t> shape = {100'000};
  files["w.npy"] = bytes_of(*npy_header(Dtype::kFp32, shape));
  files["w.npy"].insert(files["w.npy"].end(), elements.begin(), elements.end());
  const std::string header = R"({"b":{"dtype":"U8","shape":[150000],"data_offsets":[250000,400000]},)"
                             R"("a":{"dtype":"U8","shape":[200000],"data_offsets":[50000,250000]}})";
  ByteWriter length;
  length.put(uint64_t{header.size()});
  Bytes& tensors = files["t.safetensors"] = length.take();
  for (const std::byte byte : as_bytes_of(header)) tensors.push_back(byte);
  tensors.insert(tensors.end(), elements.begin(), elements.end());
  files["raw.bin"] = numbers(FolderReceiver::kSmallFile + 1);

  for (const size_t size : {size_t{1000}, size_t{262'144}, size_t{1} << 30}) {
    const auto received = receive(files, size);
    const Files& got = received->files();
    EXPECT_EQ(got.at("function.yaml"), files["function.yaml"]);
    ASSERT_EQ(got.large.size(), 3u);
    for (const auto& [name, large] : got.large) {
      EXPECT_EQ(large.size_bytes, files[name].size()) << name;
      EXPECT_EQ(large.sha256, sha256(files[name])) << name;
    }
    const auto expect = [&](const LargeFile::Slice& slice, std::span<const std::byte> bytes) {
      EXPECT_EQ(slice.sha256, sha256(bytes));
      ObjectWriter* writer = received->find(slice.sha256);
      ASSERT_NE(writer, nullptr);
      ASSERT_TRUE(writer->keep().ok());
      ASSERT_TRUE(writer->keep().ok()) << "again changes nothing";
      EXPECT_TRUE(std::ranges::equal(*store_->get(slice.sha256), bytes));
      store_->remove(slice.sha256);
    };
    const std::span<const std::byte> all(elements);
    ASSERT_EQ(got.large.at("w.npy").slices.size(), 1u);
    expect(got.large.at("w.npy").slices[0], all);
    ASSERT_EQ(got.large.at("t.safetensors").slices.size(), 2u);
    expect(got.large.at("t.safetensors").slices[0], all.subspan(50'000, 200'000));
    expect(got.large.at("t.safetensors").slices[1], all.subspan(250'000));
    expect(got.large.at("raw.bin").slices.at(0), files["raw.bin"]);
  }
}

TEST_F(FolderReceiverTest, MemoryIsBoundedWhateverComes) {
  Files files;
  for (int i = 0; i < 6; ++i) files["f" + std::to_string(i)] = Bytes(FolderReceiver::kSmallFile);
  const auto received = receive(files, 1 << 20);
  uint64_t in_memory = 0;
  for (const auto& [name, bytes] : received->files()) in_memory += bytes.size();
  EXPECT_EQ(in_memory, FolderReceiver::kInMemory);
  EXPECT_EQ(received->files().large.size(), 2u) << "small ones past it go to disk";
}

TEST_F(FolderReceiverTest, WhatIsNotKeptLeavesNothing) {
  Files files;
  files["raw.bin"] = numbers(FolderReceiver::kSmallFile + 1);
  receive(files, 1 << 20);
  for (const std::string& name : os::list_folder(folder_)) EXPECT_FALSE(name.ends_with(".tmp")) << name;
}

/// A file of so many tensors of one byte each.
Bytes tensors_of_one_byte(size_t count) {
  std::string header = "{";
  for (size_t i = 0; i < count; ++i)
    header += fmt::format("{}\"{}\":{{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[{},{}]}}", i > 0 ? "," : "", i,
                          i, i + 1);
  header += "}";
  ByteWriter length;
  length.put(uint64_t{header.size()});
  Bytes file = length.take();
  for (const std::byte byte : as_bytes_of(header)) file.push_back(byte);
  for (size_t i = 0; i < count; ++i) file.push_back(static_cast<std::byte>(i));
  return file;
}

TEST_F(FolderReceiverTest, ManyTensorsTakeOneDescriptorAtATime) {
  const size_t before = os::list_folder("/proc/self/fd").size();
  const auto receiver = receive({{"t.safetensors", tensors_of_one_byte(2000)}}, 64 * 1024);
  EXPECT_LT(os::list_folder("/proc/self/fd").size(), before + 8);
  const std::byte byte{7};
  const std::string hash = sha256(std::span(&byte, 1));
  ObjectWriter* writer = receiver->find(hash);
  ASSERT_NE(writer, nullptr);
  ASSERT_TRUE(writer->keep().ok());
  EXPECT_EQ(store_->get(hash)->size(), 1u);
}

TEST_F(FolderReceiverTest, SoManyTensorsAreRefused) {
  FolderReceiver receiver(*store_);
  const Bytes tar = *write_tar({{"t.safetensors", tensors_of_one_byte(FolderReceiver::kMostSlices + 1)}});
  const Status added = receiver.add(tar);
  ASSERT_FALSE(added.ok());
  EXPECT_EQ(added.error().code, ErrorCode::kExhausted);
  EXPECT_NE(added.error().text.find("have 16385 tensors, and at most 16384 are taken"), std::string::npos)
      << added.error().text;
}

}  // namespace
}  // namespace quern::daemon
