// SPDX-License-Identifier: Apache-2.0
//
// The demo is a story that checks itself: a server of its own, the examples deployed, each called twice (the first call
// brings the function to the device, the second finds it there), every result compared with what C++ computes here.
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/prng.h"
#include "client/client.h"
#include "main/command.h"
#include "os/clock.h"
#include "os/env.h"
#include "os/event.h"
#include "os/file.h"
#include "os/guarded.h"
#include "os/process.h"
#include "os/signals.h"
#include "os/thread.h"

namespace quern::main {
namespace {

constexpr Duration kStartLimit = Duration::seconds(60), kStopLimit = Duration::seconds(20);
constexpr size_t kLongestLog = 1 << 20;

// Does not throw when standard output takes no more: the story has a thread of its own, which nothing would catch for.
void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

/// `quern serve` as a child, and what it says. Killed with its owner. Only `wait_ready`, `log` and `url` may be called
/// by another thread than the owner's.
class ChildServer {
 public:
  Status spawn(const std::string& folder) {
    QUERN_TRY(auto ends, os::pipe());
    auto& [read_end, write_end] = ends;
    os::ProcessOptions options;
    options.arguments = {"serve", "--listen", "127.0.0.1:0", "--state", folder + "/state"};
    options.environment = os::vendor_environment();
    for (const char* name : {"PATH", "HOME", "TMPDIR"})
      if (auto value = os::env(name); !value.empty()) options.environment[name] = value;
    options.descriptors = 4096;
    options.log = write_end.get();
    QUERN_TRY(process_, os::Process::spawn(options));
    pid_ = process_.pid();
    write_end.reset();
    said_fd_ = std::move(read_end);
    // A pipe that nobody empties stops who writes to it.
    reader_ = os::Thread("demo-log", [this] { read_all(said_fd_); });
    return {};
  }
  Status wait_ready() {
    const Time deadline = os::now() + kStartLimit;
    while (url().empty()) {
      if (os::wait_readable(process_.pidfd(), Duration::millis(20)))
        return unavailable("server: did not start:\n" + log());
      if (os::now() > deadline) return unavailable("server: not ready within 60s:\n" + log());
    }
    return {};
  }
  /// In order, as Ctrl-C would; by force if that takes too long.
  bool stop() {
    if (process_.pid() < 0) return true;
    ::kill(process_.pid(), SIGTERM);
    const auto exit = process_.wait(kStopLimit);
    return exit && exit->code == 0 && exit->signal == 0;
  }
  void kill() { process_.kill(); }
  int pid() const { return pid_; }
  std::string log() {
    return said_.with([](const std::string& text) { return text; });
  }
  std::string url() {
    constexpr std::string_view kMark = "listening on ";
    const std::string text = log();
    const size_t at = text.find("listening on http");
    const size_t end = at == std::string::npos ? at : text.find('\n', at);
    return end == std::string::npos ? "" : text.substr(at + kMark.size(), end - at - kMark.size());
  }

 private:
  void read_all(const os::Fd& fd) {
    for (;;) {
      os::wait_readable(fd.get(), Duration::forever());
      const std::string piece = os::read_available(fd, 64 * 1024);
      if (piece.empty()) return;  // the other end is closed
      said_.with([&](std::string& text) {
        if (text.size() < kLongestLog) text += piece;
      });
    }
  }

