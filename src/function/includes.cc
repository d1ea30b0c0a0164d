// SPDX-License-Identifier: Apache-2.0
#include "function/includes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

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

/// The position behind the end of a line that is at `at`. Clang takes CR LF and LF CR for one, at least behind a
/// backslash.
size_t behind_end_of_line(std::string_view text, size_t at) {
  const bool is_pair = at + 1 < text.size() && is_end_of_line(text[at + 1]) && text[at + 1] != text[at];
  return at + (is_pair ? 2 : 1);
}

/// Gives `take(number, text)` each line as a compiler sees it after its first two phases: trigraphs that matter here
/// are replaced, and a line that ends in a backslash, or in one with blanks behind it (clang takes those too), is
/// joined with the next. `number` is that of its first line. Ends early when `take` says false.
template <class Take>
void for_each_line(std::string_view source, bool has_trigraphs, Take&& take) {
  std::string line;
  int number = 1, first = 1;
  const auto end_of = [&](size_t at) { return behind_end_of_line(source, at); };
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
  // To a compiler the character behind a backslash does not end the name.
  if (name.find('\\') != std::string_view::npos)
    return fmt::format("{} {} has a backslash in its name; write '/' between folders, or rename the header", what,
                       quoted);
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

/// `text` with LF alone at the end of each line.
std::string with_plain_ends(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const bool is_end = is_end_of_line(text[at]);
    plain += is_end ? '\n' : text[at];
    at = is_end ? behind_end_of_line(text, at) : at + 1;
  }
  return plain;
}

/// Puts blanks in place of the comments of one text, whose lines end with LF.
///
/// What it takes away no compiler ever sees, and what it leaves is checked as if no comment were open. So a mistake
/// here could break a program, but could not let a directive through: hence it gives up wherever compilers may differ.
class CommentEraser {
 public:
  explicit CommentEraser(std::string_view text) : text_(text) { out_.reserve(text.size()); }

  /// False where a comment is not beyond doubt.
  bool run() {
    if (text_.find("??") != std::string_view::npos) return false;
    while (at_ < text_.size())
      if (!step()) return false;
    return true;
  }
  std::string take() { return std::move(out_); }

 private:
  char next(size_t distance = 1) const { return at_ + distance < text_.size() ? text_[at_ + distance] : '\0'; }
  void copy(size_t end) {
    out_ += text_.substr(at_, end - at_);
    at_ = end;
  }
  /// Whether the backslash at `at` joins its line with the next; then `at` moves behind the end of the line.
  bool skip_join(size_t& at) const {
    size_t end = at + 1;
    while (end < text_.size() && is_blank(text_[end])) ++end;
    if (end >= text_.size() || text_[end] != '\n') return false;
    at = end + 1;
    return true;
  }

  bool step() {
    const char c = text_[at_];
    if (c == '\n') {
      is_at_start_ = true;
      is_directive_ = wants_word_ = names_file_ = false;
      copy(at_ + 1);
      return true;
    }
    if (is_blank(c) || static_cast<unsigned char>(c) >= 0x80) return copy(at_ + 1), true;
    if (c == '/') return slash();
    if (c == '\\') return backslash();
    const bool was_at_start = std::exchange(is_at_start_, false);
    const bool names_file = std::exchange(names_file_, false);
    if (was_at_start && (c == '#' || (c == '%' && next() == ':'))) {
      is_directive_ = wants_word_ = true;
      copy(at_ + (c == '#' ? 1 : 2));
      return true;
    }
    if (is_word(c)) return word();
    wants_word_ = false;
    if (c == '"' || c == '\'') return literal(c);
    names_file_ = names_file && c == '(';
    const size_t end = names_file && c == '<' ? text_.find_first_of(">\n", at_) : std::string_view::npos;
    copy(end != std::string_view::npos && text_[end] == '>' ? end + 1 : at_ + 1);
    return true;
  }

  bool backslash() {
    size_t end = at_;
    if (skip_join(end)) return copy(end), true;
    is_at_start_ = wants_word_ = names_file_ = false;
    copy(at_ + 1);
    return true;
  }

  bool slash() {
    size_t behind = at_ + 1;
    if (next() == '\\' && skip_join(behind)) return false;  // "/\", "*" is the start of a comment as well
    if (next() == '*') return block_comment();
    if (next() == '/') return line_comment();
    is_at_start_ = wants_word_ = names_file_ = false;
    copy(at_ + 1);
    return true;
  }

