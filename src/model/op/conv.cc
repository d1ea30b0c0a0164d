// SPDX-License-Identifier: Apache-2.0
//
// Convolutions over one to three spatial dimensions, plain and transposed, with groups. Weights of a plain one are
// [outputs, inputs / groups, kernel…], those of a transposed one [inputs, outputs / groups, kernel…], as in ONNX.
#include <fmt/format.h>

#include <algorithm>

#include "model/kernel/any/any.h"
#include "model/op/families.h"
#include "model/op/node_import.h"
#include "model/op/window.h"

namespace quern::model::op {
namespace {

std::vector<AttributeRule> conv_attributes() {
  return {{"strides", ir::Dims(), true},
          {"pads", ir::Dims(), true},
          {"dilations", ir::Dims(), true},
          {"group", ir::Dim(1)}};
}

// What both have in common: types, ranks, lengths of the lists. Returns the number of spatial dimensions.
Result<size_t> check_conv(Site& site) {
  const ir::Type &x = site.type(0), &w = site.type(1);
  if (x.dtype != w.dtype || x.dtype == Dtype::kBool)
    return invalid(
        fmt::format("its inputs are {} and {}; give two of one dtype of numbers", name_of(x.dtype), name_of(w.dtype)));
  if (x.rank() < 3 || x.rank() > 5 || w.rank() != x.rank())
    return invalid(fmt::format("an input of {} and weights of {}; give both 3 to 5 dimensions", ir::show_dims(x.dims),
                               ir::show_dims(w.dims)));
  const size_t rank = x.rank() - 2;
  for (const char* name : {"strides", "dilations"})
    if (site.attributes.dims(name).size() != rank || !ir::fixed_of(site.attributes.dims(name)))
      return invalid(fmt::format("attribute '{}' has not {} numbers; give one per spatial dimension", name, rank));
  if (site.attributes.dims("pads").size() != 2 * rank)
    return invalid(fmt::format("attribute 'pads' has not {} numbers; give two per spatial dimension", 2 * rank));
  if (site.attributes.whole("group") < 1) return invalid("attribute 'group' is below 1; give at least 1");
  if (!ir::fixed_of(w.dims)) return unsupported("the weights have free sizes; fix them");
  return rank;
}

Status check_bias(Site& site, const ir::Dim& channels) {
  if (!site.has(2)) return {};
  const ir::Type& bias = site.type(2);
  if (bias.rank() != 1 || bias.dtype != site.type(0).dtype || !site.same(bias.dims[0], channels))
    return invalid(
        fmt::format("a bias of {} for {} channels; give one number for each", ir::show_type(bias), channels.text()));
  return {};
}

Result<std::vector<ir::Type>> infer_conv(Site& site) {
  QUERN_TRY(const size_t rank, check_conv(site));
  const ir::Dims &x = site.dims(0), &w = site.dims(1), &pads = site.attributes.dims("pads");
  const auto strides = site.attributes.wholes("strides"), dilations = site.attributes.wholes("dilations");
  const int64_t group = site.attributes.whole("group");
  if (!site.same(x[1], w[1] * ir::Dim(group)) || w[0].fixed() % group != 0)
    return invalid(fmt::format("{} channels, weights of {} and {} groups do not fit; correct them", x[1].text(),
                               ir::show_dims(w), group));
  QUERN_TRY(check_bias(site, w[0]));
  ir::Type out{site.type(0).dtype, {x[0], w[0]}};
  for (size_t d = 0; d < rank; ++d) {
    const ir::Dim extent = (w[d + 2] - 1) * ir::Dim(dilations[d]) + 1;
    out.dims.push_back(floor_div(x[d + 2] + pads[d] + pads[rank + d] - extent, strides[d]) + 1);
  }
  return std::vector{std::move(out)};
}

// The numbers that the loops need, in three spatial dimensions.
struct ConvShape {
  Space in, out, kernel, stride, pad, dilation;
  int64_t batch, channels_in, channels_out, group;

