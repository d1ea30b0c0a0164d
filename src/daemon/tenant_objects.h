// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/units.h"
#include "daemon/daemon.h"
#include "daemon/fair_queue.h"
#include "daemon/host_object.h"
#include "daemon/memory_view.h"
#include "ipc/arena.h"
#include "os/guarded.h"
#include "os/thread.h"

namespace quern::daemon {

class Deployer;

/// An object as executors map it, read-only: all of a segment of its own, or the piece that an output has.
struct MappedObject : Object {
  std::string tenant;
  std::shared_ptr<ipc::Segment> segment;
  uint64_t offset = 0;
  PassingRef number;           ///< null where no device has memory of its own
  std::shared_ptr<void> room;  ///< of a stored one: what it takes of ObjectLimits::memory_bytes
};

/// What an input that is this object is bound to; keeps it.
ipc::Block block_of(std::shared_ptr<const MappedObject> object);

/// An output that stays where the device wrote it. Its memory is the arena's of its domain, and goes back to no other.
struct Lease final : MappedObject {
  std::shared_ptr<const ipc::Block> output;
  std::shared_ptr<void> place;  ///< among its tenant's leases: free again when nobody holds this any more
  Duration lease;
  Time expires = Time::never();
};
using LeaseRef = std::shared_ptr<Lease>;

struct ObjectLimits {
  uint64_t memory_bytes = UINT64_MAX;  ///< stored objects in memory, whether or not a call uses them
  /// Stored objects in memory that no call uses, the latest used; one alone may be larger.
  uint64_t idle_bytes = 256 * kMiB;
  size_t idle = 256;       ///< and so many: each has a descriptor
  uint32_t leases = 1024;  ///< of a tenant
};

/// The objects of all tenants: those they put, which the deployer stores and which are brought into memory for calls,
/// and outputs of calls under a lease, which only memory has and a restart forgets.
///
/// Any thread. What needs the disk happens on threads of its own, where tenants take turns; the rest at once. A
/// lease has no timer: whatever is asked of this looks for those that are over, and so does every call (`sweep`).
class TenantObjects {
 public:
  /// `cores`: where its threads run; empty: anywhere. The deployer outlives this.
  /// `new_passing` numbers objects for devices with memory of their own; empty: there are none.
  TenantObjects(Deployer& deployer, std::vector<int> cores, ObjectLimits limits = {},
                std::function<PassingRef()> new_passing = {});
  ~TenantObjects();

  void start();
  /// What waits is answered unavailable.
  void stop();

  // See Daemon. `now` decides which leases are over.
  void put(const std::string& tenant, std::unique_ptr<Upload> upload, std::function<void(Result<ObjectStatus>)> done);
  void open(const std::string& tenant, std::vector<std::string> ids, Time now,
            std::function<void(Result<std::vector<ObjectRef>>)> done);
  void read(const std::string& tenant, std::string id, bool keep, Time now,
            std::function<void(Result<ObjectRef>)> done);
  void unread(const ObjectRef& object, Time now);
  void remove(const std::string& tenant, std::string id, Time now, std::function<void(Status)> done);
  void list(const std::string& tenant, Time now, std::function<void(Result<std::vector<ObjectStatus>>)> done);

  /// A lease that has its id and its place, but is not there yet. kExhausted if the tenant has as many as it may.
  Result<LeaseRef> reserve(const std::string& tenant, std::shared_ptr<const ipc::Block> output, Duration lease,
                           Time now);
  /// It is there, and its time runs.
  void keep(LeaseRef lease, Time now);
  /// Lets go of leases that are over. Costs next to nothing while there are none.
  void sweep(Time now);
  /// What the tenant has in memory, beside what the core knows of.
  void show(const std::string& tenant, Time now, MemoryPlace& host);

 private:
  using StoredRef = std::shared_ptr<const MappedObject>;
  struct Stored {
    StoredRef object;
    uint64_t used = 0;  ///< the higher, the later
  };
  struct Tables {
    std::map<std::pair<std::string, std::string>, Stored> stored;          ///< in memory, by tenant and hash
    std::map<std::string, LeaseRef> leases;                                ///< by id
    std::set<std::pair<int64_t, std::string>> ends;                        ///< of leases: when, and which
    std::map<std::string, std::shared_ptr<std::atomic<uint32_t>>> places;  ///< leases by tenant
    uint64_t uses = 0;
    uint64_t removals = 0;  ///< what was read before one may be gone
  };
  using Job = std::function<void(bool is_stopping)>;

  void work();
  template <class Done, class Work>
  void hand_over(const std::string& tenant, Done done, Work work);
  /// Null: it may be on disk. `takes`: a lease is off the table.
  Result<ObjectRef> find(const std::string& tenant, const std::string& id, bool takes, Time now);
  LeaseRef find_lease(const std::string& tenant, const std::string& id, bool takes, Time now);
  StoredRef find_stored(const std::string& tenant, const std::string& hash);
  void erase_lease(Tables& tables, std::map<std::string, LeaseRef>::iterator lease);
  Result<ObjectRef> load(const std::string& tenant, const std::string& hash);
  /// From the disk into memory that executors can map.
  Result<StoredRef> bring(const std::string& tenant, const std::string& hash);
  /// The one that is in memory from now on. `removals_before`: it was read or stored.
  StoredRef remember(StoredRef object, uint64_t removals_before);
  void trim() { trim(limits_.idle_bytes, limits_.idle); }
  /// Until so much, and so many, are left that no call uses; one alone may be larger, unless none is to be left.
  void trim(uint64_t idle_bytes, size_t idle);
  /// kExhausted if others take too much of it, and calls use them.
  Result<std::shared_ptr<void>> take_room(uint64_t size_bytes);
  uint64_t removals() const;

  static constexpr size_t kMostWaiting = 256, kMostWaitingOfTenant = 64;
  static constexpr int kThreads = 3;  ///< all but one at most work for a tenant

  // Constant after construction.
  Deployer& deployer_;
  const std::vector<int> cores_;
  const ObjectLimits limits_;
  const std::string seed_;  ///< of the ids of leases
  const std::function<PassingRef()> new_passing_;
  // Any thread.
  std::atomic<uint64_t> next_lease_{1};
  std::shared_ptr<std::atomic<uint64_t>> taken_bytes_ = std::make_shared<std::atomic<uint64_t>>(0);
  std::atomic<int64_t> next_end_{Time::never().ns};
  FairQueue<Job> jobs_{{kMostWaiting, kMostWaitingOfTenant, kThreads - 1}};
  os::Guarded<Tables> tables_;
  std::vector<os::Thread> threads_;
};

}  // namespace quern::daemon
