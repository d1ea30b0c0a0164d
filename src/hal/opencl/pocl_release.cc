// SPDX-License-Identifier: Apache-2.0
//
// PoCL 3 loads the code of a kernel several times: by the size of groups, by whether a launch has an offset, and by
// how wide it is. It counts who uses which; but when a launch ends it looks for its code by kernel and size of groups
// alone, and takes the one that was used last. With three launches there at once, of which the last differs from the
// others (lanes of one executor, one of which is cut into slices), it counts below zero and aborts.
//
// The count is there only to close code that nobody uses, and since PoCL 3 counts each launch twice and takes it back
// once it never closes any. So nothing is lost if nothing is taken back: PoCL's own call comes here, since the dynamic
// linker looks into the program first (CMakeLists.txt exports this). Of another version it is passed on.
#include "hal/opencl/pocl_release.h"

#include <atomic>

#include "os/dylib.h"

namespace quern::hal::opencl {
namespace {

using Release = void (*)(void*);
std::atomic<Release> own{nullptr};  // PoCL's; null: nothing is taken back

}  // namespace

void let_pocl_count(bool counts_wrong) {
  Release release = nullptr;
  if (!counts_wrong)
    if (const auto library = os::Dylib::find("libpocl.so"); library.ok())
      release = reinterpret_cast<Release>(library->symbol("pocl_release_dlhandle_cache"));
  own.store(release, std::memory_order_relaxed);
}

}  // namespace quern::hal::opencl

extern "C" void pocl_release_dlhandle_cache(void* code);
extern "C" void pocl_release_dlhandle_cache(void* code) {
  if (const auto release = quern::hal::opencl::own.load(std::memory_order_relaxed)) release(code);
}
