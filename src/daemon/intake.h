// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "daemon/daemon.h"
#include "daemon/object_store.h"
#include "function/manifest.h"
#include "function/tar.h"
#include "os/thread.h"
#include "os/work_queue.h"

namespace quern::daemon {

/// Where the bytes of an upload go. One thread at a time.
class Receiver {
 public:
  virtual ~Receiver() = default;
  virtual Status add(std::span<const std::byte> bytes) = 0;

  std::shared_ptr<void> room;  ///< what was set aside for it (Storage)
};

/// An object of a tenant.
class ObjectReceiver final : public Receiver {
 public:
  explicit ObjectReceiver(ObjectStore store) : writer(std::move(store)) {}
  Status add(std::span<const std::byte> bytes) override { return writer.add(bytes); }

  ObjectWriter writer;
};

/// The folder of a function, as a tar. Small files stay in memory. Of large ones the elements of each tensor are
/// written to disk as they come, as the objects that they will be: nothing is written twice.
class FolderReceiver final : public Receiver, private TarStream::Sink {
 public:
  explicit FolderReceiver(ObjectStore store) : store_(std::move(store)) {}

  Status add(std::span<const std::byte> bytes) override { return tar_.add(bytes); }
  /// All has come; kInvalid if that is no whole tar.
  Status finish() const { return tar_.finish(); }

  const Files& files() const { return files_; }
  /// The elements of this hash; null if no large file has them.
  ObjectWriter* find(const std::string& hash) const;

  /// A larger file is not kept in memory, and neither is what comes once so much is.
  static constexpr uint64_t kSmallFile = 4 * kMiB, kSmallTensorFile = 64 * kKiB, kInMemory = 16 * kMiB;
  /// Tensors of large files, each of which is a file on disk: as many as a function may have buffers.
  static constexpr size_t kMostSlices = 16384;

 private:
  Status begin_file(const std::string& name, uint64_t size_bytes) override;
  Status add_bytes(std::span<const std::byte> bytes) override;
  Status end_file() override;
  void skip_link(const std::string& name) override { files_.links.insert(name); }
  /// Writes what of these bytes, which are at `offset_`, is a tensor's.
  Status write(std::span<const std::byte> bytes);
  Status set_slices(std::span<const std::byte> head);

  const ObjectStore store_;
  TarStream tar_{*this};
  Files files_;
  std::map<std::string, std::unique_ptr<ObjectWriter>> writers_;  ///< by hash
  uint64_t in_memory_ = 0;
  size_t all_slices_ = 0;

  // The file that comes.
  Bytes* content_ = nullptr;    ///< all of it, or its head
  LargeFile* large_ = nullptr;  ///< null: it is a small one
  std::string name_;
  size_t head_bytes_ = 0;  ///< of it that are kept in memory
  uint64_t offset_ = 0;    ///< how much of it was written, or passed over
  size_t slice_ = 0;       ///< that is written, or comes next
  std::unique_ptr<ObjectWriter> writer_;
  std::unique_ptr<Sha256> sum_;  ///< of all of a large one that is no single slice
};

/// The threads that write what is uploaded to disk, so that no event loop waits for it.
class Intake {
 public:
  /// `cores`: where they run; empty: anywhere.
  explicit Intake(std::vector<int> cores);
  ~Intake();
  /// What waits is answered unavailable.
  void stop();

  std::unique_ptr<Upload> begin(std::unique_ptr<Receiver> receiver);
  /// What got the bytes of an upload that began here; all that was written is in it.
  template <class R>
  static std::unique_ptr<R> finish(std::unique_ptr<Upload> upload) {
    return std::unique_ptr<R>(static_cast<R*>(take(std::move(upload)).release()));
  }
  /// Something that needs the disk and that nobody waits for. At once if too much waits.
  void run(std::function<void()> work);

 private:
  class DiskUpload;
  using Job = std::function<void(bool is_stopping)>;

  static std::unique_ptr<Receiver> take(std::unique_ptr<Upload> upload);

  /// Two jobs per connection at most: a piece, and what is left of an upload that ended.
  static constexpr size_t kMostWaiting = 4096;
  static constexpr int kThreads = 2;

  os::WorkQueue<Job> jobs_{kMostWaiting};
  std::vector<os::Thread> threads_;
};

}  // namespace quern::daemon
