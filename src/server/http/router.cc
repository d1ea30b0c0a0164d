// SPDX-License-Identifier: Apache-2.0
#include "server/http/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/suggest.h"

namespace quern::server {
namespace {

constexpr size_t kMostSegments = 8;

std::string_view path_of(std::string_view target) {
  target = target.substr(0, target.find_first_of("?#"));
  // A proxy's form, "http://host/path".
  if (const size_t scheme = target.find("://"); scheme != std::string_view::npos && !target.starts_with('/')) {
    const size_t slash = target.find('/', scheme + 3);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  return target;
}

// Whether one of the pairs behind the ? is this one.
bool has_query(std::string_view target, std::string_view wanted) {
  target = target.substr(0, target.find('#'));
  for (size_t at = target.find('?'); at != std::string_view::npos; at = target.find('&', at)) {
    ++at;
    if (target.substr(at, target.find('&', at) - at) == wanted) return true;
  }
  return false;
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool decode(std::string_view text, std::string& into) {
  into.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      into += text[i];
      continue;
    }
    if (i + 2 >= text.size() || digit(text[i + 1]) < 0 || digit(text[i + 2]) < 0) return false;
    into += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
    i += 2;
  }
  return true;
}

Failure unknown_path(std::string_view path) {
  std::vector<std::string> known = {"/v2",          "/v2/health/live", "/v2/health/ready", "/v1/functions",
                                    "/v1/requests", "/v1/objects",     "/v1/devices",      "/v1/counters",
                                    "/v1/memory",   "/v1/trace",       "/v1/accounts"};
  // With the caller's own name in the place of NAME, so that only what is mistyped differs.
  const size_t a = path.find('/', 1);
  const size_t b = a == std::string_view::npos ? a : path.find('/', a + 1);
  if (b != std::string_view::npos) {
    const std::string name(path.substr(b + 1, path.find('/', b + 1) - b - 1));
    for (const char* rest : {"", "/ready", "/infer"}) known.push_back("/v2/models/" + name + rest);
    for (const char* rest : {"", "/history", "/rollback", "/keep", "/profile"})
      known.push_back("/v1/functions/" + name + rest);
  }
  return Failure(not_found(fmt::format("path {}: there is none{}", path.substr(0, 128), did_you_mean(path, known))));
}

std::optional<Failure> allow(Method method, std::string_view path, Endpoint endpoint) {
  const bool reads = method == Method::kGet || method == Method::kHead;
  std::string_view allowed = "GET, HEAD";
  bool fits = reads;
  if (endpoint == Endpoint::kInfer) allowed = "POST", fits = method == Method::kPost;
  if (endpoint == Endpoint::kRollback) allowed = "POST", fits = method == Method::kPost;
  if (endpoint == Endpoint::kTrace) allowed = "GET, DELETE", fits = method == Method::kGet || method == Method::kDelete;
  if (endpoint == Endpoint::kKeep)
    allowed = "POST, DELETE", fits = method == Method::kPost || method == Method::kDelete;
  if (endpoint == Endpoint::kRequest) allowed = "GET, HEAD, DELETE", fits = reads || method == Method::kDelete;
  if (endpoint == Endpoint::kObjects) allowed = "GET, HEAD, PUT", fits = reads || method == Method::kPut;
  if (endpoint == Endpoint::kObject) allowed = "GET, HEAD, DELETE", fits = reads || method == Method::kDelete;
  if (endpoint == Endpoint::kFunction)
    allowed = "GET, HEAD, PUT, PATCH, DELETE",
    fits = reads || method == Method::kPut || method == Method::kPatch || method == Method::kDelete;
  if (fits) return std::nullopt;
  Failure failure(invalid(fmt::format("path {}: takes {}", path.substr(0, 128), allowed)), 405);
  failure.allow = allowed;
  return failure;
}

}  // namespace

std::string_view query_value(std::string_view target, std::string_view key) {
  target = target.substr(0, target.find('#'));
  for (size_t at = target.find('?'); at != std::string_view::npos; at = target.find('&', at)) {
    ++at;
    const std::string_view pair = target.substr(at, target.find('&', at) - at);
    if (pair.starts_with(key) && pair.substr(key.size()).starts_with('=')) return pair.substr(key.size() + 1);
  }
  return {};
}

bool is_open_to_all(std::string_view target) { return path_of(target).starts_with("/v2/health/"); }

std::optional<Failure> find_route(Method method, std::string_view target, Route& into) {
  const std::string_view path = path_of(target);
  into.name.clear();
  into.version.clear();
  into.keeps = false;
  into.seconds.clear();
  into.by.clear();
  if (!path.starts_with('/')) return unknown_path(path);
  std::array<std::string_view, kMostSegments> parts;
  size_t count = 0;
  for (size_t at = 1; at < path.size();) {
    if (count == kMostSegments) return unknown_path(path);
    const size_t end = std::min(path.find('/', at), path.size());
    parts[count++] = path.substr(at, end - at);
    at = end + 1;
  }
  const auto is = [&](size_t i, std::string_view text) { return i < count && parts[i] == text; };
  const auto malformed = [&] {
    return Failure(invalid(fmt::format("path {}: a % must be followed by two hex digits", path.substr(0, 128))));
  };
  const auto found = [&](Endpoint endpoint) {
    into.endpoint = endpoint;
    return allow(method, path, endpoint);
  };

  if (is(0, "v2")) {
    if (count == 1) return found(Endpoint::kServer);
    if (count == 3 && is(1, "health") && is(2, "live")) return found(Endpoint::kLive);
    if (count == 3 && is(1, "health") && is(2, "ready")) return found(Endpoint::kReady);
  } else if (is(0, "v1")) {
    if (count == 2 && is(1, "functions")) return found(Endpoint::kFunctions);
    if (count == 2 && is(1, "requests")) return found(Endpoint::kRequests);
    if (count == 3 && is(1, "requests")) {
      if (!decode(parts[2], into.name)) return malformed();
      return found(Endpoint::kRequest);
    }
    if (count == 2 && is(1, "objects")) return found(Endpoint::kObjects);
    if (count == 3 && is(1, "objects")) {
      if (!decode(parts[2], into.name)) return malformed();
      into.keeps = has_query(target, "keep=true");
      return found(Endpoint::kObject);
    }
    if (count == 2 && is(1, "devices")) return found(Endpoint::kDevices);
    if (count == 2 && is(1, "memory")) return found(Endpoint::kMemory);
    if (count == 2 && is(1, "accounts")) {
      into.by = query_value(target, "by");
      return found(Endpoint::kAccounts);
    }
    if (count == 2 && is(1, "trace")) {
      into.seconds = query_value(target, "seconds");
      return found(Endpoint::kTrace);
    }
    if (count == 2 && is(1, "counters")) return found(Endpoint::kCounters);
  }
  const bool is_model = is(0, "v2") && is(1, "models"), is_function = is(0, "v1") && is(1, "functions");
  if ((!is_model && !is_function) || count < 3 || parts[2].empty()) return unknown_path(path);
  if (!decode(parts[2], into.name)) return malformed();
  if (const size_t at = into.name.find('@'); at != std::string::npos) {
    into.version = into.name.substr(at + 1);
    into.name.resize(at);
    if (into.version.empty()) return Failure(invalid("function " + into.name + ": no version behind the @"));
  }
  size_t rest = 3;
  if (is_model && is(3, "versions") && count > 4) {
    std::string version;
    if (!decode(parts[4], version)) return malformed();
    if (!into.version.empty() && into.version != version)
      return Failure(
          invalid(fmt::format("function {}: two versions, {} and {}; give one", into.name, into.version, version)));
    into.version = std::move(version);
    rest = 5;
  }
  if (is_function) {
    if (count == 3) return found(Endpoint::kFunction);
    if (count == 4 && is(3, "history")) return found(Endpoint::kHistory);
    if (count == 4 && is(3, "rollback")) return found(Endpoint::kRollback);
    if (count == 4 && is(3, "keep")) return found(Endpoint::kKeep);
    if (count == 4 && is(3, "profile")) return found(Endpoint::kProfile);
    return unknown_path(path);
  }
  if (rest == count) return found(Endpoint::kModel);
  if (rest + 1 == count && is(rest, "ready")) return found(Endpoint::kModelReady);
  if (rest + 1 == count && is(rest, "infer")) return found(Endpoint::kInfer);
  return unknown_path(path);
}

}  // namespace quern::server
