// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/pocl_binary.h"

#include <fmt/format.h>

#include <algorithm>

namespace quern::hal::opencl {
namespace {

constexpr std::string_view kMagic("poclbin\0", 8);
constexpr uint32_t kVersion = 9;
constexpr size_t kFolderBytes = 41;  // 40 characters and a zero
constexpr uint32_t kMostKernels = 4096;
constexpr uint32_t kMostArguments = 1024;

// PoCL writes a hash as letters A to P, with a slash behind the second.
bool is_folder_name(std::string_view folder) {
  if (folder.size() != kFolderBytes - 1 || folder[2] != '/') return false;
  for (size_t i = 0; i < folder.size(); ++i)
    if (i != 2 && (folder[i] < 'A' || folder[i] > 'P')) return false;
  return true;
}

bool is_entry_name(std::string_view name) {
  return !name.empty() && name.size() <= 200 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '$'; });
}

// "64-1-1", with or without "-goffs0" and "-smallgrid".
bool is_variant_name(std::string_view name) {
  for (std::string_view suffix : {"-smallgrid", "-goffs0"})
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  int dashes = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool at_edge = i == 0 || i + 1 == name.size() || name[i - 1] == '-';
    if (name[i] == '-' && !at_edge) {
      ++dashes;
    } else if (name[i] < '0' || name[i] > '9') {
      return false;
    }
  }
  return dashes == 2 && name.size() <= 64;
}

// The only files a kernel has are KERNEL/VARIANT/KERNEL.so.
bool is_code_name(std::string_view name, std::string_view kernel) {
  const std::string begin = fmt::format("{}/", kernel), end = fmt::format("/{}.so", kernel);
  if (name.size() < begin.size() + end.size() || !name.starts_with(begin) || !name.ends_with(end)) return false;
  return is_variant_name(name.substr(begin.size(), name.size() - begin.size() - end.size()));
}

Result<std::vector<PoclFile>> parse_files(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  std::vector<PoclFile> files;
  while (reader.ok() && !reader.at_end()) {
    PoclFile file;
    file.name = reader.get_text(512);
    file.content = reader.raw(reader.get<uint32_t>());
    if (!reader.ok() || !file.name.starts_with('/') || file.name.size() < 2 || file.content.empty())
      return invalid("pocl binary: a file does not fit; build the program again");
    file.name.erase(0, 1);
    files.push_back(std::move(file));
  }
  return files;
}

Status check_metadata(const PoclKernel& kernel) {
  const Error damaged = invalid(fmt::format("pocl binary: kernel {}: damaged metadata", kernel.name));
  ByteReader reader(kernel.metadata);
  const auto arguments = reader.get_count(kMostArguments);
  const auto locals = reader.get_count(kMostArguments);
  reader.raw(3 * sizeof(uint64_t) + locals * sizeof(uint64_t));
  reader.get_text(64 * 1024);  // attributes
  reader.get<uint64_t>();      // which metadata there are
  if (!reader.ok()) return damaged;
  for (uint32_t i = 0; i < arguments; ++i) {
    reader.raw(4 + 4 + 8 + 4 + 4);  // access, address, qualifiers, kind, size
    reader.get_text();
    reader.get_text();
  }
  if (!reader.ok() || !reader.at_end()) return damaged;
  return {};
}

void put_files(ByteWriter& writer, const std::vector<PoclFile>& files) {
  for (const auto& file : files) {
    writer.put_text("/" + file.name);
    writer.put(static_cast<uint32_t>(file.content.size()));
    writer.raw(file.content);
  }
}

uint64_t bytes_of(const std::vector<PoclFile>& files) {
  uint64_t bytes = 0;
  for (const auto& file : files) bytes += 4 + 1 + file.name.size() + 4 + file.content.size();
  return bytes;
}

}  // namespace

