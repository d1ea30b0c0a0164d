// SPDX-License-Identifier: Apache-2.0
#include "function/kinds.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <variant>

#include "function/manifest.h"
#include "function/yaml_tree.h"

namespace quern {
namespace {

ParsedManifest parsed(std::string_view kind) {
  Files files;
  files["function.yaml"] = bytes_of("api: quern/v1\nname: f\nkind: " + std::string(kind) +
                                    "\nprograms: {opencl: f.cl}\nbuffers: {z: {role: output, dtype: fp32, shape: [8]}}\n"
                                    "kernels: [{entry: k, global: [8], args: [{out: z}]}]\n");
  files["f.cl"] = bytes_of("kernel void k(global float* z) { z[get_global_id(0)] = 1; }\n");
  return parse_manifest(files);
}

TEST(Kinds, AKindWithAFrontEndIsReadAndAPlannedOneIsRefused) {
  std::set<std::string_view> names;
  for (const FunctionKind& kind : function_kinds()) {
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    EXPECT_EQ(find_kind(kind.name), &kind);
    const ParsedManifest told = parsed(kind.name);
    EXPECT_EQ(told.manifest.has_value(), kind.read != nullptr) << kind.name;
    if (told.manifest) {
      EXPECT_EQ(told.manifest->kind, kind.name);
    } else {
      ASSERT_EQ(told.mistakes.size(), 1u) << kind.name;
      EXPECT_EQ(told.mistakes[0].text,
                "kind " + std::string(kind.name) + " is not supported yet; write " + supported_kinds());
    }
  }
}

TEST(Kinds, AnUnknownKindIsRefused) {
  EXPECT_EQ(find_kind("grph"), nullptr);
  const ParsedManifest told = parsed("grph");
  ASSERT_EQ(told.mistakes.size(), 1u);
  EXPECT_EQ(told.mistakes[0].text, "kind is 'grph'; write " + supported_kinds());
}

TEST(Kinds, TheSchemaAllowsThoseWithAFrontEnd) {
  std::stringstream text;
  text << std::ifstream("api/function.schema.json").rdbuf();
  const auto tree = read_yaml(text.str());
  ASSERT_TRUE(std::holds_alternative<YamlNode>(tree)) << std::get<YamlProblem>(tree).text;
  const YamlNode& kind = *std::get<YamlNode>(tree).find("properties")->find("kind");
  std::set<std::string> allowed, supported;
  if (const YamlNode* one = kind.find("const")) allowed.insert(one->text);
  if (const YamlNode* several = kind.find("enum"))
    for (const YamlNode& one : several->children) allowed.insert(one.text);
  for (const FunctionKind& one : function_kinds())
    if (one.read) supported.emplace(one.name);
  EXPECT_EQ(allowed, supported);
}

TEST(Kinds, GraphIsSupported) { EXPECT_EQ(supported_kinds(), "graph"); }

}  // namespace
}  // namespace quern
