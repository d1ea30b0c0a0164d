// SPDX-License-Identifier: Apache-2.0
#include "bench/load.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "bench/stage.h"
#include "os/clock.h"

namespace quern::bench {
namespace {

constexpr int kSilenceMillis = 10'000;

Error failed(const char* what) { return unavailable(fmt::format("load: {}: {}", what, strerror(errno))); }

Result<os::Fd> connect_to(uint16_t port) {
  os::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return failed("connect");
  const int one = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return socket;
}

/// Head and body of an answer whose head is whole; 0 if it is not yet.
Result<size_t> whole_size(const std::string& answer) {
  const size_t end = answer.find("\r\n\r\n");
  if (end == std::string::npos) return size_t{0};
  if (!answer.starts_with("HTTP/1.1 200")) return internal("load: the answer is " + answer.substr(0, 400));
  constexpr std::string_view kField = "\r\ncontent-length:";
  for (size_t at = answer.find("\r\n"); at < end; at = answer.find("\r\n", at + 2)) {
    if (strncasecmp(answer.data() + at, kField.data(), kField.size()) != 0) continue;
    size_t digits = at + kField.size(), size = 0;
    while (answer[digits] == ' ') ++digits;
    std::from_chars(answer.data() + digits, answer.data() + end, size);
    return end + 4 + size;
  }
  return internal("load: an answer without Content-Length");
}

}  // namespace

Result<Load> Load::create(uint16_t port, size_t connections, std::string request, std::string tail) {
  Load load(std::move(request), std::move(tail));
  load.epoll_ = os::Fd(::epoll_create1(EPOLL_CLOEXEC));
  for (size_t i = 0; i < connections; ++i) {
    QUERN_TRY(auto socket, connect_to(port));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    if (::epoll_ctl(load.epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) return failed("epoll_ctl");
    load.connections_.push_back({std::move(socket), {}, 0});
  }
  return load;
}

Status Load::send(const Connection& connection) const {
  // A request is far smaller than the socket's buffer, which is empty: all of it fits.
  const ssize_t sent = ::send(connection.socket.get(), request_.data(), request_.size(), MSG_NOSIGNAL);
  return sent == static_cast<ssize_t>(request_.size()) ? Status() : failed("send");
}

Result<bool> Load::receive(Connection& connection) const {
  std::array<char, 16384> piece;
  const ssize_t size = ::recv(connection.socket.get(), piece.data(), piece.size(), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (size < 0) return failed("recv");
  if (size == 0) return unavailable("load: the server closed a connection");
  connection.answer.append(piece.data(), static_cast<size_t>(size));
  if (connection.whole == 0) {
    QUERN_TRY(connection.whole, whole_size(connection.answer));
  }
  if (connection.whole == 0 || connection.answer.size() < connection.whole) return false;
  if (connection.answer.size() > connection.whole) return internal("load: more came than was asked for");
  if (!connection.answer.ends_with(tail_)) return internal("load: an answer does not end with what was sent");
  connection.answer.clear();
  connection.whole = 0;
  return true;
}

Result<Load::Rate> Load::run(Duration length) {
  const Time from = os::now(), until = from + length;
  for (const Connection& connection : connections_) QUERN_TRY(send(connection));
  size_t under_way = connections_.size();
  Rate rate;
  std::array<epoll_event, 64> ready;
  while (under_way > 0) {
    const int count = ::epoll_wait(epoll_.get(), ready.data(), ready.size(), kSilenceMillis);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return unavailable("load: no answer within 10s");
    for (int i = 0; i < count; ++i) {
      Connection& connection = connections_[ready[static_cast<size_t>(i)].data.u64];
      QUERN_TRY(const bool is_whole, receive(connection));
      if (!is_whole) continue;
      ++rate.calls;
      if (os::now() >= until) {
        --under_way;
        continue;
      }
      QUERN_TRY(send(connection));
    }
  }
  rate.per_second = 1e6 * static_cast<double>(rate.calls) / micros_between(from, os::now());
  return rate;
}

std::string copy_request(const std::string& tail) {
  const std::string json = fmt::format(
      R"({{"inputs":[{{"name":"input","shape":[{0}],"datatype":"UINT8","parameters":{{"binary_data_size":{0}}}}}],)"
      R"("parameters":{{"binary_data_output":true}}}})",
      tail.size());
  return fmt::format(
             "POST /v2/models/copy/infer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/octet-stream\r\n"
             "Inference-Header-Content-Length: {}\r\nContent-Length: {}\r\n\r\n",
             json.size(), json.size() + tail.size()) +
         json + tail;
}

}  // namespace quern::bench
