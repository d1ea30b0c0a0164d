// SPDX-License-Identifier: Apache-2.0
#include "function/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace quern {
namespace {

// Leaves the parser from within an event; caught in read_yaml.
struct Refusal {
  YamlProblem problem;
};

[[noreturn]] void refuse(const YAML::Mark& mark, std::string text) {
  throw Refusal{{mark.line + 1, mark.column + 1, std::move(text)}};
}

// Builds the tree from the parser's events and not from YAML::Load: events come before anything is copied or
// resolved, so that a limit that is passed costs nothing more.
class TreeBuilder : public YAML::EventHandler {
 public:
  YamlNode root;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(mark, "?", anchor, YamlNode::Kind::kNull); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "aliases (*name) are not allowed; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode& node = add(mark, tag, anchor, YamlNode::Kind::kScalar);
    node.text = value;
    node.quoted = tag == "!";
    if (open_.empty() || !at_key()) return;
    if (!keys_.back().insert(value).second)
      refuse(mark, fmt::format("key '{}' is given twice; keep one", value.substr(0, 64)));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::kSequence);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  // True just after a key was added to the innermost map.
  bool at_key() const { return open_.back()->is_map() && open_.back()->children.size() % 2 == 1; }

  YamlNode& add(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    if (anchor != YAML::NullAnchor) refuse(mark, "anchors (&name) are not allowed; write the value out");
    // "?" is a plain value, "!" a quoted one; sequences and maps have no tag or "?".
    if (!tag.empty() && tag != "?" && tag != "!") refuse(mark, "tags (!name) are not allowed; write the value alone");
    if (++nodes_ > kMostYamlNodes) refuse(mark, fmt::format("more than {} values; make it smaller", kMostYamlNodes));
    YamlNode* node = &root;
    if (!open_.empty()) {
      const bool is_key = open_.back()->is_map() && open_.back()->children.size() % 2 == 0;
      if (is_key && kind != YamlNode::Kind::kScalar) refuse(mark, "a key must be a plain word");
      node = &open_.back()->children.emplace_back();
    }
    node->kind = kind;
    node->line = mark.line + 1;
    node->column = mark.column + 1;
    return *node;
  }
  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    if (open_.size() == static_cast<size_t>(kDeepestYaml))
      refuse(mark, fmt::format("nested more than {} deep; a manifest never is", kDeepestYaml));
    // Stays valid while it is open: only the innermost node grows.
    open_.push_back(&add(mark, tag, anchor, kind));
    keys_.emplace_back();
  }
  void close() {
    open_.pop_back();
    keys_.pop_back();
  }

  std::vector<YamlNode*> open_;
  std::vector<std::set<std::string, std::less<>>> keys_;  // of each open map
  size_t nodes_ = 0;
};

/// From 1; empty if there is none.
std::string_view line_of(std::string_view text, int line) {
  for (; line > 1; --line) {
    const size_t end = text.find('\n');
    if (end == text.npos) return "";
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

}  // namespace

std::string_view YamlNode::kind_name() const {
  switch (kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kScalar:
      return "a single value";
    case Kind::kSequence:
      return "a list";
    case Kind::kMap:
      return "a map";
  }
  return "";
}

const YamlNode* YamlNode::find(std::string_view key) const {
  if (!is_map()) return nullptr;
  for (size_t i = 0; i + 1 < children.size(); i += 2)
    if (children[i].text == key) return &children[i + 1];
  return nullptr;
}

std::variant<YamlNode, YamlProblem> read_yaml(std::string_view text) {
  if (text.size() > kMostYamlBytes)
    return YamlProblem{1, 1, fmt::format("is {} bytes; at most {} are read", text.size(), kMostYamlBytes)};
  if (text.find('\0') != text.npos)
    return YamlProblem{1, 1, "is not text (it has a zero byte); write YAML or JSON in UTF-8"};
  TreeBuilder builder;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return YamlProblem{1, 1, "is empty; write a manifest"};
    YamlNode root = std::move(builder.root);
    TreeBuilder second;
    if (parser.HandleNextDocument(second))
      return YamlProblem{second.root.line, second.root.column, "a second document; keep one (without '---')"};
    return root;
  } catch (const Refusal& refusal) {
    return refusal.problem;
  } catch (const YAML::Exception& error) {
    // Marks are -1 where the library has none.
    const int line = std::max(error.mark.line, 0) + 1;
    const bool has_choice = line_of(text, line).find(" ? ") != text.npos;
    return YamlProblem{line, std::max(error.mark.column, 0) + 1,
                       fmt::format("is neither YAML nor JSON: {}{}", error.msg,
                                   has_choice ? "; put an expression with ' : ' in quotes" : "")};
  }
}

}  // namespace quern
