// SPDX-License-Identifier: Apache-2.0
#include "daemon/answer_text.h"

#include <fmt/format.h>

#include <csignal>

#include "base/units.h"
#include "os/clock.h"

namespace quern::daemon {
namespace {

std::string fault_text(const RunReport& run) {
  switch (run.signal) {
    case SIGSEGV:
    case SIGBUS:
      return fmt::format("touched memory that is not its own (at {:#x}); check its indices", run.address);
    case SIGILL:
      return "ran an instruction this device does not have; check its options";
    case SIGABRT:
      return "was aborted by the driver; check its local and private memory";
    default:
      return "took its executor with it";
  }
}

}  // namespace

Error answer_error(sched::End end, const LiveCall& call, const RunReport& run) {
  using sched::End;
  const std::string function = "function " + call.function->name;
  const std::string kernel = run.kernel.empty() ? "a kernel" : fmt::format("kernel '{}'", run.kernel);
  const auto error = [&](std::string text) { return Error{sched::error_code_of(end), std::move(text)}; };
  switch (end) {
    case End::kFailed:
      if (run.error) return {run.error->code, fmt::format("{}: {}", function, run.error->text)};
      return error(fmt::format("{}: its run failed", function));
    case End::kFaulted:
      return error(fmt::format("{}: {} {}", function, kernel, fault_text(run)));
    case End::kDeadlineQueued:
      return error(fmt::format("{}: waited longer than its timeout of {}; raise it, or call less at once", function,
                               to_string(call.timeout)));
    case End::kDeadlineRunning:
      // Both limits may have passed by now; the one of the device is the shorter, and the cure is another.
      if (call.device_time >= call.timeout || os::now() - call.times.submitted >= call.timeout)
        return error(
            fmt::format("{}: had not ended when its timeout of {} was over, and was at {}; raise the timeout, or "
                        "give the call less to do",
                        function, to_string(call.timeout), kernel));
      return error(
          fmt::format("{}: {} had not ended within its limit of {} on the device; raise limits.device_time, or "
                      "split the kernel",
                      function, kernel, to_string(call.device_time)));
    case End::kCancelled:
      return error(fmt::format("{}: the call was cancelled", function));
    case End::kQueueFull:
      return error(
          fmt::format("{}: too many requests of tenant {} are waiting; retry later", function, call.tenant->name));
    case End::kTooLarge:
      if (run.host_bytes > 0 && call.function->object_bytes() > run.host_bytes)
        return error(fmt::format("{}: its constants need {} of host memory, and there are {}; raise host_memory",
                                 function, show_bytes(call.function->object_bytes()), show_bytes(run.host_bytes)));
      return error(fmt::format("{}: needs {} of device memory, more than any device has", function,
                               show_bytes(call.device_bytes())));
    case End::kOverLimit:
      return error(fmt::format("{}: needs {} of device memory, which is larger than its tenant may use ({})", function,
                               show_bytes(call.device_bytes()), show_bytes(call.tenant->limits.memory_bytes)));
    case End::kWouldBeLate:
      return error(fmt::format("{}: could not make its deadline of {} behind those that wait; retry later, or raise it",
                               function, to_string(call.timeout)));
    case End::kNoDevice:
      return error(fmt::format("{}: no device is up; retry later", function));
    case End::kOverQuota:
      return error(fmt::format(
          "{}: no device has {:g} % of its time left for it; lower its quota.time.request, or that of others", function,
          call.quota.request / 10.0));
    case End::kQuarantined:
      return error(
          fmt::format("{}: is quarantined, since its kernels crashed or hung {} times in a row; deploy a mended "
                      "version, or retry later",
                      function, call.times.quarantine ? call.times.quarantine->kills : 0));
    case End::kLost:
      if (!run.load_error.empty())
        return error(fmt::format("{}: a constant could not be loaded: {}; retry later", function, run.load_error));
      return error(
          fmt::format("{}: its executor died under it each time, through no fault of its own; retry later", function));
    case End::kRemoved:
      return error(fmt::format("{}: was removed while the call waited", function));
    case End::kDone:
      break;
  }
  return internal(fmt::format("{}: ended well, and yet has an error", function));
}

}  // namespace quern::daemon
