// SPDX-License-Identifier: Apache-2.0
//
// The core alone: what an event costs, and how that grows with devices and with requests that wait.
//
// A stage is a pool in which every device is busy and so many requests wait; then, again and again, a request comes,
// one is cancelled, a run ends (so that its device takes the next), and what that loads is loaded. Time is measured
// here; instructions are counted by valgrind, which runs this program once more for every size and counts only inside
// the four functions that make the steps.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <map>
#include <optional>

#include "base/prng.h"
#include "bench/bench.h"
#include "bench/stage.h"
#include "os/clock.h"
#include "os/command.h"
#include "os/env.h"
#include "os/process.h"
#include "sched/scheduler.h"
#include "sim/report.h"
#include "sim/world.h"

namespace quern::bench {

// Outside any anonymous namespace, and never inlined: valgrind finds them by name.
[[gnu::noinline]] const std::vector<sched::Action>& core_bench_submit(sched::Scheduler& core, Time now,
                                                                      const sched::Event& event) {
  return core.step(now, event);
}
[[gnu::noinline]] const std::vector<sched::Action>& core_bench_cancel(sched::Scheduler& core, Time now,
                                                                      const sched::Event& event) {
  return core.step(now, event);
}
[[gnu::noinline]] const std::vector<sched::Action>& core_bench_finish(sched::Scheduler& core, Time now,
                                                                      const sched::Event& event) {
  return core.step(now, event);
}
[[gnu::noinline]] const std::vector<sched::Action>& core_bench_load(sched::Scheduler& core, Time now,
                                                                    const sched::Event& event) {
  return core.step(now, event);
}

namespace {

using Step = const std::vector<sched::Action>& (*)(sched::Scheduler&, Time, const sched::Event&);
constexpr const char* kVariable = "QUERN_BENCH_CORE";
constexpr std::array<std::string_view, 4> kKinds{"submit", "cancel", "finish", "load"};

constexpr uint64_t kTenants = 64, kFunctions = 512;
constexpr uint64_t kObjectBytes = uint64_t{1} << 30, kMemoryBytes = uint64_t{4} << 30;

/// Time and number of the steps of a kind.
struct Tally {
  uint64_t steps = 0;
  int64_t ns = 0;
};

class CoreStage {
 public:
  CoreStage(uint64_t devices, uint64_t queued) : core_(config()) {
    for (uint64_t i = 1; i <= devices; ++i) plain(sched::DeviceUp{{i}, kMemoryBytes, 0});
    while (core_.counts().queued < queued) {
      submit(nullptr);
      settle(false);
    }
  }

  /// Each kind of step so often.
  void run(uint64_t times) {
    for (uint64_t i = 0; i < times; ++i) {
      submit(&tallies_[0]);
      cancel();
      finish();
      settle(true);
      submit(nullptr);
      settle(false);
    }
  }

  const std::array<Tally, 4>& tallies() const { return tallies_; }

 private:
  static sched::Config config() {
    sched::Config config;
    config.locality = {0};  // so that loads happen
    config.most_queued = config.most_queued_per_tenant = config.most_queued_per_function = 1U << 30;
    return config;
  }

  void take(const std::vector<sched::Action>& actions) {
    for (const sched::Action& action : actions) {
      if (const auto* start = std::get_if<sched::StartExecutor>(&action))
        news_.push_back(sched::ExecutorUp{start->executor});
      if (const auto* load = std::get_if<sched::Load>(&action))
        news_.push_back(sched::Loaded{load->executor, load->object});
      if (const auto* unload = std::get_if<sched::Unload>(&action))
        news_.push_back(sched::Unloaded{unload->executor, unload->object});
      if (const auto* trim = std::get_if<sched::Trim>(&action))
        news_.push_back(sched::Trimmed{trim->executor, trim->lane});
      if (const auto* kill = std::get_if<sched::KillExecutor>(&action))
        news_.push_back(sched::ExecutorLost{kill->executor, std::nullopt});
      if (const auto* run = std::get_if<sched::Run>(&action)) running_.push_back(run->run);
    }
  }

  void plain(const sched::Event& event) { take(core_.step({now_ += 1000}, event)); }

  void measured(Step step, Tally& tally, const sched::Event& event) {
    const Time from = os::now();
    const auto& actions = step(core_, {now_ += 1000}, event);
    tally.ns += (os::now() - from).ns;
    ++tally.steps;
    take(actions);
  }

  void submit(Tally* tally) {
    sched::Submit submit;
    submit.request = {next_request_++};
    const uint64_t function = prng_.below(kFunctions);
    submit.function = {1 + function};
    submit.tenant = {1 + function % kTenants};
    submit.domain = {1};
    submit.memory_bytes = 1 << 20;
    submit.objects = {{{1 + function}, kObjectBytes}};
    newest_.push_back(submit.request);
    if (newest_.size() > 4096) newest_.pop_front();
    if (tally)
      measured(core_bench_submit, *tally, submit);
    else
      plain(submit);
  }

