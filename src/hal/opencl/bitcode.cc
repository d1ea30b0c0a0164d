// SPDX-License-Identifier: Apache-2.0
//
// program.bc, as clBuildProgram leaves it, is optimised and linked with PoCL's library of built-ins, whose functions
// are still called by name. From each kernel we follow everything that its instructions name. Work-item functions that
// a slice keeps are not looked into (get_global_id itself reads group and offset); those that it changes end the walk
// with their name; what has neither kind of name is followed, down to the variables in which PoCL keeps the range.
// Only those of the local range may be read, so a built-in that is not known here is judged by what it does.
#include "hal/opencl/bitcode.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <string_view>
#include <vector>

#include "base/printable.h"
#include "os/dylib.h"

namespace quern::hal::opencl {

// A function, so that its argument is evaluated once. A macro can be taken back and a built-in be called by another
// name: the code still shows the call then.
const char* const kPrelude =
    "static inline size_t __attribute__((overloadable, always_inline)) __quern_group_id(uint d) {\n"
    "  return (get_global_id(d) - get_local_id(d)) / get_local_size(d);\n"
    "}\n"
    "#define get_group_id __quern_group_id\n"
    "#line 1\n";

namespace {

using Ref = void*;  // to an object of LLVM's
using Diagnose = void (*)(Ref, void*);

// The part of LLVM's C API that is needed, written out: headers of the version that is loaded need not be installed,
// and none of these has changed since LLVM 7.
#define QUERN_LLVM_FUNCTIONS(X)                                                     \
  X(Ref, ContextCreate, ())                                                         \
  X(void, ContextDispose, (Ref))                                                    \
  X(void, ContextSetDiagnosticHandler, (Ref, Diagnose, void*))                      \
  X(Ref, CreateMemoryBufferWithMemoryRangeCopy, (const char*, size_t, const char*)) \
  X(void, DisposeMemoryBuffer, (Ref))                                               \
  X(int, ParseBitcodeInContext2, (Ref, Ref, Ref*))                                  \
  X(void, DisposeModule, (Ref))                                                     \
  X(Ref, GetFirstFunction, (Ref))                                                   \
  X(Ref, GetNextFunction, (Ref))                                                    \
  X(unsigned, GetFunctionCallConv, (Ref))                                           \
  X(const char*, GetValueName2, (Ref, size_t*))                                     \
  X(int, IsDeclaration, (Ref))                                                      \
  X(Ref, GetFirstBasicBlock, (Ref))                                                 \
  X(Ref, GetNextBasicBlock, (Ref))                                                  \
  X(Ref, GetFirstInstruction, (Ref))                                                \
  X(Ref, GetNextInstruction, (Ref))                                                 \
  X(int, GetNumOperands, (Ref))                                                     \
  X(Ref, GetOperand, (Ref, unsigned))                                               \
  X(Ref, IsACallInst, (Ref))                                                        \
  X(Ref, GetCalledValue, (Ref))                                                     \
  X(Ref, IsAFunction, (Ref))                                                        \
  X(Ref, IsAInlineAsm, (Ref))                                                       \
  X(Ref, IsAGlobalVariable, (Ref))                                                  \
  X(int, IsConstant, (Ref))

struct Llvm {
#define QUERN_LLVM_POINTER(type, name, arguments) type(*name) arguments = nullptr;
  QUERN_LLVM_FUNCTIONS(QUERN_LLVM_POINTER)
#undef QUERN_LLVM_POINTER

