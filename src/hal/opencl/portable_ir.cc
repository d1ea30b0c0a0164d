// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/portable_ir.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <set>

#include "base/units.h"
#include "hal/opencl/bitcode.h"
#include "os/command.h"
#include "os/file.h"

namespace quern::hal::opencl {
namespace {

constexpr Duration kLimit = Duration::seconds(30);
constexpr size_t kMostOfProcessor = 3;  // each doubles the number of programs
constexpr uint64_t kMostBitcode = 256 * kMiB, kMostHeader = 16 * kMiB, kMostHeaders = 1000;

constexpr std::array<std::string_view, 3> kPaths = {"/usr/bin/clang-15", "/usr/local/bin/clang-15",
                                                    "/usr/lib/llvm-15/bin/clang"};

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }

// Calls `see` with each directive of the preprocessor: its word, and the rest of its line.
template <class See>
void each_directive(std::string_view text, See see) {
  while (!text.empty()) {
    size_t end = text.find('\n');
    // A line that ends with a backslash goes on.
    while (end != text.npos && end > 0 && text[end - 1] == '\\') end = text.find('\n', end + 1);
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.empty() || line[0] != '#') continue;
    line.remove_prefix(1);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    size_t word = 0;
    while (word < line.size() && is_name(line[word])) ++word;
    see(line.substr(0, word), line.substr(word));
  }
}

template <class See>
void each_name(std::string_view line, See see) {
  for (size_t at = 0; at < line.size();) {
    if (!is_name(line[at])) {
      ++at;
      continue;
    }
    const size_t begin = at;
    while (at < line.size() && is_name(line[at])) ++at;
    if (is_name_start(line[begin])) see(line.substr(begin, at - begin));
  }
}

// Macros that compilers define by themselves begin so.
bool is_of_compiler(std::string_view macro) {
  for (const std::string_view begin : {"__", "POCL", "INTEL", "cl_"})
    if (macro.starts_with(begin)) return true;
  return false;
}

// Macros that say what the processor can do begin so. Compilers for one processor define the same of them.
bool is_of_processor(std::string_view macro) {
  for (const std::string_view begin :
       {"__AVX", "__SSE", "__FMA__", "__F16C__", "__BMI", "__ARM_", "__aarch64__", "__x86_64__", "__i386__"})
    if (macro.starts_with(begin)) return true;
  return false;
}

// Whether a condition only asks if the macro is defined: it is the name of #ifdef or #ifndef, or stands behind
// `defined`.
bool asks_whether_defined(std::string_view word, std::string_view rest, std::string_view name) {
  if (word == "ifdef" || word == "ifndef") return true;
  std::string_view before = rest.substr(0, static_cast<size_t>(name.data() - rest.data()));
  while (!before.empty() && (before.back() == ' ' || before.back() == '(')) before.remove_suffix(1);
  return before.ends_with("defined");
}

std::vector<std::string> words_of(std::string_view options) {
  std::vector<std::string> words;
  while (!options.empty()) {
    const size_t end = std::min(options.find(' '), options.size());
    if (end > 0) words.emplace_back(options.substr(0, end));
    options.remove_prefix(std::min(end + 1, options.size()));
  }
  return words;
}

// "-cl-ext=-all,+cl_khr_fp64": clang has every extension on spir64, and a program may ask which there are.
std::string extension_option(std::string_view extensions) {
  std::string option = "-cl-ext=-all";
  for (const std::string& name : words_of(extensions))
    if (name.starts_with("cl_khr_")) option += ",+" + name;
  return option;
}

struct Folder {
  std::string path;
  ~Folder() { os::remove_tree(path); }
};

}  // namespace

const std::string& clang_path() {
  static const std::string path = [] {
    for (const std::string_view candidate : kPaths)
      if (os::exists(std::string(candidate))) return std::string(candidate);
    return std::string();
  }();
  return path;
}

std::string_view clang_key() { return clang_path().empty() ? "no clang" : "clang-15"; }