  void cancel() {
    // One that still waits: those that came last do.
    const sched::RequestId request = newest_[newest_.size() / 2 + prng_.below(newest_.size() / 2)];
    measured(core_bench_cancel, tallies_[1], sched::Cancel{request});
  }

  void finish() {
    if (running_.empty()) return;
    const size_t which = prng_.below(running_.size());
    const sched::RunId run = running_[which];
    running_[which] = running_.back();
    running_.pop_back();
    measured(core_bench_finish, tallies_[2],
             sched::Finished{run, false, false, Duration::micros(500 + static_cast<int64_t>(prng_.below(1000)))});
  }

  void settle(bool is_measured) {
    while (!news_.empty()) {
      const sched::Event event = std::move(news_.front());
      news_.pop_front();
      if (is_measured && std::holds_alternative<sched::Loaded>(event))
        measured(core_bench_load, tallies_[3], event);
      else
        plain(event);
    }
  }

  sched::Scheduler core_;
  Prng prng_{1};
  int64_t now_ = 0;
  uint64_t next_request_ = 1;
  std::deque<sched::Event> news_;
  std::vector<sched::RunId> running_;
  std::deque<sched::RequestId> newest_;
  std::array<Tally, 4> tallies_;
};

struct Size {
  uint64_t devices, queued;
};

/// Instructions per step of each kind; NaN where they cannot be counted.
struct Counted {
  std::array<double, 4> per_step{};
};

Result<Counted> count_instructions(const Size& size, uint64_t times, const std::string& folder) {
  const std::string out = folder + "/callgrind.out";
  os::set_env(kVariable, fmt::format("{} {} {}", size.devices, size.queued, times).c_str());
  std::vector<std::string> words{"valgrind", "--tool=callgrind", "--callgrind-out-file=" + out};
  for (const std::string_view kind : kKinds) words.push_back(fmt::format("--toggle-collect=*core_bench_{}*", kind));
  for (const std::string& word : {os::own_path(), std::string("bench"), std::string("core")}) words.push_back(word);
  const auto ran = os::run_command(words, Duration::seconds(900));
  os::set_env(kVariable, "");
  QUERN_TRY(const std::string steps, std::move(ran));
  QUERN_TRY(const std::string annotated,
            os::run_command({"callgrind_annotate", "--inclusive=yes", "--threshold=100", out}, Duration::seconds(60)));
  // The child tells how many steps it made of each kind; the annotation has a line with the sum of each.
  Counted counted;
  std::string_view rest = steps;
  for (size_t i = 0; i < kKinds.size(); ++i) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    uint64_t made = 0;
    std::from_chars(line.data(), line.data() + line.size(), made);
    const size_t at = annotated.find("core_bench_" + std::string(kKinds[i]));
    if (at == annotated.npos || made == 0) return internal("callgrind: does not tell what was asked for");
    const size_t start = annotated.rfind('\n', at) + 1;
    double sum = 0;
    for (size_t c = start; c < at && annotated[c] != '('; ++c)
      if (annotated[c] >= '0' && annotated[c] <= '9') sum = sum * 10 + (annotated[c] - '0');
    counted.per_step[i] = sum / static_cast<double>(made);
  }
  return counted;
}

/// In the child: the steps, and nothing else.
void make_steps(std::string_view text) {
  std::array<uint64_t, 3> numbers{};
  for (uint64_t& number : numbers) {
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    text.remove_prefix(std::min(text.size(), static_cast<size_t>(parsed.ptr - text.data()) + 1));
  }
  CoreStage stage(numbers[0], numbers[1]);
  stage.run(numbers[2]);
  for (const Tally& tally : stage.tallies()) fmt::print("{}\n", tally.steps);
}

Status growth(const std::string& name, const std::vector<Size>& sizes, const std::vector<Counted>& counted,
              Report& report) {
  for (size_t kind = 0; kind < kKinds.size(); ++kind) {
    Row row;
    row.name = fmt::format("{}_{}", name, kKinds[kind]);
    row.unit = "instructions";
    row.value = counted.back().per_step[kind];
    row.baseline = counted.front().per_step[kind];
    row.ratio = row.value / *row.baseline;
    report.rows.push_back(std::move(row));
  }
  Row worst;
  worst.name = name;
  worst.unit = "x";
  for (size_t kind = 0; kind < kKinds.size(); ++kind)
    worst.value = std::max(worst.value, counted.back().per_step[kind] / counted.front().per_step[kind]);
  worst.goal = "<= 2.5";
  report.rows.push_back(std::move(worst));
  for (size_t i = 0; i < sizes.size(); ++i)
    report.notes.push_back(
        fmt::format("{} devices, {} queued: instructions per submit {:.0f}, cancel {:.0f}, finish {:.0f}, "
                    "load {:.0f}",
                    sizes[i].devices, sizes[i].queued, counted[i].per_step[0], counted[i].per_step[1],
                    counted[i].per_step[2], counted[i].per_step[3]));
  return {};
}

// A large pool for a long day: how long one has to wait for the answer to a question.
void simulate_million(const Options& options, Report& report) {
  sim::Model model;
  sim::DeviceModel device;
  device.count = 1000;
  device.memory_bytes = uint64_t{16} << 30;
  device.context_bytes = uint64_t{300} << 20;
  device.context = Duration::millis(300);
  model.devices = {device};
  for (uint32_t i = 0; i < 200; ++i) {
    model.tenants.emplace_back().name = fmt::format("t{}", i);
    model.objects.push_back({fmt::format("o{}", i), uint64_t{2} << 30});
    sim::FunctionModel function;
    function.name = fmt::format("f{}", i);
    function.tenant = i;
    function.device_time = Duration::millis(5 + i % 20);
    function.spread = 0.2;
    function.objects = {i};
    model.functions.push_back(function);
    sim::LoadModel load;
    load.function = i;
    load.clients = 6;
    model.loads.push_back(load);
  }
  model.length = Duration::seconds(3600);
  model.most_requests = options.quick ? 100'000 : 1'000'000;
  options.progress("core: a million requests over a thousand devices");
  sim::World world(model, 1);
  sim::Report measured(model, {0});
  world.observe(measured);
  const Time from = os::now();
  const auto outcome = world.run();
  Row row;
  row.name = "simulate_million";
  row.value = static_cast<double>((os::now() - from).ns) / 1e9;
  row.unit = "s";
  row.goal = "<= 60";
  const double took = row.value;
  report.rows.push_back(std::move(row));
  report.notes.push_back(fmt::format("simulate_million: {} requests over 1000 devices, {} events, {:.0f} a second",
                                     outcome.requests, outcome.steps, static_cast<double>(outcome.steps) / took));
}

}  // namespace

