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

/// The text of one program file or header: every `#include` (also `#include_next`, `#import`, `#embed`) must name a
/// file below the function's folder in so many words, without a macro, an absolute path or `..`; `__has_include`
/// likewise. Whether such a file is there is the compiler's to say.
///
/// Errs on the side of refusing, so that it holds whatever the compiler takes for a comment or a string: lines are
/// looked at as if no comment were open, with and without trigraphs, after lines that end in `\` were joined. So a
/// directive inside a block comment is refused too.
std::vector<IncludeProblem> check_includes(std::string_view source);

}  // namespace quern
