// SPDX-License-Identifier: Apache-2.0
#include "model/onnx_page.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "base/dtype.h"
#include "model/import.h"
#include "model/onnx/tensor.h"
#include "model/op/table.h"

namespace quern::model {

std::string onnx_page() {
  std::set<std::string_view> operators;
  std::string families;
  for (const op::Family* family : op::families()) {
    std::map<std::string_view, std::set<int>> rules;
    for (const op::OnnxRule& rule : family->rules) {
      operators.insert(rule.op);
      rules[rule.op].insert(rule.since);
    }
    if (rules.empty()) continue;
    std::string list;
    for (const auto& [name, versions] : rules) {
      // Older versions of a file are refused anyway.
      const int since = std::max<int>(*versions.begin(), static_cast<int>(kOldestOpset));
      list += fmt::format("{}{}{}", list.empty() ? "" : ", ", name,
                          since > kOldestOpset ? fmt::format(" ({})", since) : "");
    }
    families += fmt::format("| {} | {} |\n", family->name, list);
  }
  std::string types;
  for (int32_t type = 1; type <= 26; ++type)
    if (const auto dtype = onnx::dtype_of(type))
      types += fmt::format("{}{}", types.empty() ? "" : ", ", onnx::name_of_data_type(type));
  return fmt::format(R"(# ONNX operators

This page is written by a test from the table of operators in `src/model/op`; `QUERN_REWRITE=1` writes it again.

Files of opset {} to {} are read. {} operators are supported. A number behind an operator is the opset from which on it is.
`If` is supported where its condition is known before the call: the branch takes its place. Functions of a model are written
out where they are called.

| works on | operators |
|---|---|
{}
Tensors have elements of these types: {}. Integers of fewer than 8 bits, floats of 8 bits, text, sequences and optional
values are refused.

Everything that is refused is named at once, with its nodes, before anything is deployed. A size may be free (`batch`,
`seq`): shapes are then expressions over the names of free sizes. An input whose elements are a shape is taken as it is in
the first call, and the model is made ready again when a later call has other elements.
)",
                     kOldestOpset, kNewestOpset, operators.size(), families, types);
}

}  // namespace quern::model
