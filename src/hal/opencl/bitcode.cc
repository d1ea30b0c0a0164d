// SPDX-License-Identifier: Apache-2.0
//
// Bitcode for spir64 is optimised, and calls built-ins as functions that are declared and not defined. From each kernel
// we follow everything that its instructions name. Functions of the program are looked into; built-ins are judged by
// their names (builtins.h), and a function that is neither ends the walk with its name.
//
// Pointers are followed from the arguments of a kernel through address computations and into functions of the program,
// to the loads and stores at their ends. What leads elsewhere (a choice between two pointers, a pointer that is stored)
// makes an argument unknown, unless something was surely written through it.
#include "hal/opencl/bitcode.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <vector>

#include "base/printable.h"
#include "hal/opencl/builtins.h"
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
  X(int, IsConstant, (Ref))                                                         \
  X(unsigned, CountParams, (Ref))                                                   \
  X(Ref, GetParam, (Ref, unsigned))                                                 \
  X(Ref, TypeOf, (Ref))                                                             \
  X(int, GetTypeKind, (Ref))                                                        \
  X(unsigned, GetPointerAddressSpace, (Ref))                                        \
  X(Ref, GetFirstUse, (Ref))                                                        \
  X(Ref, GetNextUse, (Ref))                                                         \
  X(Ref, GetUser, (Ref))                                                            \
  X(Ref, IsALoadInst, (Ref))                                                        \
  X(Ref, IsAStoreInst, (Ref))                                                       \
  X(Ref, IsAAtomicRMWInst, (Ref))                                                   \
  X(Ref, IsAAtomicCmpXchgInst, (Ref))                                               \
  X(Ref, IsAGetElementPtrInst, (Ref))                                               \
  X(Ref, IsACastInst, (Ref))                                                        \
  X(Ref, IsAPtrToIntInst, (Ref))                                                    \
  X(Ref, IsAICmpInst, (Ref))

struct Llvm {
#define QUERN_LLVM_POINTER(type, name, arguments) type(*name) arguments = nullptr;
  QUERN_LLVM_FUNCTIONS(QUERN_LLVM_POINTER)
#undef QUERN_LLVM_POINTER

  static Result<Llvm> load(const std::string& name_of_library) {
    QUERN_TRY(const auto library, os::Dylib::open(name_of_library));
    Llvm llvm;
#define QUERN_LLVM_FIND(type, name, arguments)                                     \
  llvm.name = reinterpret_cast<decltype(llvm.name)>(library.symbol("LLVM" #name)); \
  if (!llvm.name) return unavailable(name_of_library + ": has no LLVM" #name);
    QUERN_LLVM_FUNCTIONS(QUERN_LLVM_FIND)
#undef QUERN_LLVM_FIND
    return llvm;
  }
};

constexpr unsigned kKernelConvention = 76;  // spir_kernel

constexpr int kPointerType = 12;  // LLVMPointerTypeKind

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
    if (name.starts_with("llvm.")) return;
    if (!llvm_.IsDeclaration(function)) return functions_.push_back(function);
    // The vendor writes it when a launch ends: order and parts would show.
    if (name == "printf") return because("prints");
    switch (kind_of_builtin(plain.empty() ? name : plain)) {
      case BuiltinKind::kSame:
        return;
      case BuiltinKind::kOther:
        return because(fmt::format("uses {}", plain));
      case BuiltinKind::kNone:
        return because(fmt::format("calls {}, which cannot be looked at", show(plain.empty() ? name : plain)));
    }
  }

  void reach_variable(Ref variable) {
    // One that is defined here is the program's own, and the same in all of its launches.
    if (llvm_.IsDeclaration(variable)) because(fmt::format("uses {}, which is not its own", show(name_of(variable))));
  }

  // Constant after construction.
  const Llvm& llvm_;
  // One thread.
  std::set<Ref> seen_;
  std::vector<Ref> functions_;  // still to be looked into
  std::string reason_;
};

AddressSpace space_of(const Llvm& llvm, Ref value) {
  const Ref type = llvm.TypeOf(value);
  if (llvm.GetTypeKind(type) != kPointerType) return AddressSpace::kPrivate;
  switch (llvm.GetPointerAddressSpace(type)) {
    case 1:
      return AddressSpace::kGlobal;
    case 2:
      return AddressSpace::kConstant;
    case 3:
      return AddressSpace::kLocal;
    default:
      return AddressSpace::kPrivate;
  }
}

// What is done through one pointer that a kernel was given.
class PointerWalk {
 public:
  explicit PointerWalk(const Llvm& llvm) : llvm_(llvm) {}

