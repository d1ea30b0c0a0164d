// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

#include "base/printable.h"
#include "base/suggest.h"
#include "base/units.h"
#include "function/includes.h"
#include "function/manifest_reader.h"

namespace quern {
namespace {

// Options that only change how OpenCL C is compiled. A list of what is allowed and not of what is not: clang, behind
// the compiler, knows hundreds of options that read or write files.
constexpr std::array<std::string_view, 19> kOpenclOptions = {
    "-cl-denorms-are-zero",
    "-cl-fast-relaxed-math",
    "-cl-finite-math-only",
    "-cl-fp32-correctly-rounded-divide-sqrt",
    "-cl-kernel-arg-info",
    "-cl-mad-enable",
    "-cl-no-signed-zeros",
    "-cl-no-subgroup-ifp",
    "-cl-opt-disable",
    "-cl-single-precision-constant",
    "-cl-strict-aliasing",
    "-cl-uniform-work-group-size",
    "-cl-unsafe-math-optimizations",
    "-cl-std=CL1.1",
    "-cl-std=CL1.2",
    "-cl-std=CL2.0",
    "-cl-std=CL3.0",
    "-w",
    "-Werror",
};

std::vector<std::string> strings_of(std::initializer_list<std::string_view> views) {
  return {views.begin(), views.end()};
}

std::string list_of(std::initializer_list<std::string_view> names) { return fmt::format("{}", fmt::join(names, ", ")); }

// For drivers whose options we do not know yet: nothing that could be a path or a second option.
bool is_plain_option(std::string_view option) {
  if (option.size() < 2 || option[0] != '-') return false;
  for (std::string_view refused : {"-I", "-D", "-U", "-o", "-include", "--include", "-f", "@"})
    if (option.starts_with(refused)) return false;
  return std::all_of(option.begin(), option.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_=.,+-").find(c) != std::string_view::npos;
  });
}

// `word` as a token by itself, or behind underscores: kernel, __kernel.
size_t count_word(std::string_view text, std::string_view word) {
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  size_t count = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + word.size())) {
    size_t begin = at;
    while (begin > 0 && text[begin - 1] == '_') --begin;
    const size_t end = at + word.size();
    if ((begin == 0 || !is_part(text[begin - 1])) && (end == text.size() || !is_part(text[end]))) ++count;
  }
  return count;
}

bool is_driver_name(std::string_view name) {
  return !name.empty() && name.size() <= 32 && name[0] >= 'a' && name[0] <= 'z' &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

}  // namespace

std::string shown(std::string_view text) {
  size_t longest = 64;
  if (text.size() <= longest) return fmt::format("'{}'", text);
  while (longest > 0 && (static_cast<unsigned char>(text[longest]) & 0xc0) == 0x80) --longest;  // whole characters
  return fmt::format("'{}…'", text.substr(0, longest));
}

void Mistakes::add(int line, int column, bool is_warning, std::string text, std::string_view file) {
  has_error_ |= !is_warning;
  errors_ += !is_warning;
  if (all_.size() == kMost) {
    ++left_out_;
    return;
  }
  all_.push_back({std::string(file), line, column, is_warning, printable(text)});
}

std::vector<Mistake> Mistakes::take() {
  std::stable_sort(all_.begin(), all_.end(), [](const Mistake& a, const Mistake& b) {
    return std::tuple(a.file != kManifestFile, a.line, a.column) <
           std::tuple(b.file != kManifestFile, b.line, b.column);
  });
  // An error even if only warnings were left out: the list above is not the whole truth, and the last line says so.
  if (left_out_ > 0)
    all_.push_back({all_.back().file, all_.back().line, all_.back().column, !has_error_,
                    fmt::format("{} more; correct these first", left_out_)});
  return std::move(all_);
}

bool ManifestReader::is_map(const YamlNode& node, std::string_view what) {
  if (node.is_map()) return true;
  mistakes_.error(node, fmt::format("{} is {}; write a map, key: value", what, node.kind_name()));
  return false;
}

bool ManifestReader::is_sequence(const YamlNode& node, std::string_view what) {
  if (node.is_sequence()) return true;
  mistakes_.error(node, fmt::format("{} is {}; write a list, [ … ]", what, node.kind_name()));
  return false;
}

void ManifestReader::refuse_unknown_keys(const YamlNode& map, std::string_view what,
                                         std::initializer_list<std::string_view> known,
                                         std::initializer_list<std::string_view> later) {
  for (size_t i = 0; i + 1 < map.children.size(); i += 2) {
    const YamlNode& key = map.children[i];
    if (std::find(known.begin(), known.end(), key.text) != known.end()) continue;
    if (std::find(later.begin(), later.end(), key.text) != later.end()) {
      mistakes_.error(key, fmt::format("'{}' is not supported yet; leave it out", key.text));
      continue;
    }
    std::string hint = did_you_mean(key.text, strings_of(known));
    if (hint.empty()) hint = fmt::format("; write one of {}", list_of(known));
    mistakes_.error(key, fmt::format("{} has no key {}{}", what, shown(key.text), hint));
  }
}

