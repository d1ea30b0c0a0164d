// SPDX-License-Identifier: Apache-2.0
//
// Another dtype. A float that becomes an integer is truncated; out of range it becomes the nearest that fits, and NaN
// becomes 0, where ONNX leaves both open. Integers wrap. What is not 0 becomes a true bool.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "model/kernel/any/any.h"
#include "model/kernel/code.h"
#include "model/op/families.h"
#include "model/op/node_import.h"

namespace quern::model::op {
namespace {

Result<std::vector<ir::Type>> infer_cast(Site& site) {
  const auto to = dtype_of(site.attributes.text("to"));
  if (!to) return invalid(fmt::format("'{}' is no dtype; give one", site.attributes.text("to")));
  return std::vector{ir::Type{*to, site.dims(0)}};
}

template <class To, class From>
To cast_element(From from) {
  if constexpr (std::same_as<To, ir::Bool>) {
    return To(static_cast<ir::Computed<From>>(from) != ir::Computed<From>(0));
  } else if constexpr (ir::kIsFloat<To>) {
    return static_cast<To>(static_cast<ir::Computed<From>>(from));
  } else if constexpr (ir::kIsFloat<From>) {
    const auto real = static_cast<double>(static_cast<ir::Computed<From>>(from));
    if (std::isnan(real)) return 0;
    // 2^63 and 2^64 are doubles, their predecessors are not: compare with the first that does not fit.
    if (real >= std::ldexp(1.0, std::numeric_limits<To>::digits)) return std::numeric_limits<To>::max();
    if (real <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    return static_cast<To>(real);
  } else {
    return static_cast<To>(from);
  }
}

Status reference_cast(Run& run) {
  ir::with_element(run.in(0).dtype(), [&]<class From>() {
    ir::with_element(run.out().dtype(), [&]<class To>() {
      const auto x = run.in(0).read<From>();
      const auto y = run.out().write<To>();
      for (size_t i = 0; i < y.size(); ++i) y[i] = cast_element<To, From>(x[i]);
    });
  });
  return {};
}

// Sizes keep their values in every type that holds them; a float of 32 bits holds whole numbers up to 2^24.
std::optional<ir::Dims> contents_cast(const Site& site) {
  auto known = site.contents(0);
  if (!known) return std::nullopt;
  const Dtype to = *dtype_of(site.attributes.text("to"));
  const int64_t limit = to == Dtype::kInt64 || to == Dtype::kUint64 || to == Dtype::kFp64 ? int64_t{1} << 53
                        : to == Dtype::kInt32 || to == Dtype::kUint32                     ? INT32_MAX
                        : to == Dtype::kFp32                                              ? 1 << 24
                                                                                          : 0;
  const bool is_signed_target = is_signed(to);
  for (const ir::Dim& dim : *known) {
    const ir::Dim::Range range = dim.range();
    if (range.high > limit || range.low < (is_signed_target ? -limit : 0)) return std::nullopt;
  }
  return known;
}

std::string code_cast(const Code& code) { return kernel::converted(code.from[0], code.to, code.operands[0]); }

Status import_cast(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const int64_t to, node.whole("to"));
  node.ignore("saturate");    // is about floats of 8 bits
  node.ignore("round_mode");  // likewise
  const auto dtype = to < 0 || to > INT32_MAX ? std::nullopt : onnx::dtype_of(static_cast<int32_t>(to));
  if (!dtype)
    return unsupported(fmt::format("a cast to {} is not supported; cast to another type",
                                   onnx::name_of_data_type(static_cast<int32_t>(to))));
  QUERN_TRY(const ir::ValueId y, node.cast(x, *dtype));
  node.set(0, y);
  return {};
}

Status import_cast_like(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const ir::ValueId like, node.in(1));
  node.ignore("saturate");
  node.ignore("round_mode");
  QUERN_TRY(const ir::ValueId y, node.cast(x, node.type(like).dtype));
  node.set(0, y);
  return {};
}

Family make_cast_family() {
  Family family;
  family.name = "other element types";
  family.operators.push_back({.name = "cast",
                              .attributes = {{"to", std::string(), true}},
                              .is_elementwise = true,
                              .infer = infer_cast,
                              .contents = contents_cast,
                              .reference = reference_cast,
                              .code = code_cast,
                              .lower = kernel::any::lower_elementwise});
  family.rules.push_back({"Cast", 6, import_cast});
  family.rules.push_back({"CastLike", 15, import_cast_like});
  return family;
}

}  // namespace

const Family& cast_family() {
  static const Family family = make_cast_family();
  return family;
}

}  // namespace quern::model::op
