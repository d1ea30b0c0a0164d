// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "os/fd.h"

namespace quern::bench {

/// A call of examples/copy with these bytes, head and body.
std::string copy_request(const std::string& tail);

/// A load of HTTP requests from one thread: each connection sends the same bytes again as soon as it has its answer.
/// It does next to nothing itself, since it shares a core with the server.
class Load {
 public:
  /// Connects. `request` is head and body as sent; each answer must be 200 and end with `tail`.
  static Result<Load> create(uint16_t port, size_t connections, std::string request, std::string tail);

  struct Rate {
    uint64_t calls = 0;
    double per_second = 0;
  };
  /// Sends for `length`, then waits for what is under way.
  Result<Rate> run(Duration length);

 private:
  struct Connection {
    os::Fd socket;
    std::string answer;  ///< what has come of it
    size_t whole = 0;    ///< its size, head and body; 0: the head is not whole yet
  };

  Load(std::string request, std::string tail) : request_(std::move(request)), tail_(std::move(tail)) {}
  Status send(const Connection& connection) const;
  /// True if the answer is whole now.
  Result<bool> receive(Connection& connection) const;

  std::string request_, tail_;
  os::Fd epoll_;
  std::vector<Connection> connections_;
};

}  // namespace quern::bench
