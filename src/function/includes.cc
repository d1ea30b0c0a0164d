// SPDX-License-Identifier: Apache-2.0
#include "function/includes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

namespace quern {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr size_t kLongestInclude = 255, kMostComments = 64, kLongestComment = 4096, kMostProblems = 100;
constexpr std::array<std::string_view, 4> kIncludes = {"include", "include_next", "import", "embed"};
constexpr std::array<std::string_view, 3> kQuestions = {"__has_include", "__has_include_next", "__has_embed"};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\v' || c == '\f'; }
bool is_end_of_line(char c) { return c == '\n' || c == '\r'; }
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
}

/// Gives `take(number, text)` each line as a compiler sees it after its first two phases: trigraphs that matter here
/// are replaced, and a line that ends in a backslash, or in one with blanks behind it (clang takes those too), is
/// joined with the next. `number` is that of its first line. Ends early when `take` says false.
template <class Take>
void for_each_line(std::string_view source, bool has_trigraphs, Take&& take) {
  std::string line;
  int number = 1, first = 1;
  const auto end_of = [&](size_t at) { return at + (source.substr(at, 2) == "\r\n" ? 2 : 1); };
  for (size_t at = 0; at < source.size();) {
    char c = source[at];
    size_t next = at + 1;
    if (has_trigraphs && source.substr(at, 3) == "?\?=") c = '#', next = at + 3;
    if (has_trigraphs && source.substr(at, 3) == "?\?/") c = '\\', next = at + 3;
    if (c == '\\') {
      size_t end = next;
      while (end < source.size() && is_blank(source[end])) ++end;
      if (end < source.size() && is_end_of_line(source[end])) {
        at = end_of(end);
        ++number;
        continue;
      }
    }
    if (is_end_of_line(c)) {
      if (!take(first, line)) return;
      line.clear();
      first = ++number;
      at = end_of(at);
      continue;
    }
    line += c;
    at = next;
  }
  take(first, line);
}

/// How long the blank is that `text` begins with; 0: none. Clang takes blanks of Unicode for blanks, also as \u00a0,
/// \u{a0} or \N{NO-BREAK SPACE}: here all that is not ASCII is one.
size_t blank_size(std::string_view text) {
  if (text.empty()) return 0;
  if (is_blank(text[0]) || static_cast<unsigned char>(text[0]) >= 0x80) return 1;
  for (const std::string_view escape : {"\\u{", "\\U{", "\\N{"})
    if (text.starts_with(escape)) return text.substr(0, kLongestInclude).find('}') + 1;  // 0 if it has no end
  if (text.starts_with("\\u")) return std::min<size_t>(6, text.size());
  if (text.starts_with("\\U")) return std::min<size_t>(10, text.size());
  return 0;
}

/// What is left behind blanks and comments that end on this line. Nothing if these are more than kMostComments or
/// longer than kLongestComment: with such limits a whole line takes time in proportion to its length, although each end
/// of a comment in it is a new start.
std::optional<std::string_view> skip_blanks(std::string_view text) {
  for (size_t comments = 0;;) {
    while (const size_t size = blank_size(text)) text.remove_prefix(size);
    if (!text.starts_with("/*")) return text;
    const size_t end = text.substr(0, kLongestComment).find("*/", 2);
    if (end == std::string_view::npos && text.size() <= kLongestComment) return text;
    if (end == std::string_view::npos || ++comments > kMostComments) return std::nullopt;
    text.remove_prefix(end + 2);
  }
}

std::string too_many_comments() {
  return fmt::format("this line has a comment of more than {} bytes, or more than {} in a row; break it up",
                     kLongestComment, kMostComments);
}

std::string_view first_word(std::string_view text) {
  return text.substr(0, static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_word) - text.begin()));
}

/// What is wrong with the name of a file, which begins behind blanks; empty: nothing.
std::string problem_of_name(std::string_view what, std::string_view rest) {
  const auto behind = skip_blanks(rest);
  if (!behind) return too_many_comments();
  const std::string_view text = *behind;
  const char close = text.starts_with('"') ? '"' : text.starts_with('<') ? '>' : '\0';
  const size_t end = close ? text.substr(0, kLongestInclude + 2).find(close, 1) : std::string_view::npos;
  if (end == std::string_view::npos)
    return fmt::format("{} does not name its file on the same line; write the name of a header, as in \"pixel.h\"",
                       what);
  const std::string_view quoted = text.substr(0, end + 1);
  std::string_view name = text.substr(1, end - 1);
  if (name.starts_with('/'))
    return fmt::format("{} {} is an absolute path; copy the file into the function's folder and name it under headers",
                       what, quoted);
  while (!name.empty()) {
    const size_t slash = std::min(name.find('/'), name.size());
    if (name.substr(0, slash) == "..")
      return fmt::format(
          "{} {} leaves the function's folder by '..'; copy the file into the folder and name it under headers", what,
          quoted);
    name.remove_prefix(std::min(slash + 1, name.size()));
  }
  return "";
}

/// `rest` begins where a directive could. Behind the end of a comment its `#` may be missing: the comment may have
/// begun on an earlier line, behind a `#`.
std::string problem_of_directive(std::string_view rest, bool is_behind_comment) {
  auto text = skip_blanks(rest);
  if (!text) return too_many_comments();
  const size_t hash = text->starts_with('#') ? 1 : text->starts_with("%:") ? 2 : 0;
  if (hash == 0 && !is_behind_comment) return "";
  text = skip_blanks(text->substr(hash));
  if (!text) return too_many_comments();
  const std::string_view word = first_word(*text);
  if (std::find(kIncludes.begin(), kIncludes.end(), word) == kIncludes.end()) return "";
  return problem_of_name(fmt::format("#{}", word), text->substr(word.size()));
}

/// `rest` begins with a word.
std::string problem_of_question(std::string_view rest) {
  const std::string_view word = first_word(rest);
  if (std::find(kQuestions.begin(), kQuestions.end(), word) == kQuestions.end()) return "";
  const auto text = skip_blanks(rest.substr(word.size()));
  if (!text) return too_many_comments();
  return text->starts_with('(') ? problem_of_name(word, text->substr(1)) : "";
}

std::string problem_of_line(std::string_view line) {
  std::string problem = problem_of_directive(line, false);
  for (size_t end = line.find("*/"); problem.empty() && end != line.npos; end = line.find("*/", end + 2))
    problem = problem_of_directive(line.substr(end + 2), true);
  for (size_t at = line.find("__has_"); problem.empty() && at != line.npos; at = line.find("__has_", at + 6))
    if (at == 0 || !is_word(line[at - 1])) problem = problem_of_question(line.substr(at));
  return problem;
}

}  // namespace

std::vector<IncludeProblem> check_includes(std::string_view source) {
  if (source.starts_with(kByteOrderMark)) source.remove_prefix(kByteOrderMark.size());
  std::map<int, std::string> found;
  for (const bool has_trigraphs : {false, true})
    for_each_line(source, has_trigraphs, [&](int number, std::string_view line) {
      if (std::string problem = problem_of_line(line); !problem.empty()) found.emplace(number, std::move(problem));
      return found.size() < kMostProblems;
    });
  std::vector<IncludeProblem> problems;
  for (auto& [line, text] : found) problems.push_back({line, std::move(text)});
  return problems;
}

}  // namespace quern
