// SPDX-License-Identifier: Apache-2.0
#include "bench/grind.h"

#include <fmt/format.h>

#include "base/units.h"
#include "bench/stage.h"
#include "function/tar.h"
#include "os/file.h"

namespace quern::bench {
namespace {

/// A manifest in which this stands once.
Status change(std::string& text, std::string_view from, const std::string& to) {
  const size_t at = text.find(from);
  if (at == text.npos || text.find(from, at + 1) != text.npos)
    return invalid(
        fmt::format("bench/functions/grind: '{}' does not stand there once; bench/grind.cc changes it", from));
  text.replace(at, from.size(), to);
  return {};
}

}  // namespace

Result<Bytes> Grind::tar() const {
  QUERN_TRY(const std::string functions, functions_folder());
  const std::string folder = functions + "/grind/";
  QUERN_TRY(const Bytes given, os::read_file(folder + manifest, kMiB));
  std::string text(as_text(given));
  QUERN_TRY(change(text, "name: grind", "name: " + name));
  const std::string with_quota = quota.empty() ? "" : "\n  quota: " + quota;
  QUERN_TRY(change(text, "priority: 5", fmt::format("priority: {}{}", priority, with_quota)));
  Files files;
  QUERN_TRY(files["grind.cl"], os::read_file(folder + "grind.cl", kMiB));
  files["function.yaml"] = bytes_of(text);
  return write_tar(files);
}

CallSpec grind_call(uint32_t groups, uint32_t iterations, uint32_t steps) {
  CallSpec spec;
  spec.parameters["groups"] = int64_t{groups};
  spec.parameters["iterations"] = int64_t{iterations};
  if (steps > 0) spec.parameters["steps"] = int64_t{steps};
  return spec;
}

}  // namespace quern::bench
