// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace quern {

/// A directive that could read a file which is not the function's own.
struct IncludeProblem {
  int line = 0;
  std::string text;  ///< what is wrong; what to do
};

/// Returns the text that a compiler gets in place of `source`, a program file or a header. It has the same lines, each
/// ended by one LF whatever `source` ends them with (CR LF, LF CR, CR), and blanks in place of comments.
///
/// Comments stay where they are not beyond doubt: the whole text keeps its comments if it has a trigraph, a raw string,
/// an apostrophe within a word, a backslash at the end of a line where a comment begins or ends, a comment or a quote
/// that does not end, or a comment in an `#error`.
std::string text_to_compile(std::string_view source);

/// Checks one program file or header, as text_to_compile gives it: every `#include` (also `#include_next`, `#import`,
/// `#embed`) must name a file below the function's folder in so many words, without a macro, a backslash, an absolute
/// path or `..`; `__has_include` likewise. Whether such a file is there is the compiler's to say.
///
/// The check holds only for a compiler that gets text_to_compile(source).
std::vector<IncludeProblem> check_includes(std::string_view source);

/// The same for a text that is compiled exactly as it is, such as several files in one.
///
/// Errs on the side of refusing, so that it holds whatever the compiler takes for a comment or a string: lines are
/// looked at as if no comment were open, with and without trigraphs, after lines that end in a backslash were joined.
std::vector<IncludeProblem> check_compiled_text(std::string_view text);

/// Whether a header may have this name: no backslash, quote, `<`, `>` or control character, which end the name in an
/// `#include` for some readers and not for others.
bool is_header_name(std::string_view name);

}  // namespace quern
