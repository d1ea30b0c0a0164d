// SPDX-License-Identifier: Apache-2.0
#include "model/op/broadcast.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/op/walk.h"

namespace quern::model::op {

Result<ir::Dims> broadcast_dims(Site& site, const std::vector<size_t>& inputs) {
  size_t rank = 0;
  for (const size_t i : inputs) rank = std::max(rank, site.dims(i).size());
  ir::Dims out(rank, 1);
  for (const size_t i : inputs) {
    const ir::Dims& dims = site.dims(i);
    for (size_t d = 0; d < dims.size(); ++d) {
      ir::Dim& have = out[rank - dims.size() + d];
      const ir::Dim& next = dims[d];
      if (have == next || next.is(1)) continue;
      if (have.is(1)) {
        have = next;
      } else if (!site.same(have, next)) {
        std::string shapes;
        for (const size_t j : inputs) shapes += (shapes.empty() ? "" : " and ") + ir::show_dims(site.dims(j));
        return invalid(fmt::format("its inputs of sizes {} do not fit; give equal sizes, or 1", shapes));
      } else if (next.is_fixed()) {
        have = next;  // the number says more than the name that must equal it
      }
    }
  }
  return out;
}

std::optional<ir::Dims> broadcast_contents(const Site& site, const std::vector<size_t>& inputs,
                                           const std::function<ir::Dim(const std::vector<ir::Dim>&)>& element) {
  size_t rank = 0;
  std::vector<ir::Dims> known;
  std::vector<ir::Sizes> shapes;
  for (const size_t i : inputs) {
    auto contents = site.contents(i);
    auto sizes = ir::fixed_of(site.dims(i));
    if (!contents || !sizes) return std::nullopt;
    rank = std::max(rank, sizes->size());
    known.push_back(*std::move(contents));
    shapes.push_back(*std::move(sizes));
  }
  ir::Sizes sizes(rank, 1);
  for (const ir::Sizes& shape : shapes)
    for (size_t d = 0; d < shape.size(); ++d)
      if (shape[d] != 1) sizes[rank - shape.size() + d] = shape[d];
  const auto count = ir::elements_of(sizes);
  if (!count || *count > static_cast<int64_t>(ir::kMostContents)) return std::nullopt;
  ir::Dims out;
  // At most three inputs: missing ones repeat the first.
  std::array<std::vector<int64_t>, 3> strides;
  for (size_t i = 0; i < strides.size(); ++i) strides[i] = repeated_strides(shapes[i < shapes.size() ? i : 0], sizes);
  walk(sizes, strides, [&](size_t, const auto& at) {
    std::vector<ir::Dim> operands;
    for (size_t i = 0; i < known.size(); ++i) operands.push_back(known[i][static_cast<size_t>(at[i])]);
    out.push_back(element(operands));
  });
  return out;
}

}  // namespace quern::model::op
