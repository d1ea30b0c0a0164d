// SPDX-License-Identifier: Apache-2.0
#include "model/op/table.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "base/suggest.h"
#include "model/op/families.h"

namespace quern::model::op {
namespace {

using RuleKey = std::pair<std::string_view, std::string_view>;  // domain, operator

struct Index {
  std::map<std::string_view, const Operator*> operators;
  std::map<RuleKey, std::vector<const OnnxRule*>> rules;  // newest first
};

const Index& index() {
  static const Index built = [] {
    Index out;
    for (const Family* family : families()) {
      for (const Operator& op : family->operators) {
        QUERN_CHECK(out.operators.emplace(op.name, &op).second, "an operator is in one family");
        QUERN_CHECK(op.infer && op.reference, "an operator has an inference and a reference");
      }
      for (const OnnxRule& rule : family->rules) out.rules[{rule.domain, rule.op}].push_back(&rule);
    }
    for (auto& [key, rules] : out.rules)
      std::sort(rules.begin(), rules.end(), [](const auto* a, const auto* b) { return a->since > b->since; });
    return out;
  }();
  return built;
}

}  // namespace

std::span<const Family* const> families() {
  static const std::array kFamilies = {
      &unary_family(),
      &binary_family(),
      &cast_family(),
  };
  return kFamilies;
}

const Operator* find_operator(std::string_view name) {
  const auto found = index().operators.find(name);
  return found == index().operators.end() ? nullptr : found->second;
}

const OnnxRule* find_rule(std::string_view domain, std::string_view op, int64_t version) {
  const auto found = index().rules.find({domain, op});
  if (found == index().rules.end()) return nullptr;
  for (const OnnxRule* rule : found->second)
    if (rule->since <= version) return rule;
  return nullptr;
}

std::string similar_rule(std::string_view domain, std::string_view op) {
  std::vector<std::string> known;
  for (const auto& [key, rules] : index().rules)
    if (key.first == domain) known.emplace_back(key.second);
  return did_you_mean(op, known);
}

}  // namespace quern::model::op
