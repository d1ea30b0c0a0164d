// SPDX-License-Identifier: Apache-2.0
#include "model/op/window.h"

#include <fmt/format.h>

#include <algorithm>

namespace quern::model::op {
namespace {

Result<std::vector<int64_t>> list_of(NodeImport& node, std::string_view name, size_t rank) {
  QUERN_TRY(auto given, node.wholes(name));
  if (!given || given->empty()) return std::vector<int64_t>(rank, 1);
  const bool is_positive = std::all_of(given->begin(), given->end(), [](int64_t n) { return n >= 1 && n <= 1 << 20; });
  if (given->size() != rank || !is_positive)
    return invalid(
        fmt::format("attribute '{}' is {}; give {} numbers of at least 1", name, ir::show_sizes(*given), rank));
  return *std::move(given);
}

}  // namespace

Result<Window> window_of(NodeImport& node, ir::ValueId x, std::vector<int64_t> kernel, bool has_ceil_mode) {
  const ir::Dims& dims = node.type(x).dims;
  if (dims.size() < 3) return invalid("the input has fewer than 3 dimensions; give batch, channels and space");
  const size_t rank = dims.size() - 2;
  if (rank > 3) return unsupported(fmt::format("{} spatial dimensions are not supported; give at most 3", rank));
  Window out;
  if (kernel.empty() || node.states("kernel_shape")) {
    if (!node.states("kernel_shape")) return invalid("attribute 'kernel_shape' is missing; state it");
    QUERN_TRY(out.kernel, list_of(node, "kernel_shape", rank));
    if (!kernel.empty() && kernel != out.kernel)
      return invalid(fmt::format("kernel_shape is {} beside weights of {}; correct it", ir::show_sizes(out.kernel),
                                 ir::show_sizes(kernel)));
  } else {
    out.kernel = std::move(kernel);
  }
  if (out.kernel.size() != rank)
    return invalid("the weights have another number of dimensions than the input; correct them");
  QUERN_TRY(out.strides, list_of(node, "strides", rank));
  QUERN_TRY(out.dilations, list_of(node, "dilations", rank));
  QUERN_TRY(const std::string automatic, node.text("auto_pad", "NOTSET"));
  QUERN_TRY(const auto pads, node.wholes("pads"));
  bool rounds_up = false;
  if (has_ceil_mode) {
    QUERN_TRY(rounds_up, node.flag("ceil_mode", false));
  }
  const bool is_same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  if (!is_same && automatic != "NOTSET" && automatic != "VALID" && !automatic.empty())
    return invalid(
        fmt::format("attribute 'auto_pad' is '{}'; give NOTSET, VALID, SAME_UPPER or SAME_LOWER", automatic));
  out.pads.assign(2 * rank, 0);
  if (pads && !pads->empty() && !is_same && automatic != "VALID") {
    const bool fits =
        pads->size() == 2 * rank && std::all_of(pads->begin(), pads->end(), [](int64_t n) { return n >= 0; });
    if (!fits)
      return invalid(
          fmt::format("attribute 'pads' is {}; give {} numbers of at least 0", ir::show_sizes(*pads), 2 * rank));
    out.pads = ir::dims_of(*pads);
  }
  for (size_t d = 0; d < rank; ++d) {
    const ir::Dim size = dims[d + 2], stride = out.strides[d], extent = (out.kernel[d] - 1) * out.dilations[d] + 1;
    if (is_same) {
      out.sizes.push_back(ceil_div(size, stride));
      const ir::Dim pad = max((out.sizes[d] - 1) * stride + extent - size, 0), half = floor_div(pad, 2);
      out.pads[d] = automatic == "SAME_LOWER" ? pad - half : half;
      out.pads[rank + d] = pad - out.pads[d];
      continue;
    }
    const ir::Dim padded = out.pads[d] + size, room = padded + out.pads[rank + d] - extent;
    if (ir::Dim::at_most(room, -1) == true)
      return invalid(fmt::format("a window of {} over {} elements with their pads; give a larger input", extent.text(),
                                 (room + extent).text()));
    // A window that is rounded up begins within the input or the pads before it.
    out.sizes.push_back(rounds_up ? min(ceil_div(room, stride) + 1, ceil_div(padded, stride))
                                  : floor_div(room, stride) + 1);
  }
  return out;
}

Space space_of(const std::vector<int64_t>& sizes, int64_t missing) {
  Space out{missing, missing, missing};
  std::copy(sizes.begin(), sizes.end(), out.end() - static_cast<ptrdiff_t>(sizes.size()));
  return out;
}

}  // namespace quern::model::op
