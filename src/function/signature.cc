// SPDX-License-Identifier: Apache-2.0
#include "function/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/suggest.h"
#include "function/plan_builder.h"

namespace quern {
namespace {

constexpr size_t kMostProblems = 100;

struct TypeRow {
  std::string_view type;
  std::array<std::optional<Dtype>, 3> dtypes;
};

// The scalar types of OpenCL C and what may stand behind each. fp16 and bf16 have no arithmetic of their own on every
// device: kernels take them as ushort.
constexpr std::array<TypeRow, 12> kTypes = {{
    {"char", {Dtype::kInt8}},
    {"uchar", {Dtype::kUint8, Dtype::kBool}},
    {"short", {Dtype::kInt16}},
    {"ushort", {Dtype::kUint16, Dtype::kFp16, Dtype::kBf16}},
    {"int", {Dtype::kInt32}},
    {"uint", {Dtype::kUint32}},
    {"long", {Dtype::kInt64}},
    {"ulong", {Dtype::kUint64}},
    {"half", {Dtype::kFp16}},
    {"float", {Dtype::kFp32}},
    {"double", {Dtype::kFp64}},
    {"bool", {Dtype::kBool}},
}};

const TypeRow* find_type(std::string_view type) {
  for (const TypeRow& row : kTypes)
    if (row.type == type) return &row;
  return nullptr;
}

// How compilers spell the same type: "const unsigned int *" is "uint*".
std::string plain_type(std::string text) {
  auto drop = [&text](std::string_view word) {
    for (size_t at = text.find(word); at != text.npos; at = text.find(word, at)) text.erase(at, word.size());
  };
  for (std::string_view word : {"const ", "volatile ", "restrict ", "__global ", "__constant ", "__local ", "signed "})
    if (word != "signed " || text.find("unsigned ") == text.npos) drop(word);
  // Keeps the u of "unsigned "; erase, because GCC 12 sees an overlap in string::replace that is not there.
  if (const size_t at = text.find("unsigned "); at != text.npos) text.erase(at + 1, 8);
  std::erase(text, ' ');
  return text;
}

// The element of a pointer, without the width of a vector: "float4*" is of float.
std::string_view element_of(std::string_view pointer) {
  pointer.remove_suffix(pointer.ends_with('*'));
  for (std::string_view width : {"16", "2", "3", "4", "8"}) {
    if (!pointer.ends_with(width)) continue;
    const std::string_view element = pointer.substr(0, pointer.size() - width.size());
    if (find_type(element)) return element;
  }
  return pointer;
}

bool holds(const TypeRow& row, Dtype dtype) {
  return std::find(row.dtypes.begin(), row.dtypes.end(), dtype) != row.dtypes.end();
}

std::string_view type_for(Dtype dtype) {
  for (const TypeRow& row : kTypes)
    if (row.dtypes[0] == dtype || holds(row, dtype)) return row.type;
  return "";
}

std::string_view word_of(Access access) {
  constexpr std::array<std::string_view, 4> kWords = {"in", "out", "inout", "partial"};  // by the values of Access
  return kWords[static_cast<size_t>(access)];
}

const Signature* find_signature(std::span<const Signature> signatures, std::string_view entry) {
  const auto found = std::find_if(signatures.begin(), signatures.end(),
                                  [&](const Signature& signature) { return signature.entry == entry; });
  return found == signatures.end() ? nullptr : &*found;
}

class SignatureCheck {
 public:
  SignatureCheck(const Graph& graph, std::span<const ProgramSignatures> programs, Origin origin)
      : graph_(graph), programs_(programs), origin_(origin), locals_(corner_of(graph, Corner::kDefault)) {}

