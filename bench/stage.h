// SPDX-License-Identifier: Apache-2.0
//
// The stage a benchmark plays on: which core does what, a folder that goes away, the examples, and a server as users
// start it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "client/client.h"
#include "daemon/config.h"
#include "os/guarded.h"
#include "os/process.h"
#include "os/thread.h"

namespace quern::bench {

/// Who runs where: the device has a core of its own, as a GPU box has a GPU, and all else shares another.
struct Layout {
  int host = 0, device = 1;
  std::string text;  ///< Report::layout

  /// Of this machine, as far as we may use it. With one core it is shared, and the text says so.
  static Layout here();
  /// The device that quern is given in this layout.
  daemon::DeviceConfig device_config() const;
};

/// A temporary folder. Removed with its owner.
class Folder {
 public:
  static Result<Folder> create();
  Folder(Folder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Folder& operator=(Folder&&) = delete;
  ~Folder();

  const std::string& path() const { return path_; }

 private:
  explicit Folder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// `examples` where we are, else that of the source this was built from. kNotFound if both are gone.
Result<std::string> examples_folder();
/// The same of `bench/functions`.
Result<std::string> functions_folder();

/// GET /v1/counters.
struct ServerCounters {
  struct Stage {
    std::string name;
    double ns = 0, count = 0;
  };
  uint64_t copied_bytes = 0;
  double device_ns = 0;
  std::vector<Stage> stages;  ///< in the order of a call
};

/// `quern serve` as a process of its own on the host's core, its device on the other. Start it on a thread that
/// outlives it: it dies with that.
class Server {
 public:
  /// Returns once it is ready.
  static Result<std::unique_ptr<Server>> start(const Layout& layout, const std::string& folder,
                                               const std::vector<std::string>& more = {});
  /// An example, by name.
  Status deploy(const std::string& name);
  Result<client::Client> connect() const;
  Result<ServerCounters> counters() const;

  const std::string& url() const { return url_; }
  uint16_t port() const { return port_; }
  /// That it used so far, all threads together, without executors.
  Duration cpu_time() const;

  /// In order, as Ctrl-C would. kInternal with its log if it did not end well.
  Status stop();

 private:
  Server() = default;
  Status spawn(const Layout& layout, const std::string& folder, const std::vector<std::string>& more);
  Status wait_ready();
  void read_log();
  std::string log() const;

  // Constant once it is ready.
  std::string url_;
  uint16_t port_ = 0;
  os::Fd log_fd_;
  // Shared with the thread that reads the log.
  os::Guarded<std::string> log_;
  os::Thread reader_;    // ends when the process closes its end, and so is joined after it is gone
  os::Process process_;  // last: destroyed first
};

/// What fits nowhere else: microseconds between two moments.
inline double micros_between(Time from, Time to) { return static_cast<double>((to - from).ns) / 1e3; }

/// Long enough for whoever ran last to go to sleep. An executor looks for its next run for a while before it does, on
/// the device's core: without this the other side of a pair would pay for that.
void settle();

}  // namespace quern::bench
