// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "model/onnx/proto.h"

namespace quern::model::onnx {

/// What a file may ask for at most. The file is a stranger's, and one byte of it could stand for a hundred of ours.
struct Limits {
  size_t nodes = 200'000;  ///< of all graphs and functions together; the largest public models have some ten thousand
  size_t name_bytes = 4096;
  int graph_depth = 32;                         ///< graphs in attributes of nodes of graphs
  size_t rank = 8;                              ///< dimensions of a tensor
  uint64_t memory_bytes = uint64_t{512} << 20;  ///< of the structs that the file is read into; weights stay in the file
};

/// Reads a ModelProto. Nothing is copied but numbers: the result points into `file`. kInvalid if the bytes are no
/// ModelProto or contradict themselves, kExhausted past a limit, kUnsupported for what no model needs (groups, sparse
/// tensors in attributes). Fields that are not known are passed over, as protobuf demands.
Result<Model> read_model(Span file, const Limits& limits = {});

/// Reads a file that is one TensorProto, as the test data of ONNX are.
Result<Tensor> read_tensor(Span file, const Limits& limits = {});

}  // namespace quern::model::onnx