  ConvShape(const Run& run, bool is_transposed) {
    const ir::Sizes &x = run.in(0).sizes(), &w = run.in(1).sizes(), &y = run.out().sizes();
    in = space_of(spatial(x), 1);
    out = space_of(spatial(y), 1);
    kernel = space_of(spatial(w), 1);
    stride = space_of(run.attributes.wholes("strides"), 1);
    dilation = space_of(run.attributes.wholes("dilations"), 1);
    std::vector<int64_t> pads = run.attributes.wholes("pads");
    pads.resize(pads.size() / 2);
    pad = space_of(pads, 0);
    group = run.attributes.whole("group");
    batch = x[0];
    channels_in = x[1];
    channels_out = is_transposed ? w[1] * group : w[0];
  }
  static int64_t volume(const Space& s) { return s[0] * s[1] * s[2]; }
};

// Adds weight * x to the sums of every output that this place of the kernel reaches, row by row.
template <class Wide, class Get>
void add_plane(const ConvShape& s, Wide weight, const std::array<int64_t, 3>& k, Get x, std::vector<Wide>& sums) {
  const auto first = [&](size_t d, int64_t o) { return o * s.stride[d] - s.pad[d] + k[d] * s.dilation[d]; };
  for (int64_t od = 0; od < s.out[0]; ++od) {
    const int64_t id = first(0, od);
    if (id < 0 || id >= s.in[0]) continue;
    for (int64_t oh = 0; oh < s.out[1]; ++oh) {
      const int64_t ih = first(1, oh);
      if (ih < 0 || ih >= s.in[1]) continue;
      for (int64_t ow = 0; ow < s.out[2]; ++ow) {
        const int64_t iw = first(2, ow);
        if (iw < 0 || iw >= s.in[2]) continue;
        sums[static_cast<size_t>((od * s.out[1] + oh) * s.out[2] + ow)] +=
            weight * x((id * s.in[1] + ih) * s.in[2] + iw);
      }
    }
  }
}

template <class Body>
void each_tap(const Space& kernel, Body body) {
  for (int64_t kd = 0; kd < kernel[0]; ++kd)
    for (int64_t kh = 0; kh < kernel[1]; ++kh)
      for (int64_t kw = 0; kw < kernel[2]; ++kw) body(std::array{kd, kh, kw}, (kd * kernel[1] + kh) * kernel[2] + kw);
}

template <class T>
using ConvSum = std::conditional_t<ir::kIsFloat<T>, double, uint64_t>;

Status reference_conv(Run& run) {
  const ConvShape s(run, false);
  const int64_t in_group = s.channels_in / s.group, out_group = s.channels_out / s.group;
  const int64_t in_volume = s.volume(s.in), out_volume = s.volume(s.out), taps = s.volume(s.kernel);
  ir::with_element(run.in(0).dtype(), [&]<class T>() {
    using Wide = ConvSum<T>;
    const auto x = run.in(0).read<T>(), w = run.in(1).read<T>();
    const auto y = run.out().write<T>();
    const auto wide = [](T value) { return static_cast<Wide>(static_cast<ir::Computed<T>>(value)); };
    std::vector<Wide> sums(static_cast<size_t>(out_volume));
    for (int64_t n = 0; n < s.batch; ++n)
      for (int64_t o = 0; o < s.channels_out; ++o) {
        std::fill(sums.begin(), sums.end(), run.has(2) ? wide(run.in(2).read<T>()[static_cast<size_t>(o)]) : Wide(0));
        for (int64_t c = 0; c < in_group; ++c) {
          const int64_t plane = (n * s.channels_in + o / out_group * in_group + c) * in_volume;
          each_tap(s.kernel, [&](const auto& k, int64_t tap) {
            add_plane(
                s, wide(w[static_cast<size_t>((o * in_group + c) * taps + tap)]), k,
                [&](int64_t i) { return wide(x[static_cast<size_t>(plane + i)]); }, sums);
          });
        }
        for (int64_t i = 0; i < out_volume; ++i)
          y[static_cast<size_t>((n * s.channels_out + o) * out_volume + i)] =
              static_cast<T>(sums[static_cast<size_t>(i)]);
      }
  });
  return {};
}

// conv_transpose: every element of the input is spread over the window that a convolution would gather it from.
// `sizes` are those of the output's space.

Result<std::vector<ir::Type>> infer_conv_transpose(Site& site) {
  QUERN_TRY(const size_t rank, check_conv(site));
  const ir::Dims &x = site.dims(0), &w = site.dims(1), &sizes = site.attributes.dims("sizes");
  const int64_t group = site.attributes.whole("group");
  if (!site.same(x[1], w[0]) || w[0].fixed() % group != 0)
    return invalid(fmt::format("{} channels, weights of {} and {} groups do not fit; correct them", x[1].text(),
                               ir::show_dims(w), group));
  if (sizes.size() != rank) return invalid("attribute 'sizes' has another number of dimensions; correct it");
  const ir::Dim channels = w[1] * ir::Dim(group);
  QUERN_TRY(check_bias(site, channels));
  ir::Type out{site.type(0).dtype, {x[0], channels}};
  out.dims.insert(out.dims.end(), sizes.begin(), sizes.end());
  return std::vector{std::move(out)};
}

Status reference_conv_transpose(Run& run) {
  const ConvShape s(run, true);
  const int64_t in_group = s.channels_in / s.group, out_group = s.channels_out / s.group;
  const int64_t in_volume = s.volume(s.in), out_volume = s.volume(s.out), taps = s.volume(s.kernel);
  ir::with_element(run.in(0).dtype(), [&]<class T>() {
    using Wide = ConvSum<T>;
    const auto x = run.in(0).read<T>(), w = run.in(1).read<T>();
    const auto y = run.out().write<T>();
    const auto wide = [](T value) { return static_cast<Wide>(static_cast<ir::Computed<T>>(value)); };
    std::vector<Wide> sums(static_cast<size_t>(out_volume));
    for (int64_t n = 0; n < s.batch; ++n)
      for (int64_t o = 0; o < s.channels_out; ++o) {
        std::fill(sums.begin(), sums.end(), run.has(2) ? wide(run.in(2).read<T>()[static_cast<size_t>(o)]) : Wide(0));
        for (int64_t g = 0; g < in_group; ++g) {
          const int64_t c = o / out_group * in_group + g;
          each_tap(s.kernel, [&](const auto& k, int64_t tap) {
            const Wide weight = wide(w[static_cast<size_t>((c * out_group + o % out_group) * taps + tap)]);
            const auto place = [&](size_t d, int64_t i) { return i * s.stride[d] - s.pad[d] + k[d] * s.dilation[d]; };
            for (int64_t i = 0; i < in_volume; ++i) {
              const int64_t od = place(0, i / (s.in[1] * s.in[2])), oh = place(1, i / s.in[2] % s.in[1]),
                            ow = place(2, i % s.in[2]);
              if (od < 0 || od >= s.out[0] || oh < 0 || oh >= s.out[1] || ow < 0 || ow >= s.out[2]) continue;
              sums[static_cast<size_t>((od * s.out[1] + oh) * s.out[2] + ow)] +=
                  weight * wide(x[static_cast<size_t>((n * s.channels_in + c) * in_volume + i)]);
            }
          });
        }
        for (int64_t i = 0; i < out_volume; ++i)
          y[static_cast<size_t>((n * s.channels_out + o) * out_volume + i)] =
              static_cast<T>(sums[static_cast<size_t>(i)]);
      }
  });
  return {};
}

// Rules of ONNX.

Result<std::vector<int64_t>> kernel_of(NodeImport& node, ir::ValueId w) {
  const auto sizes = ir::fixed_of(node.type(w).dims);
  if (!sizes || sizes->size() < 3)
    return invalid("the weights have fewer than 3 dimensions, or free ones; correct them");
  return spatial(*sizes);
}

Status import_conv(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const ir::ValueId w, node.in(1));
  QUERN_TRY(std::vector<int64_t> kernel, kernel_of(node, w));
  QUERN_TRY(const Window window, window_of(node, x, std::move(kernel)));
  QUERN_TRY(const int64_t group, node.whole("group", 1));
  std::vector<ir::ValueId> inputs = {x, w};
  if (node.has(2)) inputs.push_back(node.in_or_none(2));
  return node.become("conv", std::move(inputs),
                     {{"strides", ir::dims_of(window.strides)},
                      {"pads", window.pads},
                      {"dilations", ir::dims_of(window.dilations)},
                      {"group", ir::Dim(group)}});
}

Status import_conv_transpose(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const ir::ValueId w, node.in(1));
  QUERN_TRY(std::vector<int64_t> kernel, kernel_of(node, w));
  QUERN_TRY(Window window, window_of(node, x, std::move(kernel)));
  QUERN_TRY(const int64_t group, node.whole("group", 1));
  QUERN_TRY(const std::string automatic, node.text("auto_pad", "NOTSET"));
  QUERN_TRY(const auto extra, node.wholes("output_padding"));
  QUERN_TRY(const auto given, node.wholes("output_shape"));
  QUERN_TRY(const auto pads, node.wholes("pads"));
  const size_t rank = window.rank();
  if ((extra && extra->size() != rank) || (given && given->size() != rank))
    return invalid("output_padding or output_shape has another number of dimensions; correct it");
  const bool is_same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  for (size_t d = 0; d < rank; ++d) {
    const ir::Dim size = node.type(x).dims[d + 2], stride = window.strides[d];
    const ir::Dim more = extra ? (*extra)[d] : 0;
    // What the spread windows cover, without any pads.
    const ir::Dim covered = stride * (size - 1) + more + (window.kernel[d] - 1) * window.dilations[d] + 1;
    if (given || is_same) {
      window.sizes[d] = given ? ir::Dim((*given)[d]) : size * stride;
      const ir::Dim pad = max(covered - window.sizes[d], 0), half = floor_div(pad, 2);
      window.pads[d] = automatic == "SAME_UPPER" ? half : pad - half;
      window.pads[rank + d] = pad - window.pads[d];
    } else {
      const bool has_pads = pads && pads->size() == 2 * rank && automatic != "VALID";
      window.pads[d] = has_pads ? (*pads)[d] : 0;
      window.pads[rank + d] = has_pads ? (*pads)[rank + d] : 0;
      window.sizes[d] = covered - window.pads[d] - window.pads[rank + d];
    }
  }
  std::vector<ir::ValueId> inputs = {x, w};
  if (node.has(2)) inputs.push_back(node.in_or_none(2));
  return node.become("conv_transpose", std::move(inputs),
                     {{"strides", ir::dims_of(window.strides)},
                      {"pads", window.pads},
                      {"dilations", ir::dims_of(window.dilations)},
                      {"group", ir::Dim(group)},
                      {"sizes", window.sizes}});
}

