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

// The segments of a path. One slash at its end counts for nothing.
class Parts {
 public:
  // False if there are more than any pattern has.
  bool split(std::string_view path) {
    count_ = 0;
    for (size_t at = 1; at < path.size();) {
      if (count_ == all_.size()) return false;
      const size_t end = std::min(path.find('/', at), path.size());
      all_[count_++] = path.substr(at, end - at);
      at = end + 1;
    }
    return true;
  }
  size_t size() const { return count_; }
  std::string_view operator[](size_t i) const { return all_[i]; }
  const std::string_view* begin() const { return all_.data(); }
  const std::string_view* end() const { return all_.data() + count_; }

 private:
  std::array<std::string_view, kMostSegments> all_;
  size_t count_ = 0;
};

// A pattern of the table with its rows.
struct Path {
  std::string_view pattern;
  Parts parts;
  std::array<const RouteRow*, static_cast<size_t>(Method::kOther) + 1> rows{};  // by method; null: not taken
  std::string allow;
  bool is_open = true;  // all rows are
};

std::vector<std::pair<Method, std::string_view>> methods_of(Verb verb) {
  switch (verb) {
    case Verb::kRead:
      return {{Method::kGet, "GET"}, {Method::kHead, "HEAD"}};
    case Verb::kGet:
      return {{Method::kGet, "GET"}};
    case Verb::kPost:
      return {{Method::kPost, "POST"}};
    case Verb::kPut:
      return {{Method::kPut, "PUT"}};
    case Verb::kPatch:
      return {{Method::kPatch, "PATCH"}};
    case Verb::kDelete:
      return {{Method::kDelete, "DELETE"}};
  }
  return {};
}

std::vector<Path> make_paths() {
  std::vector<Path> paths;
  for (const RouteRow& row : route_table()) {
    if (paths.empty() || paths.back().pattern != row.pattern) {
      paths.emplace_back().pattern = row.pattern;
      QUERN_CHECK(paths.back().parts.split(row.pattern), "a pattern has too many segments");
    }
    Path& path = paths.back();
    path.is_open &= row.caller == Caller::kAnyone;
    for (const auto& [method, name] : methods_of(row.verb)) {
      path.rows[static_cast<size_t>(method)] = &row;
      if (!path.allow.empty()) path.allow += ", ";
      path.allow += name;
    }
  }
  return paths;
}

const std::vector<Path>& all_paths() {
  static const std::vector<Path> paths = make_paths();
  return paths;
}

// A function has a name; an id may be empty, and is then the id of nothing.
bool fits(std::string_view pattern, std::string_view part) {
  return pattern == "{name}" ? !part.empty() : pattern == part || pattern.starts_with('{');
}
bool fits(const Path& path, const Parts& parts) {
  return std::equal(path.parts.begin(), path.parts.end(), parts.begin(), parts.end(),
                    [](auto pattern, auto part) { return fits(pattern, part); });
}

// How many segments of `parts` reach to the name of a function behind which `path` goes on in another way; 0: none do.
size_t reach_of_name(const Path& path, const Parts& parts) {
  for (size_t i = 0; i < std::min(path.parts.size(), parts.size()) && fits(path.parts[i], parts[i]); ++i)
    if (path.parts[i] == "{name}") return i + 1;
  return 0;
}

Failure unknown_path(std::string_view path) {
  constexpr std::string_view kName = "{name}";
  // With the caller's own name in the place of {name}, so that only what is mistyped differs. Of two paths that are
  // equally near, one without a name is suggested.
  const size_t a = path.find('/', 1);
  const size_t b = a == std::string_view::npos ? a : path.find('/', a + 1);
  std::vector<std::string> known, named;
  for (const Path& one : all_paths()) {
    const size_t at = one.pattern.find(kName);
    std::string text(one.pattern);
    if (at != std::string::npos && b != std::string_view::npos)
      text.replace(at, kName.size(), path.substr(b + 1, path.find('/', b + 1) - b - 1));
    if (text.find('{') == std::string::npos) (at == std::string::npos ? known : named).push_back(std::move(text));
  }
  known.insert(known.end(), named.begin(), named.end());
  return Failure(not_found(fmt::format("path {}: there is none{}", path.substr(0, 128), did_you_mean(path, known))));
}

// Fills in what the placeholders of the first `count` segments stand for.
std::optional<Failure> take_names(const Path& row, const Parts& parts, size_t count, std::string_view path,
                                  Route& into) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    if (!row.parts[i].starts_with('{')) continue;
    if (!decode(parts[i], text))
      return Failure(invalid(fmt::format("path {}: a % must be followed by two hex digits", path.substr(0, 128))));
    if (row.parts[i] == "{version}") {
      if (!into.version.empty() && into.version != text)
        return Failure(
            invalid(fmt::format("function {}: two versions, {} and {}; give one", into.name, into.version, text)));
      into.version = text;
      continue;
    }
    into.name = text;
    const size_t at = row.parts[i] == "{name}" ? text.find('@') : std::string::npos;
    if (at == std::string::npos) continue;
    into.version = text.substr(at + 1);
    into.name.resize(at);
    if (into.version.empty()) return Failure(invalid("function " + into.name + ": no version behind the @"));
  }
  return std::nullopt;
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

std::optional<Failure> find_route(Method method, std::string_view target, Route& into) {
  const std::string_view path = path_of(target);
  into.row = nullptr;
  // A mistyped probe has no key, and is answered 404 all the same.
  into.needs_key = !path.starts_with("/v2/health/");
  into.name.clear();
  into.version.clear();
  into.keeps = has_query(target, "keep=true");
  into.by = query_value(target, "by");
  into.seconds = query_value(target, "seconds");
  Parts parts;
  if (!path.starts_with('/') || !parts.split(path)) return unknown_path(path);
  const auto found =
      std::find_if(all_paths().begin(), all_paths().end(), [&](const Path& one) { return fits(one, parts); });
  if (found == all_paths().end()) {
    // A malformed name is told first: with it no suggestion would do.
    for (const Path& one : all_paths())
      if (const size_t count = reach_of_name(one, parts))
        if (auto failure = take_names(one, parts, count, path, into)) return failure;
    return unknown_path(path);
  }
  into.needs_key = !found->is_open;
  if (auto failure = take_names(*found, parts, parts.size(), path, into)) return failure;
  into.row = found->rows[static_cast<size_t>(method)];
  if (!into.row) {
    Failure failure(invalid(fmt::format("path {}: takes {}", path.substr(0, 128), found->allow)), 405);
    failure.allow = found->allow;
    return failure;
  }
  into.endpoint = into.row->endpoint;
  into.needs_key = into.row->caller != Caller::kAnyone;
  return std::nullopt;
}

}  // namespace quern::server
