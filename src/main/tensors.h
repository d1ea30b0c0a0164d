// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "client/client.h"

namespace quern::main {

/// An input of a call with memory of its own.
struct OwnedTensor {
  std::string name;
  Dtype dtype = Dtype::kFp32;
  Shape shape;
  Bytes file;               ///< as read or made
  size_t offset = 0;        ///< where the elements start
  std::string object = {};  ///< the server has the elements under this id

  client::TensorView view() const { return {name, dtype, shape, std::span(file).subspan(offset), object, {}}; }
};

/// What `--input NAME=VALUE` asks for.
struct InputFlag {
  std::string name;
  std::string value;  ///< a file, or "@random", "@zeros", "@ones", "@object:ID"
  bool is_made() const { return value.starts_with('@'); }
  bool is_object() const { return value.starts_with(kObject); }
  std::string object() const { return value.substr(kObject.size()); }

  static constexpr std::string_view kObject = "@object:";
};

/// "NAME=VALUE" of a flag. kInvalid without a name or a value.
Result<std::pair<std::string, std::string>> split_pair(std::string_view flag, const std::string& text);

/// A whole number, a real one, true or false, else text: what JSON would make of it. Whole numbers of 64 bits are
/// exact.
ParameterValue parameter_of(const std::string& text);
/// The value of a param as a request would send it, exactly.
ParameterValue parameter_of(Scalar scalar);

/// The tensors of a call: files are read, the others made in the shape that follows from `dims`, from the shapes of the
/// files, or from the function's defaults; so does the shape of objects, which only a server has. The same seed gives
/// the same numbers. kInvalid for an input the function does not have ("did you mean") and for a shape that is not
/// known.
Result<std::vector<OwnedTensor>> make_inputs(const client::FunctionInfo& function, const std::vector<InputFlag>& flags,
                                             std::map<std::string, int64_t> dims, uint64_t seed,
                                             bool has_server = false);

Status write_npy(const std::string& path, const client::TensorView& tensor);

/// The element as people read it, or as JSON has it: numbers that JSON does not have are the texts "NaN", "Infinity"
/// and
/// "-Infinity".
std::string show_element(const client::TensorView& tensor, size_t index, bool json = false);
size_t elements_of(const client::TensorView& tensor);

}  // namespace quern::main
