// SPDX-License-Identifier: Apache-2.0
#include "bench/ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "bench/report.h"
#include "daemon/daemon_waits.h"
#include "os/clock.h"

namespace quern::bench {

Result<std::unique_ptr<Ring>> Ring::create(const Layout& layout, const std::string& folder) {
  daemon::Config config;
  config.devices = {layout.device_config()};
  config.state_folder = folder + "/ring-state";
  config.host_cores = {layout.host};
  std::unique_ptr<Ring> ring(new Ring);
  QUERN_TRY(ring->daemon_, daemon::Daemon::create(std::move(config)));
  QUERN_TRY(ring->tenant_, ring->daemon_->authenticate(""));
  return ring;
}

Ring::~Ring() {
  if (daemon_) daemon_->stop(Duration::seconds(5));
}

Result<daemon::FunctionRef> Ring::deploy(const std::string& path) {
  QUERN_TRY(auto packed, client::pack_folder(path));
  QUERN_TRY(const auto deployed, daemon::deploy_and_wait(*daemon_, *tenant_, packed.name, std::move(packed.tar)));
  return deployed.function;
}

Result<Ring::Ended> Ring::call(const daemon::FunctionRef& function, const CallSpec& spec,
                               std::span<const std::span<const std::byte>> inputs) {
  const Time from = os::now();
  QUERN_TRY(auto call, daemon_->prepare(*tenant_, function, spec, {}));
  const Time prepared = os::now();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i >= call->inputs.size() || call->inputs[i].bytes.size() != inputs[i].size())
      return internal(fmt::format("{}: input {} has another size", function->name, i));
    std::memcpy(call->inputs[i].bytes.data(), inputs[i].data(), inputs[i].size());
  }
  const Time filled = os::now();
  std::binary_semaphore done{0};
  std::unique_ptr<daemon::Call> back;
  daemon_->submit(std::move(call), [&](std::unique_ptr<daemon::Call> ended) {
    back = std::move(ended);
    done.release();
  });
  done.acquire();
  const Time ended = os::now();
  Ended result{std::move(back), micros_between(from, prepared) + micros_between(filled, ended),
               micros_between(from, prepared)};
  if (result.call->error) return *result.call->error;
  return result;
}

void Legs::add(const Ring::Ended& ended) {
  prepare_.push_back(ended.prepare_us);
  const daemon::CallTimes& t = ended.call->times;
  const std::array moments{t.submitted, t.taken, t.pushed, t.read, t.started, t.finished, t.reported, t.answered};
  for (size_t i = 0; i + 1 < moments.size(); ++i) legs_[i].push_back(micros_between(moments[i], moments[i + 1]));
  device_.push_back(static_cast<double>(t.device_time_ns) / 1e3);
}

std::string Legs::text() const {
  const auto middle = [](const std::vector<double>& all) { return middle_of(all).median; };
  return fmt::format(
      "prepare {:.1f}, submit {:.1f}, core {:.1f}, ring {:.1f}, executor {:.1f}, device {:.1f} (accounted {:.1f}), "
      "driver {:.1f}, back {:.1f}",
      middle(prepare_), middle(legs_[0]), middle(legs_[1]), middle(legs_[2]), middle(legs_[3]), middle(legs_[4]),
      middle(device_), middle(legs_[5]), middle(legs_[6]));
}

}  // namespace quern::bench
