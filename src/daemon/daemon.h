// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "daemon/config.h"
#include "daemon/counters.h"
#include "daemon/memory_view.h"
#include "daemon/request_account.h"
#include "daemon/waits.h"
#include "function/manifest.h"
#include "function/plan.h"
#include "os/fd.h"
#include "os/guarded.h"

namespace quern::daemon {

/// Who calls. Immutable; lives as long as the daemon.
struct Tenant {
  uint64_t id = 0;
  std::string name;
  std::string domain;
  uint64_t domain_id = 0;
  uint32_t weight = 1;
  TenantLimits limits;
  mutable std::atomic<uint64_t> on_their_way{0};  ///< submitted and not answered
};

/// Settings that may change while they are in use. Any thread.
class LiveSettings {
 public:
  explicit LiveSettings(Settings settings) : settings_(std::move(settings)) {}
  Settings get() const {
    return settings_.with([](const Settings& settings) { return settings; });
  }
  void set(const Settings& changed) {
    settings_.with([&](Settings& settings) { settings = changed; });
  }

 private:
  os::Guarded<Settings> settings_;
};

/// One deployed version of a function. Immutable, but for its settings, and shared: who holds it may use it, also after
/// it was replaced.
struct Function {
  uint64_t id = 0;
  std::string tenant, name;
  std::string version;  ///< 64 hex digits; people see the first 12
  std::string created_at;
  Manifest manifest;
  /// Per kernel of the manifest: why it is launched whole on some device here; empty: it can be sliced on all.
  std::vector<std::string> unsliceable;
  std::shared_ptr<LiveSettings> live_settings;  ///< those of the manifest, and what was changed in place since

  Settings settings() const { return live_settings ? live_settings->get() : manifest.settings; }
};
using FunctionRef = std::shared_ptr<const Function>;

/// A function that is deployed and that cannot be called: not yet, or not any more.
struct FunctionProblem {
  std::string name, version, created_at;
  bool is_starting = false;  ///< it is being made ready after a start; else something of it is damaged
  Error error;               ///< what its calls are answered
};

/// What is stored of a function, and what was done to it; the newest first.
struct History {
  struct Version {
    std::string version, created_at;
    bool is_current = false;
  };
  struct Item {
    std::string at, what, version;
  };
  std::vector<Version> versions;
  std::vector<Item> items;
};

/// A tenant's object in memory: what it put, or an output that a call left. Immutable; who holds it may use it, also
/// after it was removed or its lease is over.
class Object {
 public:
  virtual ~Object() = default;

  std::string id;  ///< its hash, or "lease-" and 32 hex digits: a name, and of no use to another tenant
  std::span<const std::byte> bytes;
};
using ObjectRef = std::shared_ptr<const Object>;

/// An object, for showing to people.
struct ObjectStatus {
  std::string id;
  uint64_t bytes = 0;
  bool is_lease = false;
  std::string created_at;  ///< of a stored one
  Duration expires_in;     ///< of a lease
};

/// The body of a request on its way to the disk (Daemon::begin_deploy, begin_object). An upload that is destroyed
/// before it is handed over leaves nothing behind.
class Upload {
 public:
  virtual ~Upload() = default;
  /// The next piece; one at a time, and none after an error. `done`, from a thread of the daemon, has the memory of the
  /// piece back, to be filled again.
  virtual void write(Bytes piece, std::function<void(Result<Bytes>)> done) = 0;
};

/// How long an output stays as an object: where the caller does not say, and at most.
constexpr Duration kUsualLease = Duration::seconds(60), kLongestLease = Duration::seconds(3600);
/// How long a trace may be: what it notes is kept in memory, and a minute of it is more than anyone looks at.
constexpr Duration kLongestTrace = Duration::seconds(60);

/// A tensor of a call, in the arena.
struct CallTensor {
  std::string name;
  Dtype dtype = Dtype::kFp32;
  Shape shape;
  std::span<std::byte> bytes;  ///< read-only where an input is an object
  std::string object = {};     ///< of an output that stays: the id it will have (Daemon::keep_outputs)
  Duration lease = {0};        ///< and for how long
};

/// A part of what a run had to wait for, as moments of the steady clock.
struct Phase {
  std::string name;
  Time from{0}, to{0};
  std::string detail;
};

/// Why the calls of a function are refused for a while.
struct Quarantine {
  uint32_t kills = 0;  ///< crashes and hangs of its kernels in a row
  Time until;          ///< when calls are let in again
};

/// Where the time of a call went, as moments of the steady clock; 0 where it did not get that far.
struct CallTimes {
  Time submitted, taken, pushed;           ///< by the caller, by the strand, into the ring
  Time placed;                             ///< it got a place on a device, and something had to be brought first
  Time read, started, finished, reported;  ///< by the lane; on the device; by the lane: as the executor tells
  Time answered;
  uint64_t device_time_ns = 0;
  Waits waits;                           ///< what it waited for meanwhile
  std::optional<WholeKernel> whole;      ///< of its own, that others waited for
  std::optional<Quarantine> quarantine;  ///< of its function, if that ended the call
};

/// One call on its way. Made by `Daemon::prepare`, which gives it room for its tensors; the caller fills `inputs`,
/// submits it, and gets it back ended with `error` or `outputs`. The tensors' memory is given back with it.
class Call {
 public:
  virtual ~Call() = default;

