// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "base/units.h"
#include "client/timeline.h"
#include "client/timeline_svg.h"
#include "daemon/daemon.h"
#include "main/command.h"
#include "main/remote.h"
#include "os/clock.h"
#include "os/event.h"
#include "os/file.h"
#include "os/poller.h"
#include "os/signals.h"
#include "os/thread.h"

namespace quern::main {
namespace {

using client::Timeline;

constexpr uint64_t kLargestFile = uint64_t{4} << 30;

struct TraceFlags {
  int seconds = 5;
  std::string output, input, begin, length;
  bool svg = false;
};

/// How far it is, on standard error: five times a second on a terminal, else a line every ten seconds.
class Progress {
 public:
  Progress(int seconds, Time began) : seconds_(seconds), began_(began), told_(began) {
    if (!is_terminal_) fmt::print(stderr, "trace: notes what happens for {} s; Ctrl-C ends it sooner\n", seconds);
  }
  ~Progress() {
    if (is_terminal_) fmt::print(stderr, "\r\x1b[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void tell(Time now, bool is_ending) {
    if (!is_terminal_ && now - told_ < Duration::seconds(10)) return;
    told_ = now;
    const auto passed = static_cast<double>((now - began_).ns) / 1e9;
    std::string text = fmt::format("trace: {:.1f} of {} s; Ctrl-C ends it now", passed, seconds_);
    if (is_ending || passed > seconds_) text = "trace: the server writes it";
    fmt::print(stderr, "{}{}{}", is_terminal_ ? "\r\x1b[K" : "", text, is_terminal_ ? "" : "\n");
    std::fflush(stderr);
  }

 private:
  const bool is_terminal_ = isatty(STDERR_FILENO) == 1;
  const int seconds_;
  const Time began_;
  Time told_;
};

// The call goes on in a thread of its own; an interrupt ends the trace at the server, which then answers with what it
// has. It may have come before the server heard of the trace: until there is an answer the server is asked again. A
// second one ends the command.
Result<std::string> take(const Remote& remote, int seconds) {
  QUERN_TRY(auto signals, os::stop_signals());  // before any thread: they inherit what is blocked
  QUERN_TRY(auto answered, os::Event::create());
  QUERN_TRY(auto poller, os::Poller::create());
  enum : uint64_t { kSignal = 1, kAnswer = 2 };
  QUERN_TRY(poller.add(signals.get(), kSignal));
  QUERN_TRY(poller.add(answered.fd(), kAnswer));
  client::Options options = remote.options;
  options.timeout = options.timeout + Duration::seconds(seconds);
  QUERN_TRY(auto server, client::Client::create(options));
  QUERN_TRY(auto second, client::Client::create(remote.options));

  std::optional<Result<std::string>> traced;
  const Time began = os::now();
  Progress progress(seconds, began);
  os::Thread thread("trace", [&] {
    traced = server.trace(static_cast<uint32_t>(seconds));
    answered.signal();
  });
  for (bool is_ending = false, is_asked = false;;) {
    const std::vector<uint64_t> ready = poller.wait(Duration::millis(200));
    const auto is_ready = [&](uint64_t what) { return std::find(ready.begin(), ready.end(), what) != ready.end(); };
    if (is_ready(kAnswer)) break;
    if (is_ready(kSignal)) {
      if (is_ending) ::_exit(kFailed);  // the thread may wait for the server for a minute
      is_ending = true;
      os::take_signal(signals);
    }
    if (is_ending && !is_asked) is_asked = second.end_trace().ok();
    progress.tell(os::now(), is_asked);
  }
  thread.join();
  return *std::move(traced);
}

// Before it takes minutes: that it cannot be written is better said at once.
Status check_output(const std::string& path) {
  if (path == "-") return {};
  if (os::is_folder(path)) return invalid(fmt::format("-o {}: is a folder; name a file in it", path));
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0 || os::is_folder(path.substr(0, slash))) return {};
  return invalid(fmt::format("-o {}: there is no folder {}; make it first", path, path.substr(0, slash)));
}

std::string counted(uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

void summarize(const Timeline& timeline, const std::string& path, const TraceFlags& flags, bool as_json) {
  using Kind = Timeline::Kind;
  const uint64_t runs = timeline.count(Kind::kRun), kernels = timeline.count(Kind::kKernel),
                 slices = timeline.count(Kind::kSlice), gates = timeline.count(Kind::kGate),
                 gaps = timeline.count(Kind::kGap), loads = timeline.count(Kind::kLoad);
  if (as_json) {
    fmt::print(
        "{{\"file\":{},\"length_ns\":{},\"runs\":{},\"kernels\":{},\"slices\":{},\"grants\":{},\"gaps\":{},"
        "\"gaps_ns\":{},\"filled_ns\":{},\"loads\":{},\"dropped\":{}}}\n",
        json_string(path), timeline.length.ns, runs, kernels, slices, gates, gaps, timeline.gaps_length.ns,
        timeline.filled.ns, loads, timeline.dropped);
    return;
  }
  std::FILE* const to = path == "-" ? stderr : stdout;
  if (!flags.begin.empty() || !flags.length.empty()) {
    fmt::print(to, "{}: a part of {}\n", path == "-" ? "drawn" : path,
               show_time(static_cast<double>(timeline.length.ns)));
    return;
  }
  fmt::print(to, "{}: {}: {}, {}, {}, {}, {}, {}", path == "-" ? "written" : path,
             show_time(static_cast<double>(timeline.length.ns)), counted(runs, "run"), counted(kernels, "kernel"),
             counted(slices, "slice"), counted(gates, "grant"), counted(gaps, "gap"), counted(loads, "load"));
  if (timeline.gaps_length.ns > 0)
    fmt::print(to, "; {:.0f} % of the gaps was filled",
               100.0 * static_cast<double>(timeline.filled.ns) / static_cast<double>(timeline.gaps_length.ns));
  fmt::print(to, "\n");
  if (timeline.dropped > 0)
    fmt::print(to, "{} spans more are not in it: there is room for a million; trace for a shorter time\n",
               timeline.dropped);
  if (runs == 0 && kernels == 0 && timeline.count(Kind::kWork) == 0)
    fmt::print(to, "nothing ran meanwhile: call something while it goes on\n");
  if (!flags.svg && path != "-")
    fmt::print(to, "open it at https://ui.perfetto.dev, or draw it: quern trace --input {} --svg\n", path);
}

Status trace(const Remote& remote, const TraceFlags& flags) {
  const std::string path = !flags.output.empty() ? flags.output : flags.svg ? "trace.svg" : "trace.json";
  Duration begin{0}, length = Duration::forever();
  if (!flags.begin.empty()) {
    QUERN_TRY(begin, parse_duration(flags.begin));
  }
  if (!flags.length.empty()) {
    QUERN_TRY(length, parse_duration(flags.length));
  }
  if (path == "-" && remote.json) return invalid("--json: standard output is the trace's own; name a file with -o");
  if (!flags.input.empty() && !flags.svg) return invalid("--input: is a trace already; draw it with --svg");
  QUERN_TRY(check_output(path));

  std::string text;
  if (flags.input.empty()) {
    QUERN_TRY(text, take(remote, flags.seconds));
  } else {
    QUERN_TRY(const Bytes bytes, os::read_file(flags.input, kLargestFile));
    text = as_text(bytes);
  }
  const auto write = [&](std::string_view content) -> Status {
    if (path != "-") return os::write_file(path, as_bytes_of(content));
    if (std::fwrite(content.data(), 1, content.size(), stdout) != content.size() || std::fflush(stdout) != 0)
      return unavailable("standard output: cannot be written; name a file with -o");
    return {};
  };
  if (!flags.svg) QUERN_TRY(write(text));
  QUERN_TRY(const Timeline timeline, client::read_timeline(std::move(text)));
  if (flags.svg) {
    QUERN_TRY(const std::string drawn, client::timeline_svg(timeline, begin, length));
    QUERN_TRY(write(drawn));
  }
  summarize(timeline, path, flags, remote.json);
  return {};
}

}  // namespace

void add_trace(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("trace", "Write or draw what happens on the devices for some seconds");
  auto flags = std::make_shared<TraceFlags>();
  constexpr int kMost = static_cast<int>(daemon::kLongestTrace.ns / Duration::seconds(1).ns);
  auto* seconds = command->add_option("--seconds", flags->seconds, fmt::format("For so long, at most {}", kMost))
                      ->type_name("N")
                      ->check(CLI::Range(1, kMost))
                      ->capture_default_str();
  command->add_option("-o,--output", flags->output, "Where to; - is standard output. [trace.json, trace.svg]")
      ->type_name("FILE");
  auto* svg = command->add_flag("--svg", flags->svg, "Draw it, rather than write it for Perfetto and Chrome");
  command->add_option("--input", flags->input, "Draw a trace that was written before")
      ->type_name("FILE")
      ->excludes(seconds);
  command->add_option("--begin", flags->begin, "Draw the part that begins so long after its beginning")
      ->type_name("TIME")
      ->needs(svg);
  command->add_option("--length", flags->length, "Draw a part of this length")->type_name("TIME")->needs(svg);
  auto remote = add_remote_flags(*command);
  command->footer(
      "Devices, lanes, runs, kernels and slices, gates and who closed them, gaps and who filled them, loads. The work "
      "of\n"
      "other tenants has no names. Ctrl-C ends it sooner, and what there is by then is written. --json tells how "
      "much.\n\n"
      "Examples:\n"
      "  quern trace --seconds 5 -o t.json              open it at https://ui.perfetto.dev\n"
      "  quern trace --input t.json --svg -o t.svg --begin 1.2s --length 60ms\n"
      "  quern trace --seconds 1 --svg                  at once");
  command->callback([=, &work] {
    work = [=] {
      const Status traced = trace(*remote, *flags);
      return traced.ok() ? 0 : fail(traced.error());
    };
  });
}

}  // namespace quern::main
