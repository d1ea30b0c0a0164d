// SPDX-License-Identifier: Apache-2.0
#include "ipc/shared_page.h"

#include <new>

namespace quern::ipc {

Result<SharedPages> create_shared_pages() {
  SharedPages pages;
  QUERN_TRY(pages.daemon_fd, os::create_shared_memory("quern-daemon-page", sizeof(DaemonPage)));
  QUERN_TRY(pages.executor_fd, os::create_shared_memory("quern-executor-page", sizeof(ExecutorPage)));
  QUERN_TRY(pages.daemon_mapping, os::map(pages.daemon_fd, sizeof(DaemonPage), true));
  QUERN_TRY(pages.executor_mapping, os::map(pages.executor_fd, sizeof(ExecutorPage), true));
  QUERN_TRY(os::seal(pages.daemon_fd, os::Sealed::kOwnerWrites));
  QUERN_TRY(os::seal(pages.executor_fd, os::Sealed::kSizeOnly));
  // Default-initialised on purpose: the rings' data stay untouched pages until they are used.
  ::new (pages.daemon_mapping.data()) DaemonPage;
  ::new (pages.executor_mapping.data()) ExecutorPage;
  return pages;
}

Result<SharedPages> open_shared_pages(os::Fd daemon_fd, os::Fd executor_fd) {
  SharedPages pages;
  QUERN_TRY(os::check_sealed(daemon_fd, sizeof(DaemonPage)));
  QUERN_TRY(os::check_sealed(executor_fd, sizeof(ExecutorPage)));
  QUERN_TRY(pages.daemon_mapping, os::map(daemon_fd, sizeof(DaemonPage), false));
  QUERN_TRY(pages.executor_mapping, os::map(executor_fd, sizeof(ExecutorPage), true));
  pages.daemon_fd = std::move(daemon_fd);
  pages.executor_fd = std::move(executor_fd);
  return pages;
}

}  // namespace quern::ipc
