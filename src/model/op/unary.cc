// SPDX-License-Identifier: Apache-2.0
//
// One tensor, element by element. A row of kUnaryRows is an operator: its function of a real number, and what it is
// called in ONNX. The reference computes in double whatever the dtype, so that it errs less than any kernel.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "model/kernel/any/any.h"
#include "model/kernel/code.h"
#include "model/op/families.h"
#include "model/op/node_import.h"

namespace quern::model::op {
namespace {

struct Parameters {
  double alpha, beta;
};

/// An attribute of the ONNX operator that is `alpha` or `beta` of ours.
struct Parameter {
  std::string_view onnx;
  double fallback;
};

/// What an operator does to integers.
enum class Whole : uint8_t { kUnsupported, kAbs, kNeg, kSign, kRelu, kReal };

struct UnaryRow {
  std::string_view name, onnx;
  int since;
  double (*real)(double x, const Parameters& p);
  std::string_view code;  ///< in OpenCL C: $x is the element, $a and $b are alpha and beta, @ ends a real literal
  Whole whole;            ///< the same of an integer
  int parameters = 0;
  std::array<Parameter, 2> names = {};
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
double clamp01(double x) { return std::min(std::max(x, 0.0), 1.0); }

// Rounds halves to even whatever the rounding mode of the machine.
double round_to_even(double x) {
  const double below = std::floor(x), fraction = x - below;
  if (fraction != 0.5) return fraction < 0.5 ? below : below + 1;
  return std::fmod(below, 2) == 0 ? below : below + 1;
}

using P = const Parameters&;
const UnaryRow kUnaryRows[] = {
    {"abs", "Abs", 6, [](double x, P) { return std::fabs(x); }, "fabs($x)", Whole::kAbs},
    {"neg", "Neg", 6, [](double x, P) { return -x; }, "-$x", Whole::kNeg},
    {"sign", "Sign", 9, [](double x, P) { return x > 0   ? 1.0
                                                 : x < 0 ? -1.0
                                                         : x; }, "($x > 0 ? 1 : $x < 0 ? -1 : $x)",
     Whole::kSign},
    {"relu", "Relu", 6, [](double x, P) { return x < 0 ? 0.0 : x; }, "($x < 0 ? 0 : $x)", Whole::kRelu},
    {"floor", "Floor", 6, [](double x, P) { return std::floor(x); }, "floor($x)", Whole::kUnsupported},
    {"ceil", "Ceil", 6, [](double x, P) { return std::ceil(x); }, "ceil($x)", Whole::kUnsupported},
    {"round", "Round", 11, [](double x, P) { return round_to_even(x); }, "rint($x)", Whole::kUnsupported},
    {"sqrt", "Sqrt", 6, [](double x, P) { return std::sqrt(x); }, "sqrt($x)", Whole::kUnsupported},
    {"reciprocal", "Reciprocal", 6, [](double x, P) { return 1 / x; }, "1 / $x", Whole::kUnsupported},
    {"exp", "Exp", 6, [](double x, P) { return std::exp(x); }, "exp($x)", Whole::kUnsupported},
    {"log", "Log", 6, [](double x, P) { return std::log(x); }, "log($x)", Whole::kUnsupported},
    {"erf", "Erf", 9, [](double x, P) { return std::erf(x); }, "erf($x)", Whole::kUnsupported},
    {"sin", "Sin", 7, [](double x, P) { return std::sin(x); }, "sin($x)", Whole::kUnsupported},
    {"cos", "Cos", 7, [](double x, P) { return std::cos(x); }, "cos($x)", Whole::kUnsupported},
    {"tan", "Tan", 7, [](double x, P) { return std::tan(x); }, "tan($x)", Whole::kUnsupported},
    {"asin", "Asin", 7, [](double x, P) { return std::asin(x); }, "asin($x)", Whole::kUnsupported},
    {"acos", "Acos", 7, [](double x, P) { return std::acos(x); }, "acos($x)", Whole::kUnsupported},
    {"atan", "Atan", 7, [](double x, P) { return std::atan(x); }, "atan($x)", Whole::kUnsupported},
    {"sinh", "Sinh", 9, [](double x, P) { return std::sinh(x); }, "sinh($x)", Whole::kUnsupported},
    {"cosh", "Cosh", 9, [](double x, P) { return std::cosh(x); }, "cosh($x)", Whole::kUnsupported},
    {"tanh", "Tanh", 6, [](double x, P) { return std::tanh(x); }, "tanh($x)", Whole::kUnsupported},
    {"asinh", "Asinh", 9, [](double x, P) { return std::asinh(x); }, "asinh($x)", Whole::kUnsupported},
    {"acosh", "Acosh", 9, [](double x, P) { return std::acosh(x); }, "acosh($x)", Whole::kUnsupported},
    {"atanh", "Atanh", 9, [](double x, P) { return std::atanh(x); }, "atanh($x)", Whole::kUnsupported},
    {"sigmoid", "Sigmoid", 6, [](double x, P) { return sigmoid(x); }, "1 / (1 + exp(-$x))", Whole::kUnsupported},
    {"softplus", "Softplus", 1, [](double x, P) { return softplus(x); }, "($x > 0 ? $x : 0) + log1p(exp(-fabs($x)))",
     Whole::kUnsupported},
    {"softsign", "Softsign", 1, [](double x, P) { return x / (1 + std::fabs(x)); }, "$x / (1 + fabs($x))",
     Whole::kUnsupported},
    {"mish", "Mish", 18, [](double x, P) { return x * std::tanh(softplus(x)); },
     "$x * tanh(($x > 0 ? $x : 0) + log1p(exp(-fabs($x))))", Whole::kUnsupported},
    {"hard_swish", "HardSwish", 14, [](double x, P) { return x * clamp01(x / 6 + 0.5); },
     "$x * ($x < -3 ? 0 : $x > 3 ? 1 : $x / 6 + 0.5@)", Whole::kUnsupported},
    {"hard_sigmoid",
     "HardSigmoid",
     6,
     [](double x, P p) { return clamp01(p.alpha * x + p.beta); },
     Whole::kUnsupported,
     2,
     {{{"alpha", 0.2}, {"beta", 0.5}}}},
    {"leaky_relu",
     "LeakyRelu",
     6,
     [](double x, P p) { return x < 0 ? p.alpha * x : x; },
     Whole::kUnsupported,
     1,
     {{{"alpha", 0.01}, {}}}},
    {"elu",
     "Elu",
     6,
     [](double x, P p) { return x < 0 ? p.alpha * std::expm1(x) : x; },
     Whole::kUnsupported,
     1,
     {{{"alpha", 1}, {}}}},
    {"celu",
     "Celu",
     12,
     [](double x, P p) { return std::max(0.0, x) + std::min(0.0, p.alpha * std::expm1(x / p.alpha)); },
     Whole::kUnsupported,
     1,
     {{{"alpha", 1}, {}}}},
    {"selu",
     "Selu",
     6,
     [](double x, P p) { return p.beta * (x < 0 ? p.alpha * std::expm1(x) : x); },
     Whole::kUnsupported,
     2,
     {{{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}}}},
    {"thresholded_relu",
     "ThresholdedRelu",
     10,
     [](double x, P p) { return x > p.alpha ? x : 0.0; },
     Whole::kUnsupported,
     1,
     {{{"alpha", 1}, {}}}},
    {"swish",
     "Swish",
     24,
     [](double x, P p) { return x * sigmoid(p.alpha * x); },
     Whole::kUnsupported,
     1,
     {{{"alpha", 1}, {}}}},
    {"shrink",
     "Shrink",
     9,
     [](double x, P p) { return x < -p.alpha  ? x + p.beta
                                : x > p.alpha ? x - p.beta
                                              : 0.0; },
     Whole::kReal,
     2,
     {{{"lambd", 0.5}, {"bias", 0}}}},
    {"gelu", "", 0, [](double x, P) { return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5))); },
     "0.5@ * $x * (1 + erf($x * 0.70710678118654752@))", Whole::kUnsupported},
    {"gelu_tanh", "", 0,
     [](double x, P) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); },
     "0.5@ * $x * (1 + tanh(0.79788456080286536@ * ($x + 0.044715@ * $x * $x * $x)))", Whole::kUnsupported},
};

