// SPDX-License-Identifier: Apache-2.0
//
// Orders and answers are plain structs, one per datagram: both ends are the same program. What is shared beside them is
// a memory with a word that ends an endless order, and the marks that the groups of the kernel leave, which are the
// device's buffer: how far a filler is can be read at any moment, and costs neither end a message.
#include "bench/launcher.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <deque>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "base/prng.h"
#include "bench/report.h"
#include "hal/opencl/opencl_driver.h"
#include "launcher/program.h"
#include "os/clock.h"
#include "os/env.h"
#include "os/event.h"
#include "os/file.h"
#include "os/log.h"
#include "os/socket.h"
#include "os/thread.h"

namespace quern::bench {
namespace {

constexpr Duration kStartLimit = Duration::seconds(60), kAnswerLimit = Duration::seconds(30);
constexpr double kGroupNs = 5000;
constexpr size_t kPageBytes = 4096, kMarkBytes = Launcher::kMostGroups * sizeof(uint32_t);
constexpr size_t kSharedBytes = kPageBytes + kMarkBytes;
// Two keep the device busy while the host wakes up; more would only be in the way of others.
constexpr size_t kFreeDepth = 2;

using Word = std::atomic<uint32_t>;
static_assert(sizeof(Word) == sizeof(uint32_t) && Word::is_always_lock_free);

Word& stop_word(const os::Mapping& shared) { return *reinterpret_cast<Word*>(shared.data()); }
std::span<std::byte> marks_of(const os::Mapping& shared) { return shared.bytes().subspan(kPageBytes, kMarkBytes); }

// Each kernel leaves a mark one higher than the one before it, its groups in order: those that have the mark of the
// first, or a higher one if that changes meanwhile, are the ones that are done.
uint64_t groups_by_marks(std::span<std::byte> marks, uint32_t groups) {
  const auto mark = [&](uint32_t i) {
    return std::atomic_ref(reinterpret_cast<uint32_t*>(marks.data())[i]).load(std::memory_order_relaxed);
  };
  const uint32_t last = mark(0);
  if (last == 0) return 0;
  uint32_t done = 1, past = groups;
  while (done < past) {
    const uint32_t middle = done + (past - done) / 2;
    if (mark(middle) >= last)
      done = middle + 1;
    else
      past = middle;
  }
  return uint64_t{last - 1} * groups + done;
}

Result<os::Datagram> wait_for_datagram(const os::Fd& socket, Duration limit) {
  const Time deadline = os::now() + limit;
  for (;;) {
    auto received = os::receive(socket);
    if (received.ok() || received.error().code != ErrorCode::kExhausted) return received;
    const Duration left = limit == Duration::forever() ? limit : deadline - os::now();
    if (left.ns <= 0 || !os::wait_readable(socket.get(), left))
      return Error{ErrorCode::kDeadline, fmt::format("launcher: no answer within {}", to_string(limit))};
  }
}

template <class T>
Result<T> read_as(std::span<const std::byte> bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  if (bytes.size() != sizeof value) return invalid("launcher: a message of another size");
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace

struct Launcher::Order {
  enum class Kind : uint32_t { kCalibrate, kJoin, kLeave, kSetIdle, kTask, kBegin } kind = Kind::kCalibrate;
  uint32_t gate = kNoGate;
  uint32_t iterations = 0, kernels = 0, groups = 0;
  bool is_idle = false;
  int64_t gap_ns = 0;
  double jitter = 0;
  uint64_t seed = 0;
};

struct Launcher::Answer {
  bool ok = true;
  ErrorCode code = ErrorCode::kInternal;
  uint32_t iterations = 0;
  double group_ns = 0;
  int64_t took_ns = 0, device_ns = 0, waited_ns = 0;
  char text[256] = {};
};

Result<std::unique_ptr<Launcher>> Launcher::start(const Layout& layout, const std::string& folder) {
  QUERN_TRY(const std::string functions, functions_folder());
  QUERN_TRY(const Bytes source, os::read_file(functions + "/grind/grind.cl", 1 << 20));
  QUERN_TRY(os::make_folders(folder, 0700));
  std::unique_ptr<Launcher> self(new Launcher);
  QUERN_TRY(auto sockets, os::socket_pair());
  QUERN_TRY(self->page_fd_, os::create_shared_memory("quern-bench-launcher", kSharedBytes));
  QUERN_TRY(self->page_, os::map(self->page_fd_, kSharedBytes, true));
  self->socket_ = std::move(sockets.first);

  os::ProcessOptions options;
  options.arguments = {"launcher"};
  // The vendor compiles in it, and finds the linker by PATH.
  options.environment = {{"HOME", folder}, {"TMPDIR", folder}, {"PATH", "/usr/bin:/bin"}};
  for (const char* name : {"OCL_ICD_VENDORS", "LD_LIBRARY_PATH"})
    if (auto value = os::env(name); !value.empty()) options.environment[name] = value;
  options.cores = {layout.host, layout.device};  // ours may be narrower
  options.socket = sockets.second.get();
  options.log = 2;  // our own standard error: it says why it died
  QUERN_TRY(self->process_, os::Process::spawn(options));

  ByteWriter start;
  start.put(static_cast<int32_t>(layout.host));
  start.put(static_cast<int32_t>(layout.device));
  start.put_text(folder);
  start.put_text(as_text(source));
  const int page = self->page_fd_.get();
  QUERN_TRY(os::send(self->socket_, start.bytes(), {&page, 1}));
  sockets.second.reset();
  QUERN_TRY(self->wait_answer(kStartLimit));
  return self;
}

Result<Launcher::Answer> Launcher::wait_answer(Duration limit) {
  QUERN_TRY(const os::Datagram received, wait_for_datagram(socket_, limit));
  QUERN_TRY(Answer answer, read_as<Answer>(received.bytes));
  if (!answer.ok) return Error{answer.code, fmt::format("launcher: {}", answer.text)};
  return answer;
}

Result<Launcher::Answer> Launcher::ask(const Order& order, std::span<const int> fds) {
  QUERN_TRY(os::send(socket_, std::as_bytes(std::span(&order, 1)), fds));
  return wait_answer(kAnswerLimit);
}

Result<Launcher::Pace> Launcher::calibrate(uint32_t iterations) {
  QUERN_TRY(const Answer answer, ask({.kind = Order::Kind::kCalibrate, .iterations = iterations}));
  return Pace{answer.iterations, answer.group_ns};
}

Status Launcher::join(uint32_t gate, daemon::ProgramLink link) {
  const std::array fds{link.daemon_page.get(), link.own_page.get(), link.wake.get(), link.daemon_wake.get(),
                       link.life.get()};
  QUERN_TRY(ask({.kind = Order::Kind::kJoin, .gate = gate}, fds));
  link.life.reset();  // the process has it
  links_[gate] = std::move(link);
  return {};
}

Status Launcher::leave(uint32_t gate) {
  QUERN_TRY(ask({.kind = Order::Kind::kLeave, .gate = gate}));
  links_.erase(gate);
  return {};
}

Status Launcher::set_idle(bool is_idle) {
  QUERN_TRY(ask({.kind = Order::Kind::kSetIdle, .is_idle = is_idle}));
  return {};
}

Result<Launcher::Took> Launcher::run(uint32_t gate, const Task& task) {
  QUERN_TRY(const Answer answer, ask({.kind = Order::Kind::kTask,
                                      .gate = gate,
                                      .kernels = task.kernels,
                                      .groups = task.groups,
                                      .gap_ns = task.gap.ns,
                                      .jitter = task.jitter,
                                      .seed = task.seed}));
  const auto ms = [](int64_t ns) { return static_cast<double>(ns) / 1e6; };
  return Took{ms(answer.took_ns), ms(answer.device_ns), ms(answer.waited_ns)};
}

Status Launcher::begin(uint32_t gate, uint32_t groups) {
  stop_word(page_).store(0, std::memory_order_relaxed);
  QUERN_TRY(ask({.kind = Order::Kind::kBegin, .gate = gate, .groups = groups}));
  groups_ = groups;
  gate_ = gate;
  return {};
}

Status Launcher::end() {
  if (groups_ == 0) return {};
  stop_word(page_).store(1, std::memory_order_seq_cst);
  // It may sleep at its gate.
  if (const auto link = links_.find(gate_); link != links_.end()) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(link->second.wake.get(), &one, sizeof one);
  }
  groups_ = 0;
  QUERN_TRY(wait_answer(kAnswerLimit));
  return {};
}

uint64_t Launcher::groups_done() const { return groups_ == 0 ? 0 : groups_by_marks(marks_of(page_), groups_); }

/// Everything of a launcher's process; its one thread.
class LauncherProcess {
 public:
  explicit LauncherProcess(os::Fd socket) : socket_(std::move(socket)) {}