  std::vector<KernelProblem> run() {
    for (const KernelDecl& kernel : graph_.kernels) {
      kernel_ = &kernel;
      const Signature* signature = find_signature(programs_[kernel.program], kernel.entry);
      if (!signature) {
        missing_entry();
        continue;
      }
      check_local(*signature);
      if (kernel.arguments.size() != signature->arguments.size()) {
        add(false, fmt::format("takes {} arguments, but args has {}; write one for each", signature->arguments.size(),
                               kernel.arguments.size()));
        continue;
      }
      for (size_t i = 0; i < kernel.arguments.size(); ++i)
        check_argument(i, kernel.arguments[i], signature->arguments[i]);
    }
    return std::move(problems_);
  }

 private:
  void add(bool is_warning, std::string_view text) {
    std::string full = fmt::format("kernel '{}' {}", kernel_->entry, text);
    // A graph may launch one entry a thousand times: its problems are told once.
    const bool is_told =
        std::any_of(problems_.begin(), problems_.end(), [&](const KernelProblem& other) { return other.text == full; });
    if (!is_told && problems_.size() < kMostProblems)
      problems_.push_back({static_cast<uint32_t>(kernel_ - graph_.kernels.data()), is_warning, std::move(full)});
  }

  void missing_entry() {
    std::vector<std::string> known;
    for (const Signature& signature : programs_[kernel_->program]) known.push_back(signature.entry);
    std::string hint = did_you_mean(kernel_->entry, known);
    // PoCL renames kernels that are called like a function of OpenCL C.
    if (std::find(known.begin(), known.end(), "_cl_" + kernel_->entry) != known.end())
      hint = "; a function of OpenCL C has this name, so choose another";
    if (hint.empty()) hint = known.empty() ? "; it has no kernels" : fmt::format("; it has {}", fmt::join(known, ", "));
    const std::string& name = graph_.program_names[kernel_->program];
    add(false, fmt::format("is not in the program{}{}", name.empty() ? "" : fmt::format(" '{}'", name), hint));
  }

  void check_local(const Signature& signature) {
    const Size3& required = signature.required_local;
    if (required == Size3{0, 0, 0}) return;
    const std::string wanted = fmt::format("reqd_work_group_size({}, {}, {})", required[0], required[1], required[2]);
    if (kernel_->local.empty())
      return add(false, fmt::format("has {}, but the manifest names no local size; write local", wanted));
    Size3 local = {1, 1, 1};
    for (size_t i = 0; i < kernel_->local.size() && i < 3; ++i) {
      auto size = kernel_->local[i].whole([this](std::string_view name) { return value_in(graph_, locals_, name); });
      if (!size.ok()) return;
      local[i] = static_cast<uint64_t>(*size);
    }
    if (local != required)
      add(false, fmt::format("has {}, but local is [{}]; write the same", wanted, fmt::join(local, ", ")));
  }

  void check_argument(size_t index, const ArgumentDecl& argument, const Signature::Argument& seen) {
    const std::string type = plain_type(seen.type);
    const std::string what = seen.name.empty() ? fmt::format("argument {}", index + 1)
                                               : fmt::format("argument {} ('{}')", index + 1, seen.name);
    const bool is_pointer = type.ends_with('*');
    if (type.starts_with("image") || type.starts_with("sampler") || type.starts_with("pipe"))
      return add(false, fmt::format("{} is {}: images, samplers and pipes are not supported; use buffers", what, type));
    switch (argument.kind) {
      case ArgumentDecl::Kind::kLocal:
        if (seen.space != 'l')
          add(false, fmt::format("{} is {}, but args has local; {}", what, kind_of(seen, type), advice(seen, type)));
        return;
      case ArgumentDecl::Kind::kScalar:
        if (seen.space != 'p' || is_pointer)
          return add(false,
                     fmt::format("{} is {}, but args has a scalar; {}", what, kind_of(seen, type), advice(seen, type)));
        return check_scalar(what, type, argument.dtype);
      case ArgumentDecl::Kind::kBuffer:
        if (seen.space != 'g' && seen.space != 'c')
          return add(false,
                     fmt::format("{} is {}, but args has a buffer; {}", what, kind_of(seen, type), advice(seen, type)));
        return check_buffer(what, type, argument, seen);
    }
  }

