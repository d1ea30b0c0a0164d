// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"

namespace quern::daemon {

/// What is in the memory of a device or of the host, for showing to people.
struct MemoryItem {
  std::string kind;              ///< object, tensor, lane, context; on the host also stored, lease
  std::string name;              ///< of an object: the start of its hash or id; of a lane: its number
  std::string function, tenant;  ///< that needed it last; empty if it was nobody yet
  uint64_t bytes = 0;
  std::string state;  ///< promised, loading, resident, leaving
  uint32_t pins = 0;  ///< runs that need it now
  Duration since;     ///< it is there
  std::string why;    ///< it is there, in words
};

struct MemoryPlace {
  std::string name;  ///< of the device, or "host"
  bool is_host = false;
  uint64_t memory_bytes = 0, held_bytes = 0, promised_bytes = 0, leaving_bytes = 0;
  uint64_t pinned_bytes = 0;
  uint64_t others_bytes = 0;      ///< of what is held: other tenants'
  uint32_t blanks = 0;            ///< executors that wait for a domain
  uint64_t blank_bytes = 0;       ///< that their contexts take, beside memory_bytes
  std::vector<MemoryItem> items;  ///< the caller's own
};

}  // namespace quern::daemon
