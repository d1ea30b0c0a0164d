// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/client.h"
#include "daemon/daemon.h"
#include "os/event.h"
#include "os/fd.h"
#include "os/thread.h"

namespace CLI {
class App;
}

namespace quern::main {

/// The flags of every command that works without a server.
struct LocalFlags {
  std::string config, binary_cache;
  // Without a flag of their own.
  std::optional<uint64_t> slices = {};  ///< launch in random slices of this seed (hal/sliced.h)
  std::optional<uint8_t> poison = {};   ///< guards around memory, all of it filled with this byte (hal/guarded.h)
};
void add_local_flags(CLI::App& command, LocalFlags& flags);

/// The files of a function's folder, and what its manifest comes to.
struct Folder {
  std::string name;
  Bytes tar;
  Files files;
  ParsedManifest parsed;
};
Result<Folder> read_folder(const std::string& folder);

/// Every mistake and warning, one line each, to standard error; the error of a manifest that has mistakes.
Status tell_mistakes(const Folder& folder);

/// A daemon of one's own over a state that is gone afterwards: what `run` and `check` use in place of a server, with
/// the same executors and builders. Ctrl-C ends it. One thread.
class Local {
 public:
  static Result<std::unique_ptr<Local>> create(const LocalFlags& flags);
  ~Local();

  /// Its warnings are told to standard error, unless not `tell`.
  Result<daemon::FunctionRef> deploy(const Folder& folder, bool tell = true);

  /// Its outputs lie in the call, which is kept until the next one.
  struct Answer {
    client::InferAnswer answer;
    const daemon::Call* call = nullptr;
  };
  Result<Answer> call(const daemon::FunctionRef& function, const client::InferRequest& request, bool profile);

  std::vector<daemon::DeviceStatus> devices() const { return daemon_->devices(); }

 private:
  Local(std::string state, os::Fd signals, os::Event quit)
      : state_(std::move(state)), signals_(std::move(signals)), quit_(std::move(quit)) {}
  void watch();
  Error or_interrupted(const Error& error) const;

  std::string state_;
  os::Fd signals_;
  os::Event quit_;
  std::atomic<bool> interrupted_{false};
  std::unique_ptr<daemon::Daemon> daemon_;
  const daemon::Tenant* tenant_ = nullptr;
  std::unique_ptr<daemon::Call> last_;
  os::Thread watcher_;
};

/// A function as a server would tell it.
client::FunctionInfo info_of(const daemon::Function& function);

}  // namespace quern::main
