// SPDX-License-Identifier: Apache-2.0
//
// The instruction pointer names the kernel, even with several in flight. The handler may touch only memory that was
// there before, so the ranges live in a fixed table that grows by publishing its count. A driver's functions may not be
// called from it either: a thread of its own asks them, while the thread that faulted waits for a while. The driver may
// be locked by the thread that faulted, so the wait has an end.
#include "executor/fault_handler.h"

#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "os/signals.h"
#include "os/thread.h"

namespace quern::executor {
namespace {

struct Range {
  uintptr_t begin = 0, end = 0;
  uint64_t program = 0;
  uint32_t entry = 0;
};

Range ranges[kMostRanges];
std::atomic<uint32_t> range_count{0};
std::atomic<ipc::FaultRecord*> fault_record{nullptr};
int look_asked = -1;  // an eventfd
std::atomic<int> look_thread{0};
std::atomic<bool> has_looked{false};

// In the handler.
void wait_for_look(int faulted_thread) {
  if (look_thread == 0 || faulted_thread == look_thread) return;
  const uint64_t one = 1;
  if (write(look_asked, &one, sizeof one) != sizeof one) return;
  constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 1'000'000};
  for (int64_t waited_ms = 0; waited_ms < kMostLook.ns / 1'000'000 && !has_looked; ++waited_ms)
    nanosleep(&kPause, nullptr);
}

void write_record(const os::Fault& fault) {
  ipc::FaultRecord* record = fault_record.load();
  if (!record || record->signal.load() != 0) return;  // only the first fault counts
  record->code = fault.code;
  record->address = fault.address;
  const uint32_t count = range_count.load(std::memory_order_acquire);
  bool is_known = false;
  for (uint32_t i = count; i-- > 0 && !is_known;) {
    if (fault.instruction < ranges[i].begin || fault.instruction >= ranges[i].end) continue;
    record->program = ranges[i].program;
    record->entry = ranges[i].entry;
    is_known = true;
  }
  if (!is_known) wait_for_look(fault.thread);
  record->signal = static_cast<uint32_t>(fault.signal);
}

}  // namespace

void look_at_fault(const std::function<void()>& look) {
  look_thread = os::thread_id();
  uint64_t count = 0;
  while (read(look_asked, &count, sizeof count) < 0 && errno == EINTR) {
  }
  look();
  has_looked = true;
}

void watch_faults(ipc::FaultRecord& record) {
  fault_record = &record;
  look_asked = eventfd(0, EFD_CLOEXEC);
  os::on_fault(write_record);
}

void note_code(uint64_t program, const hal::Program& loaded) {
  uint32_t count = range_count.load();
  const auto& entries = loaded.entries();
  for (const hal::CodeRange& code : loaded.code()) {
    if (count == kMostRanges) break;
    uint32_t entry = 0;
    while (entry < entries.size() && entries[entry].name != code.entry) ++entry;
    ranges[count] = {code.begin, code.end, program, entry};
    range_count.store(++count, std::memory_order_release);
  }
}

}  // namespace quern::executor
