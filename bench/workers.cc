// SPDX-License-Identifier: Apache-2.0
#include "bench/workers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>

#include "os/file.h"

namespace quern::bench {
namespace {

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

bool is_executor(int pid) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
  std::string program, word;
  return std::getline(file, program, '\0') && std::getline(file, word, '\0') && word == "executor";
}

}  // namespace

// "12 (a (name) of any kind) S 11 …"
int parent_in(std::string_view stat) {
  const size_t name_end = stat.rfind(") ");
  if (name_end == stat.npos) return -1;
  const size_t from = stat.find(' ', name_end + 2);
  if (from == stat.npos) return -1;
  const size_t to = stat.find(' ', from + 1);
  return number_in(stat.substr(from + 1, to == stat.npos ? to : to - from - 1)).value_or(-1);
}

std::vector<int> executors_of_this_process() {
  std::vector<int> found;
  for (const std::string& name : os::list_folder("/proc"))
    if (const auto pid = number_in(name);
        pid && parent_in(first_line(fmt::format("/proc/{}/stat", *pid))) == getpid() && is_executor(*pid))
      found.push_back(*pid);
  std::sort(found.begin(), found.end());
  return found;
}

// All threads of ours but the first have names of their own; those that the vendor made have the first one's. Intel's
// runtime also computes on the threads that wait in it (hal/opencl/waiting_thread.h).
Result<Duration> worker_time_of(int executor) {
  const std::string tasks = fmt::format("/proc/{}/task", executor), first = std::to_string(executor);
  const auto name_of = [&](const std::string& thread) { return first_line(fmt::format("{}/{}/comm", tasks, thread)); };
  const std::string name = name_of(first);
  Duration used;
  bool has_any = false;
  for (const std::string& thread : os::list_folder(tasks)) {
    if (thread == first) continue;
    if (const std::string own = name_of(thread); own != name && own != "opencl-wait") continue;
    int64_t ns = 0;
    if (!(std::ifstream(fmt::format("{}/{}/schedstat", tasks, thread)) >> ns)) continue;
    used = used + Duration{ns};
    has_any = true;
  }
  if (!has_any)
    return unavailable(fmt::format("executor {}: has no worker threads whose time could be read", executor));
  return used;
}

}  // namespace quern::bench
