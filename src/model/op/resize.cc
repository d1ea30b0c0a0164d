// SPDX-License-Identifier: Apache-2.0
//
// A tensor in other sizes, its elements taken from nearby: the nearest, or a weighted mean of 2 (linear) or 4 (cubic)
// along each axis. Every output along an axis is a list of taps, (index, weight), and axes are independent: the
// reference applies them one after the other.
//
// A place x of the output is at `transform(x)` in the input; the names of transforms are those of ONNX. Along an axis
// of `scales` 0 the scale is the quotient of the sizes, which may be free dims.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/kernel/any/any.h"
#include "model/op/families.h"
#include "model/op/node_import.h"
#include "model/op/walk.h"

namespace quern::model::op {
namespace {

constexpr std::string_view kTransforms[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                            "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
constexpr std::string_view kRoundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
constexpr std::string_view kResizeModes[] = {"nearest", "linear", "cubic"};

template <class List>
Status check_word(std::string_view word, const List& known, std::string_view what) {
  if (std::find(std::begin(known), std::end(known), word) != std::end(known)) return {};
  return unsupported(fmt::format("{} is '{}'; give one of {}", what, word, fmt::join(known, ", ")));
}

Result<std::vector<ir::Type>> infer_resize(Site& site) {
  const ir::Type& x = site.type(0);
  const ir::Attributes& a = site.attributes;
  QUERN_TRY(check_word(a.text("mode"), kResizeModes, "mode"));
  QUERN_TRY(check_word(a.text("transform"), kTransforms, "transform"));
  QUERN_TRY(check_word(a.text("nearest"), kRoundings, "nearest"));
  if (x.dtype == Dtype::kBool) return unsupported("resize of bools is not supported; cast them");
  if (a.dims("sizes").size() != x.rank() || a.reals("scales").size() != x.rank())
    return invalid(fmt::format("{} sizes and {} scales for {} dimensions; give one of each", a.dims("sizes").size(),
                               a.reals("scales").size(), x.rank()));
  if (!a.reals("region").empty() && a.reals("region").size() != 2 * x.rank())
    return invalid("the region has not two numbers per dimension; give them");
  return std::vector{ir::Type{x.dtype, a.dims("sizes")}};
}

struct Tap {
  int64_t index;
  double weight;
};
/// The taps of one output along an axis; none: it lies outside, and is the value for that.
using Taps = std::vector<Tap>;

struct Axis {
  int64_t in, out;
  double scale, begin, end;  // begin and end of the region
};

double transformed(const std::string& transform, const Axis& axis, double x) {
  if (transform == "asymmetric") return x / axis.scale;
  if (transform == "align_corners") {
    // The scale that is given, not the quotient of whole sizes, says where the last element is.
    const double last = axis.scale * static_cast<double>(axis.in) - 1;
    return last == 0 ? 0 : x * static_cast<double>(axis.in - 1) / last;
  }
  if (transform == "pytorch_half_pixel") return axis.out > 1 ? (x + 0.5) / axis.scale - 0.5 : 0;
  if (transform == "tf_half_pixel_for_nn") return (x + 0.5) / axis.scale;
  if (transform == "tf_crop_and_resize") {
    const double last = static_cast<double>(axis.in - 1);
    return axis.out > 1 ? axis.begin * last + x * (axis.end - axis.begin) * last / static_cast<double>(axis.out - 1)
                        : 0.5 * (axis.begin + axis.end) * last;
  }
  double shift = 0;
  if (transform == "half_pixel_symmetric") {
    const double adjustment = static_cast<double>(axis.out) / (axis.scale * static_cast<double>(axis.in));
    shift = static_cast<double>(axis.in) / 2 * (1 - adjustment);
  }
  return shift + (x + 0.5) / axis.scale - 0.5;
}

int64_t rounded(const std::string& rounding, double x) {
  if (rounding == "floor") return static_cast<int64_t>(std::floor(x));
  if (rounding == "ceil") return static_cast<int64_t>(std::ceil(x));
  const bool is_half = x - std::floor(x) == 0.5;
  if (is_half) return static_cast<int64_t>(rounding == "round_prefer_floor" ? std::floor(x) : std::ceil(x));
  return static_cast<int64_t>(std::round(x));
}

// The weight of an element at a distance from the place.
double kernel_weight(bool is_cubic, double a, double distance) {
  const double d = std::fabs(distance);
  if (!is_cubic) return std::max(0.0, 1 - d);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

Taps taps_at(const ir::Attributes& attributes, const Axis& axis, int64_t x) {
  const std::string &mode = attributes.text("mode"), &transform = attributes.text("transform");
  const double place = transformed(transform, axis, static_cast<double>(x));
  if (transform == "tf_crop_and_resize" && (place < 0 || place > static_cast<double>(axis.in - 1))) return {};
  const auto clamped = [&](int64_t i) { return std::clamp<int64_t>(i, 0, axis.in - 1); };
  if (mode == "nearest") return {{clamped(rounded(attributes.text("nearest"), place)), 1}};
  const bool is_cubic = mode == "cubic", excludes = attributes.flag("exclude_outside");
  const double a = attributes.real("cubic_a");
  // Shrinking with antialias widens the kernel to what one output stands for.
  const double shrink = attributes.flag("antialias") ? std::min(axis.scale, 1.0) : 1;
  const double reach = (is_cubic ? 2 : 1) / shrink;
  Taps out;
  double sum = 0;
  const auto first = static_cast<int64_t>(std::floor(place - reach)) + 1;
  for (int64_t i = first; static_cast<double>(i) < place + reach; ++i) {
    double weight = kernel_weight(is_cubic, a, (static_cast<double>(i) - place) * shrink);
    const bool is_outside = i < 0 || i >= axis.in;
    if (is_outside && (excludes || (shrink < 1 && !is_cubic))) weight = 0;
    sum += weight;
    if (weight != 0) out.push_back({clamped(i), weight});
  }
  if (sum == 0) return {{clamped(static_cast<int64_t>(std::llround(place))), 1}};
  for (Tap& tap : out) tap.weight /= sum;
  return out;
}

Status reference_resize(Run& run) {
  const ir::Attributes& attributes = run.attributes;
  ir::Sizes sizes = run.in(0).sizes();
  const ir::Sizes& to = run.out().sizes();
  if (run.out().elements() == 0) return {};
  if (run.in(0).elements() == 0) return invalid("an empty tensor is to become a larger one; give elements");
  const std::vector<double>&scales = attributes.reals("scales"), &region = attributes.reals("region");
  std::vector<double> values(run.in(0).elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = run.in(0).real(i);
  std::vector<bool> is_outside;  // of the values so far, if any is
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool has_region = !region.empty();
    Axis axis{sizes[d], to[d], scales[d], has_region ? region[d] : 0, has_region ? region[sizes.size() + d] : 1};
    if (axis.scale == 0) axis.scale = static_cast<double>(axis.out) / static_cast<double>(axis.in);
    const bool is_whole = !has_region || (axis.begin == 0 && axis.end == 1);
    if (axis.in == axis.out && axis.scale == 1 && is_whole) continue;
    std::vector<Taps> taps;
    for (int64_t x = 0; x < axis.out; ++x) taps.push_back(taps_at(attributes, axis, x));
    const int64_t stride = strides_of(sizes)[d];
    sizes[d] = axis.out;
    const auto count = static_cast<size_t>(*ir::elements_of(sizes));
    std::vector<double> next(count);
    std::vector<bool> next_outside(count);
    for (size_t i = 0; i < count; ++i) {
      const auto at = static_cast<int64_t>(i);
      const int64_t x = at / stride % axis.out, base = at / stride / axis.out * axis.in * stride + at % stride;
      const Taps& list = taps[static_cast<size_t>(x)];
      next_outside[i] = list.empty();
      for (const Tap& tap : list) {
        const auto from = static_cast<size_t>(base + tap.index * stride);
        next[i] += tap.weight * values[from];
        if (!is_outside.empty() && is_outside[from]) next_outside[i] = true;
      }
    }
    values = std::move(next);
    is_outside = std::move(next_outside);
  }
  for (size_t i = 0; i < is_outside.size(); ++i)
    if (is_outside[i]) values[i] = attributes.real("outside");
  ir::with_element(run.out().dtype(), [&]<class T>() {
    const auto y = run.out().write<T>();
    if constexpr (!std::same_as<T, ir::Bool>)
      for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<T>(values[i]);
  });
  return {};
}

// Rules of ONNX.

// floor(size * scale). With a free dim the scale must be a fraction of small powers of two, which floats hold exactly.
Result<ir::Dim> scaled(const ir::Dim& size, double scale) {
  if (size.is_fixed())
    return ir::Dim(static_cast<int64_t>(std::floor(static_cast<float>(size.fixed()) * static_cast<float>(scale))));
  for (int64_t divisor = 1; divisor <= 64; divisor *= 2) {
    const double numerator = scale * static_cast<double>(divisor);
    if (numerator == std::floor(numerator) && numerator < 1e6)
      return floor_div(size * ir::Dim(static_cast<int64_t>(numerator)), divisor);
  }
  return unsupported(fmt::format("a free dim scaled by {} is no expression; fix the dim", scale));
}

struct ResizeInputs {
  size_t region, scales, sizes;  // their places; SIZE_MAX: there is no such input
};

Status import_resize_with(NodeImport& node, const ResizeInputs& place) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  const ir::Dims from = node.type(x).dims;
  QUERN_TRY(const std::string mode, node.text("mode", "nearest"));
  const bool is_old = node.version() < 11;  // such versions had one transform, and rounded down
  std::string transform = "asymmetric", nearest = "floor", policy = "stretch";
  double cubic_a = -0.75, outside = 0;
  bool excludes = false, antialias = false;
  std::vector<int64_t> axes;
  for (size_t d = 0; d < from.size(); ++d) axes.push_back(static_cast<int64_t>(d));
  if (!is_old) {
    QUERN_TRY(transform, node.text("coordinate_transformation_mode", "half_pixel"));
    QUERN_TRY(nearest, node.text("nearest_mode", "round_prefer_floor"));
    QUERN_TRY(cubic_a, node.real("cubic_coeff_a", -0.75));
    QUERN_TRY(excludes, node.flag("exclude_outside", false));
    QUERN_TRY(outside, node.real("extrapolation_value", 0));
  }
  if (node.version() >= 18) {
    QUERN_TRY(antialias, node.flag("antialias", false));
    QUERN_TRY(policy, node.text("keep_aspect_ratio_policy", "stretch"));
    QUERN_TRY(const auto given, node.wholes("axes"));
    if (given) axes = *given;
    for (int64_t& axis : axes) {
      QUERN_TRY(const size_t from_front, NodeImport::axis(axis, from.size()));
      axis = static_cast<int64_t>(from_front);
    }
  }
  ir::Dims sizes = from;
  std::vector<double> scales(from.size(), 1);
  const auto is_given = [&](size_t i) {
    return node.has(i) && !ir::product_of(node.type(node.in_or_none(i)).dims).is(0);
  };
  if (is_given(place.sizes)) {
    QUERN_TRY(const ir::Dims given, node.numbers(place.sizes, "the list of sizes"));
    if (given.size() != axes.size())
      return invalid(fmt::format("{} sizes for {} axes; give one for each", given.size(), axes.size()));
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto axis = static_cast<size_t>(axes[i]);
      sizes[axis] = given[i];
      scales[axis] = given[i] == from[axis] ? 1 : 0;
    }
  } else if (is_given(place.scales)) {
    QUERN_TRY(const ir::Tensor given, node.constant_input(place.scales, "the list of scales"));
    if (given.elements() != axes.size())
      return invalid(fmt::format("{} scales for {} axes; give one for each", given.elements(), axes.size()));
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto axis = static_cast<size_t>(axes[i]);
      scales[axis] = given.real(i);
      if (!(scales[axis] > 0)) return invalid(fmt::format("a scale of {}; give one above 0", scales[axis]));
      QUERN_TRY(sizes[axis], scaled(from[axis], scales[axis]));
    }
  } else {
    return invalid("neither sizes nor scales are given; give one of them");
  }
  if (policy == "not_larger" || policy == "not_smaller") {
    // One scale for all axes: the smallest or the largest that they ask for.
    double scale = 0;
    for (const int64_t axis : axes) {
      const auto d = static_cast<size_t>(axis);
      if (!sizes[d].is_fixed() || !from[d].is_fixed() || from[d].is(0))
        return unsupported("keeping the aspect ratio of free dims is not supported; fix them");
      const double one = static_cast<double>(sizes[d].fixed()) / static_cast<double>(from[d].fixed());
      scale = scale == 0 ? one : policy == "not_larger" ? std::min(scale, one) : std::max(scale, one);
    }
    for (const int64_t axis : axes) {
      const auto d = static_cast<size_t>(axis);
      scales[d] = scale;
      sizes[d] = static_cast<int64_t>(std::floor(scale * static_cast<double>(from[d].fixed()) + 0.5));
    }
  } else if (policy != "stretch") {
    return unsupported(
        fmt::format("attribute 'keep_aspect_ratio_policy' is '{}'; give stretch, not_larger or not_smaller", policy));
  }
  std::vector<double> region;
  if (transform == "tf_crop_and_resize") {
    QUERN_TRY(const ir::Tensor given, node.constant_input(place.region, "the region"));
    if (given.elements() != 2 * axes.size()) return invalid("the region has not two numbers for each axis; give them");
    region.assign(2 * from.size(), 0);
    std::fill(region.begin() + static_cast<ptrdiff_t>(from.size()), region.end(), 1);
    for (size_t i = 0; i < axes.size(); ++i) {
      region[static_cast<size_t>(axes[i])] = given.real(i);
      region[from.size() + static_cast<size_t>(axes[i])] = given.real(axes.size() + i);
    }
  }
  return node.become("resize", {x},
                     {{"mode", mode},
                      {"transform", transform},
                      {"nearest", nearest},
                      {"cubic_a", cubic_a},
                      {"exclude_outside", ir::Dim(excludes)},
                      {"antialias", ir::Dim(antialias)},
                      {"outside", outside},
                      {"scales", scales},
                      {"region", region},
                      {"sizes", sizes}});
}

Status import_resize_10(NodeImport& node) { return import_resize_with(node, {SIZE_MAX, 1, SIZE_MAX}); }
Status import_resize_11(NodeImport& node) { return import_resize_with(node, {1, 2, 3}); }

Family make_resize_family() {
  Family family;
  family.name = "other sizes";
  family.operators = {{.name = "resize",
                       .attributes = {{"mode", std::string("nearest")},
                                      {"transform", std::string("half_pixel")},
                                      {"nearest", std::string("round_prefer_floor")},
                                      {"cubic_a", -0.75},
                                      {"exclude_outside", ir::Dim(0)},
                                      {"antialias", ir::Dim(0)},
                                      {"outside", 0.0},
                                      {"scales", std::vector<double>(), true},
                                      {"region", std::vector<double>()},
                                      {"sizes", ir::Dims(), true}},
                       .infer = infer_resize,
                       .reference = reference_resize,
                       .lower = kernel::any::lower_resize}};
  family.rules = {
      {.op = "Resize", .since = 10, .import = import_resize_10},
      {.op = "Resize", .since = 11, .import = import_resize_11},
      {.op = "Upsample", .since = 9, .import = import_resize_10},
  };
  return family;
}

}  // namespace

const Family& resize_family() {
  static const Family family = make_resize_family();
  return family;
}

}  // namespace quern::model::op
