// SPDX-License-Identifier: Apache-2.0
//
// Warm calls of one function while others send much: a deploy with 400 MB of constants and settings that change, and
// answers of much JSON. What deploys cost is held against plain writes of the same size to the same disk.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/units.h"
#include "bench/bench.h"
#include "bench/row.h"
#include "bench/stage.h"
#include "function/tar.h"
#include "os/clock.h"
#include "os/file.h"

namespace quern::bench {
namespace {

constexpr uint64_t kConstantBytes = 400'000'000;
constexpr int64_t kCallElements = 256, kJsonElements = 1'000'000;
constexpr Duration kBetweenSets = Duration::millis(50);
constexpr std::string_view kLargeManifest = R"(api: quern/v1
name: large
kind: graph
programs: {opencl: a.cl}
buffers:
  w: {role: constant, dtype: uint8, shape: [400000000], file: w.bin}
  y: {role: output, dtype: uint8, shape: [16]}
kernels: [{entry: k, global: [16], args: [{in: w}, {out: y}]}]
)";
constexpr std::string_view kLargeProgram =
    "__kernel void k(__global const uchar* w, __global uchar* y) { y[get_global_id(0)] = w[get_global_id(0)]; }\n";

/// Calls of saxpy over one connection, one after the other, for as long as `beside` takes; in microseconds.
class Caller {
 public:
  static Result<Caller> create(const Server& server) {
    QUERN_TRY(auto client, server.connect());
    return Caller(std::move(client));
  }

  Result<double> call() {
    client::InferRequest request;
    request.function = "saxpy";
    request.inputs.push_back({"x", Dtype::kFp32, {kCallElements}, input_});
    request.inputs.push_back({"y", Dtype::kFp32, {kCallElements}, input_});
    const Time from = os::now();
    QUERN_TRY(const auto answer, client_.infer(request));
    return micros_between(from, os::now());
  }

  template <class Beside>
  Result<std::vector<double>> call_beside(Beside beside) {
    std::vector<double> samples;
    Status called;
    std::atomic<bool> is_over{false};
    os::Thread caller("bench-caller", [&] {
      // On a machine of its own, it would not wait until the one that uploads leaves it the core.
      os::want_short_turns();
      while (!is_over && called.ok())
        if (const auto micros = call(); micros.ok())
          samples.push_back(*micros);
        else
          called = micros.error();
    });
    const Status end = beside();
    is_over = true;
    caller.join();
    QUERN_TRY(std::move(called));
    if (!end.ok()) return end.error();
    return samples;
  }

