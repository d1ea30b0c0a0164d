// SPDX-License-Identifier: Apache-2.0
//
// Several tensors, element by element, each repeated along the dimensions where its size is 1 (broadcasting).
// Arithmetic on floats happens in double and is rounded once, which for + - * / is what the dtype itself would give.
// Integers wrap.
#include <fmt/format.h>

#include <cmath>

#include "model/kernel/any/any.h"
#include "model/kernel/code.h"
#include "model/op/broadcast.h"
#include "model/op/families.h"
#include "model/op/node_import.h"
#include "model/op/walk.h"

namespace quern::model::op {
namespace {

enum class Fn : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kPow,
  kMin,
  kMax,
  kMod,
  kFmod,
  kEqual,
  kLess,
  kLessEqual,
  kAnd,
  kOr,
  kXor,
  kBitAnd,
  kBitOr,
  kBitXor,
  kShiftLeft,
  kShiftRight,
};

struct BinaryRow {
  std::string_view name;
  Fn fn;
  enum class Takes : uint8_t { kNumbers, kAny, kBools, kIntegers } takes;
  bool gives_bool;
  std::string_view onnx;  ///< "" if it has a rule of its own
  int since;
  std::string_view code;             ///< in OpenCL C, of floats; $x and $y are the elements
  std::string_view whole_code = "";  ///< of integers, if it is another one
};
using Takes = BinaryRow::Takes;
constexpr BinaryRow kBinaryRows[] = {
    {"add", Fn::kAdd, Takes::kNumbers, false, "Add", 7, "$x + $y"},
    {"sub", Fn::kSub, Takes::kNumbers, false, "Sub", 7, "$x - $y"},
    {"mul", Fn::kMul, Takes::kNumbers, false, "Mul", 7, "$x * $y"},
    {"div", Fn::kDiv, Takes::kNumbers, false, "Div", 7, "$x / $y", "($y == 0 ? 0 : $y == ($t)-1 ? -$x : $x / $y)"},
    {"pow", Fn::kPow, Takes::kNumbers, false, "Pow", 7, "pow($x, $y)", "q_power($x, $y)"},
    {"min", Fn::kMin, Takes::kNumbers, false, "", 0, "($x < $y || isnan($x) ? $x : $y)", "min($x, $y)"},
    {"max", Fn::kMax, Takes::kNumbers, false, "", 0, "($x > $y || isnan($x) ? $x : $y)", "max($x, $y)"},
    {"mod", Fn::kMod, Takes::kNumbers, false, "", 0, "$x - $y * floor($x / $y)",
     "($y == 0 || $y == ($t)-1 ? 0 : ($x % $y + $y) % $y)"},
    {"fmod", Fn::kFmod, Takes::kNumbers, false, "", 0, "fmod($x, $y)", "($y == 0 || $y == ($t)-1 ? 0 : $x % $y)"},
    {"equal", Fn::kEqual, Takes::kAny, true, "Equal", 7, "$x == $y"},
    {"less", Fn::kLess, Takes::kNumbers, true, "Less", 7, "$x < $y"},
    {"less_equal", Fn::kLessEqual, Takes::kNumbers, true, "LessOrEqual", 12, "$x <= $y"},
    {"and", Fn::kAnd, Takes::kBools, true, "And", 7, "$x && $y"},
    {"or", Fn::kOr, Takes::kBools, true, "Or", 7, "$x || $y"},
    {"xor", Fn::kXor, Takes::kBools, true, "Xor", 7, "($x != 0) != ($y != 0)"},
    {"bit_and", Fn::kBitAnd, Takes::kIntegers, false, "BitwiseAnd", 18, "$x & $y"},
    {"bit_or", Fn::kBitOr, Takes::kIntegers, false, "BitwiseOr", 18, "$x | $y"},
    {"bit_xor", Fn::kBitXor, Takes::kIntegers, false, "BitwiseXor", 18, "$x ^ $y"},
    {"shift_left", Fn::kShiftLeft, Takes::kIntegers, false, "", 0, "($y >= 8 * sizeof($t) ? 0 : $x << $y)"},
    {"shift_right", Fn::kShiftRight, Takes::kIntegers, false, "", 0, "($y >= 8 * sizeof($t) ? 0 : $x >> $y)"},
};

const BinaryRow& binary_row(std::string_view name) {
  for (const BinaryRow& row : kBinaryRows)
    if (row.name == name) return row;
  check_failed(__FILE__, __LINE__, "the operator has a row", std::string(name));
}

bool takes_dtype(Takes takes, Dtype dtype) {
  switch (takes) {
    case Takes::kNumbers:
      return dtype != Dtype::kBool;
    case Takes::kBools:
      return dtype == Dtype::kBool;
    case Takes::kIntegers:
      return !is_float(dtype) && dtype != Dtype::kBool;
    default:
      return true;
  }
}

Result<std::vector<ir::Type>> infer_binary(Site& site) {
  const BinaryRow& row = binary_row(site.op);
  const Dtype a = site.type(0).dtype, b = site.type(1).dtype;
  for (const Dtype dtype : {a, b})
    if (!takes_dtype(row.takes, dtype))
      return unsupported(fmt::format("{} of {} is not supported; cast it", site.op, name_of(dtype)));
  if (a != b && row.fn != Fn::kPow)
    return invalid(fmt::format("its inputs are {} and {}; give two of one dtype", name_of(a), name_of(b)));
  QUERN_TRY(ir::Dims dims, broadcast_dims(site, {0, 1}));
  return std::vector{ir::Type{row.gives_bool ? Dtype::kBool : a, std::move(dims)}};
}

double real_binary(Fn fn, double a, double b) {
  switch (fn) {
    case Fn::kAdd:
      return a + b;
    case Fn::kSub:
      return a - b;
    case Fn::kMul:
      return a * b;
    case Fn::kDiv:
      return a / b;
    case Fn::kPow:
      return std::pow(a, b);
    case Fn::kMin:
      return std::isnan(a) || std::isnan(b) ? a + b : std::min(a, b);
    case Fn::kMax:
      return std::isnan(a) || std::isnan(b) ? a + b : std::max(a, b);
    case Fn::kMod: {  // has the sign of b
      const double rest = std::fmod(a, b);
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
    default:
      return std::fmod(a, b);
  }
}

// A power by squaring, which wraps as * does. A negative exponent leaves 0, or the powers of 1 and -1.
template <class T>
T whole_power(T base, int64_t exponent) {
  if (exponent < 0) {
    if (base == T(1)) return 1;
    if (std::is_signed_v<T> && base == static_cast<T>(-1)) return exponent % 2 == 0 ? T(1) : static_cast<T>(-1);
    return 0;
  }
  uint64_t out = 1, factor = static_cast<uint64_t>(base);
  for (; exponent > 0; exponent >>= 1, factor *= factor)
    if (exponent & 1) out *= factor;
  return static_cast<T>(out);
}

// Division by 0 gives 0: C++ and OpenCL leave it open.
template <class T>
T whole_binary(Fn fn, T a, T b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  const bool overflows = std::is_signed_v<T> && b == static_cast<T>(-1);  // a / -1 may not fit
  switch (fn) {
    case Fn::kAdd:
      return static_cast<T>(x + y);
    case Fn::kSub:
      return static_cast<T>(x - y);
    case Fn::kMul:
      return static_cast<T>(x * y);
    case Fn::kDiv:
      return b == T(0) ? T(0) : overflows ? static_cast<T>(uint64_t{0} - x) : static_cast<T>(a / b);
    case Fn::kPow:
      return whole_power(a, static_cast<int64_t>(b));
    case Fn::kMin:
      return std::min(a, b);
    case Fn::kMax:
      return std::max(a, b);
    case Fn::kMod: {
      if (b == T(0) || overflows) return 0;
      const T rest = static_cast<T>(a % b);
      return rest != T(0) && (rest < T(0)) != (b < T(0)) ? static_cast<T>(rest + b) : rest;
    }
    case Fn::kFmod:
      return b == T(0) || overflows ? T(0) : static_cast<T>(a % b);
    case Fn::kBitAnd:
      return static_cast<T>(x & y);
    case Fn::kBitOr:
      return static_cast<T>(x | y);
    case Fn::kBitXor:
      return static_cast<T>(x ^ y);
    case Fn::kShiftLeft:
      return y >= 8 * sizeof(T) ? T(0) : static_cast<T>(x << y);
    default:
      return y >= 8 * sizeof(T) ? T(0) : static_cast<T>(a >> y);
  }
}

template <class T>
bool test_binary(Fn fn, T a, T b) {
  switch (fn) {
    case Fn::kEqual:
      return a == b;
    case Fn::kLess:
      return a < b;
    case Fn::kLessEqual:
      return a <= b;
    case Fn::kAnd:
      return a != T(0) && b != T(0);
    case Fn::kOr:
      return a != T(0) || b != T(0);
    default:
      return (a != T(0)) != (b != T(0));
  }
}

template <class T>
T one_binary(Fn fn, T a, T b) {
  if constexpr (ir::kIsFloat<T>)
    return static_cast<T>(real_binary(fn, static_cast<double>(static_cast<ir::Computed<T>>(a)),
                                      static_cast<double>(static_cast<ir::Computed<T>>(b))));
  else if constexpr (std::is_integral_v<T>)
    return whole_binary(fn, a, b);
  else
    return a;  // bools have tests only
}

Status reference_binary(Run& run) {
  const BinaryRow& row = binary_row(run.op);
  const ir::Tensor &a = run.in(0), &b = run.in(1);
  const ir::Sizes& sizes = run.out().sizes();
  const std::array strides{repeated_strides(a.sizes(), sizes), repeated_strides(b.sizes(), sizes)};
  if (a.dtype() != b.dtype()) {  // pow alone: both by way of double, unless both are integers
    const bool is_whole = !is_float(a.dtype()) && !is_float(b.dtype());
    ir::with_element(a.dtype(), [&]<class T>() {
      const auto out = run.out().write<T>();
      walk(sizes, strides, [&](size_t i, const auto& at) {
        const auto x = static_cast<size_t>(at[0]), y = static_cast<size_t>(at[1]);
        if constexpr (std::is_integral_v<T>)
          out[i] = is_whole ? whole_power(a.read<T>()[x], b.whole(y)) : static_cast<T>(std::pow(a.real(x), b.real(y)));
        else if constexpr (ir::kIsFloat<T>)
          out[i] = static_cast<T>(std::pow(a.real(x), b.real(y)));
      });
    });
    return {};
  }
  ir::with_element(a.dtype(), [&]<class T>() {
    const auto x = a.read<T>(), y = b.read<T>();
    if (row.gives_bool) {
      const auto out = run.out().write<ir::Bool>();
      walk(sizes, strides, [&](size_t i, const auto& at) {
        using C = ir::Computed<T>;
        out[i] = ir::Bool(test_binary<C>(row.fn, static_cast<C>(x[static_cast<size_t>(at[0])]),
                                         static_cast<C>(y[static_cast<size_t>(at[1])])));
      });
      return;
    }
    const auto out = run.out().write<T>();
    walk(sizes, strides, [&](size_t i, const auto& at) {
      out[i] = one_binary<T>(row.fn, x[static_cast<size_t>(at[0])], y[static_cast<size_t>(at[1])]);
    });
  });
  return {};
}

ir::Dim truth(std::optional<bool> known) { return known ? ir::Dim(*known) : ir::Dim::unknown(); }

// Unknown where the result is no whole number, or is not seen.
ir::Dim dim_binary(Fn fn, bool is_real, const ir::Dim& a, const ir::Dim& b) {
  switch (fn) {
    case Fn::kAdd:
      return a + b;
    case Fn::kSub:
      return a - b;
    case Fn::kMul:
      return a * b;
    case Fn::kDiv: {
      const ir::Dim quotient = floor_div(a, b);
      // Integers are truncated, which is floor where nothing is negative; floats must come out even.
      if (is_real ? quotient * b == a : a.range().low >= 0 && b.range().low >= 1) return quotient;
      return ir::Dim::unknown();
    }
    case Fn::kMod:
      return is_real ? ir::Dim::unknown() : modulo(a, b);
    case Fn::kMin:
      return min(a, b);
    case Fn::kMax:
      return max(a, b);
    case Fn::kEqual:
      return truth(ir::Dim::same(a, b));
    case Fn::kLess: {
      const auto other = ir::Dim::at_most(b, a);
      return other ? ir::Dim(!*other) : ir::Dim::unknown();
    }
    case Fn::kLessEqual:
      return truth(ir::Dim::at_most(a, b));
    case Fn::kAnd:
      return a * b;
    case Fn::kOr:
      return max(a, b);
    default:
      return ir::Dim::unknown();
  }
}

std::optional<ir::Dims> contents_binary(const Site& site) {
  const BinaryRow& row = binary_row(site.op);
  return broadcast_contents(site, {0, 1}, [&](const std::vector<ir::Dim>& x) {
    return dim_binary(row.fn, is_float(site.type(0).dtype), x[0], x[1]);
  });
}

std::string code_binary(const Code& code) {
  const BinaryRow& row = binary_row(code.op);
  if (code.from[0] != code.from[1]) {  // pow alone
    const bool is_whole = !is_float(code.from[0]) && !is_float(code.from[1]);
    const std::string_view wide = code.from[0] == Dtype::kFp64 || code.from[1] == Dtype::kFp64 ? "double" : "float";
    const std::string text = is_whole ? "q_power($x, $y)" : fmt::format("pow(({0})$x, ({0})$y)", wide);
    return kernel::filled(text, code);
  }
  const bool is_other = !is_float(code.from[0]) && !row.whole_code.empty();
  // Unsigned integers have no -1 to divide by: the largest one is an ordinary number.
  if (is_other && row.fn == Fn::kDiv && !is_signed(code.from[0]))
    return kernel::filled("($y == 0 ? 0 : $x / $y)", code);
  if (is_other && (row.fn == Fn::kMod || row.fn == Fn::kFmod) && !is_signed(code.from[0]))
    return kernel::filled("($y == 0 ? 0 : $x % $y)", code);
  return kernel::filled(is_other ? row.whole_code : row.code, code);
}

// where: a bool chooses between two.

std::string code_where(const Code& code) { return kernel::filled("($x ? $y : $z)", code); }

Result<std::vector<ir::Type>> infer_where(Site& site) {
  if (site.type(0).dtype != Dtype::kBool)
    return invalid(fmt::format("the condition is {}; give bools", name_of(site.type(0).dtype)));
  if (site.type(1).dtype != site.type(2).dtype)
    return invalid(fmt::format("its choices are {} and {}; give two of one dtype", name_of(site.type(1).dtype),
                               name_of(site.type(2).dtype)));
  QUERN_TRY(ir::Dims dims, broadcast_dims(site, {0, 1, 2}));
  return std::vector{ir::Type{site.type(1).dtype, std::move(dims)}};
}

Status reference_where(Run& run) {
  const ir::Sizes& sizes = run.out().sizes();
  const std::array strides{repeated_strides(run.in(0).sizes(), sizes), repeated_strides(run.in(1).sizes(), sizes),
                           repeated_strides(run.in(2).sizes(), sizes)};
  const auto condition = run.in(0).read<ir::Bool>();
  ir::with_element(run.out().dtype(), [&]<class T>() {
    const auto yes = run.in(1).read<T>(), no = run.in(2).read<T>();
    const auto out = run.out().write<T>();
    walk(sizes, strides, [&](size_t i, const auto& at) {
      out[i] = condition[static_cast<size_t>(at[0])] ? yes[static_cast<size_t>(at[1])] : no[static_cast<size_t>(at[2])];
    });
  });
  return {};
}

std::optional<ir::Dims> contents_where(const Site& site) {
  return broadcast_contents(site, {0, 1, 2}, [](const std::vector<ir::Dim>& x) {
    if (!x[0].is_fixed()) return x[1] == x[2] ? x[1] : ir::Dim::unknown();
    return x[0].is(0) ? x[2] : x[1];
  });
}

// Rules of ONNX.

Status import_swapped(NodeImport& node) {
  QUERN_TRY(const ir::ValueId a, node.in(0));
  QUERN_TRY(const ir::ValueId b, node.in(1));
  return node.become(node.op() == "Greater" ? "less" : "less_equal", {b, a});
}

// Any number of inputs, two at a time.
Status import_many(NodeImport& node) {
  const std::string_view op = node.op() == "Min" ? "min" : node.op() == "Max" ? "max" : "add";
  QUERN_TRY(ir::ValueId out, node.in(0));
  for (size_t i = 1; i < node.inputs(); ++i) {
    QUERN_TRY(const ir::ValueId next, node.in(i));
    QUERN_TRY(out, node.emit(op, {out, next}));
  }
  if (node.op() == "Mean") {
    const ir::ValueId count = node.number(node.type(out).dtype, static_cast<double>(node.inputs()));
    QUERN_TRY(out, node.emit("div", {out, count}));
  }
  node.set(0, out);
  return {};
}

Status import_clip(NodeImport& node, ir::ValueId low, ir::ValueId high) {
  QUERN_TRY(ir::ValueId out, node.in(0));
  if (low != ir::kNone) {
    QUERN_TRY(out, node.emit("max", {out, low}));
  }
  if (high != ir::kNone) {
    QUERN_TRY(out, node.emit("min", {out, high}));
  }
  node.set(0, out);
  return {};
}
Status import_clip_6(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  const Dtype dtype = node.type(x).dtype;
  ir::ValueId low = ir::kNone, high = ir::kNone;
  if (node.states("min")) {
    QUERN_TRY(const double value, node.real("min"));
    low = node.number(dtype, value);
  }
  if (node.states("max")) {
    QUERN_TRY(const double value, node.real("max"));
    high = node.number(dtype, value);
  }
  return import_clip(node, low, high);
}
Status import_clip_11(NodeImport& node) { return import_clip(node, node.in_or_none(1), node.in_or_none(2)); }

Status import_mod(NodeImport& node) {
  QUERN_TRY(const ir::ValueId a, node.in(0));
  QUERN_TRY(const ir::ValueId b, node.in(1));
  QUERN_TRY(const bool is_c, node.flag("fmod", false));
  if (!is_c && is_float(node.type(a).dtype)) return unsupported("mod of floats without 'fmod'; set fmod to 1");
  return node.become(is_c ? "fmod" : "mod", {a, b});
}

Status import_shift(NodeImport& node) {
  QUERN_TRY(const ir::ValueId a, node.in(0));
  QUERN_TRY(const ir::ValueId b, node.in(1));
  QUERN_TRY(const std::string direction, node.text("direction"));
  if (direction != "LEFT" && direction != "RIGHT")
    return invalid(fmt::format("attribute 'direction' is '{}'; give LEFT or RIGHT", direction));
  return node.become(direction == "LEFT" ? "shift_left" : "shift_right", {a, b});
}

// x where it is positive, else x * slope.
Status import_prelu(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const ir::ValueId slope, node.in(1));
  const ir::ValueId zero = node.number(node.type(x).dtype, 0);
  QUERN_TRY(const ir::ValueId is_negative, node.emit("less", {x, zero}));
  QUERN_TRY(const ir::ValueId scaled, node.emit("mul", {x, slope}));
  return node.become("where", {is_negative, scaled, x});
}

Family make_binary_family() {
  Family family;
  family.name = "element by element, of several tensors";
  for (const BinaryRow& row : kBinaryRows) {
    family.operators.push_back({.name = row.name,
                                .least_inputs = 2,
                                .most_inputs = 2,
                                .infer = infer_binary,
                                .contents = contents_binary,
                                .reference = reference_binary,
                                .code = code_binary});
    if (!row.onnx.empty()) family.rules.push_back({.op = row.onnx, .since = row.since, .becomes = row.name});
  }
  family.operators.push_back({.name = "where",
                              .least_inputs = 3,
                              .most_inputs = 3,
                              .infer = infer_where,
                              .contents = contents_where,
                              .reference = reference_where,
                              .code = code_where});
  for (const OnnxRule& rule : std::initializer_list<OnnxRule>{
           {.op = "Where", .since = 9, .becomes = "where"},
           {.op = "Greater", .since = 7, .import = import_swapped},
           {.op = "GreaterOrEqual", .since = 12, .import = import_swapped},
           {.op = "Min", .since = 8, .import = import_many},
           {.op = "Max", .since = 8, .import = import_many},
           {.op = "Sum", .since = 8, .import = import_many},
           {.op = "Mean", .since = 8, .import = import_many},
           {.op = "Clip", .since = 6, .import = import_clip_6},
           {.op = "Clip", .since = 11, .import = import_clip_11},
           {.op = "Mod", .since = 10, .import = import_mod},
           {.op = "BitShift", .since = 11, .import = import_shift},
           {.op = "PRelu", .since = 7, .import = import_prelu},
       })
    family.rules.push_back(rule);
  for (Operator& op : family.operators) {
    op.is_elementwise = true;
    op.lower = kernel::any::lower_elementwise;
  }
  return family;
}

}  // namespace

const Family& binary_family() {
  static const Family family = make_binary_family();
  for (Operator& op : family.operators) {
    op.is_elementwise = true;
    op.lower = kernel::any::lower_elementwise;
  }
  return family;
}

}  // namespace quern::model::op
