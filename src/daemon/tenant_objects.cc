// SPDX-License-Identifier: Apache-2.0
#include "daemon/tenant_objects.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/hash.h"
#include "daemon/deployer.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/shared_memory.h"

namespace quern::daemon {
namespace {

constexpr std::string_view kLeasePrefix = "lease-";
constexpr size_t kLeaseDigits = 32;
// What the smallest object costs.
constexpr uint64_t kPage = 4096;

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}
bool is_lease_id(std::string_view id) { return id.starts_with(kLeasePrefix); }

// The same text for what is not there, what is another's, and what can be no id: a name tells nothing.
Error no_tenant_object(std::string_view id) {
  if (is_lease_id(id))
    return not_found(
        fmt::format("object {}: you have none; it was read or removed, or its lease is over", id.substr(0, 80)));
  return not_found(fmt::format("object {}: you have none; put it first", id.substr(0, 80)));
}

}  // namespace

ipc::Block block_of(std::shared_ptr<const MappedObject> object) {
  const MappedObject& one = *object;
  return ipc::Block::borrow(one.segment, one.offset, one.bytes.size(), std::move(object));
}

TenantObjects::TenantObjects(Deployer& deployer, std::vector<int> cores, ObjectLimits limits,
                             std::function<PassingRef()> new_passing)
    : deployer_(deployer),
      cores_(std::move(cores)),
      limits_(limits),
      seed_(sha256(fmt::format("leases {} {} {}", os::wall_time(), os::now().ns, getpid()))),
      new_passing_(std::move(new_passing)) {}

TenantObjects::~TenantObjects() { stop(); }

void TenantObjects::start() {
  for (int i = 0; i < kThreads; ++i)
    threads_.emplace_back(fmt::format("objects{}", i), [this] {
      if (!cores_.empty()) (void)os::pin_to(cores_);
      work();
    });
}

void TenantObjects::stop() {
  for (const Job& job : jobs_.close()) job(true);
  threads_.clear();  // joins
}

void TenantObjects::work() {
  while (auto item = jobs_.pop()) {
    item->work(false);
    item->work = nullptr;
    jobs_.done(item->tenant);
  }
}

template <class Done, class Work>
void TenantObjects::hand_over(const std::string& tenant, Done done, Work work) {
  Job job = [done, work](bool is_stopping) {
    if (is_stopping) return done(unavailable("the server is stopping; retry elsewhere or later"));
    done(work());
  };
  if (!jobs_.push(tenant, std::move(job))) done(exhausted("too many objects are being stored or read; retry later"));
}

void TenantObjects::put(const std::string& tenant, std::unique_ptr<Upload> upload,
                        std::function<void(Result<ObjectStatus>)> done) {
  // Shared, for a job can be copied and an upload cannot.
  const auto shared = std::make_shared<std::unique_ptr<Upload>>(std::move(upload));
  hand_over(tenant, std::move(done), [this, tenant, shared]() -> Result<ObjectStatus> {
    const uint64_t removals_before = removals();
    QUERN_TRY(const ConstantRecord stored, deployer_.put_object(tenant, std::move(*shared)));
    ObjectStatus status;
    status.id = stored.object;
    status.bytes = stored.bytes;
    // It is stored, and most likely still in the memory of the system: that it is not in ours as well costs the first
    // call that names it some time.
    if (!find_stored(tenant, status.id)) {
      auto object = bring(tenant, status.id);
      if (object.ok())
        remember(*std::move(object), removals_before);
      else if (object.error().code != ErrorCode::kExhausted)
        os::log_warning("object {}: is not kept in memory: {}", status.id, object.error().text);
      trim();
    }
    return status;
  });
}

