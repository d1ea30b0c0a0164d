// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "model/op/operator.h"

namespace quern::model::op {

/// The sizes of several inputs of a node after broadcasting: aligned at the last dimension, a size of 1 takes the size
/// of the others. Two sizes of which only a call can tell whether they are equal become a requirement.
Result<ir::Dims> broadcast_dims(Site& site, const std::vector<size_t>& inputs);

/// The contents of the output of a node that works element by element, from those of its inputs. Nothing if one of them
/// is unknown, or if the sizes have free dims.
std::optional<ir::Dims> broadcast_contents(const Site& site, const std::vector<size_t>& inputs,
                                           const std::function<ir::Dim(const std::vector<ir::Dim>&)>& element);

}  // namespace quern::model::op
