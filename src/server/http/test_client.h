// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cerrno>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "server/http/fake_daemon.h"
#include "server/server.h"

namespace quern::server {

struct Response {
  int status = 0;  ///< 0: the connection ended instead
  std::string first_line;
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
  boost::json::value json() const {
    const std::string length = header("inference-header-content-length");
    return boost::json::parse(length.empty() ? body : body.substr(0, std::stoul(length)));
  }
  std::string binary() const { return body.substr(std::stoul(header("inference-header-content-length"))); }
  std::string code() const { return std::string(json().at("code").as_string()); }
  std::string error() const { return std::string(json().at("error").as_string()); }
};

/// A caller that writes bytes as they are, and reads answers; blocks, at most 20 s.
class TestClient {
 public:
  explicit TestClient(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    timeval limit{20, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~TestClient() { close_now(); }
  TestClient(const TestClient&) = delete;

  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t size = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (size <= 0) return;
      text.remove_prefix(static_cast<size_t>(size));
    }
  }
  void close_now() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void end_sending() { shutdown(fd_, SHUT_WR); }
  /// Returns once all that was sent is at the server's socket, whether or not the server has read it.
  void wait_delivered() {
    for (int left = 1; ioctl(fd_, SIOCOUTQ, &left) == 0 && left > 0;) std::this_thread::yield();
  }

  Response read(bool has_body = true) {
    Response response;
    size_t end;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos)
      if (!more()) return response;
    std::string head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    response.status = std::stoi(head.substr(9, 3));
    response.first_line = head.substr(0, head.find("\r\n"));
    for (size_t at = head.find("\r\n") + 2; at < head.size();) {
      const size_t line_end = head.find("\r\n", at), colon = head.find(": ", at);
      std::string name = head.substr(at, colon - at);
      std::transform(name.begin(), name.end(), name.begin(), ::tolower);
      response.headers[name] = head.substr(colon + 2, line_end - colon - 2);
      at = line_end + 2;
    }
    if (response.status == 100 || !has_body) return response;
    const size_t length = std::stoul(response.header("content-length"));
    while (buffer_.size() < length)
      if (!more()) return response;
    response.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
    return response;
  }
  /// What has come and was not read yet; waits until something has.
  const std::string& peek() {
    if (buffer_.empty()) more();
    return buffer_;
  }
  Response ask(std::string_view text) {
    send(text);
    return read();
  }
  /// The server has ended the connection, and nothing is left to read.
  bool is_at_end() { return buffer_.empty() && !more() && has_ended_; }

 private:
  bool more() {
    char some[65536];
    const ssize_t size = recv(fd_, some, sizeof some, 0);
    if (size > 0) buffer_.append(some, static_cast<size_t>(size));
    has_ended_ = size == 0 || (size < 0 && errno == ECONNRESET);
    return size > 0;
  }

  int fd_;
  bool has_ended_ = false;
  std::string buffer_;
};

inline std::string get(const std::string& path) { return "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n"; }
inline std::string request(const std::string& method, const std::string& path, const std::string& body,
                           const std::string& lines = "") {
  return method + " " + path + " HTTP/1.1\r\nHost: a\r\n" + lines + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}
inline std::string post(const std::string& path, const std::string& body, const std::string& lines = "") {
  return request("POST", path, body, lines);
}
/// An infer request: its JSON, then bytes.
inline std::string infer(const std::string& json, const std::string& binary = "", const std::string& name = "echo",
                         const std::string& lines = "") {
  return post("/v2/models/" + name + "/infer", json + binary,
              lines + "Inference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n");
}

class ServerTest : public testing::Test {
 protected:
  void start() {
    config_.port = 0;
    auto made = Server::create(config_, daemon_);
    ASSERT_TRUE(made.ok()) << made.error().text;
    server_ = *std::move(made);
    server_->start();
  }
  void TearDown() override {
    if (server_) server_->stop(Duration::seconds(0));
    server_.reset();
  }
  std::unique_ptr<TestClient> client() { return std::make_unique<TestClient>(server_->port()); }
  Response ask(const std::string& text) { return client()->ask(text); }

  FakeDaemon daemon_;
  ServerConfig config_;
  std::unique_ptr<Server> server_;
};

}  // namespace quern::server