  int pid_ = -1;
  os::Fd said_fd_;
  os::Guarded<std::string> said_;
  os::Thread reader_;    // ends once the process closed its end, and so is joined after it is gone
  os::Process process_;  // last: destroyed first
};

Bytes floats(const std::vector<float>& values) {
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<float> random_floats(size_t count, uint64_t seed) {
  Prng prng(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(prng.uniform());
  return values;
}

/// One example: what is sent, and how far what comes back is from what must come back.
struct Case {
  std::string function, what;
  client::InferRequest request;
  std::vector<Bytes> memory;  ///< what the request looks into
  std::vector<float> expected;
  double tolerance = 0;  ///< relative to the largest expected value
};

void add_input(Case& one, std::string name, Shape shape, const std::vector<float>& values) {
  one.memory.push_back(floats(values));
  one.request.inputs.push_back({std::move(name), Dtype::kFp32, std::move(shape), one.memory.back()});
}

Case saxpy_case() {
  constexpr int64_t n = 1 << 20;
  Case one{"saxpy", "z = 2 x + y over 1048576 floats", {}, {}, {}, 1e-6};
  const auto x = random_floats(n, 1), y = random_floats(n, 2);
  add_input(one, "x", {n}, x);
  add_input(one, "y", {n}, y);
  one.request.parameters["alpha"] = 2.0;
  for (size_t i = 0; i < x.size(); ++i) one.expected.push_back(2 * x[i] + y[i]);
  return one;
}

Case sgemm_case() {
  constexpr int64_t m = 250, n = 190, k = 130;  // odd on purpose: edges of tiles are where kernels go wrong
  Case one{"sgemm", "c = a b of [250,130] and [130,190]", {}, {}, {}, 1e-5};
  const auto a = random_floats(m * k, 3), b = random_floats(k * n, 4);
  add_input(one, "a", {m, k}, a);
  add_input(one, "b", {k, n}, b);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p)
        sum += static_cast<double>(a[static_cast<size_t>(i * k + p)]) * b[static_cast<size_t>(p * n + j)];
      one.expected.push_back(static_cast<float>(sum));
    }
  return one;
}

Case spin_case() {
  constexpr int64_t n = 16384;
  Case one{"spin", "64 KiB in and out, a million dependent steps between", {}, {}, {}, 0};
  const auto input = random_floats(n, 5);
  add_input(one, "input", {n}, input);
  one.request.parameters["iterations"] = int64_t{1'000'000};
  one.expected = input;
  return one;
}

Status check(const Case& one, const client::InferAnswer& answer) {
  if (answer.outputs.size() != 1) return internal(fmt::format("{}: {} outputs", one.function, answer.outputs.size()));
  const auto& output = answer.outputs[0];
  if (output.bytes.size() != one.expected.size() * sizeof(float))
    return internal(fmt::format("{}: output of {} bytes", one.function, output.bytes.size()));
  double largest = 0, worst = 0;
  for (size_t i = 0; i < one.expected.size(); ++i) {
    float value = 0;
    std::memcpy(&value, output.bytes.data() + i * sizeof(float), sizeof(float));
    largest = std::max(largest, std::abs(static_cast<double>(one.expected[i])));
    const double off = std::abs(static_cast<double>(value) - one.expected[i]);
    worst = std::isnan(off) ? HUGE_VAL : std::max(worst, off);
  }
  if (worst > one.tolerance * largest)
    return internal(fmt::format("{}: result is off by {} (largest value {})", one.function, worst, largest));
  return {};
}

Result<uint64_t> device_time(client::Client& server) {
  QUERN_TRY(auto devices, server.devices());
  uint64_t total = 0;
  for (const auto& device : devices.items) total += device.device_time_ns;
  return total;
}

Status call(client::Client& server, Case one) {
  one.request.function = one.function;
  double took[2] = {0, 0};
  uint64_t on_device = 0;
  for (int i = 0; i < 2; ++i) {
    QUERN_TRY(auto before, device_time(server));
    const Time begin = os::now();
    QUERN_TRY(auto answer, server.infer(one.request));
    took[i] = static_cast<double>((os::now() - begin).ns);
    QUERN_TRY(check(one, answer));
    QUERN_TRY(auto after, device_time(server));
    on_device = after - before;
  }
  say(fmt::format("  {:<6} {:<52} first {:>7}, then {:>7} ({} on the device)  right", one.function, one.what,
                  show_time(took[0]), show_time(took[1]), show_time(static_cast<double>(on_device))));
  return {};
}

Status call_copy(client::Client& server) {
  constexpr int64_t n = 8 << 20;
  Bytes bytes(n);
  Prng prng(6);
  for (auto& byte : bytes) byte = static_cast<std::byte>(prng.next());
  client::InferRequest request;
  request.function = "copy";
  request.inputs.push_back({"input", Dtype::kUint8, {n}, bytes});
  double took[2] = {0, 0};
  for (double& one : took) {
    const Time begin = os::now();
    QUERN_TRY(auto answer, server.infer(request));
    one = static_cast<double>((os::now() - begin).ns);
    if (answer.outputs.size() != 1 || as_text(answer.outputs[0].bytes) != as_text(bytes))
      return internal("copy: what came back is not what was sent");
  }
  say(fmt::format("  {:<6} {:<52} first {:>7}, then {:>7}  right", "copy", "8 MiB of bytes there and back",
                  show_time(took[0]), show_time(took[1])));
  return {};
}

Status tell(ChildServer& child, const std::string& examples, Time begin) {
  QUERN_TRY(child.wait_ready());
  QUERN_TRY(auto server, client::Client::create({.url = child.url(), .key = ""}));
  say(fmt::format("  {} is up after {}, as process {}", child.url(),
                  show_time(static_cast<double>((os::now() - begin).ns)), child.pid()));
  QUERN_TRY(auto devices, server.devices());
  for (const auto& device : devices.items)
    say(fmt::format("  device {}: {} through {}, {} units", device.name, device.model, device.driver, device.units));

  say("\n2. deploy the examples: quern deploy examples/NAME (a builder compiles each in a process of its own)");
  for (const char* name : {"saxpy", "sgemm", "copy", "spin"}) {
    const Time start = os::now();
    QUERN_TRY(auto packed, client::pack_folder(examples + "/" + name));
    QUERN_TRY(auto deployed, server.deploy(packed.name, packed.tar));
    say(fmt::format("  {:<6} version {} in {}", deployed.name, deployed.version,
                    show_time(static_cast<double>((os::now() - start).ns))));
  }

  say("\n3. call them, twice each, and compare every number with the same computed in C++");
  QUERN_TRY(call(server, saxpy_case()));
  QUERN_TRY(call(server, sgemm_case()));
  QUERN_TRY(call_copy(server));
  QUERN_TRY(call(server, spin_case()));

  say("\n4. a mistake is answered with what to do");
  const auto wrong = server.function("saxpi");
  if (wrong.ok()) return internal("saxpi: was found");
  say(fmt::format("  quern invoke saxpi: {}", wrong.error().text));
  return {};
}

Status stop_server(ChildServer& child, Time begin) {
  say("\n5. stop the server");
  if (!child.stop()) return internal("server: did not stop in order:\n" + child.log());
  say(fmt::format("  stopped; all of it took {}", show_time(static_cast<double>((os::now() - begin).ns))));
  return {};
}

Status demo(const std::string& examples) {
  QUERN_TRY(auto stop, os::stop_signals());  // before any thread
  if (!os::is_folder(examples))
    return not_found(fmt::format("{}: is no folder; run the demo in Quern's own folder, or give --examples", examples));
  QUERN_TRY(const std::string folder, os::make_temporary_folder("quern-demo"));
  QUERN_TRY(auto ended, os::Event::create());
  Status told;
  bool interrupted = false;
  {
    ChildServer child;
    const Time begin = os::now();
    say("1. start a server: quern serve --listen 127.0.0.1:0 --state STATE");
    QUERN_TRY(child.spawn(folder));  // by this thread: a child ends with the thread that started it
    // The story runs beside, so that Ctrl-C is heard whatever it waits for: with its server gone, every wait ends.
    os::Thread story("demo", [&] {
      told = tell(child, examples, begin);
      ended.signal();
    });
    while (!ended.wait(Duration::millis(50))) {
      if (interrupted || !os::wait_readable(stop.get(), Duration{0})) continue;
      interrupted = true;
      child.kill();
    }
    story.join();
    if (told.ok() && !interrupted) told = stop_server(child, begin);
  }
  os::remove_tree(folder);
  if (interrupted) return Error{ErrorCode::kCancelled, "demo: interrupted; all it started has ended"};
  if (told.ok())
    say("\nNow yours:\n  ./quern serve                        # in one terminal\n"
        "  ./quern deploy examples/saxpy        # in another\n"
        "  ./quern invoke saxpy --input x=@random --input y=@random --param alpha=2");
  return told;
}

}  // namespace

void add_demo(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("demo", "Start a server, deploy the examples, call them, check the results");
  auto examples = std::make_shared<std::string>("examples");
  command->add_option("--examples", *examples, "Where the examples are")->type_name("FOLDER")->capture_default_str();
  command->callback([=, &work] {
    work = [=] {
      const auto told = demo(*examples);
      return told.ok() ? 0 : fail(told.error());
    };
  });
}

}  // namespace quern::main
