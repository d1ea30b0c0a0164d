// SPDX-License-Identifier: Apache-2.0
//
// The node tests of ONNX: a model of one operator or a few, with recorded inputs and outputs. They are public data and
// no part of the project: tools/onnx_tests.sh fetches them. What is not supported is what the importer refuses; this
// test keeps no list of names.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "model/import.h"
#include "model/interpret.h"
#include "model/onnx/read.h"

namespace quern::model {
namespace {

namespace fs = std::filesystem;

// Operators that suffice for the usual vision and language models.
constexpr std::string_view kTierA =
    "Conv ConvTranspose Gemm MatMul BatchNormalization LayerNormalization InstanceNormalization MaxPool AveragePool "
    "GlobalAveragePool Softmax Relu LeakyRelu Sigmoid Tanh Erf Gelu HardSigmoid HardSwish Clip Exp Log Sqrt Reciprocal "
    "Abs Neg Floor Sin Cos Not Add Sub Mul Div Pow Min Max Equal Greater GreaterOrEqual Less LessOrEqual And Where "
    "Cast "
    "Identity Dropout ReduceMean ReduceSum ReduceMax ArgMax TopK Reshape Flatten Transpose Squeeze Unsqueeze Concat "
    "Split Slice Gather GatherND Expand Tile Pad Resize Shape Constant ConstantOfShape Range Trilu CumSum";

std::optional<fs::path> node_tests() {
  std::vector<fs::path> tried;
  if (const char* given = std::getenv("QUERN_ONNX_TESTS")) tried.emplace_back(given);
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache) tried.push_back(fs::path(cache) / "quern/onnx-tests-1.22.0");
  if (home) tried.push_back(fs::path(home) / ".cache/quern/onnx-tests-1.22.0");
  for (const fs::path& path : tried)
    if (fs::exists(path / "test_abs" / "model.onnx")) return path;
  return std::nullopt;
}

std::string bytes_at(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A test of the published table: its class, whether ONNX Runtime passes it, and its operators.
struct Scope {
  std::string kind;
  bool ort_passes = false;
  std::vector<std::string> ops;
};
std::map<std::string, Scope> published_scope() {
  const char* set = std::getenv("QUERN_DATA");
  std::map<std::string, Scope> out;
  std::ifstream file(fs::path(set ? set : "../shared/data") / "onnx/scope_1.22.tsv");
  std::string line;
  while (std::getline(file, line)) {
    std::vector<std::string> cells;
    for (std::stringstream stream(line); std::getline(stream, line, '\t');) cells.push_back(line);
    if (cells.size() < 6) continue;
    Scope scope{cells[1], cells[2] == "pass", {}};
    for (std::stringstream stream(cells[5]); std::getline(stream, line, ',');) scope.ops.push_back(line);
    out[cells[0]] = std::move(scope);
  }
  return out;
}

struct Tolerance {
  double relative = 1e-3, absolute = 1e-7;
};
Tolerance tolerance_of(const fs::path& folder) {
  Tolerance out;
  const std::string json = bytes_at(folder / "data.json");
  const auto number = [&](std::string_view key, double& value) {
    const size_t at = json.find(fmt::format("\"{}\":", key));
    if (at != json.npos) value = std::strtod(json.c_str() + at + key.size() + 3, nullptr);
  };
  number("rtol", out.relative);
  number("atol", out.absolute);
  return out;
}

/// "" if they agree, else how they differ.
std::string difference(const ir::Tensor& got, const ir::Tensor& want, const Tolerance& tolerance) {
  if (got.dtype() != want.dtype() || got.sizes() != want.sizes())
    return fmt::format("is {}{}, not {}{}", name_of(got.dtype()), ir::show_sizes(got.sizes()), name_of(want.dtype()),
                       ir::show_sizes(want.sizes()));
  for (size_t i = 0; i < want.elements(); ++i) {
    const double a = got.real(i), b = want.real(i);
    const bool same = a == b || (std::isnan(a) && std::isnan(b)) ||
                      std::fabs(a - b) <= tolerance.absolute + tolerance.relative * std::fabs(b);
    if (!same) return fmt::format("element {} is {}, not {}", i, a, b);
  }
  return "";
}

struct Outcome {
  enum class Kind { kPassed, kRefused, kWrong } kind = Kind::kPassed;
  std::string text;
};
Outcome refused(const Error& error) { return {Outcome::Kind::kRefused, error.text}; }
Outcome wrong(std::string text) { return {Outcome::Kind::kWrong, std::move(text)}; }

Outcome run_test(const fs::path& folder) {
  const std::string file = bytes_at(folder / "model.onnx");
  auto model = onnx::read_model(as_bytes_of(file));
  if (!model.ok()) return wrong(model.error().text);
  const fs::path data = folder / "test_data_set_0";
  std::vector<std::string> files;  // decoded tensors point into them
  const auto tensor_at = [&](const std::string& name) -> Result<ir::Tensor> {
    files.push_back(bytes_at(data / name));
    QUERN_TRY(const onnx::Tensor tensor, onnx::read_tensor(as_bytes_of(files.back())));
    return onnx::decode(tensor, {});
  };
  files.reserve(2 * (model->graph.inputs.size() + model->graph.outputs.size()));
  // Types first: a sequence is no tensor, and its file none either.
  Binding binding;
  auto imported = import_model(*model, {}, binding);
  if (!imported.ok()) return refused(imported.error());
  Tensors inputs;
  for (size_t i = 0; i < model->graph.inputs.size(); ++i) {
    const std::string name = fmt::format("input_{}.pb", i);
    if (!fs::exists(data / name)) continue;
    auto tensor = tensor_at(name);
    if (!tensor.ok()) return refused(tensor.error());
    inputs[std::string(model->graph.inputs[i].name)] = *tensor;
  }
  // A shape that is an input is bound to its elements, as a call would do at its first time.
  for (int round = 0; round < 4 && !imported->refusals.empty(); ++round) {
    bool is_new = false;
    for (const Refusal& refusal : imported->refusals)
      for (const std::string& name : refusal.inputs)
        if (const auto found = inputs.find(name); found != inputs.end())
          is_new = binding.inputs.emplace(name, found->second).second || is_new;
    if (!is_new) break;
    imported = import_model(*model, {}, binding);
    if (!imported.ok()) return refused(imported.error());
  }
  if (!imported->refusals.empty()) return refused(error_of(imported->refusals, 1));
  auto outputs = interpret(imported->graph, inputs);
  if (!outputs.ok()) return wrong(outputs.error().text);
  const Tolerance tolerance = tolerance_of(folder);
  for (size_t i = 0; i < model->graph.outputs.size(); ++i) {
    auto want = tensor_at(fmt::format("output_{}.pb", i));
    if (!want.ok()) return refused(want.error());
    const std::string name(model->graph.outputs[i].name);
    const std::string text = difference((*outputs)[name], *want, tolerance);
    if (!text.empty()) return wrong(fmt::format("output '{}' {}", name, text));
  }
  return {};
}

TEST(NodeTests, every_test_passes_or_is_refused_with_a_reason) {
  const auto folder = node_tests();
  if (!folder) GTEST_SKIP() << "the node tests of ONNX are not here; tools/onnx_tests.sh fetches them";
  const auto scope = published_scope();
  std::set<std::string, std::less<>> tier_a;
  for (std::stringstream words{std::string(kTierA)}; words;) {
    std::string word;
    if (words >> word) tier_a.insert(word);
  }
  const char* only = std::getenv("QUERN_ONNX_TEST");
  size_t passed = 0, tests = 0, passed_of_a = 0, tests_of_a = 0, passed_of_core = 0, tests_of_core = 0;
  std::map<std::string, std::vector<std::string>> reasons;  // a reason without the name of its node, and its tests
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(*folder)) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  for (const fs::path& path : folders) {
    const std::string name = path.filename();
    if (!name.starts_with("test_") || (only && name != only)) continue;
    const Outcome outcome = run_test(path);
    const auto known = scope.find(name);
    const bool is_core = known != scope.end() && known->second.kind == "core";
    const bool is_of_a = is_core && known->second.ort_passes &&
                         std::all_of(known->second.ops.begin(), known->second.ops.end(),
                                     [&](const std::string& op) { return tier_a.count(op) != 0; });
    const bool is_passed = outcome.kind == Outcome::Kind::kPassed;
    ++tests;
    passed += is_passed;
    tests_of_a += is_of_a;
    passed_of_a += is_of_a && is_passed;
    tests_of_core += is_core;
    passed_of_core += is_core && is_passed;
    if (outcome.kind == Outcome::Kind::kWrong) ADD_FAILURE() << name << ": " << outcome.text;
    if (outcome.kind == Outcome::Kind::kRefused) {
      EXPECT_FALSE(is_of_a) << name << ": " << outcome.text;
      const size_t operator_at = outcome.text.find("' (");
      reasons[outcome.text.starts_with("node '") && operator_at != outcome.text.npos
                  ? outcome.text.substr(operator_at + 2)
                  : outcome.text]
          .push_back(name);
    }
  }
  fmt::print(
      "node tests: {} of {} pass; of class core {} of {}; wholly of tier A and passed by ONNX Runtime {} of {}\n",
      passed, tests, passed_of_core, tests_of_core, passed_of_a, tests_of_a);
  if (scope.empty()) fmt::print("node tests: onnx/scope_1.22.tsv is not in $QUERN_DATA: their classes are not known\n");
  if (const char* report = std::getenv("QUERN_ONNX_REPORT")) {
    std::ofstream out(report);
    for (const auto& [reason, names] : reasons)
      out << fmt::format("{}\t{}\t{}\n", names.size(), reason, fmt::join(names, " "));
  }
}

}  // namespace
}  // namespace quern::model
