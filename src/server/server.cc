// SPDX-License-Identifier: Apache-2.0
#include "server/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <thread>

#include "os/clock.h"
#include "os/fd.h"
#include "os/log.h"
#include "os/thread.h"
#include "server/http/connection.h"

namespace quern::server {
namespace {

using Code = boost::system::error_code;
using Acceptor = asio::basic_socket_acceptor<asio::ip::tcp, Executor>;
using Timer =
    asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>, Executor>;
constexpr auto kTuple = asio::as_tuple(kAwait);
// Connections past the limit that are told so, each for one request. For one more the oldest that has sent nothing yet
// is closed; where all have sent something, the new one is.
constexpr uint32_t kMostRefused = 64;
constexpr int kShedAtOnce = 8;

// A thread, its connections, and the timer that looks at their deadlines: one for all of them, so that a request that
// keeps its limits pays for no timer.
class Worker {
 public:
  /// `workers`: all of them, this one at `index`.
  Worker(Front& front, Duration tick, const std::vector<std::unique_ptr<Worker>>& workers, size_t index)
      : shard_(front), timer_(shard_.io), tick_(tick), workers_(workers), index_(index) {}
  ~Worker() {
    thread_.join();
    // The daemon's callbacks post as their last but one act; see Shard::callbacks.
    while (shard_.callbacks.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  }

  asio::io_context& io() { return shard_.io; }

  void start(const std::string& name, const std::vector<int>& cores) {
    asio::co_spawn(shard_.io, watch(), [](std::exception_ptr) {});
    thread_ = os::Thread(name, [this, cores] {
      if (!cores.empty())
        if (Status status = os::pin_to(cores); !status.ok()) os::log_warning("server: {}", status.error().text);
      os::want_short_turns();
      shard_.io.run();
    });
  }

  // From any thread.
  /// `is_last`: there is no descriptor for another; its first request is answered 503.
  void take(Socket socket, bool is_last) {
    asio::post(shard_.io, [this, is_last, socket = std::move(socket)]() mutable { adopt(std::move(socket), is_last); });
  }
  /// Closes some idle connections: others need their descriptors.
  void make_room() {
    asio::post(shard_.io, [this] {
      for (int i = 0; i < kShedAtOnce && shed(); ++i) continue;
    });
  }
  void stop(Time limit) {
    asio::post(shard_.io, [this, limit] {
      shard_.is_stopping = true;
      stop_at_ = limit;
      for (Connection* connection : shard_.connections) connection->wind_down();
      timer_.cancel();
    });
  }
  void join() { thread_.join(); }

 private:
  void adopt(Socket socket, bool is_last) {
    Front& front = shard_.front;
    const uint32_t others = front.connections.fetch_add(1, std::memory_order_relaxed);
    if (is_last) return admit(std::move(socket), others, true);
    if (others < front.config.limits.connections || shed()) return admit(std::move(socket), others, false);
    ask_others(pending_.insert(pending_.end(), std::move(socket)), others, 1);
  }

  // Nobody is idle here, but may be elsewhere: each other worker is asked in its turn. The socket stays with us, so
  // that it goes before our event loop does.
  void ask_others(std::list<Socket>::iterator socket, uint32_t others, size_t asked) {
    const auto decide = [=, this](bool is_full) {
      Socket ours = std::move(*socket);
      pending_.erase(socket);
      admit(std::move(ours), others, is_full);
    };
    if (asked == workers_.size()) return decide(true);
    Worker& other = *workers_[(index_ + asked) % workers_.size()];
    asio::post(other.io(), [=, this, &other] {
      const bool has_room = other.shed();
      asio::post(shard_.io, [=, this] {
        if (has_room) return decide(false);
        ask_others(socket, others, asked + 1);
      });
    });
  }

  void admit(Socket socket, uint32_t others, bool is_full) {
    Front& front = shard_.front;
    const uint32_t most = front.config.limits.connections;
    if (is_full) front.refused.fetch_add(1, std::memory_order_relaxed);
    if (shard_.is_stopping || (is_full && others >= most + kMostRefused && !end_first(shard_.silent))) {
      front.connections.fetch_sub(1, std::memory_order_relaxed);
      return;
    }
    auto connection = std::make_shared<Connection>(shard_, std::move(socket), is_full);
    shard_.connections.insert(connection.get());
    asio::co_spawn(shard_.io, connection->run(), [this, connection](std::exception_ptr) {
      shard_.connections.erase(connection.get());
      shard_.front.connections.fetch_sub(1, std::memory_order_relaxed);
      if (shard_.is_stopping) timer_.cancel();
    });
  }

  // The one that has been idle for longest ends. False if none is.
  bool shed() {
    if (!end_first(shard_.idle)) return false;
    shard_.front.shed.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  static bool end_first(const std::list<Connection*>& connections) {
    if (connections.empty()) return false;
    connections.front()->wind_down();
    return true;
  }

  Task<> watch() {
    while (!shard_.is_stopping || !shard_.connections.empty()) {
      const Duration left = stop_at_ - os::now();
      timer_.expires_after(std::chrono::nanoseconds(std::clamp<int64_t>(left.ns, 0, tick_.ns)));
      co_await timer_.async_wait(kTuple);
      const Time now = os::now();
      for (Connection* connection : shard_.connections) connection->check_deadline(now);
      shard_.front.tell_crowd(now);
      if (now < stop_at_) continue;
      stop_at_ = Time::never();
      for (Connection* connection : shard_.connections) connection->abort();
    }
  }

  Shard shard_;
  // The worker's thread only.
  Timer timer_;
  Time stop_at_ = Time::never();
  std::list<Socket> pending_;  ///< until other workers have looked for an idle connection
  // Constant after construction.
  const Duration tick_;
  const std::vector<std::unique_ptr<Worker>>& workers_;
  const size_t index_;
  os::Thread thread_;
};

class HttpServer : public Server {
 public:
  HttpServer(ServerConfig config, daemon::Daemon& daemon)
      : front_(std::move(config), daemon, fmt::format("h{:x}-", os::now().ns)),
        pause_(accept_io()),
        acceptor_(accept_io()) {}
  ~HttpServer() override { stop(Duration{0}); }

  Status listen() {
    Code ec;
    asio::ip::tcp::resolver resolver(accept_io());
    const ServerConfig& config = front_.config;
    const auto found = resolver.resolve(config.host, std::to_string(config.port), asio::ip::tcp::resolver::passive, ec);
    if (ec || found.empty())
      return invalid(fmt::format("server: '{}' is no address to listen on: {}", config.host, ec.message()));
    const asio::ip::tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), ec);
    if (!ec) acceptor_.set_option(Acceptor::reuse_address(true), ec);
    if (!ec) acceptor_.bind(endpoint, ec);
    if (!ec) acceptor_.non_blocking(true, ec);
    if (!ec) acceptor_.listen(Acceptor::max_listen_connections, ec);
    if (ec)
      return unavailable(fmt::format("server: cannot listen on {}:{}: {}", config.host, config.port, ec.message()));
    port_ = acceptor_.local_endpoint(ec).port();
    return {};
  }