  static std::string kind_of(const Signature::Argument& seen, const std::string& type) {
    if (seen.space == 'l') return fmt::format("__local {}", type);
    if (seen.space == 'g') return fmt::format("__global {}", type);
    if (seen.space == 'c') return fmt::format("__constant {}", type);
    return fmt::format("{} by value", type);
  }
  static std::string advice(const Signature::Argument& seen, const std::string& type) {
    if (seen.space == 'l') return "write {local: bytes}";
    if (seen.space == 'g' || seen.space == 'c') return "write {in: buffer} or {out: buffer}";
    const TypeRow* row = find_type(type);
    return row ? fmt::format("write {{{}: expression}}", name_of(*row->dtypes[0])) : "pass numbers one by one";
  }

  void check_scalar(const std::string& what, const std::string& type, Dtype dtype) {
    const TypeRow* row = find_type(type);
    if (!row)
      return add(false, fmt::format("{} is {} by value: structs and vectors are not supported; pass numbers one by one",
                                    what, type));
    if (!holds(*row, dtype))
      add(false, fmt::format("{} is {}, but args has {}; write {{{}: …}}", what, type, name_of(dtype),
                             name_of(*row->dtypes[0])));
  }

  void check_buffer(const std::string& what, const std::string& type, const ArgumentDecl& argument,
                    const Signature::Argument& seen) {
    const BufferDecl& buffer = graph_.buffers.at(argument.buffer);
    const std::string_view element = element_of(type);
    const TypeRow* row = find_type(element);
    if (!row && element != "void")
      add(true, fmt::format("{} is {}: its elements cannot be held against {} of '{}'", what, type,
                            name_of(buffer.dtype), buffer.name));
    if (row && !holds(*row, buffer.dtype))
      add(false, fmt::format("{} is {}, but buffer '{}' is {}; write {}* or dtype: {}", what, type, buffer.name,
                             name_of(buffer.dtype), type_for(buffer.dtype), name_of(*row->dtypes[0])));
    const bool is_const = seen.is_const || seen.space == 'c';
    // Inputs and constants are shared by callers. Some devices read them in place and stop a kernel that writes to
    // them; on others everybody would get what it wrote.
    if (argument.access == Access::kIn && (seen.access == 'w' || seen.access == 'b'))
      return add(origin_ == Origin::kStored,
                 fmt::format("{} is written by the kernel, but args has in: {}; write inout, or store elsewhere", what,
                             buffer.name));
    const bool is_to_write = argument.access == Access::kOut || argument.access == Access::kPartial;
    if (is_to_write && (seen.access == 'r' || seen.access == '-'))
      add(true, fmt::format("{} is never written by the kernel, but args has {}: {}; store to it, or {}", what,
                            word_of(argument.access), buffer.name, seen.access == 'r' ? "write in" : "leave it out"));
    if (argument.access != Access::kIn && is_const)
      add(false, fmt::format("{} is const, but args has {}: {}; write in, or drop const", what,
                             word_of(argument.access), buffer.name));
    if (argument.access == Access::kIn && !is_const)
      add(true, fmt::format("{} is not const, but args has in: {}; write const", what, buffer.name));
  }

  const Graph& graph_;
  std::span<const ProgramSignatures> programs_;
  Origin origin_;
  Binding locals_;
  const KernelDecl* kernel_ = nullptr;
  std::vector<KernelProblem> problems_;
};

}  // namespace

std::vector<KernelProblem> check_signatures(const Graph& graph, std::span<const ProgramSignatures> programs,
                                            Origin origin) {
  QUERN_CHECK(programs.size() == graph.program_names.size(), "a function has as many compiled programs as names");
  return SignatureCheck(graph, programs, origin).run();
}

std::string unsliceable(const KernelDecl& kernel, std::span<const Signature> signatures) {
  const Signature* signature = find_signature(signatures, kernel.entry);
  if (!signature) return "is not in the program";
  if (!signature->unsliceable.empty()) return signature->unsliceable;
  return kernel.local.empty() ? "names no local size" : "";
}

}  // namespace quern
