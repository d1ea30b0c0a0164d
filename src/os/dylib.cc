// SPDX-License-Identifier: Apache-2.0
#include "os/dylib.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

namespace quern::os {

Result<Dylib> Dylib::open(const std::string& name) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return unavailable(fmt::format("{}: {}", name, dlerror()));
  return Dylib(handle);
}

Result<Dylib> Dylib::find(std::string_view name) {
  struct Search {
    std::string_view name;
    std::string path;
  } search{name, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& search = *static_cast<Search*>(data);
        const std::string_view path = info->dlpi_name;
        if (!path.substr(path.rfind('/') + 1).starts_with(search.name)) return 0;
        search.path = path;
        return 1;
      },
      &search);
  if (search.path.empty()) return unavailable(fmt::format("{}: is not loaded", name));
  void* handle = dlopen(search.path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (!handle) return unavailable(fmt::format("{}: is not loaded", search.path));
  return Dylib(handle);
}

void* Dylib::symbol(const char* name) const { return dlsym(handle_, name); }

Result<CodeSegment> load_code(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return unavailable(fmt::format("{}: {}", path, dlerror()));
  link_map* loaded = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &loaded) != 0) return unavailable(fmt::format("{}: {}", path, dlerror()));
  struct Search {
    uintptr_t base;
    CodeSegment found;
  } search{loaded->l_addr, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& search = *static_cast<Search*>(data);
        if (info->dlpi_addr != search.base) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          if (header.p_type == PT_LOAD && (header.p_flags & PF_X))
            search.found = {search.base + header.p_vaddr, search.base + header.p_vaddr + header.p_memsz};
        }
        return 1;
      },
      &search);
  return search.found;
}

}  // namespace quern::os
