// SPDX-License-Identifier: Apache-2.0
//
// Random events over fixed seeds. A shell that sees only actions keeps its own books, checks them after every step, and
// in the end, when nothing goes wrong any more, sees every request answered and every record gone.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/prng.h"
#include "base/units.h"
#include "sched/text.h"

namespace quern::sched {
namespace {

constexpr uint64_t kDeviceMemory[] = {8 * kGiB, 2 * kGiB, 8 * kGiB, 4 * kGiB};

Config random_config(Prng& prng) {
  Config config;
  config.runs_in_flight = 1 + static_cast<uint32_t>(prng.below(3));
  config.lanes = 1 + static_cast<uint32_t>(prng.below(3));
  config.most_queued = 4 + static_cast<uint32_t>(prng.below(20));
  config.most_queued_per_tenant = 2 + static_cast<uint32_t>(prng.below(10));
  config.most_attempts = 1 + static_cast<uint32_t>(prng.below(3));
  config.own_executor_runs = 1 + static_cast<uint32_t>(prng.below(5));
  config.quarantine_after = 1 + static_cast<uint32_t>(prng.below(5));
  config.quarantine = Duration::millis(50);
  config.prepare_grace = Duration::seconds(1);
  return config;
}

class Shell {
 public:
  explicit Shell(uint64_t seed) : prng_(seed), config_(random_config(prng_)), core_(config_) {
    for (uint64_t i = 0; i < 6; ++i) functions_.push_back(FunctionId{next_function_++});
  }

  void random_step() {
    advance(Duration::micros(static_cast<int64_t>(prng_.below(3000))));
    switch (prng_.below(20)) {
      case 0:
        return device_event();
      case 1:
        return lose_some_executor();
      case 2:
        return cancel_some();
      case 3:
        return replace_function();
      case 4:
        return stale_news();
      case 5:
      case 6:
      case 7:
      case 8:
        return executor_news();
      case 9:
      case 10:
      case 11:
        return start_some();
      case 12:
      case 13:
      case 14:
      case 15:
        return finish_some();
      default:
        return submit();
    }
  }

