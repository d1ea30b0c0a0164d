// SPDX-License-Identifier: Apache-2.0
//
// Kernels that are correct on every device and fast on none: a work-item makes one element, or one line, of the output.
// Sizes are arguments, so one text serves every shape. Every function adds the launches of the lowering's node.
#pragma once
#include "base/result.h"
#include "model/kernel/writer.h"

namespace quern::model::kernel::any {

using op::Lowering;

Status lower_elementwise(Lowering& lowering);  ///< all operators that have `code`, and fused ones
Status lower_copy(Lowering& lowering);         ///< reshape, where the input cannot stand for the output
Status lower_transpose(Lowering& lowering);
Status lower_broadcast(Lowering& lowering);
Status lower_slice(Lowering& lowering);
Status lower_concat(Lowering& lowering);
Status lower_pad(Lowering& lowering);
Status lower_dims(Lowering& lowering);
Status lower_range(Lowering& lowering);
Status lower_triangle(Lowering& lowering);
Status lower_gather(Lowering& lowering);
Status lower_gather_elements(Lowering& lowering);
Status lower_gather_nd(Lowering& lowering);
Status lower_scatter_elements(Lowering& lowering);
Status lower_scatter_nd(Lowering& lowering);
Status lower_reduce(Lowering& lowering);
Status lower_cumulative(Lowering& lowering);
Status lower_arg(Lowering& lowering);
Status lower_top_k(Lowering& lowering);
Status lower_matmul(Lowering& lowering);
Status lower_conv(Lowering& lowering);
Status lower_conv_transpose(Lowering& lowering);
Status lower_pool(Lowering& lowering);
Status lower_softmax(Lowering& lowering);
Status lower_layer_norm(Lowering& lowering);
Status lower_attention(Lowering& lowering);
Status lower_resize(Lowering& lowering);

}  // namespace quern::model::kernel::any
