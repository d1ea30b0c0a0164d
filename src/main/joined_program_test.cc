// SPDX-License-Identifier: Apache-2.0
//
// Programs that join a daemon, as far as only both together show: one that dies, one that does not obey, what a trace
// has of them. The device is the fake one, and nothing is launched on it: a gate is all there is between the two.
#include "main/joined_program_test.h"

#include <array>
#include <memory>
#include <semaphore>
#include <string>
#include <utility>

#include "daemon/accounts.h"
#include "daemon/daemon.h"
#include "daemon/trace.h"
#include "launcher/program.h"
#include "main/daemon_test.h"
#include "os/clock.h"
#include "os/event.h"
#include "os/file.h"
#include "os/process.h"
#include "os/socket.h"
#include "os/thread.h"

namespace quern::main {
namespace {

constexpr Duration kLimit = Duration::seconds(20);
constexpr uint8_t kUrgent = 0, kLast = 9;

launcher::Ask kernel() {
  return {.parts = 1, .part_ns = 100'000, .sliceable = false, .in_flight = 0, .in_flight_ns = 0};
}

Result<std::unique_ptr<launcher::Program>> open(daemon::ProgramLink link) {
  return launcher::Program::open({.daemon_page = std::move(link.daemon_page),
                                  .own_page = std::move(link.own_page),
                                  .wake = std::move(link.wake),
                                  .daemon_wake = std::move(link.daemon_wake),
                                  .life = std::move(link.life)});
}

template <class F>
bool comes_true(F&& is_true) {
  const Time until = os::now() + kLimit;
  while (!is_true()) {
    if (os::now() > until) return false;
    os::yield();
  }
  return true;
}

class JoinedProgram : public DaemonTest {
 protected:
  void SetUp() override {
    start([](daemon::Config& config) {
      config.pool = 0;
      config.record_file = config.state_folder + "/record.txt";
      config.least_share = 0;  // else whoever is closed has a turn now and then, whatever becomes of the others
    });
  }

  daemon::ProgramLink join(const std::string& name, uint8_t priority) {
    auto link = daemon_->join(*tenant_, {.name = name, .device = "fake0", .priority = priority});
    if (!link.ok()) ADD_FAILURE() << link.error().text;
    return std::move(*link);
  }
  /// In this process.
  std::unique_ptr<launcher::Program> joined(const std::string& name, uint8_t priority) {
    auto program = open(join(name, priority));
    if (!program.ok()) ADD_FAILURE() << program.error().text;
    return std::move(*program);
  }
  static bool is_open(launcher::Program& program) { return program.ask(kernel()).parts > 0; }
  static bool opens(launcher::Program& program) {
    return comes_true([&] { return is_open(program); });
  }
  static bool closes(launcher::Program& program) {
    return comes_true([&] { return !is_open(program); });
  }
  /// Device time on the account of a program.
  uint64_t charged(const std::string& name) {
    const auto table = answer_to<daemon::AccountTable>(
        [&](auto done) { daemon_->accounts(*tenant_, daemon::AccountBy::kFunction, std::move(done)); });
    if (!table.ok()) ADD_FAILURE() << table.error().text;
    for (const auto& row : table->rows)
      if (row.function == daemon::Accounts::program(name)) return row.account.device_time_ns;
    return 0;
  }
};

// It never saw the kernel, but others of its name did: how long it takes is known by its identity.
TEST_F(JoinedProgram, WhatItNeverSawIsKnownByItsIdentity) {
  {
    auto first = joined("worker", kLast);
    ASSERT_TRUE(opens(*first));
    first->used({.kernel = 77, .groups = 10, .time_ns = 500'000, .is_undisturbed = true});
    ASSERT_TRUE(comes_true([&] { return charged("worker") > 0; }));
  }
  auto urgent = joined("urgent", kUrgent);
  auto second = joined("worker", kLast);
  ASSERT_TRUE(comes_true([&] {
    urgent->work_ready({});  // where there are two, both are asked to tell
    urgent->launched();
    second->work_ready(
        {.at_ns = os::now().ns, .kernels = {{77, 20, 0, true}, {78, 20, 0, false}, {79, 1, 9000, false}}});
    second->launched();
    const auto record = os::read_file(folder_ + "/record.txt");
    return record.ok() && as_text(*record).find("kernels=77:1ms:cut,78:0ms,79:9us") != std::string::npos;
  }));
}

// In a process of its own, which is more urgent than the other, open, and killed.
TEST_F(JoinedProgram, WhoDiesWhileItIsOpenIsInNobodysWay) {
  auto other = joined("other", kLast);
  ASSERT_TRUE(opens(*other)) << "it is alone";
  daemon::ProgramLink link = join("urgent", kUrgent);
  auto sockets = os::socket_pair();
  ASSERT_TRUE(sockets.ok());
  os::ProcessOptions options;
  options.arguments = {"program"};
  options.socket = sockets->second.get();
  options.log = 2;
  auto process = os::Process::spawn(options);
  ASSERT_TRUE(process.ok()) << process.error().text;
  sockets->second.reset();
  const std::array fds{link.daemon_page.get(), link.own_page.get(), link.wake.get(), link.daemon_wake.get(),
                       link.life.get()};
  ASSERT_TRUE(os::send(sockets->first, Bytes(1), fds).ok());
  ASSERT_TRUE(os::wait_readable(sockets->first.get(), kLimit));
  ASSERT_TRUE(os::receive(sockets->first).ok()) << "it has work, and its gate is open";
  link.life.reset();  // what it has is the last one
  ASSERT_TRUE(closes(*other)) << "the other is more urgent";
  process->kill();
  EXPECT_TRUE(opens(*other));
  daemon_->leave(link.program);  // too late to matter
  EXPECT_TRUE(is_open(*other));
}

TEST_F(JoinedProgram, WhoLetsGoOfItsLinkHasLeft) {
  auto other = joined("other", kLast), urgent = joined("urgent", kUrgent);
  ASSERT_TRUE(opens(*urgent));
  ASSERT_TRUE(closes(*other));
  urgent.reset();
  EXPECT_TRUE(opens(*other));
}

// It is closed and launches all the same. Nobody can keep a program from that, but it is counted, its account is no
// larger than there was time, and what others are promised does not change: who is urgent stays open, and who obeys
// stays closed as long as it would be anyway.
TEST_F(JoinedProgram, WhoIgnoresItsGrantIsCounted) {
  const Time began = os::now();
  auto urgent = joined("urgent", kUrgent), rogue = joined("rogue", kLast), meek = joined("meek", kLast);
  ASSERT_TRUE(opens(*urgent));
  ASSERT_TRUE(closes(*meek));
  const uint64_t before = daemon_->counters().past_gate;
  for (uint64_t i = 1; i <= 5; ++i) {
    ASSERT_FALSE(is_open(*rogue));
    const Time told = os::now();
    rogue->used({.kernel = 1, .groups = 1, .time_ns = static_cast<uint64_t>(Duration::seconds(100).ns)});
    ASSERT_TRUE(comes_true([&] { return daemon_->counters().past_gate == before + i; }));
    EXPECT_TRUE(is_open(*urgent));
    EXPECT_FALSE(is_open(*rogue));
    EXPECT_FALSE(is_open(*meek));
    while (os::now() - told < Duration::millis(2)) os::yield();  // it tells once in a millisecond
  }
  const auto units = static_cast<uint64_t>(daemon_->devices().at(0).units);
  EXPECT_GT(charged("rogue"), 0u);
  EXPECT_LE(charged("rogue"), units * static_cast<uint64_t>((os::now() - began).ns));
  EXPECT_EQ(charged("meek"), 0u);
  urgent.reset();
  EXPECT_TRUE(opens(*meek));
}

TEST_F(JoinedProgram, ATraceHasItsLaunches) {
  auto program = joined("train", kUrgent);
  ASSERT_TRUE(opens(*program));
  std::binary_semaphore done{0};
  Result<daemon::Trace> trace = internal("no answer");
  daemon_->trace(*tenant_, "one", Duration::millis(50), [&](Result<daemon::Trace> got) {
    trace = std::move(got);
    done.release();
  });
  // As if launches of 20 us came one after the other.
  ASSERT_TRUE(comes_true([&] {
    const Time start = os::now();
    if (!is_open(*program)) return done.try_acquire();
    while (os::now() - start < Duration::micros(20)) continue;
    const int64_t end_ns = os::now().ns;
    program->traced({.launch = 3, .first = 0, .parts = 1, .of = 1, .start_ns = start.ns, .end_ns = end_ns});
    program->used({.kernel = 1, .groups = 1, .time_ns = static_cast<uint64_t>(end_ns - start.ns)});
    return done.try_acquire();
  }));
  ASSERT_TRUE(trace.ok()) << trace.error().text;
  ASSERT_FALSE(trace->launches.empty());
  for (const daemon::Trace::Launch& launch : trace->launches) {
    EXPECT_TRUE(trace->launchers.at(launch.launcher).is_program);
    EXPECT_EQ(trace->names.at(launch.name), "train");
    EXPECT_EQ(launch.index, 3u);
    EXPECT_GE(launch.to - launch.from, Duration::micros(20));
  }
}

}  // namespace

int serve_joined_program(os::Fd socket) {
  if (!os::wait_readable(socket.get(), kLimit)) return 1;
  auto received = os::receive(socket);
  if (!received.ok() || received->fds.size() != 5) return 2;
  auto& fds = received->fds;
  auto program = launcher::Program::open({.daemon_page = std::move(fds[0]),
                                          .own_page = std::move(fds[1]),
                                          .wake = std::move(fds[2]),
                                          .daemon_wake = std::move(fds[3]),
                                          .life = std::move(fds[4])});
  if (!program.ok()) return 3;
  while ((*program)->ask(kernel()).parts == 0) (*program)->wait();
  if (!os::send(socket, Bytes(1)).ok()) return 4;
  // At it: it never pauses, and says so to nobody.
  for (;;) (void)os::wait_readable(socket.get(), Duration::forever());
}

}  // namespace quern::main
