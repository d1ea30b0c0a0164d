// SPDX-License-Identifier: Apache-2.0
//
// Warm calls of a resident function against the same kernel by raw OpenCL in this process.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <semaphore>

#include "bench/bench.h"
#include "bench/raw.h"
#include "bench/stage.h"
#include "daemon/daemon.h"
#include "os/clock.h"
#include "os/log.h"

namespace quern::bench {
namespace {

constexpr int64_t kElements = 16384;       // 64 KiB of floats in and out
constexpr int64_t kLargeBytes = 64 << 20;  // of the echo
constexpr uint32_t kCallers = 4, kWarmUps = 20;

/// How much of each.
struct Amounts {
  size_t pairs, rounds, round_calls, echoes;

  static Amounts of(const Options& options) { return options.quick ? Amounts{20, 2, 60, 3} : Amounts{250, 9, 200, 15}; }
};

/// One call of ours: its microseconds.
using Call = std::function<Result<double>()>;

Bytes make_floats() {
  std::vector<float> values(kElements);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.25f;
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// The two sides of pairs, one sample each a pair.
struct Samples {
  std::vector<double> ours, raw;

  Row row(std::string name, std::string unit, std::string goal) const {
    std::vector<double> ratios;
    for (size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / raw[i]);
    const Middle ratio = middle_of(ratios);
    Row row;
    row.name = std::move(name);
    row.value = middle_of(ours).median;
    row.unit = std::move(unit);
    row.baseline = middle_of(raw).median;
    row.ratio = ratio.median;
    row.spread = ratio.spread;
    row.goal = std::move(goal);
    return row;
  }
};

/// Each side of a pair makes two calls. The first finds everyone asleep, the second follows a call of its own kind as
/// in any caller's loop: that one is the row's, the other is recorded.
struct Pairs {
  Samples after_idle, after_call;
};

Result<Pairs> interleave(const Options& options, std::string_view name, Raw& raw, uint32_t iterations, size_t count,
                         const Call& ours) {
  Pairs pairs;
  for (uint32_t i = 0; i < kWarmUps; ++i) QUERN_TRY(ours());
  for (size_t i = 0; i < count; ++i) {
    if (i % 25 == 0) options.progress(fmt::format("{}: pair {} of {}", name, i, count));
    for (size_t turn = 0; turn < 2; ++turn) {
      settle();
      if ((i + turn) % 2 == 0) {  // who is first changes from pair to pair
        QUERN_TRY(const auto micros, raw.call(iterations, 2));
        pairs.after_idle.raw.push_back(micros[0]);
        pairs.after_call.raw.push_back(micros[1]);
      } else {
        QUERN_TRY(const double first, ours());
        QUERN_TRY(const double second, ours());
        pairs.after_idle.ours.push_back(first);
        pairs.after_call.ours.push_back(second);
      }
    }
  }
  return pairs;
}

/// A caller of examples/spin over HTTP with one connection. One thread at a time.
class HttpCaller {
 public:
  static Result<HttpCaller> create(const Server& server, uint32_t iterations) {
    QUERN_TRY(auto client, server.connect());
    return HttpCaller(std::move(client), iterations);
  }

  Result<double> call() {
    client::InferRequest request;
    request.function = "spin";
    request.inputs.push_back({"input", Dtype::kFp32, {kElements}, input_});
    request.parameters["iterations"] = int64_t{iterations_};
    const Time from = os::now();
    QUERN_TRY(const auto answer, client_.infer(request));
    const double micros = micros_between(from, os::now());
    if (answer.outputs.size() != 1 || answer.outputs[0].bytes.size() != input_.size() ||
        std::memcmp(answer.outputs[0].bytes.data(), input_.data(), input_.size()) != 0)
      return internal("spin over HTTP: output is not the input");
    return micros;
  }

 private:
  HttpCaller(client::Client client, uint32_t iterations)
      : client_(std::move(client)), iterations_(iterations), input_(make_floats()) {}
  client::Client client_;
  uint32_t iterations_;
  Bytes input_;
};

/// Where the time went between two looks at the counters, as means: they are sums, and so have no medians.
std::string stages_between(const ServerCounters& before, const ServerCounters& after) {
  std::string text;
  double calls = 0;
  for (size_t i = 0; i < after.stages.size() && i < before.stages.size(); ++i) {
    const double count = after.stages[i].count - before.stages[i].count;
    calls = std::max(calls, count);
    if (count > 0)
      text +=
          fmt::format("{} {:.1f}, ", after.stages[i].name, (after.stages[i].ns - before.stages[i].ns) / count / 1e3);
  }
  return text + fmt::format("device {:.1f}", calls > 0 ? (after.device_ns - before.device_ns) / calls / 1e3 : 0);
}

Status http_latency(const Options& options, Raw& raw, const Server& server, uint32_t iterations, Report& report) {
  QUERN_TRY(auto caller, HttpCaller::create(server, iterations));
  QUERN_TRY(const auto before, server.counters());
  QUERN_TRY(const auto pairs, interleave(options, "http_5ms_latency", raw, iterations, Amounts::of(options).pairs,
                                         [&] { return caller.call(); }));
  report.rows.push_back(pairs.after_call.row("http_5ms_latency", "us", "<= 1.05"));
  report.rows.push_back(pairs.after_idle.row("http_5ms_latency_idle", "us", ""));
  QUERN_TRY(const auto after, server.counters());
  report.notes.push_back("http_5ms_latency, means over both kinds in us: " + stages_between(before, after));
  return {};
}

/// Calls per second of `count` calls by all callers together. Each takes the next while there is one, so that the
/// device has work to the end.
Result<double> throughput(std::vector<HttpCaller>& callers, size_t count) {
  std::atomic<size_t> taken = 0;
  std::vector<Status> ends(callers.size());
  const Time from = os::now();
  {
    std::vector<os::Thread> threads;
    for (size_t i = 0; i < callers.size(); ++i)
      threads.emplace_back("bench-caller", [&, i] {
        while (ends[i].ok() && taken.fetch_add(1) < count)
          if (auto called = callers[i].call(); !called.ok()) ends[i] = std::move(called).error();
      });
  }
  const double micros = micros_between(from, os::now());
  for (Status& end : ends) QUERN_TRY(std::move(end));
  return 1e6 * static_cast<double>(count) / micros;
}

Status http_throughput(const Options& options, Raw& raw, const Server& server, uint32_t iterations, Report& report) {
  const Amounts amounts = Amounts::of(options);
  std::vector<HttpCaller> callers;
  for (uint32_t i = 0; i < kCallers; ++i) {
    QUERN_TRY(auto caller, HttpCaller::create(server, iterations));
    callers.push_back(std::move(caller));
  }
  QUERN_TRY(throughput(callers, kWarmUps));
  Samples samples;
  for (size_t i = 0; i < amounts.rounds; ++i) {
    options.progress(fmt::format("http_5ms_throughput: round {} of {}", i, amounts.rounds));
    for (size_t turn = 0; turn < 2; ++turn) {
      settle();
      if ((i + turn) % 2 == 0) {
        QUERN_TRY(const double rate, raw.throughput(iterations, static_cast<uint32_t>(amounts.round_calls)));
        samples.raw.push_back(rate);
      } else {
        QUERN_TRY(const double rate, throughput(callers, amounts.round_calls));
        samples.ours.push_back(rate);
      }
    }
  }
  report.rows.push_back(samples.row("http_5ms_throughput", "calls/s", ">= 0.97"));
  return {};
}

Status echo(const Options& options, const Server& server, Report& report) {
  const size_t count = Amounts::of(options).echoes;
  Bytes input(kLargeBytes), copy(kLargeBytes);
  for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<std::byte>(i * 31 + (i >> 12));
  QUERN_TRY(auto client, server.connect());
  client::InferRequest request;
  request.function = "copy";
  request.inputs.push_back({"input", Dtype::kUint8, {kLargeBytes}, input});
  QUERN_TRY(client.infer(request));  // the first brings the memory of arena and client into being
  QUERN_TRY(const auto before, server.counters());
  Samples rates;
  for (size_t i = 0; i < count; ++i) {
    options.progress(fmt::format("echo_64mib: call {} of {}", i, count));
    const Time from = os::now();
    QUERN_TRY(const auto answer, client.infer(request));
    rates.ours.push_back(kLargeBytes / 1e3 / micros_between(from, os::now()));
    if (answer.outputs.size() != 1 || answer.outputs[0].bytes.size() != input.size() ||
        std::memcmp(answer.outputs[0].bytes.data(), input.data(), input.size()) != 0)
      return internal("copy over HTTP: output is not the input");
    const Time copy_from = os::now();
    std::memcpy(copy.data(), input.data(), input.size());
    rates.raw.push_back(kLargeBytes / 1e3 / micros_between(copy_from, os::now()));
    if (copy[i] != input[i]) return internal("memcpy");  // and so it is not left out
  }
  QUERN_TRY(const auto after, server.counters());
  report.rows.push_back(rates.row("echo_64mib", "GB/s", ""));
  Row copied;
  copied.name = "echo_64mib_copied_bytes";
  copied.value = static_cast<double>(after.copied_bytes - before.copied_bytes) / static_cast<double>(count);
  copied.unit = "bytes/call";
  copied.goal = "== 0";
  report.rows.push_back(std::move(copied));
  return {};
}

/// A daemon in this process: what a call costs without a front door.
class Ring {
 public:
  static Result<std::unique_ptr<Ring>> create(const Layout& layout, const std::string& folder) {
    daemon::Config config;
    config.devices = {layout.device_config()};
    config.state_folder = folder + "/ring-state";
    config.host_cores = {layout.host};
    std::unique_ptr<Ring> ring(new Ring);
    QUERN_TRY(ring->daemon_, daemon::Daemon::create(std::move(config)));
    QUERN_TRY(ring->tenant_, ring->daemon_->authenticate(""));
    QUERN_TRY(auto examples, examples_folder());
    QUERN_TRY(auto packed, client::pack_folder(examples + "/spin"));
    Result<daemon::Deployed> deployed = internal("deploy: no answer");
    ring->daemon_->deploy(*ring->tenant_, packed.name, std::move(packed.tar), [&](Result<daemon::Deployed> answer) {
      deployed = std::move(answer);
      ring->ended_.release();
    });
    ring->ended_.acquire();
    if (!deployed.ok()) return std::move(deployed).error();
    ring->function_ = deployed->function;
    return ring;
  }
  ~Ring() {
    if (daemon_) daemon_->stop(Duration::seconds(5));
  }

  /// The microseconds of prepare, submit and the way back. Writing the input is left out, as the raw side has its
  /// input where it is.
  Result<double> call(uint32_t iterations) {
    CallSpec spec;
    spec.inputs.push_back({"input", Dtype::kFp32, {kElements}});
    spec.parameters["iterations"] = int64_t{iterations};
    const Time from = os::now();
    QUERN_TRY(auto call, daemon_->prepare(*tenant_, function_, spec, {}));
    const Time prepared = os::now();
    std::memcpy(call->inputs[0].bytes.data(), input_.data(), input_.size());
    const Time filled = os::now();
    daemon_->submit(std::move(call), [this](std::unique_ptr<daemon::Call> ended) {
      call_ = std::move(ended);
      ended_.release();
    });
    ended_.acquire();
    const double micros = micros_between(from, prepared) + micros_between(filled, os::now());
    const auto ended = std::move(call_);
    if (ended->error) return *ended->error;
    if (ended->outputs.size() != 1 || ended->outputs[0].bytes.size() != input_.size() ||
        std::memcmp(ended->outputs[0].bytes.data(), input_.data(), input_.size()) != 0)
      return internal("spin by the ring: output is not the input");
    prepare_us.push_back(micros_between(from, prepared));
    const daemon::CallTimes& t = ended->times;
    const std::array moments{t.submitted, t.taken, t.pushed, t.read, t.started, t.finished, t.reported, t.answered};
    for (size_t i = 0; i + 1 < moments.size(); ++i) legs_us[i].push_back(micros_between(moments[i], moments[i + 1]));
    device_us.push_back(static_cast<double>(t.device_time_ns) / 1e3);
    return micros;
  }

  // Of every call so far, for the note that says where the time went.
  std::vector<double> prepare_us, device_us;
  std::array<std::vector<double>, 7> legs_us;

 private:
  Ring() = default;
  std::unique_ptr<daemon::Daemon> daemon_;
  const daemon::Tenant* tenant_ = nullptr;
  daemon::FunctionRef function_;
  Bytes input_ = make_floats();
  // The daemon's until `ended_`.
  std::unique_ptr<daemon::Call> call_;
  std::binary_semaphore ended_{0};
};

Status ring_latency(const Options& options, Raw& raw, const Layout& layout, const std::string& folder,
                    uint32_t iterations, Report& report) {
  QUERN_TRY(auto ring, Ring::create(layout, folder));
  QUERN_TRY(const auto pairs, interleave(options, "ring_1ms_latency", raw, iterations, Amounts::of(options).pairs,
                                         [&] { return ring->call(iterations); }));
  report.rows.push_back(pairs.after_call.row("ring_1ms_latency", "us", "<= 1.05"));
  report.rows.push_back(pairs.after_idle.row("ring_1ms_latency_idle", "us", ""));
  const auto middle = [](const std::vector<double>& all) { return middle_of(all).median; };
  report.notes.push_back(fmt::format(
      "ring_1ms_latency, medians over both kinds in us: prepare {:.1f}, submit {:.1f}, core {:.1f}, ring {:.1f}, "
      "executor {:.1f}, device {:.1f} (accounted {:.1f}), driver {:.1f}, back {:.1f}",
      middle(ring->prepare_us), middle(ring->legs_us[0]), middle(ring->legs_us[1]), middle(ring->legs_us[2]),
      middle(ring->legs_us[3]), middle(ring->legs_us[4]), middle(ring->device_us), middle(ring->legs_us[5]),
      middle(ring->legs_us[6])));
  return {};
}

}  // namespace

Status run_warm(const Options& options, Report& report) {
  const Layout layout = Layout::here();
  report.layout = layout.text;
  const std::array host{layout.host};
  QUERN_TRY(os::pin_to(host));
  QUERN_TRY(const auto folder, Folder::create());
  options.progress("raw OpenCL: build and calibrate");
  QUERN_TRY(auto raw, Raw::create(layout, folder.path()));  // first: it sets variables
  QUERN_TRY(const uint32_t long_iterations, raw->calibrate(Duration::millis(5)));
  QUERN_TRY(const uint32_t short_iterations, raw->calibrate(Duration::millis(1)));
  {
    options.progress("server: start, deploy spin and copy");
    QUERN_TRY(auto server, Server::start(layout, folder.path()));
    QUERN_TRY(server->deploy("spin"));
    QUERN_TRY(server->deploy("copy"));
    QUERN_TRY(http_latency(options, *raw, *server, long_iterations, report));
    QUERN_TRY(http_throughput(options, *raw, *server, long_iterations, report));
    QUERN_TRY(echo(options, *server, report));
    QUERN_TRY(server->stop());  // so that nothing of it shares the device with the next
  }
  options.progress("daemon: start, deploy spin");
  os::start_log(os::Level::kWarning);
  QUERN_TRY(ring_latency(options, *raw, layout, folder.path(), short_iterations, report));
  report.notes.push_back(fmt::format(
      "spin: {} iterations for 5 ms, {} for 1 ms. Each side of a pair makes two calls: *_latency is the second, which "
      "follows one of its own kind; *_idle is the first, after everyone slept.",
      long_iterations, short_iterations));
  return {};
}

}  // namespace quern::bench
