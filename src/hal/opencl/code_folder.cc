// SPDX-License-Identifier: Apache-2.0
#include "hal/opencl/code_folder.h"

#include <fmt/format.h>

#include <algorithm>

#include "os/file.h"

namespace quern::hal::opencl {

Result<std::vector<CodeFile>> unpack_code(const PoclBinary& binary, std::span<const Size3> group_sizes,
                                          const std::string& cache_folder,
                                          os::Guarded<std::map<std::string, uint64_t>>& written) {
  if (cache_folder.empty()) return invalid("device: has no cache folder; name one in the options of open");
  std::vector<Size3> sizes(group_sizes.begin(), group_sizes.end());
  sizes.push_back({0, 0, 0});
  std::vector<CodeFile> files;
  return written.with([&](auto& known) -> Result<std::vector<CodeFile>> {
    // Left by a build of this same process, it would let PoCL compile at the next launch.
    os::remove_file(fmt::format("{}/{}/program.bc", cache_folder, binary.folder));
    for (const auto& kernel : binary.kernels) {
      const std::string kernel_folder = fmt::format("{}/{}/{}", cache_folder, binary.folder, kernel.name);
      for (const auto& size : sizes) {
        const std::string name = fmt::format("{0}/{1}/{0}.so", kernel.name, variant_of(size));
        const PoclFile* code = nullptr;
        for (const auto& file : kernel.files)
          if (file.name == name) code = &file;
        if (!code) return invalid(fmt::format("pocl binary: kernel {}: no variant {}", kernel.name, variant_of(size)));
        std::string original;
        for (const auto& variant : variants_of(size)) {
          const std::string folder = fmt::format("{}/{}", kernel_folder, variant);
          const std::string path = fmt::format("{}/{}.so", folder, kernel.name);
          if (original.empty()) {
            original = path;
            files.push_back({path, kernel.name});
          }
          if (const auto old = known.find(path); old != known.end()) {
            if (os::file_size(path) != old->second)
              return unavailable(fmt::format("cache folder: {} changed; start the process again", path));
            continue;
          }
          QUERN_TRY(os::make_folders(folder, 0700));
          if (path == original) {
            // A builder's file of this same process may be mapped: it is replaced, never written into.
            os::remove_file(path);
            QUERN_TRY(os::write_file(path, code->content));
          } else {
            QUERN_TRY(os::link_file(original, path));
          }
          known[path] = code->content.size();
        }
      }
    }
    return std::move(files);
  });
}

}  // namespace quern::hal::opencl