  /// Faults stop: devices are there, executors come up, runs end.
  void settle() {
    for (uint64_t i = 0; i < std::size(kDeviceMemory); ++i)
      if (!up_.contains(DeviceId{i + 1})) device_up(DeviceId{i + 1});
    for (int round = 0; round < 100'000 && !ok_to_stop(); ++round) {
      if (!starting_or_killed().empty() || !trims_.empty()) {
        executor_news();
      } else if (!runs_.empty()) {
        step(Finished{.run = runs_.begin()->first, .failed = false, .device_time = {0}});
      } else {
        advance(Duration::millis(1));
      }
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_TRUE(requests_.empty()) << requests_.size() << " requests were never answered";
    for (const FunctionId function : functions_) step(FunctionGone{function});
    while (!starting_or_killed().empty() || !trims_.empty()) executor_news();
    EXPECT_EQ(core_.counts().queued, 0u);
    EXPECT_EQ(core_.counts().running, 0u);
    EXPECT_EQ(core_.counts().functions, 0u) << "records of functions are left";
    EXPECT_EQ(core_.counts().executors, executors_.size());
  }

  const std::string& log() const { return log_; }
  int64_t largest_lag() const { return largest_lag_; }
  uint64_t answers(End end) const {
    const auto found = ends_.find(end);
    return found == ends_.end() ? 0 : found->second;
  }

 private:
  struct ExecutorBook {
    DeviceId device;
    DomainId domain;
    std::optional<FunctionId> own;
    bool up = false, killed = false;
  };
  struct RequestBook {
    Submit submit;
    uint32_t runs = 0;
    std::optional<RunId> in_flight;
  };
  struct RunBook {
    RequestId request;
    ExecutorId executor;
    uint32_t lane = 0;
    bool started = false, stopped = false, alone = false;
    Time started_at = {0};
  };

  void advance(Duration by) {
    const Time goal = now_ + by;
    while (wake_ <= goal) {
      now_ = std::max(now_, wake_);
      wake_ = Time::never();
      step(Tick{});
    }
    now_ = goal;
  }

  template <class Map>
  auto pick(const Map& map) {
    auto it = map.begin();
    std::advance(it, static_cast<int64_t>(prng_.below(map.size())));
    return it->first;
  }

  void device_up(DeviceId id) {
    const uint64_t memory = kDeviceMemory[id.value - 1];
    up_[id] = memory;
    known_ = std::max(known_, memory);
    step(DeviceUp{.device = id, .memory_bytes = memory, .context_bytes = 0});
  }
  void device_event() {
    const DeviceId id{1 + prng_.below(std::size(kDeviceMemory))};
    if (!up_.contains(id)) return device_up(id);
    if (prng_.below(4) != 0) return;
    up_.erase(id);
    std::vector<ExecutorId> gone;
    for (const auto& [executor, book] : executors_)
      if (book.device == id) gone.push_back(executor);
    for (const ExecutorId executor : gone) forget_executor(executor);
    step(DeviceDown{id});
  }

  std::vector<ExecutorId> starting_or_killed() const {
    std::vector<ExecutorId> ids;
    for (const auto& [id, book] : executors_)
      if (!book.up || book.killed) ids.push_back(id);
    return ids;
  }
  void executor_news() {
    const auto ids = starting_or_killed();
    if (!trims_.empty() && (ids.empty() || prng_.below(2) == 0)) {
      const auto [executor, lane] = *trims_.begin();
      trims_.erase(trims_.begin());
      return step(Trimmed{executor, lane});
    }
    if (ids.empty()) return;
    const ExecutorId id = ids[prng_.below(ids.size())];
    if (executors_.at(id).killed) return lose(id, std::nullopt);
    executors_.at(id).up = true;
    step(ExecutorUp{id});
  }
  void lose(ExecutorId id, std::optional<RunId> culprit) {
    forget_executor(id);
    step(ExecutorLost{.executor = id, .culprit = culprit});
  }
  void lose_some_executor() {
    if (executors_.empty()) return;
    const ExecutorId id = pick(executors_);
    std::optional<RunId> culprit;
    for (const auto& [run, book] : runs_)
      if (book.executor == id && prng_.below(2) == 0) culprit = run;
    lose(id, culprit);
  }
  void forget_executor(ExecutorId id) {
    executors_.erase(id);
    std::erase_if(trims_, [&](const auto& trim) { return trim.first == id; });
    for (auto it = runs_.begin(); it != runs_.end();) {
      if (it->second.executor == id) {
        if (const auto request = requests_.find(it->second.request); request != requests_.end())
          request->second.in_flight.reset();
        it = runs_.erase(it);
      } else {
        ++it;
      }
    }
  }

  void cancel_some() {
    if (requests_.empty()) return;
    const RequestId id = pick(requests_);
    step(Cancel{id});
    EXPECT_FALSE(requests_.contains(id)) << "a cancelled request was not answered at once";
  }
  void replace_function() {
    FunctionId& function = functions_[prng_.below(functions_.size())];
    const FunctionId gone = function;
    function = FunctionId{next_function_++};
    step(FunctionGone{gone});
  }
  void stale_news() {
    const uint64_t old = 1 + prng_.below(50);
    if (!runs_.contains(RunId{old})) step(Finished{.run = RunId{old}, .failed = false, .device_time = {0}});
    if (!runs_.contains(RunId{old})) step(Started{RunId{old}});
    if (!executors_.contains(ExecutorId{old})) step(ExecutorLost{.executor = ExecutorId{old}, .culprit = RunId{old}});
    if (!executors_.contains(ExecutorId{old})) step(ExecutorUp{ExecutorId{old}});
    if (!requests_.contains(RequestId{old})) step(Cancel{RequestId{old}});
  }
  void start_some() {
    if (runs_.empty()) return;
    const RunId id = pick(runs_);
    if (!std::exchange(runs_.at(id).started, true)) runs_.at(id).started_at = now_;
    step(Started{id});
  }
  void finish_some() {
    if (runs_.empty()) return;
    const RunId id = pick(runs_);
    step(Finished{.run = id,
                  .failed = prng_.below(4) == 0,
                  .device_time = Duration::micros(static_cast<int64_t>(prng_.below(5'000)))});
  }

  void submit() {
    Submit event;
    event.request = RequestId{next_request_++};
    const uint64_t which = prng_.below(functions_.size());
    event.function = functions_[which];
    event.tenant = TenantId{1 + which % 3};
    event.domain = DomainId{1 + which % 3};
    event.memory_bytes = prng_.below(prng_.below(10) == 0 ? 9 * kGiB : 4 * kGiB);
    if (prng_.below(3) != 0) event.deadline = now_ + Duration::micros(static_cast<int64_t>(prng_.below(60'000)));
    if (prng_.below(3) == 0) event.device_time = Duration::micros(static_cast<int64_t>(prng_.below(20'000)));
    requests_[event.request].submit = event;
    const uint64_t queued = core_.counts().queued;
    step(event);
    if (requests_.contains(event.request)) {
      EXPECT_LT(queued, config_.most_queued);
      EXPECT_LE(event.memory_bytes, known_);
    }
  }

  void step(const Event& event) {
    event_ = event;
    log_ += to_text(now_) + " " + to_text(event) + "\n";
    if (const auto* finished = std::get_if<Finished>(&event); finished && runs_.contains(finished->run)) {
      if (const auto request = requests_.find(runs_.at(finished->run).request); request != requests_.end())
        request->second.in_flight.reset();
      runs_.erase(finished->run);
    }
    for (const Action& action : core_.step(now_, event)) {
      log_ += "    " + to_text(action) + "\n";
      std::visit([this](const auto& a) { carry_out(a); }, action);
    }
    while (!asked_.empty()) {
      const DeviceId device = *asked_.begin();
      asked_.erase(device);
      step(flight_of(device));
    }
    check();
  }

  void carry_out(const StartExecutor& a) {
    EXPECT_TRUE(up_.contains(a.device)) << "started on a device that is down";
    for (const auto& [id, book] : executors_)
      EXPECT_FALSE(!book.killed && book.device == a.device && book.domain == a.domain && book.own == a.own_function)
          << "two executors for one group on one device";
    const auto [it, fresh] =
        executors_.try_emplace(a.executor, ExecutorBook{.device = a.device, .domain = a.domain, .own = a.own_function});
    EXPECT_TRUE(fresh);
  }
  void carry_out(const KillExecutor& a) {
    ASSERT_TRUE(executors_.contains(a.executor)) << "kills an executor that is gone";
    EXPECT_FALSE(executors_.at(a.executor).killed) << "kills twice";
    executors_.at(a.executor).killed = true;
  }
  void carry_out(const Run& a) {
    ASSERT_TRUE(executors_.contains(a.executor)) << "runs on an executor that is gone";
    const ExecutorBook& executor = executors_.at(a.executor);
    EXPECT_TRUE(executor.up && !executor.killed);
    ASSERT_TRUE(requests_.contains(a.request)) << "runs a request that was answered";
    RequestBook& request = requests_.at(a.request);
    EXPECT_FALSE(request.in_flight) << "one request, two runs";
    EXPECT_LE(request.submit.memory_bytes, a.lane_bytes);
    EXPECT_LE(a.lane_bytes, up_.at(executor.device));
    EXPECT_EQ(executor.domain, request.submit.domain);
    EXPECT_TRUE(!executor.own || *executor.own == request.submit.function);
    EXPECT_GT(request.submit.deadline, now_) << "runs a request that is late";
    EXPECT_LT(request.runs, config_.most_attempts);
    EXPECT_LT(a.lane, config_.all_lanes());
    RunBook run{.request = a.request, .executor = a.executor, .lane = a.lane, .alone = request.runs > 0};
    for (const auto& [id, other] : runs_) {
      if (executors_.at(other.executor).device != executor.device) continue;
      EXPECT_EQ(other.executor, a.executor) << "runs of two executors on one device";
      EXPECT_NE(other.lane, a.lane) << "two runs in one lane";
      EXPECT_FALSE(other.alone || run.alone) << "a request that runs again has company";
    }
    EXPECT_TRUE(runs_.emplace(a.run, run).second);
    request.in_flight = a.run;
    ++request.runs;
  }
  void carry_out(const Trim& a) {
    ASSERT_TRUE(executors_.contains(a.executor)) << "trims an executor that is gone";
    for (const auto& [id, run] : runs_)
      EXPECT_FALSE(run.executor == a.executor && run.lane == a.lane) << "trims a lane with a run in it";
    EXPECT_TRUE(trims_.insert({a.executor, a.lane}).second) << "trims twice";
  }
  void carry_out(const Prepare& a) { EXPECT_TRUE(requests_.contains(a.request)) << "prepares what was answered"; }
  // Objects have their own books: the checkers of the simulator.
  void carry_out(const Grant&) {}  // sim/gate_checker.h looks at them
  void carry_out(const Fetch& a) { ADD_FAILURE() << "fetches what nobody needs: " << to_text(Action(a)); }
  void carry_out(const Forget& a) { ADD_FAILURE() << "forgets what is not there: " << to_text(Action(a)); }
  void carry_out(const Load& a) { ADD_FAILURE() << "loads what nobody needs: " << to_text(Action(a)); }
  void carry_out(const Unload& a) { ADD_FAILURE() << "unloads what is not there: " << to_text(Action(a)); }
  void carry_out(const AskFlight& a) { asked_.insert(a.device); }
  /// Each run that started is in its first launch.
  Flight flight_of(DeviceId device) const {
    Flight flight{device, {}};
    for (const auto& [id, run] : runs_)
      if (run.started && executors_.at(run.executor).device == device)
        flight.launches.push_back({id, 1, run.started_at, {0}});
    std::stable_sort(flight.launches.begin(), flight.launches.end(),
                     [](const auto& one, const auto& two) { return one.since < two.since; });
    return flight;
  }
  void carry_out(const StopRun& a) {
    ASSERT_TRUE(runs_.contains(a.run)) << "stops a run that is no more";
    EXPECT_FALSE(runs_.at(a.run).stopped) << "stops twice";
    runs_.at(a.run).stopped = true;
  }
  void carry_out(const Answer& a) {
    EXPECT_EQ(requests_.erase(a.request), 1u) << "answered twice: " << to_text(Action(a));
    ++ends_[a.end];
    const auto* lost = std::get_if<ExecutorLost>(&event_);
    if (a.end == End::kFaulted) {
      EXPECT_TRUE(lost && lost->culprit && a.run == lost->culprit);
    }
    if (a.end == End::kDone || a.end == End::kFailed) {
      const auto* finished = std::get_if<Finished>(&event_);
      ASSERT_TRUE(finished);
      EXPECT_EQ(a.run, finished->run);
      EXPECT_EQ(finished->failed, a.end == End::kFailed);
    }
    const bool later = a.end == End::kQueueFull || a.end == End::kWouldBeLate || a.end == End::kNoDevice ||
                       a.end == End::kQuarantined || a.end == End::kLost;
    EXPECT_EQ(a.retry_after.ns > 0, later);
  }
  void carry_out(const WakeAt& a) {
    EXPECT_GT(a.time, now_);
    wake_ = a.time;
  }

  void check() {
    const Scheduler::Lag lag = core_.lag();
    EXPECT_LE(lag.lag, lag.bound) << "a tenant fell behind further than it can";
    largest_lag_ = std::max(largest_lag_, lag.lag);
    std::map<DeviceId, uint32_t> in_flight;
    for (const auto& [id, run] : runs_) ++in_flight[executors_.at(run.executor).device];
    std::set<DeviceId> reserved;
    for (const auto& [id, executor] : executors_) {
      if (executor.up && !executor.killed) continue;
      reserved.insert(executor.device);
    }
    for (const auto& [executor, lane] : trims_) reserved.insert(executors_.at(executor).device);
    const uint32_t room = std::min(config_.runs_in_flight, config_.lanes);
    const uint64_t queued = core_.counts().queued;
    EXPECT_LE(queued, config_.most_queued + std::size(kDeviceMemory) * room);
    for (const auto& [device, memory] : up_) {
      EXPECT_LE(in_flight[device], room);
      if (in_flight[device] > 0 || reserved.contains(device)) continue;
      uint64_t could = 0;
      for (const auto& [id, request] : requests_)
        could += core_.progress(id) == Scheduler::Progress::kQueued && request.submit.memory_bytes <= memory;
      EXPECT_EQ(could, 0u) << "device " << device.value << " is idle";
      if (memory == *std::max_element(std::begin(kDeviceMemory), std::end(kDeviceMemory))) {
        EXPECT_EQ(queued, 0u);
      }
    }
    for (const auto& [id, request] : requests_) {
      if (request.in_flight && runs_.at(*request.in_flight).stopped) continue;
      if (request.in_flight && executors_.at(runs_.at(*request.in_flight).executor).killed) continue;
      EXPECT_GT(request.submit.deadline, now_) << "request " << id.value << " is late and nothing was done";
      EXPECT_LE(wake_, request.submit.deadline) << "nobody wakes the core for request " << id.value;
    }
    if (testing::Test::HasFailure() && !reported_) {
      reported_ = true;
      std::string tail = log_.substr(log_.size() > 4000 ? log_.size() - 4000 : 0);
      ADD_FAILURE() << "the last events were\n" << tail;
    }
  }

  bool ok_to_stop() const {
    return requests_.empty() && runs_.empty() && starting_or_killed().empty() && trims_.empty();
  }

  Prng prng_;
  const Config config_;
  Scheduler core_;
  Time now_ = {0}, wake_ = Time::never();
  std::set<DeviceId> asked_;
  Event event_;
  std::map<DeviceId, uint64_t> up_;
  uint64_t known_ = 0;
  std::map<ExecutorId, ExecutorBook> executors_;
  std::map<RequestId, RequestBook> requests_;
  std::map<RunId, RunBook> runs_;
  std::set<std::pair<ExecutorId, uint32_t>> trims_;  // asked for and not done
  std::vector<FunctionId> functions_;
  std::map<End, uint64_t> ends_;
  uint64_t next_function_ = 1, next_request_ = 1;
  std::string log_;
  bool reported_ = false;
  int64_t largest_lag_ = 0;
};

void hold_after_every_event(uint64_t first_seed, uint64_t seeds) {
  std::map<End, uint64_t> seen;
  int64_t largest_lag = 0;
  for (uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Shell shell(seed);
    for (int i = 0; i < 2000 && !testing::Test::HasFailure(); ++i) shell.random_step();
    if (!testing::Test::HasFailure()) shell.settle();
    if (testing::Test::HasFailure()) return;
    largest_lag = std::max(largest_lag, shell.largest_lag());
    for (int end = 0; end <= static_cast<int>(End::kRemoved); ++end)
      seen[static_cast<End>(end)] += shell.answers(static_cast<End>(end));
  }
  // A test that never sees a case proves nothing about it.
  EXPECT_GT(largest_lag, 0);
  seen.erase(End::kOverLimit);  // no tenant has limits here
  seen.erase(End::kOverQuota);  // and no function a quota
  for (const auto& [end, count] : seen) EXPECT_GE(count, 50u) << name_of(end);
}

TEST(SchedulerProperty, HoldsAfterEveryEvent) { hold_after_every_event(1, 250); }
TEST(SchedulerProperty, DISABLED_LongHoldsAfterEveryEvent) { hold_after_every_event(1'000, 50'000); }

TEST(SchedulerProperty, TheSameEventsGiveTheSameActions) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Shell one(seed), two(seed);
    for (int i = 0; i < 2000; ++i) {
      one.random_step();
      two.random_step();
    }
    EXPECT_EQ(one.log(), two.log());
  }
}

}  // namespace
}  // namespace quern::sched
