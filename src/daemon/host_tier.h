// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/result.h"
#include "daemon/host_object.h"
#include "daemon/object_store.h"
#include "os/guarded.h"
#include "os/thread.h"
#include "os/work_queue.h"

namespace quern::daemon {

/// Brings constants from disk into the memory of the host. What is in memory, and for how long, is decided by who
/// fetches: an object is there as long as someone holds it, and the tier itself holds none.
///
/// The memory of a fetched object comes fresh from the kernel, which made it zero, and is wholly overwritten before
/// anyone else sees it: nothing that another domain left can be in it, and nothing has to be scrubbed.
class HostTier {
 public:
  /// Starts its threads: two, so that a small object need not wait for a large one, and a slow disk has more than one
  /// read to order. The second reads only while the first does, and gives way to all others: what a run waits for
  /// longest is then as quick as if it were alone. They run on `cores`; empty: anywhere.
  static Result<std::unique_ptr<HostTier>> create(const ObjectStore& store, std::vector<int> cores = {});
  ~HostTier();

  /// Any thread. Makes it known under its number, for as long as someone holds `constant`.
  void know(const ConstantRef& constant);

  using Done = std::function<void(Result<HostObjectRef>)>;
  /// Any thread; never waits. Reads the object into sealed memory. `done` comes exactly once: from a thread of the
  /// tier or, if someone holds the object still or it cannot even begin, at once from the caller's. It must only hand
  /// over.
  ///
  /// Reads begin in the order they are asked for. Who asks for an object that is on its way gets the same one, so that
  /// at most as many reads wait as there are objects known. Failures are not remembered: the next fetch tries again.
  /// kNotFound if it is not known, or not on disk; kInternal if it is damaged; kExhausted if there is no memory;
  /// kUnavailable once the tier has stopped. Each text names the object.
  void fetch(uint64_t number, Done done);

  /// Any thread, and again is fine. A read that has begun ends first; those that wait are told kUnavailable.
  void stop();

 private:
  struct Entry {
    std::weak_ptr<const Constant> constant;
    std::weak_ptr<const HostObject> object;
    std::vector<Done> waiting;  ///< for the read that is queued or under way; empty: there is none
  };
  struct Known {
    std::map<uint64_t, Entry> entries;  ///< by number
    size_t forget_at = 0;               ///< so many: time to look for those that nobody needs any more
  };

  HostTier(const ObjectStore& store, std::vector<int> cores);
  void work(bool is_second);
  Result<HostObjectRef> read(uint64_t number) const;
  void tell(uint64_t number, const Result<HostObjectRef>& end);

  // Constant after construction.
  ObjectStore store_;
  std::vector<int> cores_;
  // Any thread.
  os::Guarded<Known> known_;
  os::WorkQueue<uint64_t> queue_;
  os::Guarded<std::vector<os::Thread>> threads_;
};

}  // namespace quern::daemon