  Status serve() {
    QUERN_TRY(os::Datagram first, wait_for_datagram(socket_, Duration::forever()));
    QUERN_TRY(answer(open(std::move(first))));
    for (;;) {
      QUERN_TRY(os::Datagram received, wait_for_datagram(socket_, Duration::forever()));
      QUERN_TRY(const Order order, read_as<Order>(received.bytes));
      answer_ = {};
      QUERN_TRY(answer(obey(order, std::move(received.fds))));
    }
  }

 private:
  using Order = Launcher::Order;

  struct InFlight {
    uint64_t point = 0, groups = 0;
    double expected_ns = 0;
    uint64_t first = 0;   // group of its kernel
    uint32_t kernel = 0;  // which one, counted
  };
  struct Ended {
    ipc::DeviceUsed::Sample sample;
    ipc::Traced::Span span;
  };

  Status answer(const Status& status) {
    answer_.ok = status.ok();
    if (!status.ok()) {
      answer_.code = status.error().code;
      status.error().text.copy(answer_.text, sizeof answer_.text - 1);
    }
    return os::send(socket_, std::as_bytes(std::span(&answer_, 1)));
  }

  Status open(os::Datagram first) {
    ByteReader start(first.bytes);
    const std::array host{start.get<int32_t>()};
    const auto device = start.get<int32_t>();
    const std::string folder = start.get_text();
    const std::string source = start.get_text(1 << 20);
    if (!start.ok() || !start.at_end() || first.fds.size() != 1) return invalid("the first message is no start");
    QUERN_TRY(shared_, os::map(first.fds[0], kSharedBytes, true));
    os::want_exact_timers();
    // The vendor's worker starts here and stays on the device's core; what this thread does is the host's.
    QUERN_TRY(driver_, hal::opencl::create_driver());
    hal::DeviceOptions options;
    options.cores = {device};
    options.cache_folder = folder;
    QUERN_TRY(device_, driver_->open(options));
    QUERN_TRY(os::pin_to(host));
    if (!device_->caps().unified_memory || !device_->caps().launch_offset)
      return unsupported("the device shares no memory with the host, or launches at no offset");
    hal::Source text;
    text.text = source;
    QUERN_TRY(program_, device_->build(text));
    QUERN_TRY(kernel_, program_->create_kernel("grind"));
    QUERN_TRY(queue_, device_->create_queue());
    QUERN_TRY(marks_, device_->import(marks_of(shared_), true));
    // PoCL compiles once for launches at 0 and once for others.
    QUERN_TRY(launch(0, 2, 0));
    QUERN_TRY(launch(2, 2, 0));
    QUERN_TRY(retire(0));
    return {};
  }