const YamlNode* ManifestReader::required(const YamlNode& map, std::string_view what, std::string_view key) {
  const YamlNode* node = map.find(key);
  if (node && !node->is_null()) return node;
  mistakes_.error(node ? *node : map, fmt::format("{} has no '{}'; write it", what, key));
  return nullptr;
}

std::optional<std::string> ManifestReader::text_of(const YamlNode& node, std::string_view what) {
  if (node.is_scalar()) return node.text;
  mistakes_.error(node, fmt::format("{} is {}; write a single value", what, node.kind_name()));
  return std::nullopt;
}

std::optional<int64_t> ManifestReader::whole_of(const YamlNode& node, std::string_view what) {
  int64_t value = 0;
  const char* end = node.text.data() + node.text.size();
  if (node.is_scalar() && !node.quoted) {
    const auto parsed = std::from_chars(node.text.data(), end, value);
    if (parsed.ec == std::errc() && parsed.ptr == end) return value;
  }
  mistakes_.error(node, fmt::format("{} is {}; write a whole number", what,
                                    node.is_scalar() ? shown(node.text) : std::string(node.kind_name())));
  return std::nullopt;
}

std::optional<bool> ManifestReader::bool_of(const YamlNode& node, std::string_view what) {
  if (node.is_scalar() && !node.quoted && (node.text == "true" || node.text == "false")) return node.text == "true";
  mistakes_.error(node, fmt::format("{} is {}; write true or false", what,
                                    node.is_scalar() ? shown(node.text) : std::string(node.kind_name())));
  return std::nullopt;
}

Manifest ManifestReader::read(const YamlNode& root) {
  root_ = &root;
  if (!is_map(root, "the manifest")) return {};
  refuse_unknown_keys(root, "the manifest",
                      {"api", "name", "kind", "programs", "dims", "params", "let", "buffers", "kernels", "settings"},
                      {"batch"});
  read_header(root);
  if (const YamlNode* node = required(root, "the manifest", "programs")) read_programs(*node);
  // Names first: expressions further down are held against them.
  if (const YamlNode* node = root.find("dims"); node && !node->is_null()) read_dims(*node);
  if (const YamlNode* node = root.find("params"); node && !node->is_null()) read_params(*node);
  if (const YamlNode* node = root.find("let"); node && !node->is_null()) read_lets(*node);
  if (const YamlNode* node = root.find("buffers"); node && !node->is_null()) read_buffers(*node);
  if (const YamlNode* node = required(root, "the manifest", "kernels")) read_steps(*node, "kernels");
  if (const YamlNode* node = root.find("settings"); node && !node->is_null()) read_settings(*node);
  check_accesses();
  check_swaps();
  check_rounds_names();
  check_constants();
  check_used_names();
  if (!mistakes_.any_error()) check_plans();
  return std::move(manifest_);
}

void ManifestReader::read_header(const YamlNode& root) {
  if (const YamlNode* node = required(root, "the manifest", "api"))
    if (auto api = text_of(*node, "api"); api && *api != "quern/v1")
      mistakes_.error(*node, fmt::format("api is {}; write quern/v1", shown(*api)));
  if (const YamlNode* node = required(root, "the manifest", "kind")) {
    const auto kind = text_of(*node, "kind");
    if (kind && (*kind == "model" || *kind == "program" || *kind == "workflow"))
      mistakes_.error(*node, fmt::format("kind {} is not supported yet; write graph", *kind));
    else if (kind && *kind != "graph")
      mistakes_.error(*node, fmt::format("kind is {}; write graph", shown(*kind)));
  }
  if (const YamlNode* node = required(root, "the manifest", "name")) {
    const auto name = text_of(*node, "name");
    if (name && !is_function_name(*name))
      mistakes_.error(*node, fmt::format("name is {}; write a small letter or digit, then at most 62 of a-z 0-9 . _ -",
                                         shown(*name)));
    manifest_.name = name.value_or("");
  }
}

void ManifestReader::read_programs(const YamlNode& node) {
  if (!is_map(node, "programs")) return;
  constexpr size_t kMostPrograms = 16;
  if (node.children.empty()) mistakes_.error(node, "programs is empty; write opencl: FILE.cl");
  if (node.children.size() / 2 > kMostPrograms)
    return mistakes_.error(node, fmt::format("more than {} programs; leave some out", kMostPrograms));
  for (size_t i = 0; i + 1 < node.children.size(); i += 2) read_driver(node.children[i], node.children[i + 1]);
}

