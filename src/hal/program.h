// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace quern::hal {

using Size3 = std::array<uint64_t, 3>;

/// What is compiled: one text, the options of the compiler, and every local size a launch will name.
struct Source {
  std::string text;
  std::string options;
  std::vector<Size3> group_sizes;  ///< made ahead, so that no launch compiles; {0,0,0} (driver picks) is always made
};

enum class AddressSpace : uint8_t { kPrivate, kGlobal, kConstant, kLocal };

/// What the code of an entry does with the memory behind a pointer.
enum class Access : uint8_t {
  kUnknown,      ///< it cannot be told
  kUnused,       ///< neither read nor written
  kRead,         ///< only read
  kWritten,      ///< only written
  kReadWritten,  ///< written, and read or perhaps read
};

/// One argument of an entry, as the compiler saw it.
struct ArgumentInfo {
  std::string name;
  std::string type;  ///< "float*", "uint", as the driver reports it
  AddressSpace space = AddressSpace::kPrivate;
  bool is_const = false;
  Access access = Access::kUnknown;  ///< of global and constant memory
  bool operator==(const ArgumentInfo&) const = default;
};

struct EntryInfo {
  std::string name;
  std::vector<ArgumentInfo> arguments;
  Size3 required_group_size = {0, 0, 0};  ///< zeros: any
  uint64_t local_memory_bytes = 0;        ///< declared inside the kernel
  /// Why several launches over parts of the range, told apart by their offsets, might not do what one over all of it
  /// does: the built-in that would show it. Empty: they do the same.
  std::string unsliceable;
};

/// Where the machine code of an entry lies in this process: what a fault handler needs to name the kernel.
struct CodeRange {
  uintptr_t begin = 0, end = 0;
  std::string entry;
};

/// One kernel object: the arguments of a launch in preparation. One thread at a time; make one per lane.
class Kernel {
 public:
  virtual ~Kernel() = default;
};

/// Compiled code for one device. Immutable; any thread.
class Program {
 public:
  virtual ~Program() = default;

  virtual const std::vector<EntryInfo>& entries() const = 0;
  /// kNotFound if there is no such entry.
  virtual Result<std::unique_ptr<Kernel>> create_kernel(std::string_view entry) = 0;
  /// What `Device::load` takes: complete, so that loading it and launching any size of Source::group_sizes compiles
  /// nothing. Only for programs made by `Device::build`.
  virtual Result<Bytes> binary() = 0;
  /// Empty where code does not run in this process.
  virtual std::vector<CodeRange> code() const = 0;
};

}  // namespace quern::hal
