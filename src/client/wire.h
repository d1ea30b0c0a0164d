// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "client/client.h"

namespace quern::client {

// The JSON of the API, written and read in one file. What a server sends is a stranger's: every size is checked.

/// The server's code and text; kInternal with the status if the body is not ours.
Error error_of(const HttpAnswer& answer);

/// The JSON part of an infer call: inputs as binary tensors or objects, outputs wanted as binary or left there.
std::string infer_json(const InferRequest& request);
Result<InferAnswer> read_infer_answer(HttpAnswer answer);

Result<FunctionInfo> read_function(const HttpAnswer& answer);
Result<Listed<FunctionInfo>> read_functions(const HttpAnswer& answer);
Result<Listed<DeviceInfo>> read_devices(const HttpAnswer& answer);
Result<Listed<RequestInfo>> read_requests(const HttpAnswer& answer);
/// The id of what was put.
Result<std::string> read_stored(const HttpAnswer& answer);
Result<Listed<ObjectInfo>> read_objects(const HttpAnswer& answer);

}  // namespace quern::client