  Access run(Ref pointer) {
    pointers_ = {pointer};
    seen_ = {pointer};
    reads_ = writes_ = is_unclear_ = false;
    while (!pointers_.empty()) {
      const Ref one = pointers_.back();
      pointers_.pop_back();
      for (Ref use = llvm_.GetFirstUse(one); use; use = llvm_.GetNextUse(use)) follow(one, llvm_.GetUser(use));
    }
    if (writes_) return reads_ || is_unclear_ ? Access::kReadWritten : Access::kWritten;
    if (is_unclear_) return Access::kUnknown;
    return reads_ ? Access::kRead : Access::kUnused;
  }

 private:
  void add(Ref pointer) {
    if (seen_.insert(pointer).second) pointers_.push_back(pointer);
  }

  void follow(Ref pointer, Ref user) {
    if (llvm_.IsALoadInst(user)) {
      reads_ = true;
    } else if (llvm_.IsAStoreInst(user)) {
      (llvm_.GetOperand(user, 1) == pointer ? writes_ : is_unclear_) = true;
    } else if (llvm_.IsAAtomicRMWInst(user) || llvm_.IsAAtomicCmpXchgInst(user)) {
      reads_ = writes_ = true;
    } else if (llvm_.IsAPtrToIntInst(user)) {
      is_unclear_ = true;
    } else if (llvm_.IsAGetElementPtrInst(user) || llvm_.IsACastInst(user)) {
      add(user);
    } else if (llvm_.IsACallInst(user)) {
      follow_call(pointer, user);
    } else if (!llvm_.IsAICmpInst(user)) {
      is_unclear_ = true;
    }
  }

  void follow_call(Ref pointer, Ref call) {
    const Ref function = llvm_.GetCalledValue(call);
    if (!llvm_.IsAFunction(function)) {
      is_unclear_ = true;
      return;
    }
    size_t size = 0;
    const char* text = llvm_.GetValueName2(function, &size);
    const std::string_view name(text, size), plain = plain_name(name);
    const unsigned count = llvm_.CountParams(function);
    for (unsigned i = 0; i < count; ++i) {
      if (llvm_.GetOperand(call, i) != pointer) continue;
      if (name.starts_with("llvm.memcpy") || name.starts_with("llvm.memmove")) {
        (i == 0 ? writes_ : reads_) = true;
      } else if (name.starts_with("llvm.memset")) {
        writes_ = true;
      } else if (!llvm_.IsDeclaration(function)) {
        add(llvm_.GetParam(function, i));
      } else if (const auto use = use_of_pointer(plain, i); use.reads || use.writes) {
        reads_ |= use.reads;
        writes_ |= use.writes;
      } else if (!name.starts_with("llvm.lifetime") && !name.starts_with("llvm.assume")) {
        is_unclear_ = true;
      }
    }
  }

  // Constant after construction.
  const Llvm& llvm_;
  // One thread.
  std::set<Ref> seen_;
  std::vector<Ref> pointers_;  // still to be followed
  bool reads_ = false, writes_ = false, is_unclear_ = false;
};

}  // namespace

Result<std::map<std::string, KernelFacts>> read_kernels(std::span<const std::byte> bitcode,
                                                        const std::string& library) {
  QUERN_TRY(const Llvm llvm, Llvm::load(library));
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
    return invalid("bitcode: LLVM cannot read it");
  }
  std::map<std::string, KernelFacts> kernels;
  Walk walk(llvm);
  PointerWalk pointers(llvm);
  for (Ref function = llvm.GetFirstFunction(owned.module); function; function = llvm.GetNextFunction(function))
    if (llvm.GetFunctionCallConv(function) == kKernelConvention && !llvm.IsDeclaration(function)) {
      KernelFacts& facts = kernels[std::string(walk.name_of(function))];
      facts.unsliceable = walk.run(function);
      for (unsigned i = 0; i < llvm.CountParams(function); ++i) {
        const Ref argument = llvm.GetParam(function, i);
        const AddressSpace space = space_of(llvm, argument);
        const bool is_pointer = space == AddressSpace::kGlobal || space == AddressSpace::kConstant;
        facts.arguments.push_back({space, is_pointer ? pointers.run(argument) : Access::kUnknown});
      }
    }
  return kernels;
}

}  // namespace quern::hal::opencl
