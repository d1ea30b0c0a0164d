// SPDX-License-Identifier: Apache-2.0
#include "hal/fake/signatures.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>

#include "hal/checks.h"

namespace quern::hal::fake {
namespace {

struct Token {
  std::string text;
  int line = 1;
};

Error error_at(int line, std::string_view what) {
  return invalid(fmt::format("program.cl:{}:1: error: {}", line, what));
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

Result<std::vector<Token>> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  int line = 1;
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("//") || rest.starts_with("#")) {
      const auto whole = rest.substr(0, rest.find('\n'));
      if (const size_t at = whole.find("error");
          whole.starts_with("#") && at != std::string_view::npos && whole.find_first_not_of("# \t") == at)
        return error_at(line, whole.substr(std::min(whole.size(), at + 6)));
      i += whole.size();
    } else if (rest.starts_with("/*")) {
      const auto end = rest.find("*/");
      if (end == std::string_view::npos) return error_at(line, "unterminated /* comment");
      for (char c : rest.substr(0, end)) line += c == '\n';
      i += end + 2;
    } else if (is_word(rest[0])) {
      size_t size = 1;
      while (size < rest.size() && is_word(rest[size])) ++size;
      tokens.push_back({std::string(rest.substr(0, size)), line});
      i += size;
    } else {
      if (rest[0] == '\n') ++line;
      if (!std::isspace(static_cast<unsigned char>(rest[0]))) tokens.push_back({std::string(1, rest[0]), line});
      ++i;
    }
  }
  return tokens;
}

Status check_brackets(const std::vector<Token>& tokens) {
  std::vector<const Token*> open;
  for (const auto& token : tokens) {
    const char c = token.text[0];
    if (c == '(' || c == '[' || c == '{') open.push_back(&token);
    if (c != ')' && c != ']' && c != '}') continue;
    const char wanted = c == ')' ? '(' : c == ']' ? '[' : '{';
    if (open.empty() || open.back()->text[0] != wanted) return error_at(token.line, fmt::format("extraneous '{}'", c));
    open.pop_back();
  }
  if (!open.empty()) return error_at(open.back()->line, fmt::format("'{}' is never closed", open.back()->text));
  return {};
}

uint64_t number_of(const std::string& text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The index behind the bracket that closes the one at `at`.
size_t behind(const std::vector<Token>& tokens, size_t at) {
  int depth = 0;
  for (; at < tokens.size(); ++at) {
    const char c = tokens[at].text[0];
    depth += c == '(' || c == '[' || c == '{';
    depth -= c == ')' || c == ']' || c == '}';
    if (depth == 0) return at + 1;
  }
  return at;
}

std::string plain_of(const std::string& word) { return word.starts_with("__") ? word.substr(2) : word; }

Result<ArgumentInfo> argument_of(std::span<const Token> tokens) {
  ArgumentInfo argument;
  bool is_unsigned = false;
  std::string type, stars;
  for (const auto& token : tokens) {
    const std::string word = plain_of(token.text);
    if (word == "global") {
      argument.space = AddressSpace::kGlobal;
    } else if (word == "local") {
      argument.space = AddressSpace::kLocal;
    } else if (word == "constant") {
      argument.space = AddressSpace::kConstant;
      argument.is_const = true;
    } else if (word == "const") {
      argument.is_const = true;
    } else if (word == "unsigned") {
      is_unsigned = true;
    } else if (word == "*") {
      stars += '*';
    } else if (word == "restrict" || word == "volatile" || word == "private") {
      continue;
    } else if (is_word(word[0])) {
      if (type.empty()) {
        type = word;
      } else {
        argument.name = word;
      }
    } else {
      return error_at(token.line, fmt::format("unexpected '{}' in an argument", token.text));
    }
  }
  if (type.empty() || argument.name.empty()) return error_at(tokens[0].line, "an argument needs a type and a name");
  argument.type = (is_unsigned ? "u" : "") + type + stars;
  // As compilers report it: of a value, const says nothing to the caller.
  if (stars.empty()) argument.is_const = false;
  return argument;
}

Status read_arguments(std::span<const Token> tokens, EntryInfo& entry) {
  if (tokens.size() == 1 && tokens[0].text == "void") return {};
  if (!tokens.empty() && tokens.back().text == ",") return error_at(tokens.back().line, "an argument is missing");
  for (size_t begin = 0, end = 0; begin < tokens.size(); begin = end + 1) {
    for (end = begin; end < tokens.size() && tokens[end].text != ",";) ++end;
    if (begin == end) return error_at(tokens[begin].line, "an argument is missing");
    QUERN_TRY(auto argument, argument_of(tokens.subspan(begin, end - begin)));
    entry.arguments.push_back(std::move(argument));
  }
  return {};
}

// `local float tile[256];`
uint64_t local_bytes_of(std::span<const Token> body) {
  uint64_t bytes = 0;
  for (size_t i = 0; i + 4 < body.size(); ++i)
    if (plain_of(body[i].text) == "local" && body[i + 3].text == "[")
      bytes += scalar_bytes_of(body[i + 1].text) * number_of(body[i + 4].text);
  return bytes;
}

}  // namespace

Result<std::vector<EntryInfo>> read_signatures(std::string_view text) {
  QUERN_TRY(const auto tokens, tokens_of(text));
  QUERN_TRY(check_brackets(tokens));
  std::vector<EntryInfo> entries;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (plain_of(tokens[i].text) != "kernel") continue;
    EntryInfo entry;
    const int line = tokens[i].line;
    size_t at = i + 1;
    while (at + 1 < tokens.size() && plain_of(tokens[at].text).starts_with("attribute")) {
      const size_t end = behind(tokens, at + 1);
      for (size_t j = at; j + 6 < end; ++j)
        if (tokens[j].text == "reqd_work_group_size")
          for (int k = 0; k < 3; ++k) entry.required_group_size[k] = number_of(tokens[j + 2 + 2 * k].text);
      at = end;
    }
    if (at + 2 >= tokens.size() || tokens[at].text != "void" || tokens[at + 2].text != "(")
      return error_at(line, "expected 'void NAME(' behind kernel");
    entry.name = tokens[at + 1].text;
    const size_t end = behind(tokens, at + 2);
    QUERN_TRY(read_arguments(std::span(tokens).subspan(at + 3, end - at - 4), entry));
    if (end >= tokens.size() || (tokens[end].text != "{" && tokens[end].text != ";"))
      return error_at(line, fmt::format("expected the body of {}", entry.name));
    if (tokens[end].text == ";") continue;  // only announced
    i = behind(tokens, end) - 1;
    entry.local_memory_bytes = local_bytes_of(std::span(tokens).subspan(end, i - end));
    entries.push_back(std::move(entry));
  }
  if (entries.empty()) return invalid("program: has no kernel; write at least one `kernel void NAME(…)`");
  return entries;
}

}  // namespace quern::hal::fake