template <class T>
T of_integer(Whole what, T x) {
  // By way of uint64_t, where the negative of the smallest integer wraps.
  const auto negated = static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x));
  switch (what) {
    case Whole::kAbs:
      return x < T(0) ? negated : x;
    case Whole::kNeg:
      return negated;
    case Whole::kSign:
      return static_cast<T>((x > T(0)) - (x < T(0)));
    default:
      return x < T(0) ? T(0) : x;
  }
}

// The row of an operator, or of an ONNX operator.
const UnaryRow& unary_row(std::string_view name, bool is_onnx = false) {
  for (const UnaryRow& row : kUnaryRows)
    if ((is_onnx ? row.onnx : row.name) == name) return row;
  check_failed(__FILE__, __LINE__, "the operator has a row", std::string(name));
}

Result<std::vector<ir::Type>> infer_unary(Site& site) {
  const Dtype dtype = site.type(0).dtype;
  if (dtype == Dtype::kBool || (!is_float(dtype) && unary_row(site.op).whole == Whole::kUnsupported))
    return unsupported(fmt::format("{} of {} is not supported; cast it to a float", site.op, name_of(dtype)));
  return std::vector{site.type(0)};
}

Status reference_unary(Run& run) {
  const UnaryRow& row = unary_row(run.op);
  const Parameters p{row.parameters > 0 ? run.attributes.real("alpha") : 0,
                     row.parameters > 1 ? run.attributes.real("beta") : 0};
  ir::with_element(run.in(0).dtype(), [&]<class T>() {
    const auto x = run.in(0).read<T>();
    const auto y = run.out().write<T>();
    for (size_t i = 0; i < y.size(); ++i) {
      if constexpr (ir::kIsFloat<T>)
        y[i] = static_cast<T>(row.real(static_cast<double>(static_cast<ir::Computed<T>>(x[i])), p));
      else if constexpr (std::is_integral_v<T>)
        y[i] = row.whole == Whole::kReal ? static_cast<T>(row.real(static_cast<double>(x[i]), p))
                                         : of_integer<T>(row.whole, x[i]);
    }
  });
  return {};
}

