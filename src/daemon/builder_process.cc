// SPDX-License-Identifier: Apache-2.0
#include "daemon/builder_process.h"

#include <fmt/format.h>

#include "base/units.h"
#include "ipc/channel.h"
#include "os/clock.h"
#include "os/env.h"
#include "os/file.h"
#include "os/log.h"
#include "os/poller.h"
#include "os/process.h"
#include "os/sandbox.h"
#include "os/shared_memory.h"

namespace quern::daemon {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kMemoryBytes = 0;  // no limit: their shadow takes terabytes of address space
#else
constexpr uint64_t kMemoryBytes = 4 * kGiB;  // LLVM takes 400 MiB of address space before its first kernel
#endif
constexpr uint64_t kLargestBinary = 64 * kMiB;
constexpr uint64_t kLargestDetails = 1 * kMiB;

/// Once in the life of a daemon.
void warn_without_sandbox() {
  static const bool warned = [] {
    if (os::can_confine_files()) return false;
    os::log_warning(
        "builders: this kernel has no Landlock, so only the check of their text keeps programs that are compiled from "
        "reading files of this server; run Linux 5.19 or later with Landlock, or deploy only what you trust");
    return true;
  }();
  (void)warned;
}

struct Folder {
  std::string path;
  ~Folder() { os::remove_tree(path); }
};

Result<Bytes> copy_out(const os::Fd& fd, uint64_t size, uint64_t most) {
  if (size > most)
    return invalid(fmt::format("builder: its answer has {}; at most {} are taken", show_bytes(size), show_bytes(most)));
  QUERN_TRY(os::check_sealed(fd, size));
  QUERN_TRY(const os::Mapping mapping, os::map(fd, size, false));
  return Bytes(mapping.bytes().begin(), mapping.bytes().end());
}

Result<BuiltProgram> take_answer(ipc::Received& received) {
  const auto* built = std::get_if<ipc::Built>(&received.frame);
  if (!built || received.fds.size() != (built->ok ? 2U : 1U)) return invalid("builder: its answer makes no sense");
  QUERN_TRY(const Bytes details, copy_out(received.fds.back(), built->details_bytes, kLargestDetails));
  if (!built->ok) return Error{built->code, std::string(as_text(details))};
  BuiltProgram program;
  program.build_key = built->build_key;
  QUERN_TRY(program.binary, copy_out(received.fds[0], built->size_bytes, kLargestBinary));
  QUERN_TRY(program.signatures, ipc::decode_signatures(details));
  return program;
}

}  // namespace

Result<BuiltProgram> build_program(ipc::BuildFrame frame, const std::string& cache_folder, Duration limit,
                                   const os::Event& stop, const os::Event* abandoned) {
  warn_without_sandbox();
  const Folder folder{cache_folder};
  QUERN_TRY(os::make_folders(cache_folder, 0700));
  frame.device.cache_folder = cache_folder;
  QUERN_TRY(auto sockets, os::socket_pair());
  QUERN_TRY(auto log, os::pipe());
  os::ProcessOptions options;
  options.arguments = {"builder"};
  // The linker is found by PATH; nothing else of our environment reaches the compiler.
  options.environment = os::vendor_environment();
  options.environment.insert({{"HOME", cache_folder}, {"TMPDIR", cache_folder}, {"PATH", "/usr/bin:/bin"}});
  options.stack_bytes = 64 * kMiB;
  options.memory_bytes = kMemoryBytes;
  options.file_bytes = kLargestBinary;
  options.cpu_seconds = static_cast<uint32_t>(limit.ns / 1'000'000'000 + 1);
  options.cores.assign(frame.device.cores.begin(), frame.device.cores.end());
  options.socket = sockets.second.get();
  options.log = log.second.get();
  const Bytes bytes = ipc::encode(frame);
  QUERN_TRY(const os::Fd memory, os::immutable_copy("quern-build", bytes));
  QUERN_TRY(os::Process process, os::Process::spawn(options));
  os::log_debug("builder {}: started", process.pid());
  sockets.second.reset();
  ipc::Channel channel(std::move(sockets.first));
  const int fd = memory.get();
  QUERN_TRY(channel.send(ipc::Build{bytes.size()}, {&fd, 1}));

  QUERN_TRY(os::Poller poller, os::Poller::create());
  enum : uint64_t { kSocket, kStop, kAbandoned, kLog };
  QUERN_TRY(poller.add(channel.fd(), kSocket));
  QUERN_TRY(poller.add(stop.fd(), kStop));
  if (abandoned) QUERN_TRY(poller.add(abandoned->fd(), kAbandoned));
  QUERN_TRY(poller.add(log.first.get(), kLog));
  log.second.reset();
  const Time due = os::now() + limit;
  std::string words;
  for (;;) {
    const Duration left = due - os::now();
    if (left.ns <= 0)
      return Error{ErrorCode::kDeadline, fmt::format("builder: the compiler had not ended after {}; make the program "
                                                     "smaller",
                                                     to_string(limit))};
    const std::vector<uint64_t> ready = poller.wait(left);
    for (uint64_t source : ready) {
      if (source == kStop) return unavailable("builder: the server is stopping");
      if (source == kAbandoned) return Error{ErrorCode::kCancelled, "builder: nobody waits for it any more"};
      if (source == kLog) {
        const std::string text = os::read_available(log.first, 4 * kKiB);
        if (text.empty()) poller.remove(log.first.get());  // its end is closed
        words += text;
        if (words.size() > 4 * kKiB) words.erase(0, words.size() - 4 * kKiB);
      }
    }
    for (uint64_t source : ready) {
      if (source != kSocket) continue;
      auto received = channel.receive();
      if (received.ok()) return take_answer(*received);
      if (received.error().code == ErrorCode::kExhausted) continue;
      // It crashed, ran into a limit or was aborted by the vendor's library: a failed build like any other.
      process.kill();
      const auto exit = process.wait(Duration::forever()).value_or(os::Exit{});
      words += os::read_available(log.first, 4 * kKiB);
      return invalid(fmt::format("builder: the compiler {}{}{}",
                                 exit.signal ? fmt::format("died of signal {}", exit.signal) : "gave up",
                                 words.empty() ? "; simplify the program" : ": ", words));
    }
  }
}

}  // namespace quern::daemon
