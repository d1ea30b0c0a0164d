// SPDX-License-Identifier: Apache-2.0
#include "daemon/intake.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "function/constant.h"

namespace quern::daemon {

ObjectWriter* FolderReceiver::find(const std::string& hash) const {
  const auto it = writers_.find(hash);
  return it == writers_.end() ? nullptr : it->second.get();
}

Status FolderReceiver::begin_file(const std::string& name, uint64_t size_bytes) {
  name_ = name;
  content_ = &files_[name];
  offset_ = 0;
  slice_ = 0;
  head_bytes_ = head_bytes_of(name);
  const uint64_t small = head_bytes_ > 0 ? kSmallTensorFile : kSmallFile;
  if (size_bytes <= small && size_bytes <= kInMemory - in_memory_) {
    large_ = nullptr;
    in_memory_ += size_bytes;
    return {};
  }
  large_ = &files_.large[name];
  large_->size_bytes = size_bytes;
  head_bytes_ = std::min<uint64_t>(head_bytes_, size_bytes);
  in_memory_ += head_bytes_;
  if (in_memory_ > kInMemory)
    return exhausted(
        fmt::format("tar: file '{:.64}': more than {} of sources and headers of tensors; leave out what "
                    "is not needed",
                    name, show_bytes(kInMemory)));
  sum_ = nullptr;
  if (head_bytes_ == 0) return set_slices({});
  sum_ = std::make_unique<Sha256>();
  return {};
}

Status FolderReceiver::set_slices(std::span<const std::byte> head) {
  large_->slices = slices_of(name_, head, large_->size_bytes);
  all_slices_ += large_->slices.size();
  if (all_slices_ <= kMostSlices) return {};
  return exhausted(
      fmt::format("tar: file '{:.64}': the large files of this folder have {} tensors, and at most {} are "
                  "taken; leave out tensors that no buffer needs",
                  name_, all_slices_, kMostSlices));
}

Status FolderReceiver::add_bytes(std::span<const std::byte> bytes) {
  if (!large_) {
    content_->insert(content_->end(), bytes.begin(), bytes.end());
    return {};
  }
  if (sum_) sum_->add(bytes);
  if (content_->size() < head_bytes_) {
    const auto part = bytes.first(std::min<size_t>(bytes.size(), head_bytes_ - content_->size()));
    content_->insert(content_->end(), part.begin(), part.end());
    bytes = bytes.subspan(part.size());
    if (content_->size() < head_bytes_) return {};
    QUERN_TRY(set_slices(*content_));
    // The first tensors may begin within what was taken for the head.
    QUERN_TRY(write(*content_));
  }
  return write(bytes);
}

Status FolderReceiver::write(std::span<const std::byte> bytes) {
  auto& slices = large_->slices;
  while (!bytes.empty() && slice_ < slices.size()) {
    LargeFile::Slice& slice = slices[slice_];
    if (offset_ < slice.offset) {
      const auto passed = std::min<uint64_t>(slice.offset - offset_, bytes.size());
      offset_ += passed;
      bytes = bytes.subspan(passed);
      continue;
    }
    if (!writer_) writer_ = std::make_unique<ObjectWriter>(store_);
    const auto part = bytes.first(std::min<uint64_t>(slice.offset + slice.size_bytes - offset_, bytes.size()));
    QUERN_TRY(writer_->add(part));
    offset_ += part.size();
    bytes = bytes.subspan(part.size());
    if (offset_ < slice.offset + slice.size_bytes) continue;
    slice.sha256 = writer_->hash();
    writer_->rest();
    writers_.emplace(slice.sha256, std::move(writer_));
    writer_ = nullptr;  // also where another has the same elements
    ++slice_;
  }
  offset_ += bytes.size();
  return {};
}

Status FolderReceiver::end_file() {
  if (large_) large_->sha256 = sum_ ? sum_->take() : large_->slices.at(0).sha256;
  return {};
}

/// An upload whose receiver works on the threads of the intake.
class Intake::DiskUpload final : public Upload {
 public:
  DiskUpload(Intake& intake, std::unique_ptr<Receiver> receiver) : intake_(intake), receiver_(std::move(receiver)) {}
  ~DiskUpload() override {
    if (!receiver_) return;
    receiver_->room = nullptr;
    // What it leaves on disk takes time to remove.
    intake_.run([receiver = std::shared_ptr<Receiver>(std::move(receiver_))]() mutable { receiver = nullptr; });
  }

  void write(Bytes piece, std::function<void(Result<Bytes>)> done) override {
    const auto shared = std::make_shared<Bytes>(std::move(piece));
    const auto told = std::make_shared<std::function<void(Result<Bytes>)>>(std::move(done));
    Job job = [this, shared, told](bool is_stopping) {
      if (is_stopping) return (*told)(unavailable("the server is stopping; retry elsewhere or later"));
      const Status added = receiver_->add(*shared);
      (*told)(added.ok() ? Result<Bytes>(std::move(*shared)) : Result<Bytes>(added.error()));
    };
    if (!intake_.jobs_.push(std::move(job))) (*told)(exhausted("too much is being uploaded; retry later"));
  }

  std::unique_ptr<Receiver> take() { return std::move(receiver_); }

 private:
  Intake& intake_;
  std::unique_ptr<Receiver> receiver_;
};

Intake::Intake(std::vector<int> cores) {
  for (int i = 0; i < kThreads; ++i)
    threads_.emplace_back(fmt::format("intake{}", i), [this, cores] {
      if (!cores.empty()) (void)os::pin_to(cores);
      while (auto job = jobs_.pop()) (*job)(false);
    });
}

Intake::~Intake() { stop(); }

void Intake::stop() {
  for (const Job& job : jobs_.close()) job(true);
  threads_.clear();  // joins
}

std::unique_ptr<Upload> Intake::begin(std::unique_ptr<Receiver> receiver) {
  return std::make_unique<DiskUpload>(*this, std::move(receiver));
}

std::unique_ptr<Receiver> Intake::take(std::unique_ptr<Upload> upload) {
  return static_cast<DiskUpload&>(*upload).take();
}

void Intake::run(std::function<void()> work) {
  // Moved: whatever the work holds is let go where it is done, and not by whoever called this.
  Job job = [work = std::move(work)](bool) { work(); };
  if (!jobs_.push(std::move(job))) job(false);
}

}  // namespace quern::daemon