// What is a whole number stays one: rounding changes nothing, and signs are those of expressions.
std::optional<ir::Dims> contents_unary(const Site& site) {
  auto known = site.contents(0);
  if (!known) return std::nullopt;
  const std::string_view name = site.op;
  if (name == "floor" || name == "ceil" || name == "round") return known;
  if (name != "neg" && name != "abs" && name != "relu") return std::nullopt;
  for (ir::Dim& dim : *known) {
    const ir::Dim negated = dim * ir::Dim(-1);
    dim = name == "neg" ? negated : max(dim, name == "abs" ? negated : ir::Dim(0));
  }
  return known;
}

std::string code_unary(const Code& code) {
  const UnaryRow& row = unary_row(code.op);
  std::string_view text = row.code;
  if (!is_float(code.to)) {
    if (row.whole == Whole::kAbs) text = "($x < 0 ? -$x : $x)";
    if (row.whole == Whole::kSign) text = "($x > 0) - ($x < 0)";
  }
  return kernel::filled(text, code);
}

Status import_unary(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  const UnaryRow& row = unary_row(node.op(), true);
  ir::Attributes attributes;
  constexpr std::string_view kNames[] = {"alpha", "beta"};
  for (int i = 0; i < row.parameters; ++i) {
    const Parameter& parameter = row.names[static_cast<size_t>(i)];
    QUERN_TRY(const double value, node.real(parameter.onnx, parameter.fallback));
    attributes.set(kNames[i], value);
  }
  return node.become(row.name, {x}, attributes);
}

Status import_gelu(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const std::string approximate, node.text("approximate", "none"));
  if (approximate != "none" && approximate != "tanh")
    return unsupported(fmt::format("attribute 'approximate' is '{}'; give none or tanh", approximate));
  return node.become(approximate == "tanh" ? "gelu_tanh" : "gelu", {x});
}

// Tests of floats, whose result is a bool.

std::string code_is_nan(const Code& code) { return kernel::filled("isnan($x)", code); }
std::string code_is_inf(const Code& code) {
  const std::string test = fmt::format("(isinf($x) && ($x > 0 ? {} : {}))", code.attributes.whole("positive"),
                                       code.attributes.whole("negative"));
  return kernel::filled(test, code);
}
std::string code_not(const Code& code) { return kernel::filled("!$x", code); }
std::string code_bit_not(const Code& code) { return kernel::filled("~$x", code); }

