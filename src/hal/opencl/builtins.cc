// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/builtins.h"

#include <algorithm>
#include <array>

namespace quern::hal::opencl {
namespace {

constexpr std::array<std::string_view, 7> kOther = {"get_group_id",
                                                    "get_num_groups",
                                                    "get_global_size",
                                                    "get_global_offset",
                                                    "get_global_linear_id",
                                                    "get_enqueued_local_size",
                                                    "get_enqueued_num_sub_groups"};

// Families, by how their names begin. Sub-groups and work-groups are whole in a slice.
constexpr std::array<std::string_view, 18> kFamilies = {
    "convert_",   "vload",       "vstore",        "atomic_",          "atom_",      "native_",
    "half_",      "sub_group_",  "work_group_",   "intel_sub_group_", "read_image", "write_image",
    "get_image_", "async_work_", "__opencl_atom", "get_sub_group_",   "shuffle",    "__translate_sampler_init"};

// OpenCL C 1.2 and 2.0: work-item, math, integer, common, geometric and relational functions, and those of order. In
// ASCII order.
constexpr auto kNames = std::to_array<std::string_view>({"abs",
                                                         "abs_diff",
                                                         "acos",
                                                         "acosh",
                                                         "acospi",
                                                         "add_sat",
                                                         "all",
                                                         "any",
                                                         "asin",
                                                         "asinh",
                                                         "asinpi",
                                                         "atan",
                                                         "atan2",
                                                         "atan2pi",
                                                         "atanh",
                                                         "atanpi",
                                                         "barrier",
                                                         "bitselect",
                                                         "cbrt",
                                                         "ceil",
                                                         "clamp",
                                                         "clz",
                                                         "copysign",
                                                         "cos",
                                                         "cosh",
                                                         "cospi",
                                                         "cross",
                                                         "ctz",
                                                         "degrees",
                                                         "distance",
                                                         "dot",
                                                         "erf",
                                                         "erfc",
                                                         "exp",
                                                         "exp10",
                                                         "exp2",
                                                         "expm1",
                                                         "fabs",
                                                         "fast_distance",
                                                         "fast_length",
                                                         "fast_normalize",
                                                         "fdim",
                                                         "floor",
                                                         "fma",
                                                         "fmax",
                                                         "fmin",
                                                         "fmod",
                                                         "fract",
                                                         "frexp",
                                                         "get_fence",
                                                         "get_global_id",
                                                         "get_local_id",
                                                         "get_local_linear_id",
                                                         "get_local_size",
                                                         "get_max_sub_group_size",
                                                         "get_num_sub_groups",
                                                         "get_work_dim",
                                                         "hadd",
                                                         "hypot",
                                                         "ilogb",
                                                         "isequal",
                                                         "isfinite",
                                                         "isgreater",
                                                         "isgreaterequal",
                                                         "isinf",
                                                         "isless",
                                                         "islessequal",
                                                         "islessgreater",
                                                         "isnan",
                                                         "isnormal",
                                                         "isnotequal",
                                                         "isordered",
                                                         "isunordered",
                                                         "ldexp",
                                                         "length",
                                                         "lgamma",
                                                         "lgamma_r",
                                                         "log",
                                                         "log10",
                                                         "log1p",
                                                         "log2",
                                                         "logb",
                                                         "mad",
                                                         "mad24",
                                                         "mad_hi",
                                                         "mad_sat",
                                                         "max",
                                                         "maxmag",
                                                         "mem_fence",
                                                         "min",
                                                         "minmag",
                                                         "mix",
                                                         "modf",
                                                         "mul24",
                                                         "mul_hi",
                                                         "nan",
                                                         "nextafter",
                                                         "normalize",
                                                         "popcount",
                                                         "pow",
                                                         "pown",
                                                         "powr",
                                                         "prefetch",
                                                         "radians",
                                                         "read_mem_fence",
                                                         "remainder",
                                                         "remquo",
                                                         "rhadd",
                                                         "rint",
                                                         "rootn",
                                                         "rotate",
                                                         "round",
                                                         "rsqrt",
                                                         "select",
                                                         "sign",
                                                         "signbit",
                                                         "sin",
                                                         "sincos",
                                                         "sinh",
                                                         "sinpi",
                                                         "smoothstep",
                                                         "sqrt",
                                                         "step",
                                                         "sub_sat",
                                                         "tan",
                                                         "tanh",
                                                         "tanpi",
                                                         "tgamma",
                                                         "to_global",
                                                         "to_local",
                                                         "to_private",
                                                         "trunc",
                                                         "upsample",
                                                         "wait_group_events",
                                                         "write_mem_fence"});
static_assert(std::is_sorted(kNames.begin(), kNames.end()));

}  // namespace

BuiltinKind kind_of_builtin(std::string_view name) {
  if (std::find(kOther.begin(), kOther.end(), name) != kOther.end()) return BuiltinKind::kOther;
  if (std::binary_search(kNames.begin(), kNames.end(), name)) return BuiltinKind::kSame;
  for (const std::string_view family : kFamilies)
    if (name.starts_with(family)) return BuiltinKind::kSame;
  return BuiltinKind::kNone;
}

PointerUse use_of_pointer(std::string_view name, unsigned argument) {
  constexpr PointerUse kRead{true, false}, kWrite{false, true}, kBoth{true, true};
  if (name.starts_with("vload") || name == "prefetch") return kRead;
  if (name.starts_with("vstore")) return kWrite;
  if (name.starts_with("async_work_group_")) return argument == 0 ? kWrite : kRead;
  if (name == "atomic_load" || name == "atomic_load_explicit") return kRead;
  if (name == "atomic_store" || name == "atomic_store_explicit" || name == "atomic_init") return kWrite;
  if (name.starts_with("atomic_") || name.starts_with("atom_")) return kBoth;
  // What gives a second result by a pointer.
  for (const std::string_view two : {"fract", "frexp", "lgamma_r", "modf", "remquo", "sincos"})
    if (name == two) return kWrite;
  return {};
}

}  // namespace quern::hal::opencl