  // By way of PoCL's library: other vendors may have loaded other versions.
  static Result<Llvm> load() {
    QUERN_TRY(const auto library, os::Dylib::find("libpocl.so"));
    Llvm llvm;
#define QUERN_LLVM_FIND(type, name, arguments)                                     \
  llvm.name = reinterpret_cast<decltype(llvm.name)>(library.symbol("LLVM" #name)); \
  if (!llvm.name) return unavailable("libpocl.so: its LLVM does not show LLVM" #name);
    QUERN_LLVM_FUNCTIONS(QUERN_LLVM_FIND)
#undef QUERN_LLVM_FIND
    return llvm;
  }
};

constexpr unsigned kKernelConvention = 76;  // spir_kernel

constexpr std::array<std::string_view, 5> kSameInSlices = {"get_global_id", "get_local_id", "get_local_size",
                                                           "get_work_dim", "get_local_linear_id"};
constexpr std::array<std::string_view, 6> kOtherInSlices = {"get_group_id",         "get_num_groups",
                                                            "get_global_size",      "get_global_offset",
                                                            "get_global_linear_id", "get_enqueued_local_size"};

// Where PoCL keeps the range of a launch; a name ends with x, y or z.
struct Variable {
  std::string_view name, function;
};
constexpr std::array<Variable, 3> kOtherVariables = {
    {{"_group_id_", "get_group_id"}, {"_num_groups_", "get_num_groups"}, {"_global_offset_", "get_global_offset"}}};
constexpr std::array<std::string_view, 3> kSameVariables = {"_local_id_", "_local_size_", "_work_dim"};

template <class Names>
bool holds(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "_Z15get_global_sizej" is get_global_size; empty if it is no mangled name.
std::string_view plain_name(std::string_view mangled) {
  if (!mangled.starts_with("_Z")) return {};
  mangled.remove_prefix(2);
  size_t size = 0;
  const auto [end, problem] = std::from_chars(mangled.data(), mangled.data() + mangled.size(), size);
  if (problem != std::errc()) return {};
  mangled.remove_prefix(static_cast<size_t>(end - mangled.data()));
  return mangled.substr(0, size);
}

// A name that its author chose.
std::string show(std::string_view name) { return printable(name.substr(0, 64)); }

// Of one module. What one kernel reached is looked at again for the next: modules are small.
class Walk {
 public:
  explicit Walk(const Llvm& llvm) : llvm_(llvm) {}

  /// Why `kernel` cannot be sliced; empty if it can.
  std::string run(Ref kernel) {
    seen_ = {kernel};
    functions_ = {kernel};
    reason_.clear();
    while (!functions_.empty() && reason_.empty()) {
      const Ref function = functions_.back();
      functions_.pop_back();
      for (Ref block = llvm_.GetFirstBasicBlock(function); block; block = llvm_.GetNextBasicBlock(block))
        for (Ref one = llvm_.GetFirstInstruction(block); one; one = llvm_.GetNextInstruction(one)) follow(one);
    }
    return reason_;
  }

  std::string_view name_of(Ref value) const {
    size_t size = 0;
    const char* text = llvm_.GetValueName2(value, &size);
    return {text, size};
  }

 private:
  void because(std::string reason) {
    if (reason_.empty()) reason_ = std::move(reason);
  }

  void follow(Ref instruction) {
    if (llvm_.IsACallInst(instruction)) {
      const Ref called = llvm_.GetCalledValue(instruction);
      if (!llvm_.IsAFunction(called) && !llvm_.IsAInlineAsm(called)) because("calls a function by its address");
    }
    std::vector<Ref> values;
    const auto add_operands = [&](Ref user) {
      for (int i = 0; i < llvm_.GetNumOperands(user); ++i) values.push_back(llvm_.GetOperand(user, i));
    };
    add_operands(instruction);
    while (!values.empty()) {
      const Ref value = values.back();
      values.pop_back();
      if (!value) continue;
      if (llvm_.IsAInlineAsm(value)) {
        because("has inline assembly");
      } else if (!llvm_.IsConstant(value) || !seen_.insert(value).second) {
        continue;
      } else if (llvm_.IsAFunction(value)) {
        reach_function(value);
      } else if (llvm_.IsAGlobalVariable(value)) {
        reach_variable(value);
      } else {
        add_operands(value);  // of an expression over constants
      }
    }
  }

  void reach_function(Ref function) {
    const std::string_view name = name_of(function), plain = plain_name(name);
    if (holds(kSameInSlices, plain) || name.starts_with("llvm.") || name == "pocl.barrier") return;
    if (holds(kOtherInSlices, plain)) return because(fmt::format("uses {}", plain));
    if (name == "printf") return because("prints");  // PoCL writes it when a launch ends: order and parts would show
    if (llvm_.IsDeclaration(function)) return because(fmt::format("calls {}, which cannot be looked at", show(name)));
    functions_.push_back(function);
  }

  void reach_variable(Ref variable) {
    // One that is defined here is the program's own, and the same in all of its launches.
    if (!llvm_.IsDeclaration(variable)) return;
    const std::string_view name = name_of(variable);
    for (const std::string_view same : kSameVariables)
      if (name.starts_with(same)) return;
    for (const Variable& other : kOtherVariables)
      if (name.starts_with(other.name)) return because(fmt::format("uses {}", other.function));
    because(fmt::format("uses {}, which is not its own", show(name)));
  }

  // Constant after construction.
  const Llvm& llvm_;
  // One thread.
  std::set<Ref> seen_;
  std::vector<Ref> functions_;  // still to be looked into
  std::string reason_;
};

}  // namespace

Result<std::map<std::string, std::string>> read_unsliceable(std::span<const std::byte> bitcode) {
  QUERN_TRY(const Llvm llvm, Llvm::load());
  struct Owned {
    const Llvm& llvm;
    Ref context = nullptr, buffer = nullptr, module = nullptr;
    ~Owned() {
      if (module) llvm.DisposeModule(module);
      if (buffer) llvm.DisposeMemoryBuffer(buffer);
      if (context) llvm.ContextDispose(context);
    }
  } owned{llvm};
  owned.context = llvm.ContextCreate();
  // Without one of ours LLVM prints warnings, and ends the process at an error.
  llvm.ContextSetDiagnosticHandler(
      owned.context, [](Ref, void*) {}, nullptr);
  owned.buffer = llvm.CreateMemoryBufferWithMemoryRangeCopy(reinterpret_cast<const char*>(bitcode.data()),
                                                            bitcode.size(), "program.bc");
  if (llvm.ParseBitcodeInContext2(owned.context, owned.buffer, &owned.module) != 0) {
    owned.module = nullptr;
    return invalid("program.bc: LLVM cannot read it");
  }
  std::map<std::string, std::string> reasons;
  Walk walk(llvm);
  for (Ref function = llvm.GetFirstFunction(owned.module); function; function = llvm.GetNextFunction(function))
    if (llvm.GetFunctionCallConv(function) == kKernelConvention && !llvm.IsDeclaration(function))
      reasons.emplace(walk.name_of(function), walk.run(function));
  return reasons;
}

}  // namespace quern::hal::opencl
