// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "hal/checks.h"
#include "hal/opencl/bitcode.h"
#include "hal/opencl/envelope.h"
#include "hal/opencl/opencl_device.h"
#include "hal/program.h"
#include "hal/queue.h"

namespace quern::hal::opencl {

/// Remembers what each argument was set to, so that a warm launch sets only what changed.
class OpenclKernel final : public Kernel {
 public:
  OpenclKernel(const Api& api, Handle<cl_kernel> object, const EntryInfo& entry, uint64_t max_group_size);

  cl_kernel object() const { return object_.get(); }
  const EntryInfo& entry() const { return check_.entry(); }
  /// What the device can run of this kernel at once: less than of others if it needs many registers.
  uint64_t max_group_size() const { return max_group_size_; }

  /// kInvalid if they are not those of the entry.
  Status set_arguments(std::span<const Argument> arguments, uint64_t device_local_bytes);

 private:
  struct Remembered {
    uint64_t value = 0;  // id of the buffer, bits of the scalar, bytes of local memory
    uint32_t scalar_bytes = 0;
    bool is_set = false;
  };

  // Constant after construction.
  const Api& api_;
  Handle<cl_kernel> object_;
  ArgumentCheck check_;
  uint64_t max_group_size_;
  // The thread of its lane.
  std::vector<Remembered> remembered_;
};

class OpenclProgram final : public Program {
 public:
  /// Compiles for what the device was opened for.
  static Result<std::unique_ptr<Program>> build(OpenclDevice& device, const Source& source);
  /// Never compiles; all code of a CPU device is mapped when it returns.
  static Result<std::unique_ptr<Program>> load(OpenclDevice& device, std::span<const std::byte> binary);

  OpenclProgram(OpenclDevice& device, Handle<cl_program> object) : device_(device), object_(std::move(object)) {}

  const std::vector<EntryInfo>& entries() const override { return entries_; }
  Result<std::unique_ptr<Kernel>> create_kernel(std::string_view entry) override;
  Result<Bytes> binary() override;
  std::vector<CodeRange> code() const override { return code_; }

 private:
  Status reflect();
  /// Fills what portable code tells of the entries: EntryInfo::unsliceable and ArgumentInfo::access.
  void note_facts(const Source& source);
  /// What holds in this one of several programs that clang-15 made from the source, and in those before it.
  void note_facts(const std::map<std::string, KernelFacts>& facts, bool is_first);
  Result<Bytes> vendors_binary();

  // Constant after construction.
  OpenclDevice& device_;
  Handle<cl_program> object_;
  std::vector<EntryInfo> entries_;
  std::vector<CodeRange> code_;
  std::vector<Size3> group_sizes_;
  bool was_built_ = false;
};

}  // namespace quern::hal::opencl
