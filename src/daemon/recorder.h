// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "os/file.h"
#include "sched/scheduler.h"

namespace quern::daemon {

/// Writes what the core heard and what it asked for, in the lines of sched/text.h: first `config …`, then per step
/// `<time> <event>` and, two spaces in, `> <action>` for each action. `quern simulate --replay` reads it.
///
/// Belongs to the strand. Lines are gathered and written 64 KiB at a time, after a second at the latest. A file that
/// cannot be written any more ends the recording, not the server.
class Recorder {
 public:
  /// In place of what the file held. It grows to `most_bytes`; a last line then says so, and recording ends.
  static Result<std::unique_ptr<Recorder>> create(const std::string& path, uint64_t most_bytes,
                                                  const sched::Config& config);
  ~Recorder() { write(); }

  void add(Time now, const sched::Event& event, const std::vector<sched::Action>& actions);
  /// When `write` is due; never while there is nothing to write.
  Time due() const { return due_; }
  void write();

 private:
  Recorder(os::Fd file, std::string path, uint64_t most_bytes);
  void end(std::string_view why);

  // Constant after construction.
  os::Fd file_;
  std::string path_;
  uint64_t most_bytes_;
  // Strand only.
  std::string lines_;
  uint64_t written_bytes_ = 0;
  Time due_ = Time::never();
  bool ended_ = false;
};

}  // namespace quern::daemon