std::string compiler_dependent_macro(std::string_view text, const std::vector<std::string>& others,
                                     const std::vector<std::string>& same, std::set<std::string>* of_processor) {
  const auto is_same = [&](std::string_view name) {
    return std::any_of(same.begin(), same.end(), [&](const std::string& begin) { return name.starts_with(begin); });
  };
  std::set<std::string, std::less<>> own;
  std::string found;
  const auto define = [&](std::string_view word, std::string_view rest) {
    if (word != "define") return;
    bool is_first = true;
    each_name(rest, [&](std::string_view name) {
      if (std::exchange(is_first, false)) own.emplace(name);
    });
  };
  const auto ask = [&](std::string_view word, std::string_view rest) {
    if (word != "if" && word != "ifdef" && word != "ifndef" && word != "elif") return;
    each_name(rest, [&](std::string_view name) {
      if (!is_of_compiler(name) || is_same(name) || own.contains(name)) return;
      if (of_processor && is_of_processor(name) && asks_whether_defined(word, rest, name))
        of_processor->emplace(name);
      else if (found.empty())
        found = name;
    });
  };
  each_directive(text, define);
  for (const std::string& other : others) each_directive(other, define);
  each_directive(text, ask);
  for (const std::string& other : others) each_directive(other, ask);
  return found;
}

Result<std::vector<Bytes>> compile_portable(const Source& source, std::string_view extensions,
                                            const std::string& folder, const std::string& clang) {
  if (clang.empty())
    return unavailable("clang-15 is not installed where programs are built, so nothing tells what a kernel uses");
  static std::atomic<uint64_t> compiled{0};
  const Folder own{fmt::format("{}/portable-{}", folder, ++compiled)};
  QUERN_TRY(os::make_folders(own.path, 0700));
  const std::string from = own.path + "/program.cl", to = own.path + "/program.bc";
  std::vector<std::string> words = {clang,
                                    "-x",
                                    "cl",
                                    "-Xclang",
                                    "-fdeclare-opencl-builtins",
                                    "-Xclang",
                                    "-finclude-default-header",
                                    "-target",
                                    "spir64",
                                    "-O1",
                                    "-w",
                                    "-emit-llvm",
                                    "-c"};
  const auto given = words_of(source.options);
  const auto has = [&](std::string_view begin) {
    return std::any_of(given.begin(), given.end(),
                       [&](const std::string& option) { return option.starts_with(begin); });
  };
  std::vector<std::string> others, same = {"__FAST_RELAXED_MATH__", "__ENDIAN_LITTLE__", "__FILE__", "__LINE__"};
  if (has("-cl-std=")) same.emplace_back("__OPENCL_C_VERSION__");
  // In OpenCL C 3 an extension and the feature of its name have to be told together; there clang has all of them.
  if (!has("-cl-std=CL3")) {
    words.insert(words.end(), {"-Xclang", extension_option(extensions)});
    same.emplace_back("cl_khr_");
  }
  for (const std::string& option : given) {
    // What only makes code faster or slower does not change which functions it calls.
    const bool matters = option.starts_with("-D") || option.starts_with("-I") || option.starts_with("-cl-std=") ||
                         option == "-cl-fast-relaxed-math" || option == "-cl-single-precision-constant";
    if (!matters) continue;
    words.push_back(option);
    if (option.starts_with("-D")) {
      const std::string_view name = std::string_view(option).substr(2);
      others.push_back(fmt::format("#define {}\n", name.substr(0, name.find('='))));
    }
    if (!option.starts_with("-I")) continue;
    const std::string headers = option.substr(2);
    if (const auto files = os::list_files(headers, kMostHeaders); files.ok())
      for (const auto& file : *files)
        if (const auto text = os::read_file(fmt::format("{}/{}", headers, file), kMostHeader); text.ok())
          others.emplace_back(as_text(*text));
  }
  std::set<std::string> of_processor;
  if (const auto macro = compiler_dependent_macro(source.text, others, same, &of_processor); !macro.empty())
    return invalid(fmt::format("asks for {}, which compilers define differently", macro));
  if (of_processor.size() > kMostOfProcessor)
    return invalid(fmt::format("asks for {} and {} other macros of the processor; {} are looked at",
                               *of_processor.begin(), of_processor.size() - 1, kMostOfProcessor));
  // Names without a folder are looked for where the process works, as the vendors do.
  words.insert(words.end(), {"-I.", "-o", to, from});
  QUERN_TRY(os::write_file(from, as_bytes_of(kPrelude + source.text)));
  std::vector<Bytes> programs;
  for (uint32_t defined = 0; defined < 1U << of_processor.size(); ++defined) {
    std::vector<std::string> command = words;
    uint32_t bit = 1;
    for (const std::string& macro : of_processor) {
      command.push_back(defined & bit ? fmt::format("-D{}=1", macro) : fmt::format("-U{}", macro));
      bit <<= 1;
    }
    if (const auto run = os::run_command(command, kLimit); !run.ok())
      return invalid("clang-15 does not take this source, though the compiler of the device does");
    QUERN_TRY(Bytes program, os::read_file(to, kMostBitcode));
    programs.push_back(std::move(program));
  }
  return programs;
}

}  // namespace quern::hal::opencl