  std::string id;                   ///< as in `Quern-Request`
  std::vector<CallTensor> inputs;   ///< in the order of the request
  std::vector<CallTensor> outputs;  ///< in the order of the manifest; bytes mean something once it ended well
  std::optional<Error> error;
  Duration retry_after = {0};  ///< with exhausted and unavailable
  CallTimes times;
  RequestAccount account;
  /// What a repeat with until came to: `rounds`, or `rounds.NAME`.
  std::vector<std::pair<std::string, uint64_t>> rounds;
  struct KernelTime {
    uint64_t launches = 0, time_ns = 0;
  };
  std::vector<Phase> setup;         ///< what had to be brought for it, in the order it began; empty: it was all there
  std::vector<KernelTime> kernels;  ///< with CallOptions::profile: by place in Manifest::kernels, of the first 256
};

/// What a request says beside its tensors.
struct CallOptions {
  std::optional<Duration> timeout;  ///< the function's if absent
  std::optional<uint8_t> priority;  ///< the function's if absent
  bool profile = false;             ///< tell the time of each kernel
  /// One per input in the order of the request: the object that it is, null where the caller fills it. Empty: it fills
  /// all of them.
  std::vector<ObjectRef> objects;
  std::map<std::string, Duration> kept;  ///< outputs that stay as objects, by name, and how long; at most kLongestLease
};

struct Deployed {
  FunctionRef function;
  bool is_new = true;             ///< false: the same version was current already
  bool has_new_settings = false;  ///< it was, and with other settings
  std::vector<std::string> warnings;
};

/// A device, for showing to people.
struct DeviceStatus {
  std::string name, driver, model;
  bool is_up = false;
  uint64_t memory_bytes = 0;
  uint32_t units = 0;
  std::vector<int> cores;
  bool in_place = false;
  bool worker_classes = false;  ///< priorities can become classes of the operating system there
  uint64_t executors = 0, running = 0, runs_ended = 0, device_time_ns = 0;
};

/// A request, for showing to people.
struct RequestStatus {
  std::string id;  ///< as in `Quern-Request`
  std::string function, tenant;
  std::string state;   ///< queued, placed (on a device that gets ready), running, ended
  std::string device;  ///< where it runs or last ran; empty if it never did
  std::string end;     ///< of one that ended: done, or how else
  uint8_t priority = 0;
  Duration age;   ///< since it was submitted
  Duration took;  ///< of one that ended: from there to its answer
};

struct Story;
struct FunctionProfile;
struct AccountTable;
enum class AccountBy : uint8_t;
struct Trace;

/// A program that launches its own kernels on a device, as far as its gate lets it.
struct ProgramSpec {
  std::string name;    ///< gaps and kernels of programs of one name are alike
  std::string device;  ///< by its name
  uint8_t priority = 5;
  std::optional<double> time_request = {}, time_limit = {}, units = {};  ///< as in the settings of a function
};
/// What it needs for launcher::Program::open.
struct ProgramLink {
  uint64_t program = 0;
  os::Fd daemon_page, own_page, wake, daemon_wake;
  os::Fd life;  ///< the one end of a pipe: when its last copy is closed, as by the end of the process, it has left
};

/// The live shell of the scheduler core: owns the strand, the executors, the builders and the state.
///
/// Every method may be called from any thread and none of them waits for a device. Callbacks come from the daemon's
/// threads and must only hand over.
class Daemon {
 public:
  /// Opens the state and starts the devices; takes as long as the slowest of them. Deployed functions come back in the
  /// background: until then they are `problems`.
  static Result<std::unique_ptr<Daemon>> create(Config config);
  virtual ~Daemon() = default;