// Integers of 8 bits, less their zero points, convolved and summed in 32 bits. Pads are zero points.
Status import_conv_integer(NodeImport& node) {
  QUERN_TRY(const ir::ValueId x, node.in(0));
  QUERN_TRY(const ir::ValueId w, node.in(1));
  QUERN_TRY(std::vector<int64_t> kernel, kernel_of(node, w));
  QUERN_TRY(const Window window, window_of(node, x, std::move(kernel)));
  QUERN_TRY(const int64_t group, node.whole("group", 1));
  ir::ValueId operands[2] = {x, w};
  for (size_t i = 0; i < 2; ++i) {
    QUERN_TRY(operands[i], node.cast(operands[i], Dtype::kInt32));
    if (!node.has(i + 2)) continue;
    QUERN_TRY(ir::ValueId zero, node.cast(node.in_or_none(i + 2), Dtype::kInt32));
    if (node.rank(zero) == 1 && !node.type(zero).dims[0].is(1)) {  // one per output channel
      ir::Dims dims(node.rank(w), 1);
      dims[0] = node.type(zero).dims[0];
      QUERN_TRY(zero, node.reshape(zero, dims));
    }
    QUERN_TRY(operands[i], node.emit("sub", {operands[i], zero}));
  }
  return node.become("conv", {operands[0], operands[1]},
                     {{"strides", ir::dims_of(window.strides)},
                      {"pads", window.pads},
                      {"dilations", ir::dims_of(window.dilations)},
                      {"group", ir::Dim(group)}});
}

Family make_conv_family() {
  Family family;
  family.name = "convolutions";
  family.operators = {{.name = "conv",
                       .attributes = conv_attributes(),
                       .least_inputs = 2,
                       .most_inputs = 3,
                       .infer = infer_conv,
                       .reference = reference_conv,
                       .lower = kernel::any::lower_conv},
                      {.name = "conv_transpose",
                       .attributes = conv_attributes(),
                       .least_inputs = 2,
                       .most_inputs = 3,
                       .infer = infer_conv_transpose,
                       .reference = reference_conv_transpose,
                       .lower = kernel::any::lower_conv_transpose}};
  family.operators.back().attributes.push_back({"sizes", ir::Dims(), true});
  family.rules = {
      {.op = "Conv", .since = 1, .import = import_conv},
      {.op = "ConvTranspose", .since = 1, .import = import_conv_transpose},
      {.op = "ConvInteger", .since = 10, .import = import_conv_integer},
  };
  return family;
}

}  // namespace

const Family& conv_family() {
  static const Family family = make_conv_family();
  return family;
}

}  // namespace quern::model::op
