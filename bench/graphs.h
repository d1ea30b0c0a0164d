// SPDX-License-Identifier: Apache-2.0
//
// Graphs to plan, made without a file. Only what a plan looks at is there: no program, no contents of constants.
#pragma once
#include <cstdint>

#include "function/graph.h"
#include "function/plan.h"

namespace quern::bench {

/// Of any size, always the same for that size and seed: chains, branches that join again, skip connections (a few
/// through all of the graph), kernels in place, fills and zeroed buffers; sizes in steps of a free dim `n`, fixed
/// weights, some scalars of a param. At least 4 kernels; the fills come on top of them.
Graph mixed_graph(size_t kernels, uint64_t seed = 1);

/// ResNet-50 (v1.5, one image of 224 x 224, fp32, batch normalization in the weights): a kernel and a tensor for every
/// convolution, ReLU, addition and pool, and the last layer.
Graph resnet50();

/// BERT-base (12 layers of 768, 12 heads, `tokens` of one sequence, fp32): a kernel and a tensor for every product,
/// transposition, softmax, addition, normalization and activation.
Graph bert_base(int64_t tokens);

/// The binding of a call with `n` where a graph has that dim, its defaults else.
Binding binding_of(const Graph& graph, int64_t n);

/// What layers put out: everything but inputs and constants, each with memory of its own.
uint64_t tensor_bytes(const Plan& plan);

/// kInternal if two buffers that live at the same time share memory in `placement`, or one lies past its arena's end.
Status check_placement(const Plan& plan, const Placement& placement);

}  // namespace quern::bench