  // It stands for one blank: a directive goes on behind it, and so its lines are joined where they were one.
  bool block_comment() {
    const size_t end = text_.find("*/", at_ + 2);
    if (end == std::string_view::npos) return false;
    const std::string_view body = text_.substr(at_, end + 2 - at_);
    if (body.find("*\\") != std::string_view::npos) return false;
    for (const char c : body) {
      if (c != '\n') {
        out_ += ' ';
      } else {
        out_ += is_directive_ ? "\\\n" : "\n";
      }
    }
    at_ = end + 2;
    return true;
  }

  bool line_comment() {
    size_t end = at_;
    for (; end < text_.size() && text_[end] != '\n'; ++end) {
      size_t behind = end;
      if (text_[end] != '\\' || !skip_join(behind)) continue;
      if (text_[end + 1] != '\n') return false;  // blanks behind a backslash: not every compiler joins then
      out_.append(end + 1 - at_, ' ');
      out_ += '\n';
      at_ = behind;
      end = at_ - 1;
    }
    out_.append(end - at_, ' ');
    at_ = end;
    return true;
  }

  bool literal(char quote) {
    if (!is_plain_literal(quote)) return false;
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote && text_[end] != '\n') {
      if (text_[end] != '\\')
        ++end;
      else if (!skip_join(end))
        end = std::min(end + 2, text_.size());
    }
    const bool is_whole = end < text_.size() && text_[end] == quote;
    const std::string_view rest = text_.substr(at_, end - at_);
    if (!is_whole && (rest.find("/*") != rest.npos || rest.find("//") != rest.npos)) return false;
    copy(is_whole ? end + 1 : end);
    return true;
  }

  // A raw string (R"…") ends elsewhere, and an apostrophe behind a letter or a digit may be part of a number.
  bool is_plain_literal(char quote) const {
    size_t begin = at_;
    while (begin > 0 && is_word(text_[begin - 1])) --begin;
    const std::string_view prefix = text_.substr(begin, at_ - begin);
    if (quote == '"') return !prefix.ends_with('R');
    return prefix.empty() || prefix == "L" || prefix == "u" || prefix == "U" || prefix == "u8";
  }

  bool word() {
    const std::string_view word = first_word(text_.substr(at_));
    const bool is_name_of_directive = std::exchange(wants_word_, false);
    copy(at_ + word.size());
    if (std::find(kQuestions.begin(), kQuestions.end(), word) != kQuestions.end()) names_file_ = true;
    if (!is_name_of_directive) return true;
    if (next(0) == '\\') return false;  // the name may go on in the next line
    if (std::find(kIncludes.begin(), kIncludes.end(), word) != kIncludes.end()) names_file_ = true;
    return (word != "error" && word != "warning") || message();
  }

  // Compilers take what follows as it is, unless they skip it in an #if: then it is made of tokens.
  bool message() {
    size_t end = at_;
    while (end < text_.size() && text_[end] != '\n')
      if (text_[end] != '\\' || !skip_join(end)) ++end;
    if (text_.substr(at_, end - at_).find("/*") != std::string_view::npos) return false;
    copy(end);
    return true;
  }

  const std::string_view text_;
  std::string out_;
  size_t at_ = 0;
  // Of the line, after lines were joined:
  bool is_at_start_ = true;    ///< nothing but blanks and comments so far
  bool is_directive_ = false;  ///< begins with '#'
  bool wants_word_ = false;    ///< the name of the directive is next
  bool names_file_ = false;    ///< the name of a file is next, also as <name>
};

}  // namespace

std::string text_to_compile(std::string_view source) {
  std::string text = with_plain_ends(source);
  CommentEraser eraser(text);
  return eraser.run() ? eraser.take() : text;
}

std::vector<IncludeProblem> check_includes(std::string_view source) {
  return check_compiled_text(text_to_compile(source));
}

bool is_header_name(std::string_view name) {
  constexpr std::string_view kNever = "\\\"<>\x7f";
  return !name.empty() && std::none_of(name.begin(), name.end(), [&](char c) {
    return static_cast<unsigned char>(c) < 0x20 || kNever.find(c) != std::string_view::npos;
  });
}

std::vector<IncludeProblem> check_compiled_text(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::map<int, std::string> found;
  for (const bool has_trigraphs : {false, true})
    for_each_line(text, has_trigraphs, [&](int number, std::string_view line) {
      if (std::string problem = problem_of_line(line); !problem.empty()) found.emplace(number, std::move(problem));
      return found.size() < kMostProblems;
    });
  std::vector<IncludeProblem> problems;
  for (auto& [line, problem] : found) problems.push_back({line, std::move(problem)});
  return problems;
}

}  // namespace quern