void TenantObjects::open(const std::string& tenant, std::vector<std::string> ids, Time now,
                         std::function<void(Result<std::vector<ObjectRef>>)> done) {
  sweep(now);
  std::vector<ObjectRef> found;
  bool is_all = true;
  for (const std::string& id : ids) {
    auto object = find(tenant, id, false, now);
    if (!object.ok()) return done(std::move(object).error());
    is_all = is_all && *object;
    found.push_back(*std::move(object));
  }
  trim();
  if (is_all) return done(std::move(found));
  hand_over(tenant, std::move(done), [this, tenant, ids = std::move(ids), found]() -> Result<std::vector<ObjectRef>> {
    std::vector<ObjectRef> all = found;
    for (size_t i = 0; i < ids.size(); ++i)
      if (!all[i]) {
        QUERN_TRY(all[i], load(tenant, ids[i]));
      }
    return all;
  });
}

void TenantObjects::read(const std::string& tenant, std::string id, bool keep, Time now,
                         std::function<void(Result<ObjectRef>)> done) {
  sweep(now);
  auto object = find(tenant, id, !keep, now);
  trim();
  if (!object.ok() || *object) return done(std::move(object));
  hand_over(tenant, std::move(done), [this, tenant, id = std::move(id)] { return load(tenant, id); });
}

void TenantObjects::unread(const ObjectRef& object, Time now) {
  const auto lease = std::dynamic_pointer_cast<const Lease>(object);
  if (!lease || lease->expires <= now) return;
  tables_.with([&](Tables& tables) {
    tables.leases.emplace(lease->id, std::const_pointer_cast<Lease>(lease));
    tables.ends.emplace(lease->expires.ns, lease->id);
    next_end_ = tables.ends.begin()->first;
  });
}

void TenantObjects::remove(const std::string& tenant, std::string id, Time now, std::function<void(Status)> done) {
  sweep(now);
  if (is_lease_id(id)) {
    const LeaseRef lease = find_lease(tenant, id, true, now);
    return done(lease ? Status() : Status(no_tenant_object(id)));
  }
  if (!is_hex(id, kSha256Digits)) return done(no_tenant_object(id));
  hand_over(tenant, std::move(done), [this, tenant, id = std::move(id)]() -> Status {
    QUERN_TRY(deployer_.drop_object(tenant, id));
    const StoredRef dropped = tables_.with([&](Tables& tables) -> StoredRef {
      ++tables.removals;
      auto node = tables.stored.extract({tenant, id});
      return node ? std::move(node.mapped().object) : nullptr;
    });
    return {};
  });
}

void TenantObjects::list(const std::string& tenant, Time now,
                         std::function<void(Result<std::vector<ObjectStatus>>)> done) {
  sweep(now);
  std::vector<ObjectStatus> leases;
  tables_.with([&](Tables& tables) {
    for (const auto& [end, id] : tables.ends) {
      const Lease& lease = *tables.leases.at(id);
      if (lease.tenant != tenant) continue;
      leases.push_back({id, lease.bytes.size(), true, "", lease.expires - now});
    }
  });
  hand_over(tenant, std::move(done), [this, tenant, leases = std::move(leases)]() -> Result<std::vector<ObjectStatus>> {
    QUERN_TRY(const auto stored, deployer_.list_objects(tenant));
    std::vector<ObjectStatus> all;
    for (const TenantObject& one : stored) all.push_back({one.hash, one.bytes, false, one.created_at, {}});
    all.insert(all.end(), leases.begin(), leases.end());
    return all;
  });
}

Result<LeaseRef> TenantObjects::reserve(const std::string& tenant, std::shared_ptr<const ipc::Block> output,
                                        Duration lease, Time now) {
  sweep(now);
  auto made = std::make_shared<Lease>();
  made->id =
      std::string(kLeasePrefix) + sha256(fmt::format("{} {}", seed_, next_lease_.fetch_add(1))).substr(0, kLeaseDigits);
  made->tenant = tenant;
  if (new_passing_) made->number = new_passing_();
  QUERN_TRY(made->segment, output->reader());
  made->offset = output->offset();
  made->bytes = made->segment->mapping.bytes().subspan(output->offset(), output->size());
  made->output = std::move(output);
  made->lease = lease;
  QUERN_TRY(tables_.with([&](Tables& tables) -> Status {
    auto& taken = tables.places[tenant];
    if (!taken) taken = std::make_shared<std::atomic<uint32_t>>(0);
    // Those that ask wait for the lock, so that nobody comes between; those that give back may, and do no harm.
    if (taken->load() >= limits_.leases)
      return exhausted(fmt::format("tenant {}: has {} leased objects, the most there may be; read or remove some",
                                   tenant, limits_.leases));
    ++*taken;
    made->place = std::shared_ptr<void>(nullptr, [taken](void*) { --*taken; });
    return {};
  }));
  return made;
}