 private:
  explicit Caller(client::Client client) : client_(std::move(client)), input_(kCallElements * sizeof(float)) {}
  client::Client client_;
  Bytes input_;
};

/// A tar that no deploy before had: the numbers in its constant begin with `round`.
Result<Bytes> large_tar(uint64_t round) {
  Files files;
  files["function.yaml"] = bytes_of(kLargeManifest);
  files["a.cl"] = bytes_of(kLargeProgram);
  Bytes& constant = files["w.bin"];
  constant.resize(kConstantBytes);
  for (size_t i = 0; i + 8 <= constant.size(); i += 4096) std::memcpy(&constant[i], &round, sizeof round);
  return write_tar(files);
}

Status deploy_and_set(const Server& server, std::span<const std::byte> tar) {
  QUERN_TRY(auto client, server.connect());
  QUERN_TRY(auto other, server.connect());
  std::atomic<bool> is_over{false};
  Status end;
  {
    os::Thread setter("bench-set", [&] {
      for (int i = 0; end.ok() && !is_over; ++i) {
        if (auto set = other.set("saxpy", fmt::format("{{\"priority\": {}}}", 4 + i % 2)); !set.ok()) end = set.error();
        std::this_thread::sleep_for(std::chrono::nanoseconds(kBetweenSets.ns));
      }
    });
    const auto deployed = client.deploy("large", tar);
    is_over = true;
    if (!deployed.ok()) return deployed.error();
  }
  return end;
}

Status write_plainly(const std::string& path, std::span<const std::byte> bytes) {
  QUERN_TRY(os::write_file_durably(path, bytes));
  os::remove_file(path);
  return {};
}

double longest_of(const std::vector<double>& samples) { return *std::max_element(samples.begin(), samples.end()); }

Status deploy_rows(const Options& options, const Server& server, const std::string& folder, Report& report) {
  QUERN_TRY(auto caller, Caller::create(server));
  std::vector<double> ours, theirs;
  const uint64_t rounds = options.quick ? 1 : 5;
  for (uint64_t round = 0; round < rounds; ++round) {
    options.progress(fmt::format("deploy: round {} of {}", round + 1, rounds));
    QUERN_TRY(const Bytes tar, large_tar(round + 1));
    settle();
    QUERN_TRY(const auto beside_write, caller.call_beside([&] { return write_plainly(folder + "/plain", tar); }));
    settle();
    QUERN_TRY(const auto beside_deploy, caller.call_beside([&] { return deploy_and_set(server, tar); }));
    theirs.insert(theirs.end(), beside_write.begin(), beside_write.end());
    ours.insert(ours.end(), beside_deploy.begin(), beside_deploy.end());
  }
  report.rows.push_back(row_of("deploy_p99", percentile_of(ours, 0.99), "us", percentile_of(theirs, 0.99), "<= 2"));
  report.rows.push_back(row_of("deploy_longest", longest_of(ours) / 1e3, "ms", "< 50"));
  report.notes.push_back(
      fmt::format("deploy: {} calls beside {} deploys of {}, {} beside plain writes (longest {:.1f} ms)", ours.size(),
                  rounds, show_bytes(kConstantBytes), theirs.size(), longest_of(theirs) / 1e3));
  return {};
}

Status json_row(const Options& options, const Server& server, Report& report) {
  QUERN_TRY(auto caller, Caller::create(server));
  QUERN_TRY(auto other, server.connect());
  Bytes numbers(kJsonElements * sizeof(float));
  for (int64_t i = 0; i < kJsonElements; ++i) {
    const float number = static_cast<float>(i) * 0.3701f;
    std::memcpy(numbers.data() + i * sizeof(float), &number, sizeof number);
  }
  QUERN_TRY(const std::string object, other.put_object(numbers));
  const auto input = [&](const char* name) {
    return fmt::format(R"({{"name":"{}","datatype":"FP32","shape":[{}],"parameters":{{"object":"{}"}}}})", name,
                       kJsonElements, object);
  };
  const std::string body = fmt::format(R"({{"inputs":[{},{}]}})", input("x"), input("y"));
  const int rounds = options.quick ? 2 : 20;
  options.progress("json: large answers");
  uint64_t bytes = 0;
  QUERN_TRY(const auto samples, caller.call_beside([&]() -> Status {
    for (int i = 0; i < rounds; ++i) {
      const std::array pieces{std::span<const std::byte>(as_bytes_of(body))};
      QUERN_TRY(const auto answer, other.send("POST", "/v2/models/saxpy/infer", "", pieces));
      if (answer.status != 200) return internal(fmt::format("json: {}", as_text(answer.body).substr(0, 200)));
      bytes += answer.body.size();
    }
    return {};
  }));
  report.rows.push_back(row_of("json_longest", longest_of(samples) / 1e3, "ms", "< 50"));
  report.notes.push_back(fmt::format("json: {} calls beside {} answers of {} each", samples.size(), rounds,
                                     show_bytes(bytes / static_cast<uint64_t>(rounds))));
  return {};
}

}  // namespace

Status run_beside(const Options& options, Report& report) {
  const Layout layout = Layout::here();
  report.layout = layout.text;
  const std::array host{layout.host};
  QUERN_TRY(os::pin_to(host));
  QUERN_TRY(const auto folder, Folder::create());
  options.progress("server: start, deploy saxpy");
  QUERN_TRY(auto server, Server::start(layout, folder.path()));
  QUERN_TRY(server->deploy("saxpy"));
  QUERN_TRY(auto warm, Caller::create(*server));
  for (int i = 0; i < 50; ++i) QUERN_TRY(warm.call());
  if (options.wants("deploy")) QUERN_TRY(deploy_rows(options, *server, folder.path(), report));
  if (options.wants("json")) QUERN_TRY(json_row(options, *server, report));
  return server->stop();
}

}  // namespace quern::bench
