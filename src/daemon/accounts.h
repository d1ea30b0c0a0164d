// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "daemon/waits.h"

namespace quern::daemon {

/// What a tenant's function used on a device, since the server started.
///
/// Device time is what executors tell of the runs that ended, well or badly or because they were stopped: on a CPU it
/// is the CPU time of the workers, every nanosecond of it. What is settled after a run's last kernel is the next run's
/// of that executor. Of a run that was lost it is
///   exact in the sum, where we ended its executor: the workers' time is read before;
///   not known, where the executor ended by itself (a kernel's fault): then it is the time that the run was on the
///   device, and no more than the CPU time of its process since it was up.
/// A program's device time is what the program tells, and no more than there was.
struct Account {
  uint64_t requests = 0, failed = 0;  ///< that were answered: well, or with an error
  uint64_t runs = 0;                  ///< that were on the device, and ended or were lost
  uint64_t device_time_ns = 0;        ///< unit-nanoseconds
  uint64_t bytes_in = 0, bytes_out = 0;
  uint64_t loads = 0, loaded_bytes = 0;  ///< of objects; charged to who first needs what was brought
  uint64_t evictions = 0;                ///< of those, objects that left to make room
  std::array<uint64_t, kCauses> waited_ns{};

  void add(const Account& other);
  void add(const Waits& waits);
};

/// What a table has a row for each of.
enum class AccountBy : uint8_t { kTenant, kFunction, kDevice };
std::string_view name_of(AccountBy by);
/// kInvalid with "did you mean".
Result<AccountBy> parse_account_by(std::string_view text);

/// Accounts, for showing to people.
struct AccountTable {
  struct Row {
    std::string tenant;
    std::string function;  ///< by function only
    std::string device;    ///< by device only; "-": of requests that never came to one
    Account account;
  };
  AccountBy by = AccountBy::kFunction;
  Duration age;           ///< of all of it: since the server started
  std::vector<Row> rows;  ///< in the order of names
  Account total;
};

/// The accounts of all tenants. Belongs to the strand. A row is never removed, so that sums only grow; past its share
/// of kMostRows a tenant's further functions are one row per device, kOthers.
class Accounts {
 public:
  Accounts(size_t tenants, Time now) : most_of_each_(kMostRows / (tenants > 0 ? tenants : 1)), since_(now) {}

  /// Stays where it is. `device` is a name, or "" for requests that never came to one.
  Account& of(std::string_view tenant, std::string_view function, std::string_view device);
  /// Of one tenant: it has no right to others'.
  AccountTable table(std::string_view tenant, AccountBy by, Time now) const;

  static constexpr size_t kMostRows = 16384;               ///< 3 MB
  static constexpr std::string_view kOthers = "(others)";  ///< no name of a function
  /// A program has a row like a function's, whose name it cannot be taken for.
  static std::string program(std::string_view name) { return "program " + std::string(name); }

 private:
  using Key = std::pair<std::string, std::string>;  ///< function, device
  struct Less {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return std::pair<std::string_view, std::string_view>(a.first, a.second) <
             std::pair<std::string_view, std::string_view>(b.first, b.second);
    }
  };
  using Rows = std::map<Key, Account, Less>;

  // Constant after construction.
  size_t most_of_each_;
  Time since_;
  // Strand only.
  std::map<std::string, Rows, std::less<>> tenants_;
};

/// Whose turn it was: how long requests of each tenant have held places on devices, all of them together. Belongs to
/// the strand.
///
/// A wait is divided in the proportion of what its own tenant and all others had meanwhile. Places, and not device
/// time: that of a run is known when it has ended, and who waits for it asks before.
class Turns {
 public:
  /// Tenants have the ids 1 to `tenants`.
  explicit Turns(size_t tenants) : tenants_(tenants + 1) {}

  void begin(uint64_t tenant, Time now);
  void end(uint64_t tenant, Time now);

  struct Mark {
    Time at{0};
    int64_t own_ns = 0, all_ns = 0;
  };
  Mark mark(uint64_t tenant, Time now) const;
  /// Adds `waited`, a time between `since` and now, to kQueue and kFairness. `holds_place`: one of the places of its
  /// own tenant was its own, and is nobody's that it waited for. False, and nothing is added, if nobody else had one.
  bool divide(uint64_t tenant, const Mark& since, Time now, Duration waited, bool holds_place, Waits& into) const;

 private:
  struct Held {
    int64_t sum_ns = 0;  ///< until `since`
    int64_t places = 0;
    Time since{0};

    void change(int64_t by, Time now);
    int64_t until(Time now) const { return sum_ns + places * (now - since).ns; }
  };
  std::vector<Held> tenants_;
  Held all_;
};

/// How a call waits, as the strand sees it while it does.
struct CallWaits {
  Time queued_at{0};        ///< it waits for its turn since; 0: it has a place
  Turns::Mark queued;       ///< at that time
  Time placed_at{0};        ///< the last time it got one
  bool holds_turn = false;  ///< of its place; its run holds it once there is one
  uint64_t run = 0;         ///< at that place; 0: it is being set up
  Waits before;             ///< what is over of it
};

/// How a run waits.
struct RunWaits {
  uint64_t tenant = 0;
  Time placed_at{0};
  Duration room{0};    ///< from there until it could be sent: for memory
  Turns::Mark pushed;  ///< when it went into the ring
  Waits gate;          ///< until its gate was closed last
  /// When that was: the first kMostSpans, of which those before its first kernel matter.
  std::vector<std::pair<Time, Time>> spans;
  Time closed_at{0};  ///< its gate is closed since; 0: it is open
  Cause closed_by = Cause::kUrgent;
  std::string closed_for;  ///< a function of its tenant; "" is someone else
  /// A kernel that cannot be cut was on the device when it was closed: since then, whatever turns it had. 0: none.
  Time whole_since{0};
  uint32_t whole_launch = 0;  ///< which one
  std::optional<WholeKernel> whole;

  /// Until now; what is before `pushed` is set-up.
  Waits at_gate(Time now) const;
  /// Between two moments after `pushed`, the later one not after `now`.
  Duration open_between(Time from, Time to, Time now) const;
  /// Its gate is about to change.
  void settle(Time now);
  bool is_closed() const { return closed_at.ns != 0; }

  static constexpr size_t kMostSpans = 16;
};

/// How much of the time from `from` to `to` is in none of the spans.
Duration uncovered(Time from, Time to, std::vector<std::pair<Time, Time>> spans);

}  // namespace quern::daemon