void TenantObjects::keep(LeaseRef lease, Time now) {
  lease->expires = now + lease->lease;
  tables_.with([&](Tables& tables) {
    tables.ends.emplace(lease->expires.ns, lease->id);
    tables.leases.emplace(lease->id, lease);
    next_end_ = tables.ends.begin()->first;
  });
}

void TenantObjects::sweep(Time now) {
  if (now.ns < next_end_.load(std::memory_order_relaxed)) return;
  std::vector<LeaseRef> dropped;  // outside the lock
  tables_.with([&](Tables& tables) {
    while (!tables.ends.empty() && tables.ends.begin()->first <= now.ns) {
      const auto lease = tables.leases.find(tables.ends.begin()->second);
      dropped.push_back(lease->second);
      erase_lease(tables, lease);
    }
  });
}

void TenantObjects::erase_lease(Tables& tables, std::map<std::string, LeaseRef>::iterator lease) {
  tables.ends.erase({lease->second->expires.ns, lease->first});
  tables.leases.erase(lease);
  next_end_ = tables.ends.empty() ? Time::never().ns : tables.ends.begin()->first;
}

LeaseRef TenantObjects::find_lease(const std::string& tenant, const std::string& id, bool takes, Time now) {
  return tables_.with([&](Tables& tables) -> LeaseRef {
    const auto it = tables.leases.find(id);
    if (it == tables.leases.end() || it->second->tenant != tenant || it->second->expires <= now) return nullptr;
    LeaseRef lease = it->second;
    if (takes) erase_lease(tables, it);
    return lease;
  });
}

Result<ObjectRef> TenantObjects::find(const std::string& tenant, const std::string& id, bool takes, Time now) {
  if (is_lease_id(id)) {
    const LeaseRef lease = find_lease(tenant, id, takes, now);
    return lease ? Result<ObjectRef>(lease) : no_tenant_object(id);
  }
  if (!is_hex(id, kSha256Digits)) return no_tenant_object(id);
  return ObjectRef(find_stored(tenant, id));
}

TenantObjects::StoredRef TenantObjects::find_stored(const std::string& tenant, const std::string& hash) {
  return tables_.with([&](Tables& tables) -> StoredRef {
    const auto it = tables.stored.find({tenant, hash});
    if (it == tables.stored.end()) return nullptr;
    it->second.used = ++tables.uses;
    return it->second.object;
  });
}

Result<ObjectRef> TenantObjects::load(const std::string& tenant, const std::string& hash) {
  // Others may have asked for it just before.
  if (const StoredRef here = find_stored(tenant, hash)) return ObjectRef(here);
  const uint64_t removals_before = removals();
  QUERN_TRY(StoredRef object, bring(tenant, hash));
  deployer_.counters().copied_bytes += object->bytes.size();
  return ObjectRef(remember(std::move(object), removals_before));
}

// Room comes first: what there is none for is not read.
Result<TenantObjects::StoredRef> TenantObjects::bring(const std::string& tenant, const std::string& hash) {
  QUERN_TRY(const uint64_t size_bytes, deployer_.object_bytes(tenant, hash));
  auto object = std::make_shared<MappedObject>();
  object->id = hash;
  object->tenant = tenant;
  QUERN_TRY(object->room, take_room(size_bytes));
  if (new_passing_) object->number = new_passing_();
  // Executors map no memory of 0 bytes.
  const uint64_t mapped_bytes = std::max<uint64_t>(size_bytes, 1);
  QUERN_TRY(os::Fd fd, os::create_shared_memory("quern-object", mapped_bytes));
  QUERN_TRY(deployer_.copy_object(hash, size_bytes, fd));
  QUERN_TRY(os::seal(fd, os::Sealed::kNobodyWrites));
  QUERN_TRY(object->segment, ipc::adopt_segment(std::move(fd), mapped_bytes));
  object->bytes = object->segment->mapping.bytes().first(size_bytes);
  return StoredRef(std::move(object));
}