  uint16_t port() const override { return port_; }

  void start() override {
    is_started_ = true;
    asio::co_spawn(accept_io(), accept(), [](std::exception_ptr) {});
    for (size_t i = 0; i < workers_.size(); ++i) workers_[i]->start(fmt::format("http-{}", i), front_.config.cores);
  }

  void stop(Duration limit) override {
    if (!std::exchange(is_started_, false)) return;
    const Time until = os::now() + limit;
    asio::post(accept_io(), [this] {
      Code ignored;
      acceptor_.close(ignored);
      pause_.cancel();
    });
    for (auto& worker : workers_) worker->stop(until);
    for (auto& worker : workers_) worker->join();
  }

 private:
  asio::io_context& accept_io() {
    if (workers_.empty()) make_workers();
    return workers_.front()->io();
  }

  void make_workers() {
    const ServerLimits& limits = front_.config.limits;
    const Duration shortest = std::min({limits.header_time, limits.body_idle, limits.keep_alive, limits.linger});
    const Duration tick = std::clamp(Duration{shortest.ns / 4}, Duration::millis(5), Duration::seconds(1));
    for (uint32_t i = 0; i < std::max(1u, front_.config.threads); ++i)
      workers_.push_back(std::make_unique<Worker>(front_, tick, workers_, i));
  }

  Task<> accept() {
    for (size_t next = 0;; ++next) {
      Worker& worker = *workers_[next % workers_.size()];
      auto [ec, socket] = co_await acceptor_.async_accept(worker.io(), kTuple);
      if (!acceptor_.is_open()) co_return;
      if (!ec) {
        worker.take(std::move(socket), false);
        if (!spare_) spare_ = os::spare_descriptor();
        continue;
      }
      const bool is_full =
          ec == asio::error::no_descriptors || ec == boost::system::errc::too_many_files_open_in_system;
      if (is_full) {
        if (std::exchange(spare_, os::Fd())) {
          // One more can be told why. While it is, there is no spare one.
          Code still;
          Socket last = acceptor_.accept(worker.io(), still);
          if (!still) {
            worker.take(std::move(last), true);
            for (auto& other : workers_) other->make_room();
            continue;
          }
          // Nobody is there: the system looks for a descriptor first.
          spare_ = os::spare_descriptor();
          co_await acceptor_.async_wait(Acceptor::wait_read, kTuple);
          if (!acceptor_.is_open()) co_return;
          continue;
        }
      }
      if (is_full)
        for (auto& other : workers_) other->make_room();
      // Others have to end first, and asking again at once would only burn time.
      front_.cannot_accept(ec.message(), os::now());
      pause_.expires_after(std::chrono::milliseconds(100));
      co_await pause_.async_wait(kTuple);
      if (!spare_) spare_ = os::spare_descriptor();
    }
  }

  // Constant after construction, up to what is inside.
  Front front_;
  std::vector<std::unique_ptr<Worker>> workers_;
  uint16_t port_ = 0;
  // The first worker's thread only, once started.
  Timer pause_;
  Acceptor acceptor_;
  os::Fd spare_ = os::spare_descriptor();  ///< given up where there is no other, to answer who has to be refused
  // The owner's thread only.
  bool is_started_ = false;
};

}  // namespace

bool is_loopback(std::string_view host) {
  if (host == "localhost") return true;
  Code ec;
  const auto address = asio::ip::make_address(host, ec);
  return !ec && address.is_loopback();
}

bool is_of_this_machine(std::string_view host, std::string_view origin) {
  // Names of hosts are the same in capital letters.
  const auto lower = [](std::string_view text) {
    std::string result(text);
    for (char& c : result)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return result;
  };
  const std::string address = lower(host);
  if (!origin.empty() && lower(origin) != "http://" + address) return false;
  // NAME, NAME:PORT or [ADDRESS]:PORT. The dot of a full name (localhost.) is no part of it.
  std::string_view name = address;
  if (name.starts_with('[')) {
    name = name.substr(1, name.find(']') - 1);
  } else {
    name = name.substr(0, name.find(':'));
    if (name.ends_with('.')) name.remove_suffix(1);
  }
  return is_loopback(name);
}

Result<std::unique_ptr<Server>> Server::create(ServerConfig config, daemon::Daemon& daemon) {
  auto server = std::make_unique<HttpServer>(std::move(config), daemon);
  QUERN_TRY(server->listen());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace quern::server
