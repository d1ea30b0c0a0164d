// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/client.h"
#include "main/tensors.h"

namespace CLI {
class App;
}

namespace quern::main {

/// The flags of a call, as they were given: those of `invoke` and of `run`.
struct CallFlags {
  std::vector<std::string> inputs, params, dims, outputs;
  uint32_t repeat = 1;
  uint64_t seed = 1;
};
void add_call_flags(CLI::App& command, CallFlags& flags);

/// What they ask for.
struct Wanted {
  std::vector<InputFlag> inputs;
  std::map<std::string, ParameterValue> parameters;
  std::map<std::string, int64_t> dims;                  ///< and whole params: a shape may use them
  std::map<std::string, std::string> outputs;           ///< file by name
  std::map<std::string, std::optional<Duration>> kept;  ///< outputs that stay on the server, and how long
};
Result<Wanted> read(const CallFlags& flags);

/// "NAME=N" of --dims.
Status read_dim(const std::string& text, std::map<std::string, ParameterValue>& parameters);

/// kInvalid for an output that the function does not have ("did you mean"), or that is to be in two places.
Status check_outputs(const client::FunctionInfo& function, const Wanted& wanted);
Status write_outputs(const client::InferAnswer& answer, const Wanted& wanted);

/// For people, or as JSON; `times` are those of each call, in nanoseconds.
void print_answer(const client::FunctionInfo& function, const client::InferAnswer& answer, const Wanted& wanted,
                  const std::vector<int64_t>& times, bool json);

}  // namespace quern::main
