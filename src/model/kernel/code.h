// SPDX-License-Identifier: Apache-2.0
//
// OpenCL C as text: how elements are read, computed with and written, whatever their dtype. Floats of 16 bits are
// computed with as floats, bools as ints of 0 and 1.
#pragma once
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "model/op/operator.h"

namespace quern::model::kernel {

/// The type of elements in memory: "float", "half", "uchar".
std::string_view storage_type(Dtype dtype);
/// The type of variables: "float" for all floats of up to 32 bits, "int" for bool, else that of memory.
std::string_view compute_type(Dtype dtype);
/// "f" for floats, "" for doubles: the ending of real literals.
std::string_view real_suffix(Dtype dtype);
/// A literal of the compute type: "0.5f", "-3L", "1".
std::string literal(Dtype dtype, double value);
std::string literal_of_whole(Dtype dtype, int64_t value);

/// An expression that reads element `index` behind a pointer.
std::string load(Dtype dtype, std::string_view pointer, std::string_view index);
/// A statement that writes it.
std::string store(Dtype dtype, std::string_view pointer, std::string_view index, std::string_view value);
/// An expression of another compute type, as the operator `cast` converts.
std::string converted(Dtype from, Dtype to, std::string_view value);

/// The text of an element's operator with its parts filled in: $x, $y and $z are the operands, $a and $b the attributes
/// alpha and beta, $t the compute type of the first operand, and @ the ending of real literals.
std::string filled(std::string_view text, const op::Code& code);

/// What every program begins with: pragmas, and functions that `load`, `store` and operators use.
std::string_view prelude();

}  // namespace quern::model::kernel
