// SPDX-License-Identifier: Apache-2.0
//
// An ONNX file as it is written, before anything is understood: the messages of onnx.proto with the fields that a model
// is made of. Names and weights are views into the file, which must outlive these structs.
#pragma once
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "model/onnx/wire.h"

namespace quern::model::onnx {

/// TensorProto. Its elements stay encoded: tensor.h decodes them.
struct Tensor {
  std::string_view name;
  int32_t data_type = 0;  ///< a number of TensorProto.DataType
  std::vector<int64_t> dims;
  Span message;              ///< the whole TensorProto
  bool is_external = false;  ///< the elements are in another file, which `external` names
  std::vector<std::pair<std::string_view, std::string_view>> external;
};

struct Graph;

/// AttributeProto.
struct Attribute {
  /// Numbers of AttributeProto.AttributeType.
  enum class Type : uint8_t {
    kNone = 0,
    kFloat = 1,
    kInt = 2,
    kString = 3,
    kTensor = 4,
    kGraph = 5,
    kFloats = 6,
    kInts = 7,
    kStrings = 8,
    kTensors = 9,
    kGraphs = 10,
    kSparseTensor = 11,
    kSparseTensors = 12,
    kTypeProto = 13,
    kTypeProtos = 14,
  };
  std::string_view name;
  Type type = Type::kNone;
  float real = 0;
  int64_t whole = 0;
  std::string_view text;
  std::string_view reference;  ///< in the body of a function: the name of the function's attribute that is meant
  std::vector<float> reals;
  std::vector<int64_t> wholes;
  std::vector<std::string_view> texts;
  std::vector<Tensor> tensors;  ///< of kTensor: one
  std::vector<Graph> graphs;    ///< of kGraph: one
};

/// NodeProto.
struct Node {
  std::string_view name, op, domain;
  std::vector<std::string_view> inputs, outputs;  ///< "" is an optional one that is left out
  std::vector<Attribute> attributes;
};

/// A dimension of a shape: a number, a name, or neither.
struct Dimension {
  int64_t value = -1;  ///< negative: there is none
  std::string_view name;
};

/// ValueInfoProto: what a graph says about one of its values.
struct ValueInfo {
  enum class Kind : uint8_t { kNone, kTensor, kSequence, kMap, kSparseTensor, kOptional, kOpaque };
  std::string_view name;
  Kind kind = Kind::kNone;
  int32_t data_type = 0;  ///< of a tensor
  bool has_shape = false;
  std::vector<Dimension> shape;
};

/// GraphProto.
struct Graph {
  std::string_view name;
  std::vector<Node> nodes;
  std::vector<Tensor> initialisers;
  std::vector<ValueInfo> inputs, outputs, values;
  bool has_sparse_initialisers = false;
};

/// OperatorSetIdProto: the version of the operators of one domain. The domain "ai.onnx" is written as "".
struct Opset {
  std::string_view domain;
  int64_t version = 0;
};

/// FunctionProto: an operator that the model defines by nodes.
struct Function {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<std::string_view> attributes;  ///< without a default
  std::vector<Attribute> attributes_or_default;
  std::vector<Node> nodes;
  std::vector<Opset> opsets;
};

/// ModelProto.
struct Model {
  int64_t ir_version = 0;
  std::string_view producer;
  std::vector<Opset> opsets;
  Graph graph;
  std::vector<Function> functions;
};

}  // namespace quern::model::onnx