  Status obey(const Order& order, std::vector<os::Fd> fds) {
    gate_ = nullptr;
    if (order.kind != Order::Kind::kJoin && order.gate != Launcher::kNoGate) {
      const auto found = gates_.find(order.gate);
      if (found == gates_.end()) return invalid(fmt::format("gate {}: was never joined", order.gate));
      gate_ = found->second.get();
    }
    if (order.groups > Launcher::kMostGroups) return invalid(fmt::format("{} groups are too many", order.groups));
    switch (order.kind) {
      case Order::Kind::kCalibrate:
        return calibrate(order.iterations);
      case Order::Kind::kJoin: {
        if (fds.size() != 5) return invalid("a gate comes with five descriptors");
        QUERN_TRY(gates_[order.gate], launcher::Program::open({.daemon_page = std::move(fds[0]),
                                                               .own_page = std::move(fds[1]),
                                                               .wake = std::move(fds[2]),
                                                               .daemon_wake = std::move(fds[3]),
                                                               .life = std::move(fds[4])}));
        return {};
      }
      case Order::Kind::kLeave:
        gates_.erase(order.gate);
        return {};
      case Order::Kind::kSetIdle:
        return set_idle(order.is_idle);
      case Order::Kind::kTask:
        return run_task(order);
      case Order::Kind::kBegin:
        return fill(order);
    }
    return invalid("an order of no kind");
  }

