// SPDX-License-Identifier: Apache-2.0
#include "server/http/routes.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "daemon/counters.h"
#include "function/kinds.h"
#include "function/yaml_tree.h"
#include "os/file.h"
#include "server/http/router.h"
#include "server/http/test_client.h"

namespace quern::server {
namespace {

std::string method_of(const RouteRow& row) {
  switch (row.verb) {
    case Verb::kRead:
    case Verb::kGet:
      return "GET";
    case Verb::kPost:
      return "POST";
    case Verb::kPut:
      return "PUT";
    case Verb::kPatch:
      return "PATCH";
    case Verb::kDelete:
      return "DELETE";
  }
  return "";
}

const std::map<std::string, Method> kMethods = {{"GET", Method::kGet},     {"HEAD", Method::kHead},
                                                {"POST", Method::kPost},   {"PUT", Method::kPut},
                                                {"PATCH", Method::kPatch}, {"DELETE", Method::kDelete}};

/// A target of the pattern, with something in the place of each placeholder.
std::string example_of(std::string_view pattern) {
  std::string target(pattern);
  for (size_t at = target.find('{'); at != std::string::npos; at = target.find('{'))
    target.replace(at, target.find('}') - at + 1, "a");
  return target;
}

/// api/openapi.yaml, which every test here holds against the table.
class OpenApi : public testing::Test {
 protected:
  void SetUp() override {
    const auto bytes = os::read_file("api/openapi.yaml");
    ASSERT_TRUE(bytes.ok()) << bytes.error().text;
    auto tree = read_yaml(as_text(*bytes));
    ASSERT_TRUE(std::holds_alternative<YamlNode>(tree)) << std::get<YamlProblem>(tree).text;
    root_ = std::get<YamlNode>(std::move(tree));
    ASSERT_NE(root_.find("paths"), nullptr);
  }
  const YamlNode* entry_of(const RouteRow& row) const {
    const YamlNode* path = root_.find("paths")->find(row.pattern);
    std::string method = method_of(row);
    for (char& c : method) c = static_cast<char>(c - 'A' + 'a');
    return path ? path->find(method) : nullptr;
  }

