// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sched/scheduler.h"

/// For tests of checkers, on events and actions written by hand: most of the time a real core is stepped, and what it
/// did is changed on its way to the checker. An action is dropped, doubled or made up.
namespace quern::sim {

using namespace sched;  // only tests include this, and its words are what they are about

inline constexpr uint64_t kGiB = uint64_t{1} << 30;
inline constexpr DeviceId d1{1}, d2{2};
inline constexpr ExecutorId e1{1}, e2{2}, e9{9};
inline constexpr ObjectId o1{1}, o2{2};
inline constexpr RunId run1{1}, run2{2}, run9{9};
inline constexpr RequestId r1{1}, r2{2}, r3{3}, r9{9};
inline constexpr TenantId t1{1}, t2{2};
inline constexpr LauncherId p1 = program_of(1), p9 = program_of(9);

inline Submit call(RequestId request, std::vector<ObjectNeed> objects = {}) {
  return {.request = request,
          .function = FunctionId{7},
          .tenant = t1,
          .domain = DomainId{1},
          .memory_bytes = kGiB,
          .objects = std::move(objects),
          .quota = {}};
}
inline Submit urgent(RequestId request) {
  Submit submit = call(request);
  submit.priority = 0;
  return submit;
}
inline DeviceUp up(DeviceId device) { return {.device = device, .memory_bytes = 8 * kGiB, .context_bytes = kGiB / 4}; }
inline DeviceUp up_in_place(DeviceId device) {
  DeviceUp event = up(device);
  event.in_place = true;
  return event;
}
inline Keep keep_hot(Time until) {
  return {.function = FunctionId{7},
          .domain = DomainId{1},
          .stage = Stage::kHot,
          .until = until,
          .objects = {{o1, kGiB}, {o2, kGiB}}};
}
inline Scheduler::Entry& entry_of(Scheduler::Books& books, Scheduler::Entry::Kind kind) {
  return *std::find_if(books.entries.begin(), books.entries.end(), [&](const auto& e) { return e.kind == kind; });
}

/// What the checker is told of the actions of a step.
using Change = std::function<void(std::vector<Action>&)>;

inline Change drop_all() {
  return [](std::vector<Action>& actions) { actions.clear(); };
}
template <class A>
Change drop() {
  return [](std::vector<Action>& actions) {
    std::erase_if(actions, [](const Action& action) { return std::holds_alternative<A>(action); });
  };
}
inline Change add(Action action) {
  return [action](std::vector<Action>& actions) { actions.push_back(action); };
}
inline Change add_first(Action action) {
  return [action](std::vector<Action>& actions) { actions.insert(actions.begin(), action); };
}
/// Changes every action of a kind.
template <class A>
Change alter(std::function<void(A&)> how) {
  return [how](std::vector<Action>& actions) {
    for (Action& action : actions)
      if (auto* one = std::get_if<A>(&action)) how(*one);
  };
}

/// A core, and a checker that watches it through a glass.
template <class C>
class Watched {
 public:
  Watched() : Watched(Config{}) {}
  explicit Watched(const Config& config)
      : checker(make(config)), config_(config), core_(std::make_unique<Scheduler>(config)) {}

  Watched& step(const Event& event, const Change& change = nullptr) {
    now = now + Duration::millis(1);
    std::vector<Action> actions = core_->step(now, event);
    if (change) change(actions);
    checker.on_step(now, event, actions, *core_);
    return *this;
  }
  /// The checker is told of something that the core did not see.
  Watched& pretend(const Event& event, const std::vector<Action>& actions = {}) {
    now = now + Duration::millis(1);
    checker.on_step(now, event, actions, *core_);
    return *this;
  }
  /// So many milliseconds pass, and nothing happens: someone gives up what nobody knows. A Tick that comes early would
  /// be one that the core did not ask for.
  Watched& wait(int steps, const Change& change = nullptr) {
    for (int i = 0; i < steps; ++i) step(Cancel{RequestId{UINT64_MAX}}, change);
    return *this;
  }
  /// A device, an executor, and a run of r1 with two objects that is on the device.
  Watched& running() {
    step(up(d1)).step(call(r1, {{o1, kGiB}, {o2, kGiB}})).step(ExecutorUp{e1});
    return step(Loaded{e1, o1}).step(Loaded{e1, o2}).step(Started{run1});
  }
  /// The same with a host tier of 4 GiB, from which both objects come.
  Watched& running_from_host(const DeviceUp& device) {
    step(HostUp{4 * kGiB}).step(device).step(call(r1, {{o1, kGiB}, {o2, kGiB}}));
    step(Fetched{o1}).step(Fetched{o2}).step(ExecutorUp{e1});
    return step(Loaded{e1, o1}).step(Loaded{e1, o2}).step(Started{run1});
  }
  Watched& restart() {
    core_ = std::make_unique<Scheduler>(config_);
    checker.on_restart(now);
    return *this;
  }
  /// All is over.
  void end(bool drained) { checker.on_end(now, drained, *core_); }
  Scheduler::Books books() const { return *core_->books(d1); }
  bool fails() const { return !checker.violation().empty(); }
  const std::string& why() const { return checker.violation(); }

  Time now = {0};
  C checker;

 private:
  static C make(const Config& config) {
    if constexpr (std::is_constructible_v<C, const Config&>) {
      return C(config);
    } else {
      return C();
    }
  }

  const Config config_;
  std::unique_ptr<Scheduler> core_;
};

}  // namespace quern::sim