  Status calibrate(uint32_t iterations) {
    constexpr uint32_t kGroups = 200;
    constexpr int kLaunches = 15;
    const auto measure = [&]() -> Result<double> {
      std::vector<double> each;
      for (int i = 0; i < kLaunches; ++i) {
        wall_ns_ = 0;
        QUERN_TRY(launch(0, kGroups, 0));
        QUERN_TRY(retire(0));
        each.push_back(static_cast<double>(wall_ns_) / kGroups);
      }
      return middle_of(each).median;
    };
    iterations_ = iterations == 0 ? 1000 : iterations;
    for (int i = 0; i < 2 && iterations == 0; ++i) {
      QUERN_TRY(const double group_ns, measure());
      iterations_ = static_cast<uint32_t>(std::clamp(std::round(iterations_ * kGroupNs / group_ns), 1.0, 1e9));
    }
    QUERN_TRY(group_ns_, measure());
    ended_.clear();  // nobody's
    answer_.iterations = iterations_;
    answer_.group_ns = group_ns_;
    return {};
  }

  Status set_idle(bool is_idle) {
    for (const int worker : device_->worker_threads())
      if (!os::set_worker_class(worker, is_idle ? os::WorkerClass::kBestEffort : os::WorkerClass::kUrgent))
        return unavailable(fmt::format("worker {}: its class cannot be changed; run as root", worker));
    return {};
  }

  // What the gate lets through now; without one, as much as keeps the device busy.
  launcher::Permit permit(uint64_t groups) {
    using Why = launcher::Permit::Why;
    if (!gate_) return in_flight_.size() < kFreeDepth ? launcher::Permit{groups} : launcher::Permit{0, Why::kDepth};
    launcher::Ask ask;
    ask.parts = groups;
    ask.part_ns = group_ns_;
    ask.sliceable = true;
    ask.in_flight = static_cast<uint32_t>(in_flight_.size());
    if (!in_flight_.empty()) ask.in_flight_ns = static_cast<uint64_t>(std::max<int64_t>(0, end_ns_ - os::now().ns));
    return gate_->ask(ask);
  }

  void tell_ready(uint32_t groups) {
    first_start_ns_ = 0;
    if (!gate_) return;
    const auto time_ns = static_cast<uint64_t>(group_ns_ * groups);
    gate_->work_ready({.at_ns = os::now().ns, .kernels = {{identity(groups), groups, time_ns, true}}, .pauses = true});
  }

  // What ended is told after the gap that begins with it: the others wait for that.
  void tell_used() {
    if (gate_)
      for (const Ended& one : ended_) {
        gate_->traced(one.span);
        gate_->used(one.sample);
      }
    ended_.clear();
  }

  static uint64_t identity(uint32_t groups) { return uint64_t{1} << 32 | groups; }

