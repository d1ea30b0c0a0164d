// SPDX-License-Identifier: Apache-2.0
#include "function/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"

namespace quern {
namespace {

constexpr size_t kLongestName = 63;

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_numeral(char c) { return c >= '0' && c <= '9'; }

template <class T>
const T* find_named(const std::vector<T>& all, std::string_view name) {
  for (const T& one : all)
    if (one.name == name) return &one;
  return nullptr;
}

}  // namespace

std::string_view name_of(Role role) {
  switch (role) {
    case Role::kConstant:
      return "constant";
    case Role::kInput:
      return "input";
    case Role::kOutput:
      return "output";
    case Role::kScratch:
      return "scratch";
  }
  return "";
}

const ProgramDecl* Graph::program_for(std::string_view driver, uint32_t number) const {
  for (const ProgramDecl& program : programs)
    if (program.driver == driver && program.number == number) return &program;
  return nullptr;
}
const BufferDecl* Graph::buffer(std::string_view name) const { return find_named(buffers, name); }
const DimDecl* Graph::dim(std::string_view name) const { return find_named(dims, name); }
const ParamDecl* Graph::param(std::string_view name) const { return find_named(params, name); }
const LetDecl* Graph::let(std::string_view name) const { return find_named(lets, name); }

std::string rounds_parameter(const RepeatDecl& repeat) {
  return "rounds" + (repeat.name.empty() ? "" : "." + repeat.name) + (repeat.is_nested ? ".last" : "");
}

bool is_reserved_parameter(std::string_view name) {
  return name == "timeout" || name == "priority" || name == "setup" || name == "binary_data_output" ||
         name == "sequence_id" || name == "sequence_start" || name == "sequence_end";
}

bool is_identifier(std::string_view name) {
  if (name.empty() || name.size() > kLongestName || is_numeral(name[0])) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return is_lower(c) || is_upper(c) || is_numeral(c) || c == '_'; });
}

bool is_buffer_name(std::string_view name) {
  constexpr size_t kLongestBufferName = 255;
  return !name.empty() && name.size() <= kLongestBufferName && name.front() != ' ' && name.back() != ' ' &&
         name.find_first_of("\"\\") == name.npos && printable(name) == name;
}

bool is_function_name(std::string_view name) {
  if (name.empty() || name.size() > kLongestName || !(is_lower(name[0]) || is_numeral(name[0]))) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return is_lower(c) || is_numeral(c) || c == '.' || c == '_' || c == '-'; });
}

Result<std::string> source_text(const ProgramDecl& program, const Files& files) {
  std::string source;
  for (const std::string& name : program.files) {
    const auto file = files.find(name);
    if (file == files.end())
      return not_found(fmt::format("program {}: there is no file '{}'; add it to the folder", program.driver, name));
    source += "#line 1 \"";
    for (char c : name) {
      if (c == '"' || c == '\\') source += '\\';
      source += c;
    }
    source += "\"\n";
    source += as_text(file->second);
    if (!source.ends_with('\n')) source += '\n';
  }
  return source;
}

std::string option_text(const ProgramDecl& program) {
  std::string text;
  for (const std::string& option : program.options) text += (text.empty() ? "" : " ") + option;
  for (const auto& [name, value] : program.defines) {
    text += text.empty() ? "-D" : " -D";
    text += name;
    if (!value.empty()) text += '=' + value;
  }
  return text;
}

}  // namespace quern
