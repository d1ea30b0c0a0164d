// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "model/op/operator.h"

namespace quern::model::op {

const Family& unary_family();      ///< one tensor, element by element: relu, exp, erf, …
const Family& binary_family();     ///< several tensors, element by element, with broadcasting: add, less, where, …
const Family& cast_family();       ///< another dtype
const Family& view_family();       ///< the same elements in other places: reshape, transpose, broadcast, slice
const Family& join_family();       ///< concat, pad
const Family& make_family();       ///< tensors made of sizes: dims, range, triangle
const Family& gather_family();     ///< elements by index: gather, scatter
const Family& reduce_family();     ///< one element of many: sums, means, running sums
const Family& select_family();     ///< the largest and where they are: arg_max, top_k
const Family& matmul_family();     ///< products of matrices
const Family& conv_family();       ///< convolutions
const Family& pool_family();       ///< pools
const Family& normalise_family();  ///< softmax, layer_norm
const Family& resize_family();     ///< other sizes
const Family& attention_family();  ///< softmax(q k) v
const Family& loss_family();       ///< losses, made of others
const Family& fused_family();      ///< several operators element by element, as one

}  // namespace quern::model::op
