// SPDX-License-Identifier: Apache-2.0
#include "daemon/host_object.h"

#include <atomic>

namespace quern::daemon {

uint64_t new_object_number() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1);
}

}  // namespace quern::daemon
