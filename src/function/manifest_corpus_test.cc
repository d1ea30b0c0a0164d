// SPDX-License-Identifier: Apache-2.0
//
// Runs every manifests/*.txt: a function.yaml above `----`, all that is told about it below (`-` for nothing). To
// accept what is told now, set QUERN_REWRITE=1 (as `./quern test --rewrite` does), then read the diff.
//
// Beside the manifest the folder holds: a.cl, w.npy and t of w.safetensors (fp32 [2, 3]), w.bin (24 bytes), short.npy,
// damaged.safetensors, zero.cl (with a zero byte). What the compiler would report of a.cl is in comments:
//
//     # kernel: mill(global const float* x, local float* tile, uint n) local=64,1,1
//
// and so are more files, with so many zero bytes behind what is written; \xNN is a byte:
//
//     # npy: bad.npy 24 {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}    with the magic number and length
//     # safetensors: bad.safetensors 24 {"t": 1}                                     with the length
//     # file: bad.npy 0 \x93NUMPY                                                    as it is
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "function/npy.h"
#include "function/plan.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

Files folder() {
  const std::string npy = *npy_header(Dtype::kFp32, Shape{2, 3}) + std::string(24, '\0');
  const std::string header = R"({"t":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";
  const uint64_t length = header.size();
  Files files;
  files["a.cl"] = {};
  files["zero.cl"] = Bytes(1);
  files["w.npy"] = bytes_of(npy);
  files["short.npy"] = bytes_of(npy.substr(0, npy.size() - 1));
  files["w.bin"] = Bytes(24);
  files["w.safetensors"] =
      bytes_of(std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + std::string(24, '\0'));
  files["damaged.safetensors"] = Bytes(8, std::byte{0xff});
  return files;
}

std::string strip(std::string_view text) {
  const size_t from = text.find_first_not_of(" \n"), to = text.find_last_not_of(" \n");
  return from == text.npos ? "" : std::string(text.substr(from, to - from + 1));
}

// "global const float* x", and what the kernel does with it: "global read float* x"
Signature::Argument argument_of(const std::string& text) {
  Signature::Argument argument;
  std::istringstream words(text);
  std::string word, last;
  while (words >> word) {
    if (!last.empty()) argument.type += (argument.type.empty() ? "" : " ") + last;
    last = "";
    if (word == "global" || word == "constant" || word == "local")
      argument.space = word[0];
    else if (word == "const")
      argument.is_const = true;
    else if (word == "read" || word == "written" || word == "both")
      argument.access = word[0];
    else if (word == "unused")
      argument.access = '-';
    else
      last = word;
  }
  argument.name = last;
  return argument;
}

std::vector<Signature> signatures_in(const std::string& text) {
  constexpr std::string_view kMark = "# kernel: ";
  std::vector<Signature> signatures;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(kMark)) continue;
    Signature signature;
    const size_t open = line.find('('), close = line.find(')');
    signature.entry = line.substr(kMark.size(), open - kMark.size());
    std::istringstream arguments(line.substr(open + 1, close - open - 1));
    for (std::string one; std::getline(arguments, one, ',');) signature.arguments.push_back(argument_of(strip(one)));
    if (const size_t local = line.find("local=", close); local != line.npos)
      std::sscanf(line.c_str() + local, "local=%lu,%lu,%lu", &signature.required_local[0],  // NOLINT
                  &signature.required_local[1], &signature.required_local[2]);
    signatures.push_back(std::move(signature));
  }
  return signatures;
}

std::string unescaped(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "\\x") == 0) {
      bytes += static_cast<char>(std::stoi(text.substr(i + 2, 2), nullptr, 16));
      i += 3;
    } else {
      bytes += text[i];
    }
  }
  return bytes;
}

// The length of what follows, in as many bytes.
std::string length_of(const std::string& text, size_t bytes) {
  std::string length;
  for (size_t i = 0; i < bytes; ++i) length += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return length + text;
}

void add_files_in(const std::string& text, Files& files) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string sharp, kind, name, rest;
    size_t zeros = 0;
    if (!(words >> sharp >> kind >> name >> zeros) || sharp != "#") continue;
    std::getline(words >> std::ws, rest);
    rest = unescaped(rest);
    if (kind == "npy:")
      rest = "\x93NUMPY\x01" + std::string(1, '\0') + length_of(rest, 2);
    else if (kind == "safetensors:")
      rest = length_of(rest, 8);
    else if (kind != "file:")
      continue;
    files[name] = bytes_of(rest + std::string(zeros, '\0'));
  }
}

std::string told_about(const std::string& manifest) {
  Files files = folder();
  add_files_in(manifest, files);
  files["function.yaml"] = bytes_of(manifest);
  ParsedManifest parsed = parse_manifest(files);
  std::vector<Mistake> mistakes = parsed.mistakes;
  const auto signatures = signatures_in(manifest);
  // All programs have all kernels.
  const std::vector<ProgramSignatures> compiled(parsed.manifest ? parsed.manifest->program_names.size() : 0,
                                                signatures);
  if (parsed.manifest && !signatures.empty())
    for (Mistake& mistake : mistakes_in(*parsed.manifest, check_signatures(*parsed.manifest, compiled)))
      mistakes.push_back(std::move(mistake));
  std::string text;
  for (const Mistake& mistake : mistakes) text += to_string(mistake) + "\n";
  return text.empty() ? "-\n" : text;
}

std::vector<fs::path> corpus() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator("src/function/manifests"))
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

class Corpus : public testing::TestWithParam<fs::path> {};

TEST_P(Corpus, IsToldThis) {
  std::ostringstream file;
  file << std::ifstream(GetParam()).rdbuf();
  const std::string text = file.str();
  const size_t line = std::min(text.find("\n----\n"), text.size());
  const std::string manifest = text.substr(0, line + 1);
  const std::string whole = manifest + "----\n" + told_about(manifest);
  if (std::getenv("QUERN_REWRITE") && whole != text) {
    std::ofstream(GetParam()) << whole;
    return;
  }
  EXPECT_EQ(text, whole) << GetParam() << ": run again with QUERN_REWRITE=1 to accept, then read the diff";
}

INSTANTIATE_TEST_SUITE_P(Manifests, Corpus, testing::ValuesIn(corpus()),
                         [](const auto& info) { return info.param.stem().string(); });

}  // namespace
}  // namespace quern