  /// Deploys that are under way are answered unavailable at once, compilers end, and no deploy is taken any more. A
  /// server that is about to stop calls it before it waits for its callers.
  virtual void stop_deploys() = 0;
  /// Ends all work in order: nothing new is taken, what runs may end until `limit`, the rest is answered unavailable.
  virtual void stop(Duration limit) = 0;

  /// The tenant of a key ("" where none was sent). kDenied if there is none.
  virtual Result<const Tenant*> authenticate(std::string_view key) const = 0;

  /// The current version, or the one whose version starts with `version` (at least 6 digits) if that is not empty.
  /// kNotFound with "did you mean"; another tenant's functions are not there.
  virtual Result<FunctionRef> find(const Tenant& tenant, std::string_view name, std::string_view version) const = 0;
  virtual std::vector<FunctionRef> functions(const Tenant& tenant) const = 0;
  /// Functions of which the current version cannot be called.
  virtual std::vector<FunctionProblem> problems(const Tenant& tenant) const = 0;
  /// All versions that can be called; the current one first.
  virtual std::vector<FunctionRef> versions(const Tenant& tenant, std::string_view name) const = 0;
  virtual std::vector<DeviceStatus> devices() const = 0;
  virtual Counters counters() const = 0;
  /// True once at least one device is up.
  virtual bool is_ready() const = 0;

  // What is deployed. What needs the disk is told by `done`, which comes from a thread of the daemon, or before the
  // method returns.

  /// Room for the tar of a function: asked before its bytes are read. kExhausted if the tenant, or all of them
  /// together, store or upload as much as they may.
  virtual Result<std::unique_ptr<Upload>> begin_deploy(const Tenant& tenant, uint64_t size_bytes) = 0;
  /// Checks the tar, builds what is missing, and makes it the current version of `name`, or changes nothing. The
  /// error's text has every mistake, or the compiler's log. `id` is the caller's, for abandon_deploy.
  virtual void deploy(const Tenant& tenant, std::string id, std::string name, std::unique_ptr<Upload> tar,
                      std::function<void(Result<Deployed>)> done) = 0;
  /// Nobody waits for the deploy of this id any more: it ends as kCancelled, unless it is through.
  virtual void abandon_deploy(const std::string& id) = 0;
  /// All versions of it.
  virtual void remove(const Tenant& tenant, std::string name, std::function<void(Status)> done) = 0;
  virtual void history(const Tenant& tenant, std::string name, std::function<void(Result<History>)> done) = 0;
  /// An older version takes new requests again: the one whose version starts with `version`, or, if that is empty, the
  /// one that was deployed before the current one.
  virtual void rollback(const Tenant& tenant, std::string name, std::string version,
                        std::function<void(Result<FunctionRef>)> done) = 0;
  /// Changes settings in place, for all versions: value by path (`limits.timeout`), empty for what the manifest says.
  /// All of them or, if one makes no sense, none.
  virtual void set(const Tenant& tenant, std::string name, std::map<std::string, std::string> changes,
                   std::function<void(Result<FunctionRef>)> done) = 0;

  /// Whether a request of this tenant would be taken now: asked before its body is read.
  virtual Status admits(const Tenant& tenant, Duration* retry_after) const = 0;

  /// Checks a request and gives it room: the error says what is wrong with it. The order of `call.inputs` is that of
  /// `spec.inputs`, so that a front door can read tensors in the order they arrive.
  virtual Result<std::unique_ptr<Call>> prepare(const Tenant& tenant, const FunctionRef& function, const CallSpec& spec,
                                                const CallOptions& options) = 0;
  /// `done` gets the call back, ended; exactly once. Cancel it by its id meanwhile.
  virtual void submit(std::unique_ptr<Call> call, std::function<void(std::unique_ptr<Call>)> done) = 0;
  virtual void cancel(const std::string& call_id) = 0;