  Status launch(uint64_t offset, uint64_t groups, uint32_t mark) {
    const std::array<hal::Argument, 3> arguments{marks_.get(), Scalar{Dtype::kUint32, iterations_},
                                                 Scalar{Dtype::kUint32, mark}};
    hal::Launch what;
    what.kernel = kernel_.get();
    what.arguments = arguments;
    what.offset[0] = offset;
    what.global[0] = groups;
    what.local = {1, 1, 1};
    QUERN_TRY(const uint64_t point, queue_->launch(what));
    QUERN_TRY(queue_->flush());
    if (gate_) gate_->launched();
    const double expected_ns = group_ns_ * static_cast<double>(groups);
    const int64_t now_ns = os::now().ns;
    end_ns_ = (in_flight_.empty() ? now_ns : std::max(end_ns_, now_ns)) + static_cast<int64_t>(expected_ns);
    in_flight_.push_back({point, groups, expected_ns, offset, kernel_number_});
    return {};
  }

  // Waits until at most `keep` launches are in flight. What is in flight then is expected to end counted from the end
  // of the last one that did, whatever was expected of that: errors do not add up.
  Status retire(size_t keep) {
    if (in_flight_.size() <= keep) return {};
    QUERN_TRY(queue_->timeline().wait(in_flight_[in_flight_.size() - keep - 1].point, Duration::forever()));
    const size_t first = ended_.size();
    int64_t wall_ns = 0;
    while (!in_flight_.empty()) {
      const auto time = queue_->timing(in_flight_.front().point);
      if (!time) break;
      const int64_t took_ns = std::max<int64_t>(1, time->end_ns - time->start_ns);
      const InFlight& one = in_flight_.front();
      ended_.push_back({{identity(kernel_groups_), one.groups, static_cast<uint64_t>(took_ns), false},
                        {.launch = one.kernel,
                         .first = one.first,
                         .parts = one.groups,
                         .of = kernel_groups_,
                         .start_ns = time->start_ns,
                         .end_ns = time->end_ns}});
      wall_ns += took_ns;
      end_ns_ = last_end_ns_ = time->end_ns;
      if (first_start_ns_ == 0) first_start_ns_ = time->start_ns;
      in_flight_.pop_front();
    }
    for (const InFlight& one : in_flight_) end_ns_ += static_cast<int64_t>(one.expected_ns);
    wall_ns_ += wall_ns;
    learn(std::span(ended_).subspan(first), wall_ns);
    return {};
  }

  // START to END is wall time, which counts whoever shared the core; the worker's own time does not. Where they agree
  // nobody did, and only then is it known what a group takes.
  void learn(std::span<Ended> ended, int64_t wall_ns) {
    constexpr double kAgree = 0.95, kRate = 1.0 / 8;
    constexpr uint64_t kFewest = 8;  // of fewer groups the launch itself is a part that counts
    const uint64_t charged_ns = queue_->device_time_ns();
    const double share = std::min(
        1.0, static_cast<double>(charged_ns - charged_ns_) / static_cast<double>(std::max<int64_t>(1, wall_ns)));
    charged_ns_ = charged_ns;
    for (auto& [sample, span] : ended) {
      sample.is_undisturbed = share >= kAgree;
      if (sample.is_undisturbed && sample.groups >= kFewest && group_ns_ > 0)
        group_ns_ += kRate * (static_cast<double>(sample.time_ns) / static_cast<double>(sample.groups) - group_ns_);
      sample.time_ns = static_cast<uint64_t>(share * static_cast<double>(sample.time_ns));
    }
  }

  // One kernel from its first launch to its end.
  Status run_kernel(uint32_t groups) {
    ++kernel_number_;
    for (uint64_t done = 0; done < groups;) {
      const launcher::Permit permitted = permit(groups - done);
      if (permitted.parts > 0) {
        QUERN_TRY(launch(done, permitted.parts, 1));
        done += permitted.parts;
      } else if (!in_flight_.empty()) {
        QUERN_TRY(retire(in_flight_.size() - 1));
      } else {
        const Time from = os::now();
        gate_->wait();
        answer_.waited_ns += (os::now() - from).ns;
      }
    }
    return retire(0);
  }

