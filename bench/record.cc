// SPDX-License-Identifier: Apache-2.0
//
// What `serve --record` adds to a request: two servers, one of which records, under the same small calls in turns. Told
// in CPU time of the daemon, since valgrind 3.19 knows no pidfd, without which a daemon starts no executor.
#include <fmt/format.h>

#include <array>

#include "bench/bench.h"
#include "bench/load.h"
#include "bench/pairs.h"
#include "bench/stage.h"
#include "os/file.h"

namespace quern::bench {

Status run_record(const Options& options, Report& report) {
  const Layout layout = Layout::here();
  report.layout = layout.text;
  const std::array host{layout.host};
  QUERN_TRY(os::pin_to(host));
  QUERN_TRY(const auto plain_folder, Folder::create());
  QUERN_TRY(const auto record_folder, Folder::create());
  const std::string file = record_folder.path() + "/record.txt";
  options.progress("record: two servers");
  QUERN_TRY(auto plain, Server::start(layout, plain_folder.path()));
  QUERN_TRY(auto recording, Server::start(layout, record_folder.path(), {"--record", file}));
  QUERN_TRY(plain->deploy("copy"));
  QUERN_TRY(recording->deploy("copy"));
  const std::string tail(1024, 'q');
  QUERN_TRY(auto at_plain, Load::create(plain->port(), 4, copy_request(tail), tail));
  QUERN_TRY(auto at_recording, Load::create(recording->port(), 4, copy_request(tail), tail));
  QUERN_TRY(at_plain.run(Duration::millis(300)));
  QUERN_TRY(at_recording.run(Duration::millis(300)));
  const size_t rounds = options.quick ? 3 : 25;
  Samples micros;
  uint64_t recorded = 0;
  for (size_t i = 0; i < rounds; ++i) {
    options.progress(fmt::format("record: round {} of {}", i, rounds));
    for (size_t turn = 0; turn < 2; ++turn) {
      const bool is_plain = (i + turn) % 2 == 0;
      Server& server = is_plain ? *plain : *recording;
      const Duration before = server.cpu_time();
      QUERN_TRY(const auto rate, (is_plain ? at_plain : at_recording).run(Duration::millis(options.quick ? 150 : 300)));
      const double each = static_cast<double>((server.cpu_time() - before).ns) / 1e3 / static_cast<double>(rate.calls);
      (is_plain ? micros.theirs : micros.ours).push_back(each);
      if (!is_plain) recorded += rate.calls;
    }
  }
  report.rows.push_back(micros.row("record", "us of CPU", "<= 1.02"));
  QUERN_TRY(recording->stop());
  QUERN_TRY(plain->stop());
  QUERN_TRY(const auto bytes, os::read_file(file, uint64_t{1} << 30));
  report.notes.push_back(fmt::format("{} bytes recorded for a call", bytes.size() / std::max<uint64_t>(1, recorded)));
  return {};
}

}  // namespace quern::bench
