// SPDX-License-Identifier: Apache-2.0
#include "os/signals.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace quern::os {
namespace {

std::atomic<void (*)(const Fault&)> fault_handler{nullptr};
std::atomic<int> faulted_thread{0};  // the first

void handle(int signal, siginfo_t* info, void* context) {
  const auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
  Fault fault;
  fault.signal = signal;
  fault.code = info->si_code;
  fault.address = reinterpret_cast<uintptr_t>(info->si_addr);
#if defined(__x86_64__)
  fault.instruction = static_cast<uintptr_t>(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
  fault.instruction = static_cast<uintptr_t>(machine.pc);
#endif
  fault.thread = static_cast<int>(syscall(SYS_gettid));
  int none = 0;
  if (faulted_thread.compare_exchange_strong(none, fault.thread)) {
    if (auto work = fault_handler.load()) work(fault);
  } else {
    // Several workers execute the same kernel. The process ends when the handler of the first has said what it knows.
    while (faulted_thread != fault.thread) pause();
  }
  // With the default action, the signal raised again ends the process with the true signal.
  ::signal(signal, SIG_DFL);
  syscall(SYS_tgkill, getpid(), fault.thread, signal);
}

}  // namespace

Result<Fd> stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  if (pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0) return internal("sigmask failed");
  signal(SIGPIPE, SIG_IGN);
  Fd fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return internal(fmt::format("signalfd: {}", strerror(errno)));
  return fd;
}

bool take_signal(const Fd& signals) {
  signalfd_siginfo taken;
  return read(signals.get(), &taken, sizeof taken) == static_cast<ssize_t>(sizeof taken);
}

void on_fault(void (*handler)(const Fault&)) {
  fault_handler.store(handler);
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGTRAP}) sigaction(signal, &action, nullptr);
}

void use_alternate_stack() {
  constexpr size_t kSize = 64 * 1024;
  void* memory = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = kSize;
  sigaltstack(&stack, nullptr);
}

}  // namespace quern::os