  /// The tenant's requests: those on their way, the oldest first, then those that ended lately, the latest first.
  virtual void requests(const Tenant& tenant, std::function<void(Result<std::vector<RequestStatus>>)> done) = 0;
  /// One that waits is answered `cancelled`; of one that runs the gate closes. kNotFound if it has ended, or is not the
  /// tenant's.
  virtual void cancel(const Tenant& tenant, const std::string& call_id, std::function<void(Status)> done) = 0;

  /// What became of a request, and where its time went. kNotFound if it is not the tenant's, or long gone.
  virtual void why(const Tenant& tenant, const std::string& call_id, std::function<void(Result<Story>)> done) = 0;
  /// What is in the memory of devices and host; of others' only the sums.
  virtual void memory(const Tenant& tenant, std::function<void(Result<std::vector<MemoryPlace>>)> done) = 0;
  /// What the tenant used since the server started: device time, bytes, loads, and what its requests waited for.
  virtual void accounts(const Tenant& tenant, AccountBy by, std::function<void(Result<AccountTable>)> done) = 0;
  /// How long the kernels and gaps of a function take, as far as calls have shown; or of the tenant's programs of that
  /// name. `version` as in `find`.
  virtual void profile(const Tenant& tenant, std::string_view name, std::string_view version,
                       std::function<void(Result<FunctionProfile>)> done) = 0;
  /// A lease: the function is made ready to this stage as far as there is room, and stays so for this long, at most
  /// kLongestLease. kNothing ends it. What its settings say holds all the same.
  virtual Status keep(const Tenant& tenant, std::string_view name, KeepWarm stage, Duration lease) = 0;

  // Objects of a tenant. Another's are not there: kNotFound, with the text of one that never was. `done` comes from a
  // thread of the daemon, or before the method returns.

  /// Room for an object: asked before its bytes are read. kExhausted as with begin_deploy.
  virtual Result<std::unique_ptr<Upload>> begin_object(const Tenant& tenant, uint64_t size_bytes) = 0;
  /// Stores the bytes; those that are stored already are fine.
  virtual void put_object(const Tenant& tenant, std::unique_ptr<Upload> upload,
                          std::function<void(Result<ObjectStatus>)> done) = 0;
  /// Those that calls are to use, in the order of `ids`; brought into memory where they are not.
  virtual void open_objects(const Tenant& tenant, std::vector<std::string> ids,
                            std::function<void(Result<std::vector<ObjectRef>>)> done) = 0;
  /// One that is to be sent. Unless `keep`, a lease is over with it: of two who ask, one gets it.
  virtual void read_object(const Tenant& tenant, std::string id, bool keep,
                           std::function<void(Result<ObjectRef>)> done) = 0;
  /// What read_object took did not get through: a lease that has time left is there again.
  virtual void unread_object(const ObjectRef& object) = 0;
  virtual void remove_object(const Tenant& tenant, std::string id, std::function<void(Status)> done) = 0;
  /// Stored ones, the oldest first, then leases by when they are over.
  virtual void objects(const Tenant& tenant, std::function<void(Result<std::vector<ObjectStatus>>)> done) = 0;
  /// The outputs of a call that ended well and that were to stay (CallOptions::kept) are objects from now on.
  virtual void keep_outputs(Call& call) = 0;

  // Programs: launchers that are no lane of ours.

  /// A program joins a device, with a gate of its own; it is in the program's own process, which gets the link.
  /// kNotFound if there is no such device. Waits for the strand.
  virtual Result<ProgramLink> join(const Tenant& tenant, const ProgramSpec& spec) = 0;
  /// It may launch no more. One whose ProgramLink::life is closed has left.
  virtual void leave(uint64_t program) = 0;

  /// Notes what happens on the devices for this long, at most kLongestTrace; `done` gets it, to be completed (trace.h).
  /// One at a time, whoever asks: kExhausted while there is another. `id` is the caller's, for end_trace.
  virtual void trace(const Tenant& tenant, std::string id, Duration length,
                     std::function<void(Result<Trace>)> done) = 0;
  /// Nobody waits for the trace of this id any more; of no effect if it has ended, or is another's.
  virtual void end_trace(const std::string& id) = 0;
  /// The trace of this tenant ends sooner: whoever asked for it gets it as it is. kNotFound if there is none.
  virtual void end_trace(const Tenant& tenant, std::function<void(Status)> done) = 0;

  /// The front door's share of Counters::copied_bytes.
  virtual void count_copied(uint64_t bytes) = 0;
};

}  // namespace quern::daemon