// One program, or several by name.
void ManifestReader::read_driver(const YamlNode& key, const YamlNode& node) {
  const std::vector<std::string> known = {"opencl", "cuda", "fake"};
  if (!is_driver_name(key.text))
    return mistakes_.error(key, fmt::format("{} is no driver; write opencl", shown(key.text)));
  if (std::find(known.begin(), known.end(), key.text) == known.end())
    mistakes_.warning(key, fmt::format("driver '{}' is not known here; the program is kept{}", key.text,
                                       did_you_mean(key.text, known)));
  const auto has = [&](std::string_view word) { return node.find(word) != nullptr; };
  const bool has_names =
      node.is_map() && !node.children.empty() && !has("files") && !has("headers") && !has("options") && !has("defines");
  std::vector<std::string> names;
  if (!has_names) names.emplace_back();
  for (size_t i = 0; has_names && i + 1 < node.children.size(); i += 2) {
    const YamlNode& name = node.children[i];
    if (!is_identifier(name.text))
      mistakes_.error(name, fmt::format("program {} is no name; write letters, digits and _", shown(name.text)));
    names.push_back(name.text);
  }
  if (names.size() > kMostDriverPrograms)
    return mistakes_.error(
        node, fmt::format("{} programs of one driver; at most {} are allowed", names.size(), kMostDriverPrograms));
  if (manifest_.programs.empty())
    manifest_.program_names = names;
  else if (!std::is_permutation(names.begin(), names.end(), manifest_.program_names.begin(),
                                manifest_.program_names.end()))
    return mistakes_.error(key, fmt::format("driver '{}' has other programs than '{}'; give all drivers the same names",
                                            key.text, manifest_.programs[0].driver));
  for (size_t i = 0; i < names.size(); ++i) {
    const auto number = std::find(manifest_.program_names.begin(), manifest_.program_names.end(), names[i]);
    read_program(key.text, static_cast<uint32_t>(number - manifest_.program_names.begin()),
                 has_names ? node.children[2 * i + 1] : node);
  }
}

void ManifestReader::read_program(const std::string& driver, uint32_t number, const YamlNode& node) {
  ProgramDecl program;
  program.driver = driver;
  program.number = number;
  const std::string& name = manifest_.program_names[number];
  const std::string what = name.empty() ? driver : fmt::format("{} {}", driver, name);
  if (node.is_scalar()) {
    read_program_file(node, program.files);
  } else if (is_map(node, fmt::format("program {}", what))) {
    refuse_unknown_keys(node, "a program", {"files", "headers", "options", "defines"}, {});
    if (const YamlNode* files = required(node, "a program", "files"); files && is_sequence(*files, "files")) {
      if (files->children.empty()) mistakes_.error(*files, "files is empty; write at least one");
      for (const YamlNode& file : files->children) read_program_file(file, program.files);
    }
    if (const YamlNode* headers = node.find("headers"); headers && is_sequence(*headers, "headers"))
      for (const YamlNode& file : headers->children) {
        if (file.is_scalar() && !is_header_name(file.text))
          mistakes_.error(file,
                          fmt::format("header {} has a backslash, a quote, '<', '>' or a control character in its "
                                      "name; rename it",
                                      shown(file.text)));
        else
          read_program_file(file, program.headers);
      }
    if (const YamlNode* options = node.find("options"); options && !options->is_null()) read_options(*options, program);
    if (const YamlNode* defines = node.find("defines"); defines && !defines->is_null()) read_defines(*defines, program);
  }
  // A rough count, for what would only waste a builder's minute: compilers take each entry many times.
  size_t entries = 0;
  for (const std::string& file : program.files) entries += count_word(as_text(files_.find(file)->second), "kernel");
  if (entries > kMostEntries)
    mistakes_.error(
        node, fmt::format("program {} has about {} kernels; at most {} are compiled", what, entries, kMostEntries));
  manifest_.programs.push_back(std::move(program));
}

// Of a kernel; 0 where it is wrong, which was told.
uint32_t ManifestReader::read_program_name(const YamlNode& kernel) {
  const auto& names = manifest_.program_names;
  const YamlNode* node = kernel.find("program");
  if (!node) {
    if (names.size() > 1)
      mistakes_.error(kernel, fmt::format("a kernel has no 'program'; write one of {}", fmt::join(names, ", ")));
    return 0;
  }
  const auto name = text_of(*node, "program");
  if (!name) return 0;
  const auto known = std::find(names.begin(), names.end(), *name);
  if (!name->empty() && known != names.end()) return static_cast<uint32_t>(known - names.begin());
  const std::string hint = did_you_mean(*name, names);
  mistakes_.error(*node, fmt::format("there is no program {}{}", shown(*name),
                                     hint.empty() ? "; name it under programs: {opencl: {NAME: FILE.cl}}" : hint));
  return 0;
}

