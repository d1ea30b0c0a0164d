// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>

#include "base/result.h"

namespace quern::bench {

/// A bare Beast server on one thread: answers each request with its own body. What HTTP costs when nothing is done
/// with it.
class EchoServer {
 public:
  /// Listens on any port of 127.0.0.1, with its thread on `core`.
  static Result<std::unique_ptr<EchoServer>> start(int core);
  virtual ~EchoServer() = default;
  virtual uint16_t port() const = 0;
};

}  // namespace quern::bench