Result<std::vector<ir::Type>> infer_test(Site& site) {
  if (!is_float(site.type(0).dtype)) return unsupported("the input is no float; give one");
  return std::vector{ir::Type{Dtype::kBool, site.dims(0)}};
}
template <class Test>
Status run_test(Run& run, Test test) {
  const auto y = run.out().write<ir::Bool>();
  for (size_t i = 0; i < y.size(); ++i) y[i] = ir::Bool(test(run.in(0).real(i)));
  return {};
}
Status reference_is_nan(Run& run) {
  return run_test(run, [](double x) { return std::isnan(x); });
}
Status reference_is_inf(Run& run) {
  const bool positive = run.attributes.flag("positive"), negative = run.attributes.flag("negative");
  return run_test(run, [&](double x) { return std::isinf(x) && (x > 0 ? positive : negative); });
}
Status import_is_inf(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const int64_t positive, node.whole("detect_positive", 1));
  QUERN_TRY(const int64_t negative, node.whole("detect_negative", 1));
  return node.become("is_inf", {x}, {{"positive", ir::Dim(positive)}, {"negative", ir::Dim(negative)}});
}

// Bits.

Result<std::vector<ir::Type>> infer_not(Site& site) {
  if (site.type(0).dtype != Dtype::kBool)
    return unsupported(fmt::format("not of {} is not supported; give a bool", name_of(site.type(0).dtype)));
  return std::vector{site.type(0)};
}
Status reference_not(Run& run) {
  const auto x = run.in(0).read<ir::Bool>();
  const auto y = run.out().write<ir::Bool>();
  for (size_t i = 0; i < y.size(); ++i) y[i] = ir::Bool(!x[i]);
  return {};
}
Result<std::vector<ir::Type>> infer_bit_not(Site& site) {
  if (is_float(site.type(0).dtype) || site.type(0).dtype == Dtype::kBool)
    return unsupported(fmt::format("bit_not of {} is not supported; give an integer", name_of(site.type(0).dtype)));
  return std::vector{site.type(0)};
}
Status reference_bit_not(Run& run) {
  const auto x = run.in(0).bytes();
  const auto y = run.out().write_bytes();
  for (size_t i = 0; i < y.size(); ++i) y[i] = ~x[i];
  return {};
}
Family make_unary_family() {
  Family family;
  family.name = "element by element, of one tensor";
  for (const UnaryRow& row : kUnaryRows) {
    Operator op;
    op.name = row.name;
    if (row.parameters > 0) op.attributes.push_back({"alpha", 0.0, true});
    if (row.parameters > 1) op.attributes.push_back({"beta", 0.0, true});
    op.infer = infer_unary;
    op.contents = contents_unary;
    op.reference = reference_unary;
    op.code = code_unary;
    family.operators.push_back(std::move(op));
    if (!row.onnx.empty()) family.rules.push_back({.op = row.onnx, .since = row.since, .import = import_unary});
  }
  family.operators.push_back(
      {.name = "is_nan", .infer = infer_test, .reference = reference_is_nan, .code = code_is_nan});
  family.operators.push_back({.name = "is_inf",
                              .attributes = {{"negative", ir::Dim(1)}, {"positive", ir::Dim(1)}},
                              .infer = infer_test,
                              .reference = reference_is_inf,
                              .code = code_is_inf});
  family.operators.push_back({.name = "not", .infer = infer_not, .reference = reference_not, .code = code_not});
  family.operators.push_back(
      {.name = "bit_not", .infer = infer_bit_not, .reference = reference_bit_not, .code = code_bit_not});
  family.rules.push_back({.op = "Gelu", .since = 20, .import = import_gelu});
  family.rules.push_back({.op = "IsNaN", .since = 9, .becomes = "is_nan"});
  family.rules.push_back({.op = "IsInf", .since = 10, .import = import_is_inf});
  family.rules.push_back({.op = "Not", .becomes = "not"});
  family.rules.push_back({.op = "BitwiseNot", .since = 18, .becomes = "bit_not"});
  for (Operator& op : family.operators) {
    op.is_elementwise = true;
    op.lower = kernel::any::lower_elementwise;
  }
  return family;
}

}  // namespace

const Family& unary_family() {
  static const Family family = make_unary_family();
  for (Operator& op : family.operators) {
    op.is_elementwise = true;
    op.lower = kernel::any::lower_elementwise;
  }
  return family;
}

}  // namespace quern::model::op
