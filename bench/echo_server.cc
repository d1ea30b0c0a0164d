// SPDX-License-Identifier: Apache-2.0
#include "bench/echo_server.h"

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <utility>

#include "os/thread.h"

namespace quern::bench {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Code = boost::system::error_code;
using asio::ip::tcp;

/// One connection; it keeps itself alive by the operation it waits for.
class Session : public std::enable_shared_from_this<Session> {
 public:
  explicit Session(tcp::socket socket) : socket_(std::move(socket)) {}

  void read() {
    request_ = {};
    http::async_read(socket_, buffer_, request_, [self = shared_from_this()](Code code, size_t) {
      if (!code) self->answer();
    });
  }

 private:
  void answer() {
    response_ = {http::status::ok, request_.version()};
    response_.set(http::field::content_type, "application/octet-stream");
    response_.keep_alive(request_.keep_alive());
    response_.body() = std::move(request_.body());
    response_.prepare_payload();
    http::async_write(socket_, response_, [self = shared_from_this()](Code code, size_t) {
      if (!code && self->response_.keep_alive()) self->read();
    });
  }

  tcp::socket socket_;
  boost::beast::flat_buffer buffer_;
  http::request<http::string_body> request_;
  http::response<http::string_body> response_;
};

class BeastEcho final : public EchoServer {
 public:
  ~BeastEcho() override { context_.stop(); }

  Status open(int core) {
    Code code;
    const tcp::endpoint endpoint(asio::ip::address_v4::loopback(), 0);
    acceptor_.open(endpoint.protocol(), code);
    if (!code) acceptor_.bind(endpoint, code);
    if (!code) acceptor_.listen(asio::socket_base::max_listen_connections, code);
    if (code) return unavailable("echo server: " + code.message());
    accept();
    thread_ = os::Thread("bench-echo", [this, core] {
      const std::array cores{core};
      (void)os::pin_to(cores);
      context_.run();
    });
    return {};
  }
  uint16_t port() const override { return acceptor_.local_endpoint().port(); }

 private:
  void accept() {
    acceptor_.async_accept([this](Code code, tcp::socket socket) {
      if (code) return;
      socket.set_option(tcp::no_delay(true), code);
      std::make_shared<Session>(std::move(socket))->read();
      accept();
    });
  }

  asio::io_context context_{1};
  tcp::acceptor acceptor_{context_};
  os::Thread thread_;  // last: joined first
};

}  // namespace

Result<std::unique_ptr<EchoServer>> EchoServer::start(int core) {
  auto server = std::make_unique<BeastEcho>();
  QUERN_TRY(server->open(core));
  return std::unique_ptr<EchoServer>(std::move(server));
}

}  // namespace quern::bench
