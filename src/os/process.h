// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "os/fd.h"

namespace quern::os {

/// How a process ended.
struct Exit {
  int code = 0;    ///< when signal is 0
  int signal = 0;  ///< what killed it
};

/// What a child starts with. It has an empty environment but for `environment`, no descriptor but 0 (/dev/null), 1
/// and 2 (`log`) and 3 (`socket`), no new privileges, no core dumps, and dies with the thread that started it.
struct ProcessOptions {
  std::string program;                 ///< its path; empty: this same program
  std::vector<std::string> arguments;  ///< behind its name
  std::map<std::string, std::string> environment;
  std::vector<int> cores;      ///< affinity; empty: inherited
  uint64_t stack_bytes = 0;    ///< RLIMIT_STACK before exec: it sets the stack of every thread a vendor makes
  uint64_t memory_bytes = 0;   ///< RLIMIT_AS
  uint64_t file_bytes = 0;     ///< RLIMIT_FSIZE
  uint32_t cpu_seconds = 0;    ///< RLIMIT_CPU
  uint32_t descriptors = 256;  ///< RLIMIT_NOFILE
  int socket = -1;             ///< becomes descriptor 3
  int log = -1;                ///< becomes descriptors 1 and 2; -1: /dev/null
};

/// The descriptor under which a child finds its end of the socket.
constexpr int kChildSocket = 3;

/// A child of ours. Killed and reaped with its owner.
class Process {
 public:
  static Result<Process> spawn(const ProcessOptions& options);
  Process() = default;
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();

  int pid() const { return pid_; }
  /// Readable once it has ended.
  int pidfd() const { return pidfd_.get(); }
  void kill();
  /// How it ended; nothing if it still runs after `limit`.
  std::optional<Exit> wait(Duration limit);

 private:
  int pid_ = -1;
  Fd pidfd_;
};

/// Ends this process without waiting for its other threads, some of which may sit in a vendor's call for ever.
[[noreturn]] void end_process(int code);

/// Makes this the folder of the process, from which relative names go.
Status work_in(const std::string& folder);

/// The path of the program that runs.
std::string own_path();

/// A pipe: what is written to `second` is read from `first`. Close-on-exec; reading does not block.
Result<std::pair<Fd, Fd>> pipe();

/// What can be read now, at most `most` bytes.
std::string read_available(const Fd& fd, size_t most);

}  // namespace quern::os