Result<PoclBinary> parse_pocl(std::span<const std::byte> bytes) {
  const Error damaged = invalid("pocl binary: damaged; build the program again");
  ByteReader reader(bytes);
  PoclBinary binary;
  if (as_text(reader.raw(kMagic.size())) != kMagic) return invalid("pocl binary: has another format");
  binary.device_id = reader.get<uint64_t>();
  binary.version = reader.get<uint32_t>();
  if (binary.version != kVersion)
    return invalid(fmt::format("pocl binary: has version {}, not {}", binary.version, kVersion));
  const auto kernels = reader.get_count(kMostKernels);
  binary.flags = reader.get<uint64_t>();
  if (reader.get<uint32_t>() != 1) return damaged;  // root entries
  const auto folder = as_text(reader.raw(kFolderBytes));
  if (!reader.ok() || folder.back() != '\0' || !is_folder_name(folder.substr(0, kFolderBytes - 1))) return damaged;
  binary.folder = folder.substr(0, kFolderBytes - 1);

  const auto root_bytes = reader.raw(reader.get<uint64_t>());
  if (!reader.ok()) return damaged;
  QUERN_TRY(binary.roots, parse_files(root_bytes));
  // One file, of any name that is one: what is not "program.bc" only has to be there.
  if (binary.roots.size() != 1 || binary.roots[0].name.find_first_of("/\\") != std::string::npos ||
      binary.roots[0].name.starts_with('.') || binary.roots[0].name.size() > 64)
    return damaged;

  for (uint32_t i = 0; i < kernels; ++i) {
    PoclKernel kernel;
    const auto struct_bytes = reader.get<uint64_t>();
    const auto file_bytes = reader.get<uint64_t>();
    kernel.argument_bytes = reader.get<uint32_t>();
    kernel.name = reader.get_text(256);
    const uint64_t head_bytes = 8 + 8 + 4 + 4 + kernel.name.size();
    if (!reader.ok() || !is_entry_name(kernel.name) || struct_bytes > bytes.size() || file_bytes > struct_bytes ||
        struct_bytes - file_bytes < head_bytes + kernel.argument_bytes)
      return damaged;
    kernel.metadata = reader.raw(struct_bytes - file_bytes - head_bytes);
    const auto files = reader.raw(file_bytes);
    if (!reader.ok()) return damaged;
    QUERN_TRY(check_metadata(kernel));
    QUERN_TRY(kernel.files, parse_files(files));
    for (const auto& file : kernel.files)
      if (!is_code_name(file.name, kernel.name))
        return invalid(fmt::format("pocl binary: kernel {}: unexpected file name", kernel.name));
    binary.kernels.push_back(std::move(kernel));
  }
  if (!reader.ok() || !reader.at_end() || binary.kernels.empty()) return damaged;
  return binary;
}

Bytes write_pocl(const PoclBinary& binary) {
  ByteWriter writer;
  writer.raw(as_bytes_of(kMagic));
  writer.put(binary.device_id);
  writer.put(binary.version);
  writer.put(static_cast<uint32_t>(binary.kernels.size()));
  writer.put(binary.flags);
  writer.put(uint32_t{1});
  writer.raw(as_bytes_of(binary.folder));
  writer.put('\0');
  writer.put(bytes_of(binary.roots));
  put_files(writer, binary.roots);
  for (const auto& kernel : binary.kernels) {
    const uint64_t file_bytes = bytes_of(kernel.files);
    writer.put(8 + 8 + 4 + 4 + kernel.name.size() + kernel.metadata.size() + file_bytes);
    writer.put(file_bytes);
    writer.put(kernel.argument_bytes);
    writer.put_text(kernel.name);
    writer.raw(kernel.metadata);
    put_files(writer, kernel.files);
  }
  return writer.take();
}

std::string variant_of(const Size3& size) { return fmt::format("{}-{}-{}", size[0], size[1], size[2]); }

std::vector<std::string> variants_of(const Size3& size) {
  const std::string exact = variant_of(size);
  if (size == Size3{0, 0, 0}) return {exact};
  return {exact, exact + "-goffs0", exact + "-smallgrid", exact + "-goffs0-smallgrid"};
}

Status strip_pocl(PoclBinary& binary, std::span<const Size3> group_sizes) {
  // A size of 0 would hit an assert in PoCL's loader.
  static constexpr std::byte kNothing[] = {std::byte{'\n'}};
  binary.roots = {{"stripped", kNothing}};
  std::vector<Size3> wanted(group_sizes.begin(), group_sizes.end());
  wanted.push_back({0, 0, 0});
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  for (auto& kernel : binary.kernels) {
    std::vector<PoclFile> kept;
    for (const auto& size : wanted) {
      const std::string name = fmt::format("{0}/{1}/{0}.so", kernel.name, variant_of(size));
      const auto found =
          std::find_if(kernel.files.begin(), kernel.files.end(), [&](const auto& file) { return file.name == name; });
      if (found == kernel.files.end())
        return internal(fmt::format("kernel {}: the compiler made no variant {}", kernel.name, variant_of(size)));
      kept.push_back(*found);
    }
    kernel.files = std::move(kept);
  }
  return {};
}

}  // namespace quern::hal::opencl
