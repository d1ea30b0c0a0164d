// SPDX-License-Identifier: Apache-2.0
//
// The instruction pointer names the kernel, even with several in flight. The handler may touch only memory that was
// there before, so the ranges live in a fixed table that grows by publishing its count.
#include "executor/fault_handler.h"

#include <atomic>

#include "os/signals.h"

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

void write_record(const os::Fault& fault) {
  ipc::FaultRecord* record = fault_record.load();
  if (!record || record->signal.load() != 0) return;  // only the first fault counts
  record->code = fault.code;
  record->address = fault.address;
  const uint32_t count = range_count.load(std::memory_order_acquire);
  for (uint32_t i = count; i-- > 0;) {
    if (fault.instruction < ranges[i].begin || fault.instruction >= ranges[i].end) continue;
    record->program = ranges[i].program;
    record->entry = ranges[i].entry;
    break;
  }
  record->signal = static_cast<uint32_t>(fault.signal);
}

}  // namespace

void watch_faults(ipc::FaultRecord& record) {
  fault_record = &record;
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
