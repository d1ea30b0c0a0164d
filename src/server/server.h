// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/units.h"
#include "daemon/daemon.h"

namespace quern::server {

/// What a stranger may cost us. A limit that is reached is answered (431, 413, 408, 503) and ends the connection, but
/// for the JSON of answers: 400, and the connection goes on.
struct ServerLimits {
  uint32_t header_bytes = 16 * kKiB;
  uint64_t json_bytes = 64 * kMiB;               ///< the JSON of an infer request
  uint64_t body_bytes = 2 * kGiB;                ///< a whole body: tensors, or the tar of a function
  Duration header_time = Duration::seconds(10);  ///< from the first byte of a head to its last
  Duration body_idle = Duration::seconds(30);    ///< between two bytes of a body, or of an answer
  Duration keep_alive = Duration::seconds(75);   ///< between two requests, and before the first
  Duration linger = Duration::seconds(5);        ///< how long what a refused caller still sends is thrown away
  Duration half_closed = Duration::millis(500);  ///< until one that sends no more is asked whether it still listens
  uint64_t answer_json_bytes = 16 * kMiB;        ///< the JSON of an answer to infer
  uint64_t answers_json_bytes = 256 * kMiB;      ///< of all large ones on their way; one of several tenants has half
  uint64_t requests_json_bytes = 512 * kMiB;     ///< the same of requests
  /// In which some of a body, or of an answer, gets through: a caller that is slower keeps what others could use.
  Duration slowest_turn = Duration::seconds(300);
  uint32_t connections = 1024;  ///< past it the longest idle ones are closed; where none is, new ones get 503
  /// For a connection that gets 503: until the head of its request is there, and then until its caller has read why.
  Duration refused = Duration::seconds(1);
  uint64_t turn_bytes = 256 * kKiB;  ///< that a connection reads or writes before the others of its thread have a turn
};

struct ServerConfig {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;       ///< 0: any; `Server::port` says which
  std::string version = "0";  ///< of Quern, as GET /v2 shows it
  ServerLimits limits;
  uint32_t threads = 1;    ///< connections are dealt out to them and stay
  std::vector<int> cores;  ///< where they run; empty: anywhere
  bool has_keys = true;    ///< false: whoever reaches it may call, and is_of_this_machine
  /// For tests: comes before every piece of JSON that is read or written off the event loops, and may block.
  std::function<void()> before_json;
};

/// "127.0.0.1", "::1", "localhost": what a server without keys may listen on.
bool is_loopback(std::string_view host);
/// Whether a caller of a server without keys is of this machine, as far as its headers tell: `host` names loopback, and
/// `origin`, where a browser sends one, is the same. A page of another site reaches loopback through a name that it
/// points there (DNS rebinding), and its browser sends that name. A `Host` must be there, also with HTTP/1.0.
bool is_of_this_machine(std::string_view host, std::string_view origin);

/// The HTTP front door of a daemon: the Open Inference Protocol under /v2, Quern's own paths under /v1.
///
/// Binary tensors are read from the socket straight into the arena, and written from it. `start` and `stop` come from
/// one thread, once each; everything else happens on threads of its own.
class Server {
 public:
  /// Binds and listens, but accepts nothing yet. `daemon` outlives it. kInvalid for a host that is none, kUnavailable
  /// where the address is taken.
  static Result<std::unique_ptr<Server>> create(ServerConfig config, daemon::Daemon& daemon);
  virtual ~Server() = default;

  virtual uint16_t port() const = 0;
  virtual void start() = 0;
  /// Accepts nothing more, closes idle connections, lets running calls be answered until `limit`, then cancels them
  /// and waits for their end. The daemon still runs meanwhile: stop it afterwards.
  virtual void stop(Duration limit) = 0;
};

}  // namespace quern::server
