// SPDX-License-Identifier: Apache-2.0
#include "os/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "os/clock.h"
#include "os/fd.h"

namespace quern::os {

Result<std::string> run_command(const std::vector<std::string>& words, Duration limit) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return unavailable("pipe: cannot be made");
  Fd from(ends[0]);
  Fd to(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int problem = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) return not_found(fmt::format("{}: cannot be run", words[0]));
  to = Fd();

  std::string output;
  const Time deadline = now() + limit;
  bool is_late = false;
  for (;;) {
    pollfd wait{from.get(), POLLIN, 0};
    const int64_t left_ms = limit == Duration::forever() ? -1 : std::max<int64_t>(0, (deadline - now()).ns / 1'000'000);
    const int ready = poll(&wait, 1, static_cast<int>(std::min<int64_t>(left_ms, 1'000'000)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      is_late = true;
      kill(pid, SIGKILL);
      break;
    }
    std::array<char, 4096> piece;
    const ssize_t got = read(from.get(), piece.data(), piece.size());
    if (got <= 0) break;
    if (output.size() < kMostBytes) output.append(piece.data(), static_cast<size_t>(got));
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (is_late) return Error{ErrorCode::kDeadline, fmt::format("{}: took longer than {}", words[0], to_string(limit))};
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return unavailable(fmt::format("{}: ended with {}", words[0], WIFEXITED(status) ? WEXITSTATUS(status) : -1));
  return output;
}

}  // namespace quern::os