  Status run_task(const Order& order) {
    Prng prng(order.seed);
    kernel_groups_ = order.groups;
    wall_ns_ = 0;
    const Time begin = os::now();
    Time known = begin;
    for (uint32_t i = 0; i < order.kernels; ++i) {
      if (i > 0) {
        const double factor = 1 + order.jitter * (2 * prng.uniform() - 1);
        sleep_until(known + Duration{static_cast<int64_t>(static_cast<double>(order.gap_ns) * factor)});
      }
      tell_ready(order.groups);
      QUERN_TRY(run_kernel(order.groups));
      known = os::now();
      // Gaps after the same place in the task are alike.
      if (gate_) gate_->gap_begun({.at_ns = last_end_ns_, .after = i + 1, .started_ns = first_start_ns_});
      tell_used();
    }
    answer_.took_ns = (known - begin).ns;
    answer_.device_ns = wall_ns_;
    return {};
  }

  Status fill(const Order& order) {
    if (order.groups == 0) return invalid("a kernel has groups");
    kernel_groups_ = order.groups;
    std::memset(shared_.data() + kPageBytes, 0, kMarkBytes);
    QUERN_TRY(answer({}));  // that it has begun; the end is the caller's to answer
    tell_ready(order.groups);
    uint32_t mark = 1;
    uint64_t launched = 0;
    while (stop_word(shared_).load(std::memory_order_acquire) == 0) {
      const launcher::Permit permitted = permit(order.groups - launched);
      if (permitted.parts > 0) {
        QUERN_TRY(launch(launched, permitted.parts, mark));
        launched += permitted.parts;
        if (launched == order.groups) launched = 0, ++mark, ++kernel_number_;
      } else if (!in_flight_.empty()) {
        QUERN_TRY(retire(in_flight_.size() - 1));
        tell_used();
      } else {
        gate_->wait();
      }
    }
    QUERN_TRY(retire(0));
    if (gate_) gate_->gap_begun({.at_ns = last_end_ns_, .after = identity(order.groups), .started_ns = 0});
    tell_used();
    return {};
  }

  // Constant once it is open.
  os::Fd socket_;
  os::Mapping shared_;
  std::unique_ptr<hal::Driver> driver_;
  std::unique_ptr<hal::Device> device_;
  std::unique_ptr<hal::Program> program_;
  std::unique_ptr<hal::Kernel> kernel_;
  std::shared_ptr<hal::Buffer> marks_;
  std::unique_ptr<hal::Queue> queue_;
  // What was ordered.
  std::map<uint32_t, std::unique_ptr<launcher::Program>> gates_;
  launcher::Program* gate_ = nullptr;  // of the order
  uint32_t kernel_groups_ = 0, iterations_ = 1;
  uint32_t kernel_number_ = 0;  // that is being launched: they are counted
  Launcher::Answer answer_;
  // What is on the device, and what is known of it.
  std::deque<InFlight> in_flight_;
  std::vector<Ended> ended_;  // and not told
  double group_ns_ = 0;
  int64_t end_ns_ = 0;          // when all that is in flight is expected to have ended
  int64_t last_end_ns_ = 0;     // of what did
  int64_t first_start_ns_ = 0;  // of what was launched since there was work; 0: nothing of it ended yet
  int64_t wall_ns_ = 0;         // of all that ended since someone set it to 0
  uint64_t charged_ns_ = 0;     // by the queue's account, so far
};

void sleep_until(Time moment) {
  const timespec time{moment.ns / 1'000'000'000, moment.ns % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) continue;
}

int serve_launcher(os::Fd socket) {
  LauncherProcess process(std::move(socket));
  const Status ended = process.serve();
  if (ended.error().code == ErrorCode::kUnavailable) return 0;  // the benchmark is gone
  os::log_error("launcher: {}", ended.error().text);
  return 1;
}

}  // namespace quern::bench
