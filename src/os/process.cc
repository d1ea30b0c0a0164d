// SPDX-License-Identifier: Apache-2.0
#include "os/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "os/event.h"
#include "os/thread.h"

namespace quern::os {
namespace {

void limit(int resource, uint64_t value) {
  const rlimit both{value, value};
  setrlimit(static_cast<__rlimit_resource>(resource), &both);
}

// Between fork and exec of a process with threads: system calls only, nothing that allocates or locks.
[[noreturn]] void become_child(const ProcessOptions& options, const cpu_set_t* cores, char* const* arguments,
                               char* const* environment, int parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent ended before the line above
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal : {SIGINT, SIGTERM, SIGPIPE, SIGHUP}) ::signal(signal, SIG_DFL);
  // Ctrl-C is for the parent, which ends us in order. A group of its own, and no session: Linux divides a core between
  // sessions first (autogroup), and then classes of threads would mean nothing between our processes.
  setpgid(0, 0);
  if (cores) sched_setaffinity(0, sizeof *cores, cores);
  limit(RLIMIT_CORE, 0);
  if (options.stack_bytes) limit(RLIMIT_STACK, options.stack_bytes);
  if (options.memory_bytes) limit(RLIMIT_AS, options.memory_bytes);
  if (options.file_bytes) limit(RLIMIT_FSIZE, options.file_bytes);
  if (options.cpu_seconds) limit(RLIMIT_CPU, options.cpu_seconds);
  // First out of the way of 0 to 3, then into place: the numbers given may be among them.
  const int null = open("/dev/null", O_RDWR);
  const int log = fcntl(options.log >= 0 ? options.log : null, F_DUPFD, 16);
  const int socket = options.socket >= 0 ? fcntl(options.socket, F_DUPFD, 16) : -1;
  dup2(null, 0);
  dup2(log, 1);
  dup2(log, 2);
  if (socket >= 0) dup2(socket, kChildSocket);
  syscall(SYS_close_range, socket >= 0 ? kChildSocket + 1 : 3, ~0U, 0);
  limit(RLIMIT_NOFILE, options.descriptors);  // not before: a parent may have more open than a child may
  execve(options.program.empty() ? "/proc/self/exe" : options.program.c_str(), arguments, environment);
  _exit(127);
}

}  // namespace

Result<Process> Process::spawn(const ProcessOptions& options) {
  std::vector<std::string> texts{"quern"};
  texts.insert(texts.end(), options.arguments.begin(), options.arguments.end());
  const size_t argument_count = texts.size();
  for (const auto& [name, value] : options.environment) texts.push_back(name + "=" + value);
  std::vector<char*> arguments, environment;
  for (size_t i = 0; i < texts.size(); ++i) (i < argument_count ? arguments : environment).push_back(texts[i].data());
  arguments.push_back(nullptr);
  environment.push_back(nullptr);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (int core : options.cores) CPU_SET(core, &cores);

  const int parent = getpid();
  const int pid = fork();
  if (pid < 0) return exhausted(fmt::format("fork: {}", strerror(errno)));
  if (pid == 0)
    become_child(options, options.cores.empty() ? nullptr : &cores, arguments.data(), environment.data(), parent);
  Process process;
  process.pid_ = pid;
  process.pidfd_ = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process.pidfd_) return internal(fmt::format("pidfd_open: {}", strerror(errno)));
  return process;
}

Process::Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  return *this;
}

Process::~Process() {
  if (pid_ < 0) return;
  kill();
  (void)wait(Duration::forever());
}

void Process::kill() {
  if (pid_ > 0) syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
}

std::optional<Exit> Process::wait(Duration limit) {
  if (pid_ < 0 || !wait_readable(pidfd_.get(), limit)) return std::nullopt;
  int status = 0;
  // Linux (6.18) looks on until the one it reaps has left its core. If a real-time thread woke up there it never does,
  // until a second later the kernel stops such threads for a moment.
  const bool was_realtime = (sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == SCHED_FIFO;
  if (was_realtime) make_ordinary();
  while (waitpid(pid_, &status, 0) < 0)
    if (errno != EINTR) break;
  if (was_realtime) make_realtime();
  pid_ = -1;
  pidfd_.reset();
  return WIFSIGNALED(status) ? Exit{0, WTERMSIG(status)} : Exit{WEXITSTATUS(status), 0};
}

Status work_in(const std::string& folder) {
  if (chdir(folder.c_str()) != 0) return internal(fmt::format("{}: cannot work there: {}", folder, strerror(errno)));
  return {};
}

void end_process(int code) { _exit(code); }

std::string own_path() {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  return size > 0 ? std::string(path, static_cast<size_t>(size)) : "";
}

Result<std::pair<Fd, Fd>> pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return internal(fmt::format("pipe: {}", strerror(errno)));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return std::pair{Fd(ends[0]), Fd(ends[1])};
}

std::string read_available(const Fd& fd, size_t most) {
  std::string text;
  char piece[4096];
  while (text.size() < most) {
    const ssize_t size = ::read(fd.get(), piece, std::min(sizeof piece, most - text.size()));
    if (size <= 0) break;
    text.append(piece, static_cast<size_t>(size));
  }
  return text;
}

}  // namespace quern::os