Status run_core(const Options& options, Report& report) {
  if (const std::string asked = os::env(kVariable); !asked.empty()) {
    make_steps(asked);
    std::fflush(stdout);
    std::_Exit(0);
  }
  report.layout = "no device; one thread";
  const uint64_t scale = options.quick ? 10 : 1, times = options.quick ? 500 : 2000;
  const std::vector<Size> by_devices{{100, 10000 / scale}, {1000, 10000 / scale}, {10000 / scale, 10000 / scale}};
  const std::vector<Size> by_queued{{100, 10000 / scale}, {100, 100000 / scale}, {100, 1000000 / scale}};

  // Time first: the largest pool with the largest queue is what the goal is about.
  for (const Size& size : {Size{100, 10000 / scale}, Size{10000 / scale, 1000000 / scale}}) {
    options.progress(fmt::format("core: {} devices, {} queued, time", size.devices, size.queued));
    CoreStage stage(size.devices, size.queued);
    stage.run(options.quick ? 2000 : 50000);
    Tally all;
    std::string text;
    for (size_t i = 0; i < kKinds.size(); ++i) {
      const Tally& tally = stage.tallies()[i];
      all.steps += tally.steps;
      all.ns += tally.ns;
      text +=
          fmt::format("{}{} {:.2f} us", i ? ", " : "", kKinds[i],
                      static_cast<double>(tally.ns) / 1e3 / static_cast<double>(std::max<uint64_t>(1, tally.steps)));
    }
    Row row;
    row.name = size.devices == 100 ? "events_per_second_small" : "events_per_second";
    row.unit = "/s";
    row.value = 1e9 * static_cast<double>(all.steps) / static_cast<double>(all.ns);
    if (size.devices != 100) row.goal = ">= 1000000";
    report.rows.push_back(std::move(row));
    report.notes.push_back(fmt::format("{} devices, {} queued, mean times: {}", size.devices, size.queued, text));
  }

  simulate_million(options, report);
  QUERN_TRY(const auto folder, Folder::create());
  const auto count_all = [&](const std::vector<Size>& sizes) -> Result<std::vector<Counted>> {
    std::vector<Counted> counted;
    for (const Size& size : sizes) {
      options.progress(fmt::format("core: {} devices, {} queued, instructions", size.devices, size.queued));
      QUERN_TRY(const Counted one, count_instructions(size, times, folder.path()));
      counted.push_back(one);
    }
    return counted;
  };
  const auto devices = count_all(by_devices);
  if (!devices.ok()) {
    report.notes.push_back("instructions were not counted: " + devices.error().text + "; install valgrind");
    return {};
  }
  QUERN_TRY(growth("growth_devices", by_devices, *devices, report));
  QUERN_TRY(const auto queued, count_all(by_queued));
  return growth("growth_queued", by_queued, queued, report);
}

}  // namespace quern::bench
