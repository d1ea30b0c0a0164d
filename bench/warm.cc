// SPDX-License-Identifier: Apache-2.0
//
// Warm calls of a resident function against the same kernel by raw OpenCL in this process.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "bench/bench.h"
#include "bench/pairs.h"
#include "bench/raw.h"
#include "bench/ring.h"
#include "bench/stage.h"
#include "os/clock.h"
#include "os/log.h"

namespace quern::bench {
namespace {

constexpr int64_t kElements = 16384;       // 64 KiB of floats in and out
constexpr int64_t kLargeBytes = 64 << 20;  // of the echo
constexpr uint32_t kCallers = 4, kWarmUps = 20;
constexpr Duration kChainStep = Duration::micros(20);

/// How much of each.
struct Amounts {
  size_t pairs, rounds, round_calls, echoes;

  static Amounts of(const Options& options) { return options.quick ? Amounts{20, 2, 60, 3} : Amounts{250, 9, 200, 15}; }
};

Bytes make_floats(int64_t elements) {
  std::vector<float> values(static_cast<size_t>(elements));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.25f;
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Twice raw_twice(Raw& raw, uint32_t iterations) {
  return [&raw, iterations]() -> Result<std::array<double, 2>> {
    QUERN_TRY(const auto micros, raw.call(iterations, 2));
    return std::array{micros[0], micros[1]};
  };
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
      : client_(std::move(client)), iterations_(iterations), input_(make_floats(kElements)) {}
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
  QUERN_TRY(const auto pairs, interleave(options, "http_5ms_latency", Amounts::of(options).pairs,
                                         twice([&] { return caller.call(); }), raw_twice(raw, iterations)));
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
        samples.theirs.push_back(rate);
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
    rates.theirs.push_back(kLargeBytes / 1e3 / micros_between(copy_from, os::now()));
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

/// Calls of a function by the ring whose one output must be its one input.
class RingCaller {
 public:
  RingCaller(Ring& ring, daemon::FunctionRef function, int64_t elements, uint32_t iterations)
      : ring_(ring), function_(std::move(function)), input_(make_floats(elements)) {
    spec_.inputs.push_back({"input", Dtype::kFp32, {elements}});
    spec_.parameters["iterations"] = int64_t{iterations};
  }

  Result<double> call() {
    const std::array<std::span<const std::byte>, 1> inputs{input_};
    QUERN_TRY(const auto ended, ring_.call(function_, spec_, inputs));
    const auto& outputs = ended.call->outputs;
    if (outputs.size() != 1 || outputs[0].bytes.size() != input_.size() ||
        std::memcmp(outputs[0].bytes.data(), input_.data(), input_.size()) != 0)
      return internal(function_->name + " by the ring: output is not the input");
    legs_.add(ended);
    return ended.micros;
  }

  const Legs& legs() const { return legs_; }

 private:
  Ring& ring_;
  daemon::FunctionRef function_;
  Bytes input_;
  CallSpec spec_;
  Legs legs_;
};

Status ring_latency(const Options& options, Raw& raw, Ring& ring, uint32_t iterations, Report& report) {
  QUERN_TRY(auto examples, examples_folder());
  QUERN_TRY(auto spin, ring.deploy(examples + "/spin"));
  RingCaller caller(ring, std::move(spin), kElements, iterations);
  QUERN_TRY(const auto pairs, interleave(options, "ring_1ms_latency", Amounts::of(options).pairs,
                                         twice([&] { return caller.call(); }), raw_twice(raw, iterations)));
  report.rows.push_back(pairs.after_call.row("ring_1ms_latency", "us", "<= 1.05"));
  report.rows.push_back(pairs.after_idle.row("ring_1ms_latency_idle", "us", ""));
  report.notes.push_back("ring_1ms_latency, medians over both kinds in us: " + caller.legs().text());
  return {};
}

Status ring_graph(const Options& options, Raw& raw, Ring& ring, Report& report) {
  QUERN_TRY(const auto step, raw.calibrate_chain(kChainStep));
  QUERN_TRY(auto functions, functions_folder());
  QUERN_TRY(auto chain, ring.deploy(functions + "/chain300"));
  RingCaller caller(ring, std::move(chain), Raw::kChainElements, step.iterations);
  const Twice theirs = [&]() -> Result<std::array<double, 2>> {
    QUERN_TRY(const auto micros, raw.chain(step.iterations, 2));
    return std::array{micros[0], micros[1]};
  };
  QUERN_TRY(const auto pairs,
            interleave(options, "graph_300", Amounts::of(options).pairs, twice([&] { return caller.call(); }), theirs));
  report.rows.push_back(pairs.after_call.row("graph_300", "us", "<= 1.05"));
  report.rows.push_back(pairs.after_idle.row("graph_300_idle", "us", ""));
  const Row& row = report.rows[report.rows.size() - 2];
  report.notes.push_back("graph_300, medians over both kinds in us: " + caller.legs().text());
  report.notes.push_back(fmt::format(
      "graph_300: {} dependent kernels of {:.1f} us ({} iterations); with its launch each takes {:.2f} us by "
      "raw OpenCL, {:.2f} us by the ring.",
      Raw::kChainLength, step.micros, step.iterations, *row.baseline / Raw::kChainLength,
      row.value / Raw::kChainLength));
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
  const bool latency = options.wants("http_5ms_latency"), rate = options.wants("http_5ms_throughput"),
             large = options.wants("echo_64mib");
  if (latency || rate || large) {
    options.progress("server: start, deploy spin and copy");
    QUERN_TRY(auto server, Server::start(layout, folder.path()));
    QUERN_TRY(server->deploy("spin"));
    QUERN_TRY(server->deploy("copy"));
    if (latency) QUERN_TRY(http_latency(options, *raw, *server, long_iterations, report));
    if (rate) QUERN_TRY(http_throughput(options, *raw, *server, long_iterations, report));
    if (large) QUERN_TRY(echo(options, *server, report));
    QUERN_TRY(server->stop());  // so that nothing of it shares the device with the next
  }
  options.progress("daemon: start, deploy spin and chain300");
  os::start_log(os::Level::kWarning);
  QUERN_TRY(auto ring, Ring::create(layout, folder.path()));
  if (options.wants("ring_1ms_latency")) QUERN_TRY(ring_latency(options, *raw, *ring, short_iterations, report));
  if (options.wants("graph_300")) QUERN_TRY(ring_graph(options, *raw, *ring, report));
  report.notes.push_back(fmt::format(
      "spin: {} iterations for 5 ms, {} for 1 ms. Each side of a pair makes two calls: *_latency is the second, which "
      "follows one of its own kind; *_idle is the first, after everyone slept.",
      long_iterations, short_iterations));
  return {};
}

}  // namespace quern::bench
