// SPDX-License-Identifier: Apache-2.0
#include "model/kernel/code.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace quern::model::kernel {
namespace {

struct TypeRow {
  std::string_view storage, compute;
};
// In the order of Dtype.
constexpr std::array<TypeRow, kDtypes> kTypeRows = {{
    {"uchar", "int"},
    {"char", "char"},
    {"short", "short"},
    {"int", "int"},
    {"long", "long"},
    {"uchar", "uchar"},
    {"ushort", "ushort"},
    {"uint", "uint"},
    {"ulong", "ulong"},
    {"half", "float"},
    {"ushort", "float"},
    {"float", "float"},
    {"double", "double"},
}};
const TypeRow& type_row(Dtype dtype) { return kTypeRows.at(static_cast<size_t>(dtype)); }

}  // namespace

std::string_view storage_type(Dtype dtype) { return type_row(dtype).storage; }
std::string_view compute_type(Dtype dtype) { return type_row(dtype).compute; }
std::string_view real_suffix(Dtype dtype) { return dtype == Dtype::kFp64 ? "" : "f"; }

std::string literal(Dtype dtype, double value) {
  if (!is_float(dtype)) return literal_of_whole(dtype, static_cast<int64_t>(value));
  if (std::isnan(value)) return dtype == Dtype::kFp64 ? "nan((ulong)0)" : "nan((uint)0)";
  const std::string_view sign = std::signbit(value) ? "-" : "";
  if (std::isinf(value)) return fmt::format("({}INFINITY)", sign);
  // Hexadecimal, so that nothing is rounded on the way: as a float first, where that is what the device computes with.
  const double rounded = dtype == Dtype::kFp64 ? value : static_cast<double>(static_cast<float>(value));
  return fmt::format("({:a}{})", rounded, real_suffix(dtype));
}

std::string literal_of_whole(Dtype dtype, int64_t value) {
  if (is_float(dtype)) return literal(dtype, static_cast<double>(value));
  if (dtype == Dtype::kUint64) return fmt::format("({}UL)", static_cast<uint64_t>(value));
  // The smallest long has no literal of its own.
  if (value == INT64_MIN) return "(-9223372036854775807L - 1L)";
  return fmt::format("(({}){}L)", compute_type(dtype), value);
}

std::string load(Dtype dtype, std::string_view pointer, std::string_view index) {
  if (dtype == Dtype::kFp16) return fmt::format("vload_half({}, {})", index, pointer);
  if (dtype == Dtype::kBf16) return fmt::format("as_float((uint){}[{}] << 16)", pointer, index);
  return fmt::format("{}[{}]", pointer, index);
}

std::string store(Dtype dtype, std::string_view pointer, std::string_view index, std::string_view value) {
  if (dtype == Dtype::kFp16) return fmt::format("vstore_half_rte({}, {}, {});", value, index, pointer);
  if (dtype == Dtype::kBf16) return fmt::format("{}[{}] = q_bf16({});", pointer, index, value);
  return fmt::format("{}[{}] = {};", pointer, index, value);
}

std::string converted(Dtype from, Dtype to, std::string_view value) {
  if (to == Dtype::kBool) return fmt::format("(int)(({}) != 0)", value);
  if (is_float(to)) {
    // A value that the 16 bits cannot hold is rounded here, as a tensor in between would round it.
    if (to == Dtype::kFp16 && from != Dtype::kFp16) return fmt::format("q_round_half((float)({}))", value);
    if (to == Dtype::kBf16 && from != Dtype::kBf16)
      return fmt::format("as_float((uint)q_bf16((float)({})) << 16)", value);
    return fmt::format("({})({})", compute_type(to), value);
  }
  if (is_float(from)) return fmt::format("convert_{}_sat({})", compute_type(to), value);
  return fmt::format("({})({})", compute_type(to), value);
}

std::string filled(std::string_view text, const op::Code& code) {
  const Dtype real = is_float(code.from[0]) ? code.from[0] : Dtype::kFp32;
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '@') {
      out += real_suffix(real);
    } else if (text[i] == '$' && i + 1 < text.size()) {
      const char part = text[++i];
      if (part == 'a' || part == 'b')
        out += literal(real, code.attributes.real(part == 'a' ? "alpha" : "beta"));
      else if (part == 't')
        out += compute_type(code.from[0]);
      else
        out += code.operands[static_cast<size_t>(part - 'x')];
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string_view prelude() {
  return R"(#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
// A float as the 16 upper bits of one, rounded to nearest even.
static inline ushort q_bf16(float x) {
  const uint bits = as_uint(x);
  return isnan(x) ? (ushort)0x7fc0 : (ushort)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
// A power by squaring, which wraps as * does. A negative exponent leaves 0, or the powers of 1 and -1.
static inline long q_power(long base, long exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  ulong out = 1, factor = (ulong)base;
  for (; exponent > 0; exponent >>= 1, factor *= factor)
    if (exponent & 1) out *= factor;
  return (long)out;
}
// A float rounded to what 16 bits hold.
static inline float q_round_half(float x) {
  ushort bits;
  vstore_half_rte(x, 0, (half*)&bits);
  return vload_half(0, (const half*)&bits);
}
)";
}

}  // namespace quern::model::kernel