TenantObjects::StoredRef TenantObjects::remember(StoredRef object, uint64_t removals_before) {
  // What is given up goes with `object`, outside the lock.
  return tables_.with([&](Tables& tables) -> StoredRef {
    // It may be the one that was removed: whoever has it may use it, but nobody finds it any more.
    if (tables.removals != removals_before) return object;
    Stored& stored = tables.stored[{object->tenant, object->id}];
    if (!stored.object) stored.object = object;
    stored.used = ++tables.uses;
    return stored.object;
  });
}

// Those that no call uses give way.
Result<std::shared_ptr<void>> TenantObjects::take_room(uint64_t size_bytes) {
  const uint64_t cost = round_up(std::max<uint64_t>(size_bytes, 1), kPage);
  const auto has_room = [&] {
    const uint64_t before = taken_bytes_->fetch_add(cost);
    if (before <= limits_.memory_bytes && cost <= limits_.memory_bytes - before) return true;
    *taken_bytes_ -= cost;
    return false;
  };
  if (!has_room()) {
    trim(0, 0);
    if (!has_room())
      return exhausted(
          fmt::format("objects: calls use {} of the {} that objects may take in memory, and this one has {}; "
                      "retry later, or raise host_memory",
                      show_bytes(*taken_bytes_), show_bytes(limits_.memory_bytes), show_bytes(size_bytes)));
  }
  return std::shared_ptr<void>(nullptr, [taken = taken_bytes_, cost](void*) { *taken -= cost; });
}

void TenantObjects::show(const std::string& tenant, Time now, MemoryPlace& host) {
  sweep(now);
  const auto add = [&](const MappedObject& object, const char* kind, bool is_used, std::string why) {
    if (object.tenant != tenant) return;
    MemoryItem item;
    item.kind = kind;
    item.name = object.id.substr(0, 12);
    item.tenant = tenant;
    item.bytes = object.bytes.size();
    item.state = "resident";
    item.pins = is_used ? 1 : 0;
    item.why = std::move(why);
    host.items.push_back(std::move(item));
  };
  tables_.with([&](Tables& tables) {
    for (const auto& [key, stored] : tables.stored) {
      const bool is_used = stored.object.use_count() > 1;
      add(*stored.object, "stored", is_used, is_used ? "calls use it" : "stays until its room is needed");
    }
    for (const auto& [end, id] : tables.ends) {
      const Lease& lease = *tables.leases.at(id);
      add(lease, "lease", tables.leases.at(id).use_count() > 1,
          fmt::format("a call left it, stays for {} more",
                      show_time(static_cast<double>(std::max<int64_t>(0, (lease.expires - now).ns)))));
    }
  });
}

void TenantObjects::trim(uint64_t idle_bytes, size_t idle) {
  std::vector<StoredRef> dropped;  // outside the lock
  const auto is_idle = [](const Stored& stored) { return stored.object.use_count() == 1; };
  const auto cost = [](const Stored& stored) { return round_up(stored.object->bytes.size(), kPage); };
  tables_.with([&](Tables& tables) {
    uint64_t bytes = 0;
    size_t count = 0;
    for (const auto& [key, stored] : tables.stored)
      if (is_idle(stored)) bytes += cost(stored), ++count;
    while (count > (idle == 0 ? 0 : 1) && (bytes > idle_bytes || count > idle)) {
      auto oldest = tables.stored.end();
      for (auto it = tables.stored.begin(); it != tables.stored.end(); ++it)
        if (is_idle(it->second) && (oldest == tables.stored.end() || it->second.used < oldest->second.used))
          oldest = it;
      bytes -= cost(oldest->second);
      --count;
      dropped.push_back(std::move(oldest->second.object));
      tables.stored.erase(oldest);
    }
  });
}

uint64_t TenantObjects::removals() const {
  return tables_.with([](const Tables& tables) { return tables.removals; });
}

}  // namespace quern::daemon
