// SPDX-License-Identifier: Apache-2.0
#include "daemon/program_gate.h"

#include <utility>

#include "os/process.h"

namespace quern::daemon {

Result<std::unique_ptr<ProgramGate>> ProgramGate::create() {
  QUERN_TRY(ipc::SharedPages pages, ipc::create_shared_pages());
  QUERN_TRY(os::Event wake, os::Event::create());
  QUERN_TRY(os::Event daemon_wake, os::Event::create());
  QUERN_TRY(auto life, os::pipe());
  return std::unique_ptr<ProgramGate>(
      new ProgramGate(std::move(pages), std::move(wake), std::move(daemon_wake), std::move(life)));
}

ProgramGate::ProgramGate(ipc::SharedPages pages, os::Event wake, os::Event daemon_wake, std::pair<os::Fd, os::Fd> life)
    : pages_(std::move(pages)),
      wake_(std::move(wake)),
      daemon_wake_(std::move(daemon_wake)),
      life_(std::move(life)),
      events_(pages_.executor().lanes[0].event_head, pages_.daemon().lanes[0].event_tail,
              pages_.executor().lanes[0].events) {}

Result<ProgramLink> ProgramGate::link(uint64_t program) {
  ProgramLink link;
  link.program = program;
  QUERN_TRY(link.daemon_page, os::duplicate(pages_.daemon_fd));
  QUERN_TRY(link.own_page, os::duplicate(pages_.executor_fd));
  QUERN_TRY(link.wake, os::duplicate(wake_.fd()));
  QUERN_TRY(link.daemon_wake, os::duplicate(daemon_wake_.fd()));
  link.life = std::move(life_.second);
  return link;
}

Result<std::optional<ipc::LaneEvent>> ProgramGate::take_event() {
  QUERN_TRY(const bool got, events_.pop(record_));
  if (!got) return std::optional<ipc::LaneEvent>();
  QUERN_TRY(auto event, ipc::decode_lane_event(record_));
  if (std::holds_alternative<ipc::RunEnded>(event) || std::holds_alternative<ipc::LaneTrimmed>(event))
    return invalid("program: speaks as a lane does");
  return std::optional(std::move(event));
}

void ProgramGate::grant(const ipc::Grant& grant) {
  grant_ = grant;
  ipc::write_grant(pages_.daemon().lanes[0].gate, epoch_, grant);
  if (pages_.executor().lanes[0].waits_at_gate.load(std::memory_order_seq_cst)) wake_.signal();
}

}  // namespace quern::daemon