void ManifestReader::read_program_file(const YamlNode& node, std::vector<std::string>& into) {
  constexpr size_t kMostProgramFiles = 256;
  auto name = text_of(node, "a file");
  if (!name) return;
  if (into.size() == kMostProgramFiles)
    return mistakes_.error(node, fmt::format("more than {} files in one program", kMostProgramFiles));
  const auto file = files_.find(*name);
  if (file == files_.end()) {
    std::vector<std::string> names;
    for (const auto& [known, bytes] : files_) names.push_back(known);
    std::string hint = did_you_mean(*name, names);
    return mistakes_.error(
        node, fmt::format("there is no file {}{}", shown(*name), hint.empty() ? "; add it to the folder" : hint));
  }
  // It is also the name in a `#line`, which a line end would end.
  if (std::any_of(name->begin(), name->end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    return mistakes_.error(node, fmt::format("file {} has a control character in its name; rename it", shown(*name)));
  if (as_text(file->second).find('\0') != std::string_view::npos)
    mistakes_.error(node, fmt::format("file {} is not text (it has a zero byte); programs are sources", shown(*name)));
  for (const IncludeProblem& problem : check_includes(as_text(file->second)))
    mistakes_.add(problem.line, 1, false, problem.text, *name);
  into.push_back(*std::move(name));
}

void ManifestReader::read_options(const YamlNode& node, ProgramDecl& program) {
  if (!is_sequence(node, "options")) return;
  for (const YamlNode& item : node.children) {
    auto option = text_of(item, "an option");
    if (!option) continue;
    if (option->starts_with("-D")) {
      mistakes_.error(item,
                      fmt::format("option {} is a define; write it under defines: {{NAME: value}}", shown(*option)));
    } else if (program.driver == "opencl") {
      if (std::find(kOpenclOptions.begin(), kOpenclOptions.end(), *option) == kOpenclOptions.end()) {
        const std::vector<std::string> known(kOpenclOptions.begin(), kOpenclOptions.end());
        std::string hint = did_you_mean(*option, known);
        if (hint.empty()) hint = fmt::format("; write some of {}", fmt::join(kOpenclOptions, " "));
        mistakes_.error(item, fmt::format("option {} is not allowed{}", shown(*option), hint));
      }
    } else if (!is_plain_option(*option)) {
      mistakes_.error(item,
                      fmt::format("option {} is not allowed; write options without paths and spaces", shown(*option)));
    }
    program.options.push_back(*std::move(option));
  }
}

void ManifestReader::read_defines(const YamlNode& node, ProgramDecl& program) {
  if (!is_map(node, "defines")) return;
  for (size_t i = 0; i + 1 < node.children.size(); i += 2) {
    const YamlNode &key = node.children[i], &value = node.children[i + 1];
    if (!is_identifier(key.text))
      mistakes_.error(key, fmt::format("define {} is no name; write letters, digits and _", shown(key.text)));
    std::string text;
    if (!value.is_null()) text = text_of(value, "the value of a define").value_or("");
    const bool is_plain = std::all_of(text.begin(), text.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
             c == '+' || c == '-';
    });
    if (!is_plain)
      mistakes_.error(value, fmt::format("the value {} of define {} is not allowed; write letters, digits and _ . + -",
                                         shown(text), shown(key.text)));
    program.defines.emplace(key.text, std::move(text));
  }
}

ParsedManifest parse_manifest(const Files& files, ConstantFiles constants) {
  Mistakes mistakes;
  ParsedManifest parsed;
  const auto file = files.find(kManifestFile);
  if (file == files.end()) {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : files) names.push_back(name);
    mistakes.add(0, 0, false, fmt::format("is not in the folder{}", did_you_mean(kManifestFile, names)));
    parsed.mistakes = mistakes.take();
    return parsed;
  }
  auto tree = read_yaml(as_text(file->second));
  if (const auto* problem = std::get_if<YamlProblem>(&tree)) {
    mistakes.add(problem->line, problem->column, false, problem->text);
  } else {
    Manifest manifest = ManifestReader(files, mistakes, constants).read(std::get<YamlNode>(tree));
    if (!mistakes.any_error()) parsed.manifest = std::move(manifest);
  }
  parsed.mistakes = mistakes.take();
  return parsed;
}

}  // namespace quern
