// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "hal/program.h"

namespace quern::hal::opencl {

/// The path of clang-15, which turns OpenCL C into code that belongs to no device; empty where it is not installed.
/// PoCL 3.1 brings the LLVM of the same version, and bitcode.h reads with that.
const std::string& clang_path();

/// Part of Caps::build_key: programs are looked at again once clang was installed.
std::string_view clang_key();

/// The program as bitcode for spir64, compiled by a process of clang-15 that inherits the walls round this one.
///
/// A source that asks what its processor can do (`#ifdef __AVX512F__`) is compiled for every answer: what is said of
/// the program has to hold for each of them.
///
/// `extensions` are the device's, as it lists them. `folder` exists and can be written; what is put there is removed.
/// `clang` is clang_path(). kUnavailable if it is empty, kInvalid with a reason if clang does not take the source or
/// would not see the same source as the device's compiler.
Result<std::vector<Bytes>> compile_portable(const Source& source, std::string_view extensions,
                                            const std::string& folder, const std::string& clang);

/// The first macro that a condition of the preprocessor asks for and that compilers define differently, such as
/// `__POCL__`; empty if there is none. Names that `text` or `others` (headers, options) define are their own, and those
/// that begin as one of `same` are the same in all compilers.
///
/// Macros of the processor are left to `of_processor` (null: they count), as long as the text only asks whether they
/// are defined.
std::string compiler_dependent_macro(std::string_view text, const std::vector<std::string>& others,
                                     const std::vector<std::string>& same,
                                     std::set<std::string>* of_processor = nullptr);

}  // namespace quern::hal::opencl