  YamlNode root_;
};

TEST_F(OpenApi, HasEveryRowAndNothingElse) {
  std::set<std::string> rows, documented;
  for (const RouteRow& row : route_table()) rows.insert(method_of(row) + " " + std::string(row.pattern));
  const YamlNode& paths = *root_.find("paths");
  for (size_t i = 0; i + 1 < paths.children.size(); i += 2)
    for (size_t k = 0; k + 1 < paths.children[i + 1].children.size(); k += 2) {
      std::string method = paths.children[i + 1].children[k].text;
      if (method == "parameters") continue;
      for (char& c : method) c = static_cast<char>(c - 'a' + 'A');
      documented.insert(method + " " + paths.children[i].text);
    }
  EXPECT_EQ(rows, documented);
}

TEST_F(OpenApi, SaysWhatTheRowsSay) {
  for (const RouteRow& row : route_table()) {
    SCOPED_TRACE(method_of(row) + " " + std::string(row.pattern));
    const YamlNode* entry = entry_of(row);
    ASSERT_NE(entry, nullptr);
    const YamlNode* summary = entry->find("summary");
    ASSERT_NE(summary, nullptr);
    EXPECT_EQ(summary->text, row.summary);
    EXPECT_EQ(entry->find("requestBody") != nullptr, !row.body.name.empty());
    // `security: [{}]`: no key is needed.
    const YamlNode* security = entry->find("security");
    EXPECT_EQ(security != nullptr, row.caller == Caller::kAnyone);
    if (!security) continue;
    ASSERT_EQ(security->children.size(), 1u);
    EXPECT_TRUE(security->children[0].children.empty());
  }
}

TEST_F(OpenApi, NamesThePlaceholdersOfEachPath) {
  for (const RouteRow& row : route_table()) {
    const YamlNode* listed = root_.find("paths")->find(row.pattern)->find("parameters");
    std::multiset<std::string> told, wanted;
    for (const YamlNode& parameter : listed ? listed->children : std::vector<YamlNode>()) {
      if (const YamlNode* reference = parameter.find("$ref"))
        told.insert(reference->text.substr(reference->text.rfind('/') + 1));
      else if (parameter.find("in")->text == "path")
        told.insert(parameter.find("name")->text);
    }
    for (size_t at = row.pattern.find('{'); at != std::string_view::npos; at = row.pattern.find('{', at + 1))
      wanted.emplace(row.pattern.substr(at + 1, row.pattern.find('}', at) - at - 1));
    EXPECT_EQ(told, wanted) << row.pattern;
  }
}

TEST_F(OpenApi, HasEverySupportedKind) {
  const YamlNode& schemas = *root_.find("components")->find("schemas");
  const auto listed = [&](std::string_view schema, std::string_view property) {
    std::vector<std::string> values;
    for (const YamlNode& value : schemas.find(schema)->find("properties")->find(property)->find("enum")->children)
      values.push_back(value.text);
    return values;
  };
  std::vector<std::string> names, platforms;
  for (const FunctionKind& kind : function_kinds()) {
    if (!kind.read) continue;
    names.emplace_back(kind.name);
    platforms.emplace_back(kind.platform);
  }
  EXPECT_EQ(listed("Function", "kind"), names);
  EXPECT_EQ(listed("Model", "platform"), platforms);
}

TEST_F(OpenApi, HasEveryCounterAndItsMeaning) {
  const YamlNode* counters = root_.find("components")->find("schemas")->find("Counters")->find("properties");
  ASSERT_NE(counters, nullptr);
  std::vector<std::string> told, wanted;
  for (size_t i = 0; i + 1 < counters->children.size(); i += 2) {
    const YamlNode* meaning = counters->children[i + 1].find("description");
    told.push_back(counters->children[i].text + ": " + (meaning ? meaning->text : ""));
  }
  daemon::for_each_counter({}, [&](std::string_view name, auto, std::string_view meaning) {
    wanted.push_back(std::string(name) + ": " + std::string(meaning));
  });
  // Behind them, what the front door measures of calls.
  ASSERT_GE(told.size(), wanted.size());
  told.resize(wanted.size());
  EXPECT_EQ(told, wanted);
}

TEST(RouteTable, FindsEveryRowByItsPattern) {
  for (const RouteRow& row : route_table()) {
    ASSERT_NE(row.handler, nullptr) << row.pattern;
    Route route;
    const auto failure = find_route(kMethods.at(method_of(row)), example_of(row.pattern), route);
    ASSERT_FALSE(failure) << row.pattern << ": " << failure->error.text;
    EXPECT_EQ(route.row, &row) << row.pattern;
    EXPECT_EQ(route.needs_key, row.caller == Caller::kTenant) << row.pattern;
  }
}

TEST(RouteTable, OtherMethodsAreToldWhatThePathTakes) {
  std::map<std::string, std::set<std::string>> taken;
  for (const RouteRow& row : route_table()) {
    taken[std::string(row.pattern)].insert(method_of(row));
    if (row.verb == Verb::kRead) taken[std::string(row.pattern)].insert("HEAD");
  }
  for (const auto& [pattern, methods] : taken) {
    for (const auto& [name, method] : kMethods) {
      Route route;
      const auto failure = find_route(method, example_of(pattern), route);
      EXPECT_EQ(!failure, methods.contains(name)) << name << " " << pattern;
      if (!failure) continue;
      EXPECT_EQ(status_of(*failure), 405) << name << " " << pattern;
      EXPECT_EQ(route.row, nullptr) << name << " " << pattern;
      std::string allow(failure->allow);
      std::set<std::string> allowed;
      for (size_t comma = 0; comma != std::string::npos;
           allow = comma == std::string::npos ? "" : allow.substr(comma + 2)) {
        comma = allow.find(", ");
        allowed.insert(allow.substr(0, comma));
      }
      EXPECT_EQ(allowed, methods) << name << " " << pattern;
    }
  }
}

TEST(RouteTable, AnUnknownPathNeedsAKeyExceptBelowHealth) {
  for (const auto& [target, needs_key] : std::map<std::string, bool>{{"/v2/health/lvie", false},
                                                                     {"/v2/health/live/x", false},
                                                                     {"/v2/health", true},
                                                                     {"/v3", true},
                                                                     {"/v1/functions/a/b", true}}) {
    Route route;
    const auto failure = find_route(Method::kGet, target, route);
    ASSERT_TRUE(failure) << target;
    EXPECT_EQ(status_of(*failure), 404) << target;
    EXPECT_EQ(route.needs_key, needs_key) << target;
    EXPECT_EQ(route.row, nullptr) << target;
  }
}

using RouteTableServer = ServerTest;

TEST_F(RouteTableServer, ARowIsOpenOrNeedsAKey) {
  daemon_.key = "k";
  start();
  for (const RouteRow& row : route_table()) {
    const Response answer = ask(method_of(row) + " " + example_of(row.pattern) + " HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_EQ(answer.status == 401, row.caller == Caller::kTenant) << row.pattern << " " << answer.status;
  }
}

TEST_F(RouteTableServer, ARowThatTakesABodyNeedsItsLengthAndHoldsItsLimit) {
  start();
  for (const RouteRow& row : route_table()) {
    if (row.body.name.empty()) continue;
    const std::string head = method_of(row) + " " + example_of(row.pattern) + " HTTP/1.1\r\nHost: a\r\n";
    EXPECT_EQ(ask(head + "\r\n").status, 411) << row.pattern;
    if (row.body.most_bytes > config_.limits.body_bytes) continue;
    const Response longer = ask(head + "Content-Length: " + std::to_string(row.body.most_bytes + 1) + "\r\n\r\n");
    EXPECT_EQ(longer.status, 413) << row.pattern;
    EXPECT_TRUE(longer.error().starts_with(row.body.name)) << longer.error();
  }
}

TEST_F(RouteTableServer, SettingsOf64KiBAreTakenAndNotMore) {
  start();
  const std::string settings = R"({"priority": 3})";
  const size_t most = 64 << 10;
  auto caller = client();
  const std::string path = "/v1/functions/echo";
  EXPECT_EQ(caller->ask(request("PATCH", path, settings + std::string(most - settings.size(), ' '))).status, 200);
  const Response longer = caller->ask(request("PATCH", path, settings + std::string(most - settings.size() + 1, ' ')));
  EXPECT_EQ(longer.status, 413);
  EXPECT_EQ(longer.error(), "settings: 65537 bytes, and at most 65536 are taken");
  EXPECT_EQ(caller->ask(get("/v2/health/live")).status, 200) << "the connection goes on";
}

TEST_F(RouteTableServer, CountersAreShownByTheirNames) {
  start();
  daemon_.count_copied(7);
  const auto answer = ask(get("/v1/counters")).json().as_object();
  daemon::for_each_counter(daemon_.counters(), [&](std::string_view name, auto value, std::string_view) {
    ASSERT_TRUE(answer.contains(name)) << name;
    EXPECT_EQ(answer.at(name).to_number<decltype(value)>(), value) << name;
  });
  EXPECT_EQ(answer.at("copied_bytes"), 7);
}

}  // namespace
}  // namespace quern::server
