// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdlib>
#include <memory>

#include "hal/buffer.h"
#include "hal/opencl/opencl_device.h"

namespace quern::hal::opencl {

class OpenclBuffer final : public Buffer {
 public:
  /// Host memory of our own behind a buffer, where the device reads it in place.
  struct Freed {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<std::byte, Freed>;

  /// `accounted_bytes` are given back to the device at the end.
  OpenclBuffer(OpenclDevice& device, Handle<cl_mem> object, Memory memory, uint64_t id, uint64_t size_bytes,
               uint64_t accounted_bytes, bool writable)
      : device_(device),
        memory_(std::move(memory)),
        object_(std::move(object)),
        id_(id),
        size_bytes_(size_bytes),
        accounted_bytes_(accounted_bytes),
        writable_(writable) {}
  ~OpenclBuffer() override { device_.give_back(accounted_bytes_); }

  /// A view: a part of `whole`, from its byte `origin` on.
  OpenclBuffer(OpenclDevice& device, Handle<cl_mem> object, std::shared_ptr<OpenclBuffer> whole, uint64_t origin,
               uint64_t id, uint64_t size_bytes)
      : device_(device),
        whole_(std::move(whole)),
        object_(std::move(object)),
        id_(id),
        size_bytes_(size_bytes),
        accounted_bytes_(0),
        origin_(origin),
        writable_(whole_->writable()) {}

  uint64_t size_bytes() const override { return size_bytes_; }
  /// What a view is a part of; null for what is none.
  const std::shared_ptr<OpenclBuffer>& whole() const { return whole_; }
  uint64_t origin() const { return origin_; }
  cl_mem object() const { return object_.get(); }
  /// Never used twice in a process, as an address is.
  uint64_t id() const { return id_; }
  bool writable() const { return writable_; }

 private:
  // Constant after construction. The object goes before the memory that it uses.
  OpenclDevice& device_;
  std::shared_ptr<OpenclBuffer> whole_;
  Memory memory_;
  Handle<cl_mem> object_;
  uint64_t id_, size_bytes_, accounted_bytes_, origin_ = 0;
  bool writable_;
};

}  // namespace quern::hal::opencl
