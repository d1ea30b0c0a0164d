// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <set>

#include "client/client.h"
#include "function/tar.h"
#include "function/yaml_tree.h"
#include "os/file.h"

namespace quern::client {
namespace {

bool is_hidden(std::string_view path) { return path.starts_with('.') || path.find("/.") != std::string_view::npos; }

// A manifest that names a file that is not there is refused, and whoever refuses it suggests another name: for that the
// names suffice.
void add_likely_names(const std::string& folder, Files& files) {
  const auto names = os::list_files(folder, kMostFiles);
  if (!names.ok()) return;
  for (const std::string& name : *names)
    if (!is_hidden(name) && files.size() < kMostFiles) files.try_emplace(name);
}

std::string last_part(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

std::string name_in(std::string_view manifest) {
  const auto read = read_yaml(manifest);
  const auto* root = std::get_if<YamlNode>(&read);
  const YamlNode* name = root && root->is_map() ? root->find("name") : nullptr;
  return name && name->is_scalar() && is_function_name(name->text) ? name->text : "";
}

}  // namespace

Result<Packed> pack_folder(const std::string& folder) {
  if (!os::is_folder(folder))
    return not_found(fmt::format("{}: is no folder; name the folder that holds function.yaml", folder));
  if (!os::exists(folder + "/function.yaml"))
    return invalid(fmt::format("{}: has no function.yaml; see examples/saxpy for one", folder));
  Files files;
  uint64_t left = kMostFolderBytes;
  // False if it is not there; the parser of the manifest says so with a line.
  const auto take = [&](const std::string& name) -> Result<bool> {
    if (files.contains(name)) return true;
    QUERN_TRY(const bool is_there, os::has_plain_file(folder, name));
    if (!is_there) return false;
    auto bytes = os::read_file(folder + "/" + name, left);
    if (!bytes.ok() && bytes.error().code == ErrorCode::kExhausted)
      return exhausted(fmt::format("{}: the files that its manifest names have more than {} bytes; a function may not",
                                   folder, kMostFolderBytes));
    QUERN_TRY(auto content, std::move(bytes));
    left -= content.size();
    files.emplace(name, std::move(content));
    return true;
  };
  QUERN_TRY(const bool has_manifest, take("function.yaml"));
  if (!has_manifest) return invalid(fmt::format("{}/function.yaml: is no file; write the manifest there", folder));
  bool has_all = true;
  const std::set<std::string> names = files_named_in(as_text(files.at("function.yaml")));
  if (names.size() > kMostFiles)
    return exhausted(fmt::format("{}: its manifest names more than {} files", folder, kMostFiles));
  for (const std::string& name : names) {
    QUERN_TRY(const bool is_there, take(name));
    has_all = has_all && is_there;
  }
  if (!has_all) add_likely_names(folder, files);
  Packed packed;
  packed.name = name_in(as_text(files.at("function.yaml")));
  if (packed.name.empty()) packed.name = last_part(os::absolute(folder));
  QUERN_TRY(packed.tar, write_tar(files));
  return packed;
}

std::string percent_encode(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~';
    if (plain)
      encoded += c;
    else
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

}  // namespace quern::client
