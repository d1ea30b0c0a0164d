// SPDX-License-Identifier: Apache-2.0
//
// Calls that do next to nothing, against a bare Beast echo under the same load: what everything round a kernel costs.
#include <fmt/format.h>

#include <array>

#include "bench/bench.h"
#include "bench/echo_server.h"
#include "bench/load.h"
#include "bench/stage.h"

namespace quern::bench {
namespace {

constexpr size_t kBytes = 1024;

/// What became of the calls between two looks at the counters, in microseconds a call.
struct Spent {
  size_t connections = 0;
  double whole = 0;  ///< as the load saw it
  std::vector<std::pair<std::string, double>> stages;
  double device = 0;
};

Spent spent_between(const ServerCounters& before, const ServerCounters& after, size_t connections, double mean_rate) {
  Spent spent;
  spent.connections = connections;
  spent.whole = mean_rate > 0 ? 1e6 * static_cast<double>(connections) / mean_rate : 0;
  double calls = 0;
  for (size_t i = 0; i < after.stages.size() && i < before.stages.size(); ++i) {
    const double count = after.stages[i].count - before.stages[i].count;
    calls = std::max(calls, count);
    spent.stages.emplace_back(after.stages[i].name,
                              count > 0 ? (after.stages[i].ns - before.stages[i].ns) / count / 1e3 : 0);
  }
  spent.device = calls > 0 ? (after.device_ns - before.device_ns) / calls / 1e3 : 0;
  return spent;
}

void add_table(const std::vector<Spent>& all, Report& report) {
  std::string head = fmt::format("{:<34}", "where the time of a call goes (us)");
  for (const Spent& one : all) head += fmt::format("{:>10}{:>7}", fmt::format("small_{}", one.connections), "");
  report.notes.push_back(head);
  const auto line = [&](const std::string& name, const auto& pick) {
    std::string text = fmt::format("  {:<32}", name);
    for (const Spent& one : all) {
      const double micros = pick(one);
      text += fmt::format("{:>10.1f}{:>6.1f}%", micros, one.whole > 0 ? 100 * micros / one.whole : 0);
    }
    report.notes.push_back(text);
  };
  for (size_t i = 0; i < all[0].stages.size(); ++i) {
    const std::string& name = all[0].stages[i].first;
    line(name, [&](const Spent& one) { return one.stages[i].second; });
  }
  line("outside (sockets, load)", [](const Spent& one) {
    double inside = 0;
    for (const auto& [name, micros] : one.stages) inside += micros;
    return one.whole - inside;
  });
  line("whole", [](const Spent& one) { return one.whole; });
}

}  // namespace

Status run_small(const Options& options, Report& report) {
  const size_t rounds = options.quick ? 3 : 9;
  const Duration length = Duration::millis(options.quick ? 150 : 500);
  const Layout layout = Layout::here();
  report.layout = layout.text;
  const std::array host{layout.host};
  QUERN_TRY(os::pin_to(host));
  QUERN_TRY(const auto folder, Folder::create());
  options.progress("server: start, deploy copy");
  QUERN_TRY(auto server, Server::start(layout, folder.path()));
  QUERN_TRY(server->deploy("copy"));
  QUERN_TRY(auto echo, EchoServer::start(layout.host));

  std::string tail(kBytes, ' ');
  for (size_t i = 0; i < tail.size(); ++i) tail[i] = static_cast<char>(i * 7 + 1);
  const std::string request = copy_request(tail);
  std::vector<Spent> spent;
  for (const size_t connections : {size_t{1}, size_t{16}}) {
    QUERN_TRY(auto at_quern, Load::create(server->port(), connections, request, tail));
    QUERN_TRY(auto at_echo, Load::create(echo->port(), connections, request, tail));
    QUERN_TRY(at_quern.run(Duration::millis(200)));
    QUERN_TRY(at_echo.run(Duration::millis(200)));
    QUERN_TRY(const auto before, server->counters());
    std::vector<double> quern_rates, echo_rates, ratios;
    double calls = 0, seconds = 0;  // of quern: the counters have sums, so the whole must be a mean too
    for (size_t i = 0; i < rounds; ++i) {
      options.progress(fmt::format("small_{}: round {} of {}", connections, i, rounds));
      for (size_t turn = 0; turn < 2; ++turn) {
        const bool is_quern = (i + turn) % 2 == 1;  // who is first changes from round to round
        QUERN_TRY(const auto rate, (is_quern ? at_quern : at_echo).run(length));
        (is_quern ? quern_rates : echo_rates).push_back(rate.per_second);
        if (!is_quern) continue;
        calls += static_cast<double>(rate.calls);
        seconds += static_cast<double>(rate.calls) / rate.per_second;
      }
      ratios.push_back(quern_rates.back() / echo_rates.back());
    }
    QUERN_TRY(const auto after, server->counters());
    const Middle ratio = middle_of(ratios);
    Row row;
    row.name = fmt::format("small_{}", connections);
    row.value = middle_of(quern_rates).median;
    row.unit = "calls/s";
    row.baseline = middle_of(echo_rates).median;
    row.ratio = ratio.median;
    row.spread = ratio.spread;
    row.goal = ">= 0.3";
    spent.push_back(spent_between(before, after, connections, calls / seconds));
    report.rows.push_back(std::move(row));
  }
  add_table(spent, report);
  return server->stop();
}

}  // namespace quern::bench
