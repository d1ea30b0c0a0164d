// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/result.h"
#include "model/ir/tensor.h"
#include "model/onnx/proto.h"

namespace quern::model::onnx {

/// The dtype of a number of TensorProto.DataType; nothing for those that we have no dtype for.
std::optional<Dtype> dtype_of(int32_t data_type);
/// For error texts: "FLOAT", "STRING", "type 77".
std::string name_of_data_type(int32_t data_type);

/// Opens a file beside the model, by its path relative to the model's folder, and returns its bytes, which stay valid
/// as long as the model does. `decode` asks only for paths that stay inside the folder as written; refusing links is
/// the duty of the function.
using ExternalFiles = std::function<Result<Span>(const std::string& path)>;

/// The elements of a tensor. Elements in `raw_data`, in a packed field of floats, or in an external file stay where
/// they are; others are copied. kUnsupported for a type without a dtype, and for a bool that is neither 0 nor 1;
/// kInvalid if the number of elements is not that of the sizes.
Result<ir::Tensor> decode(const Tensor& tensor, const ExternalFiles& files);

}  // namespace quern::model::onnx
